"""What both versions of the stock wire do, so that a server need not know which one it speaks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.ids import EntryId
from bookie.protocol.availability import EntrySet
from bookie.wire.stock.auth import NOTHING_ASKED, AuthReply
from bookie.wire.stock.framing import FRAME_LENGTH_BYTES, frame_end
from bookie.wire.stock.messages import (
    Add,
    Auth,
    BatchRead,
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    Read,
    ReadLac,
    Request,
    StartTls,
    WriteLac,
)


class Wire(ABC):
    """One version of the wire, for one connection: frames to requests, outcomes to answers.

    Answers are whole frames: bytes, or buffers to send in this order. Those to requests that the
    other version does not have are never asked for, as its `parse` makes no such request.
    """

    @abstractmethod
    def parse(self, frame: memoryview) -> Request:
        """One frame, without its length; FrameError: it cannot be answered, close."""

    def parse_all(self, view: memoryview) -> tuple[list[Request], int]:
        """All whole frames at the start of `view`, and how many bytes of it they take.

        When one cannot be parsed, those before it are returned and the next call, which finds it
        first, raises the FrameError: call again as long as bytes are consumed.
        """
        requests: list[Request] = []
        at = 0
        try:
            while (end := frame_end(view, at)) is not None:
                requests.append(self.parse(view[at + FRAME_LENGTH_BYTES : end]))
                at = end
        except FrameError:
            if not requests:
                raise
        return requests, at

    @abstractmethod
    def answer_add(self, request: Add, outcome: Outcome) -> bytes: ...

    @abstractmethod
    def answer_adds(self, requests: Sequence[Add], outcome: Outcome) -> bytes:
        """The answers to many adds that came to the same end, one after the other."""

    @abstractmethod
    def answer_read(
        self,
        request: Read,
        outcome: Outcome,
        *,
        entry: Buffer | None = None,
        max_lac: EntryId | None = None,
    ) -> list[Buffer]:
        """`entry`, with OK only: the entry verbatim, not copied. `max_lac`: the LAC this bookie
        knows of, None to say nothing of it; version 2 cannot tell it."""

    @abstractmethod
    def answer_auth(self, request: Auth, reply: AuthReply = NOTHING_ASKED) -> bytes:
        """Close after a reply that is not OK."""

    def answer_batch_read(
        self, request: BatchRead, outcome: Outcome, entries: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """`entries`, with OK only: consecutive ones from the first asked for, at least one."""
        raise self._lacks(request)

    def answer_read_lac(
        self,
        request: ReadLac,
        outcome: Outcome,
        *,
        lac_body: Buffer | None = None,
        last_entry: Buffer | None = None,
    ) -> list[Buffer]:
        """`lac_body`: that of the last WriteLac. With neither, a stock bookie says NO_ENTRY."""
        raise self._lacks(request)

    def answer_write_lac(self, request: WriteLac, outcome: Outcome) -> bytes:
        raise self._lacks(request)

    def answer_force(self, request: Force, outcome: Outcome) -> bytes:
        raise self._lacks(request)

    def answer_list_entries(
        self, request: ListEntries, outcome: Outcome, entries: EntrySet | None = None
    ) -> list[Buffer]:
        """`entries`, with OK only, and then not None: nothing is said, never inferred."""
        raise self._lacks(request)

    def answer_bookie_info(
        self, request: BookieInfo, outcome: Outcome, *, total_bytes: int = 0, free_bytes: int = 0
    ) -> bytes:
        raise self._lacks(request)

    def answer_start_tls(self, request: StartTls, outcome: Outcome) -> bytes:
        """OK: the handshake comes next, before anything else. BAD_REQUEST: there is no TLS."""
        raise self._lacks(request)

    def _lacks(self, request: Request) -> AssertionError:
        return AssertionError(f"{type(self).__name__} has no {type(request).__name__}")
