"""The LAC of a ledger, from the members of its last ensemble: who has answered, and is it enough.

Asked by readers, and with a fence by recovery. Pure: answers go in by ensemble position; the shells
are `client.reader` and, through `protocol.recovery`, `client.recovery`.
"""

from bookie.errors import UnauthorizedError, UndecidableError
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import fence_covers
from bookie.protocol.status import Status


class LacRead:
    """Highest LAC known to enough of an ensemble that no acknowledged entry's LAC is missed.

    `lac` is right (if perhaps low) at any time, `is_covered` says that it is as fresh as the moment
    the question was put.
    """

    def __init__(self, metadata: LedgerMetadata, *, fence: bool = False) -> None:
        self._metadata = metadata
        """The ledger as seen when the members of its last ensemble were asked."""
        self._fence = fence
        """True when the question fences: then coverage means that the old writer is shut out."""
        self._answers: dict[int, Status] = {}
        """By ensemble position, 0 <= position < E; the last answer of each counts."""
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
        """True when no ack quorum is left among the members that do not count (R2)."""
        covered = [position for position, status in self._answers.items() if self._counts(status)]
        return fence_covers(
            covered,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )

    def _counts(self, status: Status) -> bool:
        # UNKNOWN comes only from a bookie whose unclean boot has fenced the ledger durably, so it
        # is fenced like the others (R26); its LAC is no word to go by, which only costs reads.
        return status.is_known or (self._fence and status is Status.UNKNOWN)

    @property
    def is_refused(self) -> bool:
        """True when every answer is that the key is wrong.

        A single member may have learned a wrong key, of whoever asked it first after it lost its
        disks: it is unknown like one that is down. All of them are no accident.
        """
        return set(self._answers.values()) == {Status.UNAUTHORIZED}

    def text(self) -> str:
        """Who has answered what, for messages: `bookie-0: OK, bookie-2: UNREACHABLE`."""
        ensemble = self._metadata.last_fragment.ensemble
        return ", ".join(f"{ensemble[p]}: {s.name}" for p, s in sorted(self._answers.items()))

    def result(self) -> EntryId:
        """The LAC; UnauthorizedError by all, or UndecidableError when nobody could say anything."""
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
