"""What audit and repair ask of the bookies' control planes: one interface, so that they never see
gRPC.

Real: `repair.look.grpc_control.GrpcControl`. Fake for tests: `bookie.testing.control.FakeControl`.
A bad bookie is an answer, never an exception: unreachable, booting, refused come back as a Status
that is neither OK nor a denial (R7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bookie.ids import BookieId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.repair.judge.columns import Answer
from bookie.repair.judge.expect import Holding
from bookie.wire.admin.limbo_marks import Cleared, Mark
from bookie.wire.admin.request_answer import RequestAnswer, RetractionAnswer


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks of one bookie, in rising order; complete only when `status` is OK."""

    bookie_id: BookieId
    status: Status
    marks: tuple[Mark, ...] = ()
    message: str = ""


class BookieControl(Protocol):
    """The control planes of a cluster's bookies. Every call is bounded by a deadline."""

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        """Every ledger in limbo or unchecked there."""

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        """One holding for each ledger asked for, also when there was no answer."""

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        """Returns the answers undecoded, for those who judge many at once; left out = no answer."""

    async def clear(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Cleared]:
        """A request: the bookie re-reads metadata and its index, and decides (R27)."""

    async def record_loss(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        lost: EntrySet,
        *,
        reason: str,
        by_person: bool,
        answered_by: Sequence[BookieId],
    ) -> RequestAnswer:
        """Durable when it accepts."""

    async def retract_loss(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet, *, by: str, reason: str
    ) -> RetractionAnswer:
        """Take a loss record back, of all entries when `entries` is empty; durable when it
        accepts."""

    async def recheck(
        self, bookie_id: BookieId, ledger_id: LedgerId, entries: EntrySet
    ) -> EntrySet:
        """The bookie verifies its own copies; those it rejected, for recovery's adds to replace.

        Empty when none was wrong, and when there was no answer."""

    async def flush(self, bookie_id: BookieId) -> Status:
        """OK when all the bookie has accepted is durable."""

    async def drain(self, bookie_id: BookieId, *, cancel: bool = False) -> RequestAnswer:
        """Refuse normal adds from now on, over restarts; or take them again."""

    async def is_draining(self, bookie_id: BookieId) -> bool | None:
        """Whether the bookie drains; None when it did not answer."""

    async def close(self) -> None: ...
