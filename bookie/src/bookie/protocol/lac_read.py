"""Reads the LAC of a ledger from its last ensemble, and judges whether enough members answered.

Readers use it, and recovery does together with a fence. Pure: it gets answers by ensemble position;
the shells are `client.reader` and, through `protocol.recovery`, `client.recovery`.
"""

from bookie.errors import UnauthorizedError, UndecidableError
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import fence_covers
from bookie.protocol.status import Status


class LacRead:
    """Collects the answers of an ensemble and finds the highest LAC.

    `lac` is right at any time, if perhaps low. Once `is_covered`, so many members have answered
    that `lac` is at least what was acknowledged when the question was sent.
    """

    def __init__(self, metadata: LedgerMetadata, *, fence: bool = False) -> None:
        self._metadata = metadata
        """The ledger as seen when the members of its last ensemble were asked."""
        self._fence = fence
        """True when the read fences: then `is_covered` means that the old writer is shut out."""
        self._answers: dict[int, Status] = {}
        """The last answer of each member, by ensemble position, 0 <= position < E."""
        self.lac = NO_ENTRY
        """Highest LAC of an OK answer; never falls."""

    def on_lac(self, position: int, status: Status, lac: EntryId) -> None:
        """Take the answer of the member at this position; `lac` counts only with OK."""
        assert 0 <= position < self._metadata.ensemble_size
        self._answers[position] = status
        if status is Status.OK:
            self.lac = max(self.lac, lac)
        self._check()

    @property
    def is_covered(self) -> bool:
        """True when the members without a definite answer cannot form an ack quorum (R2)."""
        covered = [position for position, status in self._answers.items() if self._counts(status)]
        return fence_covers(
            covered,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )

    def _counts(self, status: Status) -> bool:
        # Who answers UNKNOWN to a fencing read has fenced the ledger, durably, and may have
        # forgotten entries: it counts as fenced like the others (R26). Its LAC is missing, which
        # costs only more reads.
        return status.is_known or (self._fence and status is Status.UNKNOWN)

    @property
    def is_refused(self) -> bool:
        """True when every member says that the key is wrong.

        A single member may have learned a wrong key from the first client after it lost its disks:
        it counts as unknown, like one that is down. When all of them say so, the caller's key is
        wrong.
        """
        return set(self._answers.values()) == {Status.UNAUTHORIZED}

    def text(self) -> str:
        """What each member has answered, for messages: `bookie-0: OK, bookie-2: UNREACHABLE`."""
        ensemble = self._metadata.last_fragment.ensemble
        return ", ".join(f"{ensemble[p]}: {s.name}" for p, s in sorted(self._answers.items()))

    def result(self) -> EntryId:
        """The LAC. UnauthorizedError when all refused, UndecidableError when no member could
        answer.
        """
        if self.is_refused:
            raise UnauthorizedError(self._metadata.ledger_id)
        if not any(status.is_known for status in self._answers.values()):
            raise UndecidableError(
                f"ledger {self._metadata.ledger_id}: no member of its last ensemble knows its LAC "
                f"now ({self.text()}); try again later"
            )
        return self.lac

    def _check(self) -> None:
        assert len(self._answers) <= self._metadata.ensemble_size
        assert self.lac >= NO_ENTRY
        assert self.lac == NO_ENTRY or self._answers
