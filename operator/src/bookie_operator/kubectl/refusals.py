"""What a person can do about a bookie that refuses to boot, by the reason of the refusal."""

import json
from collections.abc import Callable, Mapping
from typing import Final

from bookie_operator.kubectl.advice import Hint
from bookie_operator.model.base import GROUP
from bookie_operator.model.bookie_status import BookieStatus
from bookie_operator.model.refused import (
    INDEX_LOST,
    LOG_LOST,
    REFUSED,
    REFUSED_COOKIE,
    disks_named,
    refusal_reason,
)

_KEEP: Final = "It has changed nothing. Never copy stamps or delete cookies."
_ALLOW: Final = json.dumps({"spec": {"cookieFix": {"policy": "Approve"}}})


def refusal_hint(name: str, bookie: BookieStatus) -> Hint:
    reason = refusal_reason({disk.verdict for disk in bookie.disks}, bookie.message)
    return BY_REFUSAL[reason](name, bookie)


def _disk(bookie: BookieStatus, *verdicts: str) -> str:
    """The name of the disk that is the problem, found by its verdict or in the message."""
    odd = [disk.name for disk in bookie.disks if disk.verdict in verdicts]
    named = disks_named(bookie.message, [disk.name for disk in bookie.disks])
    return next(iter([*odd, *named]), "DISK")


def _logs(name: str, bookie: BookieStatus) -> tuple[str, ...]:
    return ("logs", f"{name}-{bookie.id}-0", "-c", "bookie")


def _of(name: str) -> tuple[str, ...]:
    return ("-l", f"{GROUP}/cluster={name}")


def _index(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie)
    which = () if disk == "DISK" else (disk,)
    return Hint(
        f"{bookie.id} has lost an index, but not the entries. To rebuild the index from the log "
        "and repair what may be missing:",
        ("bookie", "index-rebuild", bookie.id, *which, "--cluster", name),
    )


def _log(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie)
    return Hint(
        f"{bookie.id} has lost files of {disk}; other bookies have copies of the entries. If the "
        "files cannot come back, give it a new disk, which a repair fills from those copies:",
        ("bookie", "replace-disk", bookie.id, disk, "--cluster", name),
    )


def _stamp(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie, "torn")
    return Hint(
        f"{bookie.id} cannot read the stamp of {disk}. Put the file back if you can; if not, give "
        "it a new disk, which a repair fills from the other bookies:",
        ("bookie", "replace-disk", bookie.id, disk, "--cluster", name),
    )


def _misplaced(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie, "swapped", "foreign")
    return Hint(
        f"{bookie.id} found the volume of another disk as {disk}: bind each claim to its own "
        f"volume again. {_KEEP} Show the volume of each claim:",
        ("get", "pvc", *_of(name), "-o", "wide"),
    )


def _reshaped(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} was created with another number of disks, which cannot change: restore the "
        f"old list of disks. {_KEEP} Show what it found:",
        _logs(name, bookie),
    )


def _cookie(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} has its disks, but its cookie in the metadata store does not match them: put "
        f"the store's newest state back, then delete its pod. {_KEEP} Show the cookies:",
        ("exec", f"{name}-{bookie.id}-0", "-c", "bookie", "--", "bookie", "cookie", "show"),
    )


def _identity(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"Another process runs as {bookie.id}; the message says where. Stop that process, then "
        "delete this pod, which starts again:",
        ("delete", "pod", f"{name}-{bookie.id}-0"),
    )


def _folders(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"Another process still uses the folders of {bookie.id}, which starts by itself once that "
        "process has ended. Show the pods:",
        ("get", "pods", *_of(name), "-o", "wide"),
    )


def _fix(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} found changed disks, and spec.cookieFix.policy is Never: put the old disks "
        "back. If they are permanently lost, let a person approve the change:",
        ("patch", "bookiecluster", name, "--type", "merge", "-p", _ALLOW),
    )


def _unknown(name: str, bookie: BookieStatus) -> Hint:
    return Hint(f"{bookie.id} refuses to boot. {_KEEP} Show what it found:", _logs(name, bookie))


BY_REFUSAL: Final[Mapping[str, Callable[[str, BookieStatus], Hint]]] = {
    INDEX_LOST: _index,
    LOG_LOST: _log,
    "TornStamp": _stamp,
    "SwappedDisk": _misplaced,
    "ForeignDisk": _misplaced,
    "ReshapedDisks": _reshaped,
    REFUSED_COOKIE: _cookie,
    "IdentityInUse": _identity,
    "FoldersInUse": _folders,
    "FixNotAllowed": _fix,
    REFUSED: _unknown,
}
"""Reason -> what makes its hint; each that a refusal can have."""
