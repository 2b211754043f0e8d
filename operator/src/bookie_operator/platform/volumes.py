"""Volumes of the local platform: folders, with their identity in a claim file outside of them.

A claim's uid is what a PersistentVolumeClaim's uid is on Kubernetes: it changes when the volume is
replaced and stays when its folder is merely wiped. Callers hold the bookie's lock while its process
is stopped; nothing here looks at processes, and everything asks the disk.
"""

import shutil
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from bookie.ids import BookieId

from bookie_operator.errors import LocalError, PreconditionError
from bookie_operator.observed import Volume
from bookie_operator.platform.folders import LocalFolders, read_json, sync_folder, write_json


def volumes_of(folders: LocalFolders, bookie_id: BookieId) -> Mapping[str, Volume]:
    """The bookie's volumes by disk name; those that it left behind are not its own any more.
    Blocking."""
    found = {}
    for path in sorted(folders.claims.glob(f"{bookie_id}.*.json")):
        tree = read_json(path)
        if tree is not None and not tree.get("retained"):
            disk, uid, size = (str(tree[name]) for name in ("disk", "uid", "size"))
            found[disk] = Volume(disk=disk, uid=uid, size=size)
    return found


def kept_claims(folders: LocalFolders) -> Mapping[BookieId, tuple[str, ...]]:
    """Claims of volumes that bookies left behind, as `BOOKIE.DISK`. Blocking."""
    found: dict[BookieId, tuple[str, ...]] = {}
    for path in sorted(folders.claims.glob("*.json")):
        tree = read_json(path)
        if tree is not None and tree.get("retained"):
            bookie_id = BookieId(str(tree["bookie"]))
            found[bookie_id] = (*found.get(bookie_id, ()), path.stem)
    return found


def create_volume(folders: LocalFolders, bookie_id: BookieId, disk: str, *, size: str) -> str:
    """An empty folder and then its claim; the new uid. An existing volume is left as it is, and
    one that was left behind is taken up again. Blocking."""
    claim = read_json(folders.claim(bookie_id, disk))
    if claim is not None:
        if claim.pop("retained", False):
            write_json(folders.claim(bookie_id, disk), claim)
        return str(claim["uid"])
    folder = folders.volume(bookie_id, disk)
    _remove(folder)  # what a replacement left behind when it was interrupted
    folder.mkdir(parents=True)
    sync_folder(folder.parent)
    uid = str(uuid.uuid4())
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    tree = {"bookie": bookie_id, "disk": disk, "uid": uid, "size": size, "createdAt": created}
    write_json(folders.claim(bookie_id, disk), tree)
    return uid


def grow_volume(folders: LocalFolders, bookie_id: BookieId, disk: str, *, size: str) -> bool:
    """The claim of this size; False when it has it already, or there is none. Blocking."""
    claim = read_json(folders.claim(bookie_id, disk))
    if claim is None or claim["size"] == size:
        return False
    write_json(folders.claim(bookie_id, disk), claim | {"size": size})
    return True


def retain_volume(folders: LocalFolders, bookie_id: BookieId, disk: str) -> None:
    """Keep the volume of a bookie that leaves, for the day it comes back. Blocking."""
    claim = read_json(folders.claim(bookie_id, disk))
    if claim is not None:
        write_json(folders.claim(bookie_id, disk), claim | {"retained": True})


def delete_volume(folders: LocalFolders, bookie_id: BookieId, disk: str, *, uid: str) -> None:
    """Claim first: a folder without a claim is nobody's. PreconditionError for another uid.
    Blocking."""
    path = folders.claim(bookie_id, disk)
    claim = read_json(path)
    if claim is None or claim["uid"] != uid:
        found = claim["uid"] if claim else "none"
        raise PreconditionError(f"volume {disk} of {bookie_id} is {found}, planned for {uid}")
    path.unlink()
    sync_folder(folders.claims)
    _remove(folders.volume(bookie_id, disk))


def wipe_volume(folders: LocalFolders, bookie_id: BookieId, disk: str) -> None:
    """Empty the folder under the claim it keeps, as an ephemeral disk comes back. Blocking."""
    _require(folders, bookie_id, disk)
    folder = folders.volume(bookie_id, disk)
    _remove(folder)
    folder.mkdir(parents=True)


def swap_volumes(
    folders: LocalFolders, first: tuple[BookieId, str], second: tuple[BookieId, str]
) -> None:
    """Exchange two volumes' contents, as mixed-up mounts do; the claims stay where they are.
    Blocking."""
    for bookie_id, disk in (first, second):
        _require(folders, bookie_id, disk)
    one, other = folders.volume(*first), folders.volume(*second)
    swap = one.with_name(f".{one.name}.swap")
    one.rename(swap)
    other.rename(one)
    swap.rename(other)


def _require(folders: LocalFolders, bookie_id: BookieId, disk: str) -> None:
    """LocalError unless there is such a volume. Blocking."""
    if read_json(folders.claim(bookie_id, disk)) is None:
        known = ", ".join(sorted(path.stem for path in folders.claims.glob("*.json")))
        raise LocalError(f"no volume {bookie_id}.{disk}; there are {known or 'none'}")


def _remove(folder: Path) -> None:
    """Delete a folder with everything in it, if it exists. Blocking."""
    if folder.exists():
        shutil.rmtree(folder)
