"""Faults to try out: kill a bookie; replace, wipe or swap disks.

These commands act on processes and folders without asking the operator or the loss budget, as real
faults do. While a volume changes, its bookie is stopped and locked, so that the operator does not
start it in between.
"""

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bookie.ids import BookieId

from bookie_operator.errors import LocalError
from bookie_operator.local.down import running_bookies
from bookie_operator.platform.folders import LocalFolders, bookie_held, operator_pid, read_json
from bookie_operator.platform.processes import send, stop, wait_gone
from bookie_operator.platform.volumes import (
    create_volume,
    delete_volume,
    swap_volumes,
    volumes_of,
    wipe_volume,
)

DiskName = tuple[BookieId, str]


def kill_bookie(folders: LocalFolders, bookie_id: BookieId) -> int:
    """Kill a bookie with SIGKILL, wait until it has ended, and return its pid."""
    running = running_bookies(folders)
    process = running.get(bookie_id)
    if process is None:
        known = ", ".join(running) or "none"
        raise LocalError(f"{bookie_id} does not run; running bookies: {known}")
    send(process, signal.SIGKILL)
    wait_gone(process, 10.0)
    return process.pid


def replace_disk(folders: LocalFolders, disk: DiskName, *, grace_s: float) -> str:
    """Stop the bookie and give it a new, empty volume; return the volume's uid."""
    bookie_id, name = disk
    volume = volumes_of(folders, bookie_id).get(name)
    if volume is None:
        raise _unknown(folders, disk)
    claim = read_json(folders.claim(bookie_id, name)) or {}
    uids: list[str] = []

    def change() -> None:
        delete_volume(folders, bookie_id, name, uid=volume.uid)
        uids.append(create_volume(folders, bookie_id, name, size=str(claim.get("size", ""))))

    _while_stopped(folders, [bookie_id], change, grace_s=grace_s)
    return uids[0]


def wipe_disk(folders: LocalFolders, disk: DiskName, *, grace_s: float) -> None:
    """Stop the bookie and empty the volume; its uid stays, as that of an ephemeral disk does."""
    if disk[1] not in volumes_of(folders, disk[0]):
        raise _unknown(folders, disk)
    _while_stopped(folders, [disk[0]], lambda: wipe_volume(folders, *disk), grace_s=grace_s)


def swap_disks(folders: LocalFolders, first: DiskName, second: DiskName, *, grace_s: float) -> None:
    """Exchange two disks of one bookie or of two."""
    if first == second:
        raise LocalError(f"found {'.'.join(first)} twice, expected two disks")
    for disk in (first, second):
        if disk[1] not in volumes_of(folders, disk[0]):
            raise _unknown(folders, disk)
    bookies = sorted({first[0], second[0]})
    _while_stopped(folders, bookies, lambda: swap_volumes(folders, first, second), grace_s=grace_s)


def _while_stopped(
    folders: LocalFolders,
    bookies: Sequence[BookieId],
    change: Callable[[], None],
    *,
    grace_s: float,
) -> None:
    """Stop these bookies and run `change`. It locks them in order, so that no deadlock can
    happen."""
    with ExitStack() as locks:
        for bookie_id in bookies:
            locks.enter_context(bookie_held(folders, bookie_id, grace_s=grace_s))
        running = running_bookies(folders)
        for bookie_id in bookies:
            if bookie_id in running:
                stop(running[bookie_id], grace_s=grace_s)
        change()


def restarts_by_itself(folders: LocalFolders) -> bool:
    """Whether an operator runs, which restarts stopped bookies."""
    return operator_pid(folders) is not None


def _unknown(folders: LocalFolders, disk: DiskName) -> LocalError:
    known = ", ".join(sorted(path.stem for path in folders.claims.glob("*.json"))) or "none"
    return LocalError(f"{disk[0]} has no disk {disk[1]}; disks (bookie.disk): {known}")
