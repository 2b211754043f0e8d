"""What the platform saw of a stop: why it was probably unclean, and how far to trust the platform.

Platforms tell little and lossily (the last end of a container, nothing of a pod that is gone), so
what they say corroborates a bookie's boot record and never replaces it. Killed as far as the
platform knows, clean as far as the bookie knows: the bookie is believed, and an audit looks.
"""

from dataclasses import dataclass
from typing import Final

from bookie.wire.admin.health import BootRecord

from bookie_operator.model.bookie_status import BookieStatus, EndStatus
from bookie_operator.observed import Exit, Process
from bookie_operator.plan.actions import Event
from bookie_operator.plan.ends import is_kill, is_moved, is_rebooted
from bookie_operator.plan.passes import Pass

CLEAN_AFTER_KILL: Final = "CleanAfterKill"
INDEX_REBUILT: Final = "IndexRebuilt"
"""A boot that doubts what it has for a reason of its own: its bookie may have stopped cleanly."""
DISK_REASONS: Final = frozenset({"DiskReplaced", "DiskStale"})


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause in a word for programs and a sentence for people; both empty = none was seen."""

    word: str = ""
    message: str = ""


def cause_of(
    process: Process, before: BookieStatus | None, boot: BootRecord, *, killed: EndStatus | None
) -> Cause:
    """Why the boot before `boot` ended: by the first kill that was seen of it, else by comparing
    with what was known of that one.
    """
    first = _ended(killed, boot)
    is_explained = bool(first.word) or boot.reason == INDEX_REBUILT
    if is_explained or before is None or not before.boot_epoch:
        return first
    if is_rebooted(process, before):
        return Cause("NodeRestarted", f"node {process.node} was restarted")
    if is_moved(process, before):
        if boot.reason in DISK_REASONS:  # which says nothing of how the old pod stopped
            return Cause("PodReplaced", "another pod came up, on a disk that is not the one known")
        gone = "the pod was deleted without time to flush: force-deleted, evicted or lost with its"
        if before.node and process.node and before.node != process.node:
            moved = f"{gone} node; it ran on {before.node} and now runs on {process.node}"
            return Cause("NodeChanged", moved)
        return Cause("PodReplaced", f"{gone} node")
    # Asked to stop, it may have been killed since it took too long.
    late = process.last_exit
    return _ended(late, boot) if late is not None and (late.code or 0) < 0 else Cause()


def _ended(ended: Exit | EndStatus | None, boot: BootRecord) -> Cause:
    """The cause that this end gives for the boot; none if the process ended after the boot
    began."""
    if ended is None or ended.at > boot.started_at or not is_kill(ended):
        return Cause()
    if "OOMKilled" in ended.reason:
        return Cause("OOMKilled", f"it used more memory than its limit: {ended.reason}")
    assert ended.code is not None
    return Cause("Signal" if ended.code < 0 else "ExitCode", ended.reason)


def suspicions(pass_: Pass) -> list[Event]:
    """Clean boots after what the platform calls a kill; each is reported once."""
    events = []
    for bookie_id, one in pass_.judged.items():
        process, health = one.bookie.process, one.bookie.health
        before = pass_.previous.bookie(bookie_id)
        if process is None or before is None or health is None or health.boot is None:
            continue
        boot = health.boot
        if not boot.clean or not 0 < before.boot_epoch < boot.epoch:
            continue
        cause = _ended(process.last_exit, boot) if process.pod == before.pod else Cause()
        if cause.word:
            text = f"boot {boot.epoch} found a clean stop, yet: {cause.message}; an audit looks"
            once = f"{bookie_id}/{boot.epoch}/{CLEAN_AFTER_KILL}"
            events.append(Event(CLEAN_AFTER_KILL, text, bookie_id, "Warning", once=once))
    return events
