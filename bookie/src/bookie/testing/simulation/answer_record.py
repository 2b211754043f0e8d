"""What one bookie has answered about one ledger, and what a read of it denies."""

from dataclasses import dataclass, field

from bookie.frames.frame import parse_run
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.status import Status
from bookie.wire.native import ReadReply, ReadRequest


@dataclass(slots=True)
class AnswerRecord:
    """What one bookie has answered about one ledger."""

    acked: dict[EntryId, int] = field(default_factory=dict)
    """Entry -> when, by the tap's own count of what it heard."""
    taken_back: set[EntryId] = field(default_factory=set)
    """Those of `acked` that count no more: the writer has replaced the bookie since (R20). If it
    takes the bookie in again, it sends them again."""
    fenced: bool = False
    """It has answered a fence, or that it is fenced."""
    lac: EntryId = NO_ENTRY
    """The highest that came with what it acknowledged."""
    lac_at: int = 0
    """When that was, by the same count."""
    is_given_up: bool = False
    """The ledger is deleted, and nothing is left here of what was acknowledged."""
    listed: EntrySet = EMPTY
    """What it answered a repair that it holds: taken by an add whose answer was cut off, maybe."""

    @property
    def pledged(self) -> dict[EntryId, int]:
        """What of `acked` counts still."""
        return {i: at for i, at in self.acked.items() if i not in self.taken_back}


def denied_by(
    request: ReadRequest, status: Status, body: memoryview
) -> tuple[int, int, set[int]] | None:
    """First and last id that the reply speaks of, and those of them it does not deny."""
    if status.is_denial:
        return request.first, request.last, set()
    if status is not Status.OK:
        return None
    reply = ReadReply.decode(body)
    if not reply.absent.is_denial:
        return None
    spared: set[int] = {i for run in reply.runs for i in parse_run(run).entry_ids()}
    for first, last in reply.unknown:
        spared.update(range(max(first, request.first), min(last, request.last) + 1))
    return request.first, min(request.last, reply.answered_through), spared
