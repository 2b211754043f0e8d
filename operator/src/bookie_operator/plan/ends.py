"""Ends of a bookie's process, followed from pass to pass: how many in a row, and the first kill.

A platform tells the last end only, and forgets it with the pod. So what was seen is kept in the
status: an end that a later one hides, or a pod that is replaced afterwards, was still the cause.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bookie.wire.admin.health import BootRecord

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieStatus, EndStatus
from bookie_operator.observed import STEADY, Bookie, Exit, Process


@dataclass(frozen=True, slots=True)
class Ends:
    """`in_row`: number of short runs in a row that ended unplanned. `first_kill`: the first kill
    seen since the last known boot."""

    in_row: int = 0
    last: EndStatus | None = None
    first_kill: EndStatus | None = None


NO_ENDS: Final = Ends()
_NO_TIME: Final = timedelta(0)


def ends_of(bookie: Bookie, before: BookieStatus | None, *, now: datetime) -> Ends:
    known = Ends(before.failures, before.last_end, before.first_kill) if before else NO_ENDS
    process = bookie.process
    if process is None:
        return known
    end = _end(process)
    is_new = end is not None and (known.last is None or end.at != known.last.at)
    boot = bookie.health.boot if bookie.health else None
    first_kill = known.first_kill
    is_kill_seen = is_new and end is not None and _explains(end, process, before, boot)
    if first_kill is None and is_kill_seen:
        first_kill = end
    last = end or known.last
    return Ends(_in_row(known, process, is_new=is_new, now=now), last, first_kill)


def _in_row(known: Ends, process: Process, *, is_new: bool, now: datetime) -> int:
    is_same_pod = known.last is None or known.last.pod == process.pod
    row = known.in_row if is_same_pod else 0
    ended = process.last_exit
    if is_new and ended is not None:
        row = 1 if (ended.lasted or _NO_TIME) >= STEADY else row + 1
        row = 0 if ended.is_graceful else row
    is_steady = process.started_at is not None and now - process.started_at >= STEADY
    return 0 if process.running and is_steady else row


def _end(process: Process) -> EndStatus | None:
    ended = process.last_exit
    if ended is None:
        return None
    return EndStatus(
        at=whole_milliseconds(ended.at),
        code=ended.code,
        reason=ended.reason[:253],
        pod=process.pod,
    )


def _explains(
    end: EndStatus, process: Process, before: BookieStatus | None, boot: BootRecord | None
) -> bool:
    """It is a kill of what ran as the last known boot, or after it in the same place.

    What ends as asked for, in another pod, or with its node, says nothing of that.
    """
    ended = process.last_exit
    if not is_kill(end) or ended is None or ended.is_planned:
        return False
    if before is None or not before.boot_epoch:
        return True
    is_before = boot is not None and boot.epoch <= before.boot_epoch and end.at <= boot.started_at
    return not is_before and not is_moved(process, before) and not is_rebooted(process, before)


def is_kill(ended: Exit | EndStatus) -> bool:
    return "OOMKilled" in ended.reason or (ended.code is not None and ended.code != 0)


def is_moved(process: Process, before: BookieStatus) -> bool:
    """Whether its pod is another one than at the last known boot."""
    return bool(before.pod and process.pod and before.pod != process.pod)


def is_rebooted(process: Process, before: BookieStatus) -> bool:
    """Whether its node is the same but was restarted since."""
    boots = {before.node_boot_id, process.node_boot_id} - {""}
    return before.node == process.node and len(boots) == 2
