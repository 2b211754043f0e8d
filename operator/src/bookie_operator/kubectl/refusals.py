"""What a person can do about a bookie that refuses to boot: by its reason, with the command."""

import json
from collections.abc import Callable, Mapping
from typing import Final

from bookie_operator.kubectl.advice import Hint
from bookie_operator.model.base import GROUP
from bookie_operator.model.refused import (
    INDEX_LOST,
    LOG_LOST,
    REFUSED,
    REFUSED_COOKIE,
    disks_named,
    refusal_reason,
)
from bookie_operator.model.status import BookieStatus

_KEEP: Final = "It has changed nothing; never copy stamps or delete cookies."
_ALLOW: Final = json.dumps({"spec": {"cookieFix": {"policy": "Approve"}}})


def refusal_hint(name: str, bookie: BookieStatus) -> Hint:
    reason = refusal_reason({disk.verdict for disk in bookie.disks}, bookie.message)
    return _HINTS.get(reason, _HINTS[REFUSED])(name, bookie)


def _disk(bookie: BookieStatus, *verdicts: str) -> str:
    """The disk that it is about, by its verdict or its folder's name in the message."""
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
        f"{bookie.id} has lost an index, not what it indexes. To have it built anew from the log, "
        "and what may have been forgotten repaired:",
        ("bookie", "index-rebuild", bookie.id, *which, "--cluster", name),
    )


def _log(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie)
    return Hint(
        f"{bookie.id} has lost part of what {disk} held; the other bookies have copies. If the "
        "files cannot come back, give it a new disk, which is filled from them:",
        ("bookie", "replace-disk", bookie.id, disk, "--cluster", name),
    )


def _stamp(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie, "torn")
    return Hint(
        f"{bookie.id} cannot read the stamp of {disk}. Put the file back if you can; if not, give "
        "it a new disk, which is filled from the other bookies:",
        ("bookie", "replace-disk", bookie.id, disk, "--cluster", name),
    )


def _misplaced(name: str, bookie: BookieStatus) -> Hint:
    disk = _disk(bookie, "swapped", "foreign")
    return Hint(
        f"{bookie.id} found another's volume as {disk}: bind each claim to its own volume again. "
        f"{_KEEP} Which volume each claim has:",
        ("get", "pvc", *_of(name), "-o", "wide"),
    )


def _reshaped(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} was made with another number of disks, which is fixed for its life: give "
        f"back the old list. {_KEEP} What it found:",
        _logs(name, bookie),
    )


def _cookie(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} has its disks, and the metadata store does not know it as they do: put the "
        f"store's newest state back, then delete its pod. {_KEEP} The cookies:",
        ("exec", f"{name}-{bookie.id}-0", "-c", "bookie", "--", "bookie", "cookie", "show"),
    )


def _identity(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"Another process runs as {bookie.id}, where the message says: stop that one, then delete "
        "this pod to have it try again:",
        ("delete", "pod", f"{name}-{bookie.id}-0"),
    )


def _folders(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} goes on by itself once the process has ended that still has its folders. "
        "Who is there:",
        ("get", "pods", *_of(name), "-o", "wide"),
    )


def _fix(name: str, bookie: BookieStatus) -> Hint:
    return Hint(
        f"{bookie.id} found changed disks, and spec.cookieFix.policy is Never: put the old ones "
        "back. If they are gone for good, let a person approve:",
        ("patch", "bookiecluster", name, "--type", "merge", "-p", _ALLOW),
    )


def _unknown(name: str, bookie: BookieStatus) -> Hint:
    return Hint(f"{bookie.id} refuses to boot. {_KEEP} What it found:", _logs(name, bookie))


_HINTS: Final[Mapping[str, Callable[[str, BookieStatus], Hint]]] = {
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
