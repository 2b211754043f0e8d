"""The interface of both versions of the stock wire, so that a server need not know which one it
speaks.
"""

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
    """One version of the wire for one connection: it turns frames into requests, and outcomes into
    answers.

    Answers are whole frames: bytes, or buffers to send in this order. An `answer_` method of a
    request that a version does not have is never called, as its `parse` makes no such request.
    """

    @abstractmethod
    def parse(self, frame: memoryview) -> Request:
        """Parse one frame, without its length. FrameError: it cannot be answered, close the
        connection.
        """

    def parse_all(self, view: memoryview) -> tuple[list[Request], int]:
        """Parse all whole frames at the start of `view`; returns their requests and the number of
        bytes that they take.

        When a frame cannot be parsed, the requests before it are returned; the next call, at whose
        start it is, raises the FrameError. So call again as long as bytes are consumed.
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
        """The answers to many adds with the same outcome, one after the other."""

    @abstractmethod
    def answer_read(
        self,
        request: Read,
        outcome: Outcome,
        *,
        entry: Buffer | None = None,
        max_lac: EntryId | None = None,
    ) -> list[Buffer]:
        """The answer to a read. `entry`, with OK only: the entry verbatim, not copied. `max_lac`:
        the LAC that this bookie knows of, None to leave it out; version 2 has no field for it.
        """

    @abstractmethod
    def answer_auth(self, request: Auth, reply: AuthReply = NOTHING_ASKED) -> bytes:
        """The answer to an AUTH. Close the connection after a reply that is not OK."""

    def answer_batch_read(
        self, request: BatchRead, outcome: Outcome, entries: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """The answer to a batch read. `entries`, with OK only: at least one, consecutive from the
        first that was asked for.
        """
        raise self._lacks(request)

    def answer_read_lac(
        self,
        request: ReadLac,
        outcome: Outcome,
        *,
        lac_body: Buffer | None = None,
        last_entry: Buffer | None = None,
    ) -> list[Buffer]:
        """The answer to a ReadLac. `lac_body`: the body of the last WriteLac. Without a body and an
        entry, a stock bookie answers NO_ENTRY.
        """
        raise self._lacks(request)

    def answer_write_lac(self, request: WriteLac, outcome: Outcome) -> bytes:
        raise self._lacks(request)

    def answer_force(self, request: Force, outcome: Outcome) -> bytes:
        raise self._lacks(request)

    def answer_list_entries(
        self, request: ListEntries, outcome: Outcome, entries: EntrySet | None = None
    ) -> list[Buffer]:
        """The answer to a ListEntries. `entries`: given with OK, and only then; it is never
        inferred from a missing value.
        """
        raise self._lacks(request)

    def answer_bookie_info(
        self, request: BookieInfo, outcome: Outcome, *, total_bytes: int = 0, free_bytes: int = 0
    ) -> bytes:
        raise self._lacks(request)

    def answer_start_tls(self, request: StartTls, outcome: Outcome) -> bytes:
        """The answer to a StartTls. OK: the handshake comes next, before anything else.
        BAD_REQUEST: there is no TLS.
        """
        raise self._lacks(request)

    def _lacks(self, request: Request) -> AssertionError:
        return AssertionError(f"{type(self).__name__} has no {type(request).__name__}")
