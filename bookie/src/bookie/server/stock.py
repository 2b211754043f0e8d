"""The stock port: it serves BookKeeper's own clients, on BookKeeper's wire, through `operations`.

One connection: bytes -> `wire.stock` (versions 2 and 3, by connection) -> adds gathered into runs,
reads into ranges -> a queue of pieces of work, done in order. A piece for which there is no room
stays in front; meanwhile the connection begins no other piece and stops reading its socket. So only
requests of one buffer can wait there.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bookie.errors import FrameError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import Buffer
from bookie.frames.frame import CONSECUTIVE
from bookie.protocol.status import Status
from bookie.server.connections import DataConnection
from bookie.server.operations import Operations
from bookie.server.port_tls import PortTls
from bookie.server.sessions import Sessions
from bookie.server.stock_adds import AddGather, Answers, Run, run_of
from bookie.server.stock_answers import Answerable, Origin, Work
from bookie.server.stock_authentication import NoReply, StockAuthentication
from bookie.server.stock_facts import FactService
from bookie.server.stock_reading import ReadService, is_plain
from bookie.server.stock_reads import ReadGather
from bookie.wire.stock import connection as wires
from bookie.wire.stock.auth import NOTHING_ASKED
from bookie.wire.stock.blocks import AddBlock, BlockScan
from bookie.wire.stock.framing import FRAME_LENGTH, FRAME_LENGTH_BYTES
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
    Refused,
    Request,
    StartTls,
    WriteLac,
    outcome_of,
)
from bookie.wire.stock.opening import Opening, TooEarlyError
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.wire import Wire

log = logging.getLogger(__name__)

GREETING_WAIT_S: Final = 0.1
"""Seconds after its greeting within which a client asks for TLS, if it wants it: it sends both when
it connects."""
HANDSHAKE_S_MIN: Final = 0.01
"""The least time, in seconds, for the rest of a handshake that begins at the last moment: event
loops need more than 0."""
STRANGER_FRAME_BYTES_MAX: Final = 256 * 1024
"""The longest frame of a client that is not authenticated: long enough to answer usual adds with
UNAUTHORIZED."""
STRANGER_READ_BYTES_MAX: Final = 64 * 1024
"""How much is read at once from such a client: bytes that arrive occupy memory, for each of many
clients."""


class StockConnection(DataConnection):
    """One client of the stock port."""

    def __init__(self, service: "StockService") -> None:
        super().__init__(service.on_bytes)
        self._service = service
        self._wires = wires.StockConnection()
        self._blocks = BlockScan()
        self._work: deque[Work] = deque()
        """Requests that have arrived and are not begun; they are begun in order."""
        self._is_working = False
        """True while `_work` is being done: a request that arrives meanwhile is queued behind
        it."""
        self.version = ""
        """The version of the wire, once the first frame has shown it; empty before."""
        self._origin: Origin | None = None
        """The origin of the last requests; None before the first."""
        self._upgrade: asyncio.Task[None] | None = None
        """The TLS handshake that the client asked for; None when there was none."""
        self._awaited = ""
        """The client's address while START_TLS is answered and no byte of the handshake has
        arrived; empty otherwise."""
        self._opening: Opening | None = None
        """The parser of the first requests, until it is known whether the client wants TLS; None
        without TLS."""
        self._patience: asyncio.TimerHandle | None = None
        """The timer after which a client that has greeted counts as not wanting TLS, or a client
        that has asked for TLS counts as not beginning; None when nothing is awaited."""
        self.is_authenticated = True
        """Whether the client may ask; `stock_authentication` sets it to False, if there is one."""

    @property
    def lacks_tls(self) -> bool:
        """True when the connection must be under TLS and is not."""
        return self._service.tls_is_required and not self.is_secure

    @property
    def is_barred(self) -> bool:
        return not self.is_authenticated or self.lacks_tls

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The client's verified certificate, as `ssl` shows it; empty without one."""
        transport = self._transport
        return {} if transport is None else transport.get_extra_info("peercert") or {}

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Queue an answer; it leaves with the others of this turn of the loop."""
        self._send(buffers)

    def authenticate(self, wire: Wire, request: Auth) -> bool:
        """Answer an AUTH. False when it is not judged yet: then it is passed in again after
        `resume`.
        """
        authentication = self._service.authentication
        reply = NOTHING_ASKED if authentication is None else authentication.reply(self, request)
        if reply is NoReply.YET:
            return False
        if reply is not NoReply.EVER:
            self.send([wire.answer_auth(request, reply)])
            if reply.outcome is not Outcome.OK:
                self.close()
        return True

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = super().get_buffer(sizehint)
        is_known = self.is_authenticated and not self._awaited
        return buffer if is_known else buffer[:STRANGER_READ_BYTES_MAX]

    def do(self, work: Work) -> None:
        """Do the work now, or after all waiting work."""
        self._work.append(work)
        self._go_on()

    def resume(self) -> None:
        if self._opening is not None and self.is_secure:
            # Do this before messages that arrived under TLS are taken: the certificate may
            # authenticate the client.
            self._service.note_tls(self)
            self._end_opening()
        if self._write_paused:  # it is resumed again when the client has taken its answers
            self._blocked = False
            return
        self._blocked = False
        self._on_bytes()  # the process may have slept since they arrived
        self._go_on()
        if not self._blocked:
            super().resume()

    def _opened(self) -> None:
        if self._service.tls is not None and not self.is_secure:
            self._opening = Opening(self._service.greeting_bytes_max)
        self._service.opened(self)

    def _closed(self) -> None:
        self._work.clear()
        self._stop_waiting()
        if self._awaited:
            self._count_no_tls(self._awaited, "closed before the handshake")
        self._service.closed(self)

    def _left(self, size: int) -> None:
        self._service.left(self, size)

    def _take_next(self, view: memoryview) -> int:
        if (opening := self._opening) is not None:
            taken = self._take_opening(opening, view)
            if taken or opening.is_asked:
                return taken
        try:
            wire, requests, consumed = self._parse(view)
        except FrameError:
            self._service.count_garbage()
            raise
        if requests:
            self._work.extend(self._service.plan(self._origin_on(wire), requests))
            self._go_on()
        elif len(view) >= FRAME_LENGTH_BYTES:
            size = FRAME_LENGTH_BYTES + FRAME_LENGTH.unpack_from(view)[0]
            if not self.is_authenticated and size > STRANGER_FRAME_BYTES_MAX:
                self._service.count_garbage()
                raise FrameError(
                    f"found a frame of {size} bytes, expected {STRANGER_FRAME_BYTES_MAX} or less "
                    "of a client that is not authenticated"
                )
            self._expect(size)
        return consumed

    def _parse(self, view: memoryview) -> tuple[Wire, Sequence[Request | AddBlock], int]:
        """Parse whole blocks of adds first, then single requests."""
        found: list[Request | AddBlock] = []
        wire, at = self._wires.wire, 0
        while (block := self._blocks.find(wire, view[at:])) is not None:
            found.append(block)
            at += block.frames_bytes
        if found:
            return wire, found, at
        return self._wires.parse_all(view)

    def _origin_on(self, wire: Wire) -> Origin:
        if self._origin is None or self._origin.wire is not wire:
            self._service.note_version(self, wire)
            self._origin = Origin(self, wire)
        return self._origin

    def _take_opening(self, opening: Opening, view: memoryview) -> int:
        """Handle the client's first requests if the port has TLS; returns how many bytes were
        taken.
        """
        tls = self._service.tls
        assert tls is not None  # else there is no opening
        try:
            word = opening.step(view)
        except TooEarlyError:
            self._awaited = ""
            self._stop_waiting()
            self._service.count_tls_failure()
            raise
        if word.asked is not None:
            self.send([word.asked.wire.answer_start_tls(word.asked.request, Outcome.OK)])
            self._awaited = self._peer()
            self._wait(tls.handshake_s, self._miss_handshake)
        elif word.is_hello:
            self._hold()
            shaking = self._start_tls(tls, bytes(view), self._awaited, self._stop_waiting())
            self._awaited, self._upgrade = "", self._loop.create_task(shaking)
            return len(view)
        elif opening.is_asked:
            self._expect(0)  # a greeting, of which more bytes may follow
        elif word.is_over:
            self._stop_waiting()
            self._end_opening()
        else:
            self._stop_waiting()  # part of a frame: START_TLS may be coming
            if word.bytes_taken:
                self._wait(GREETING_WAIT_S, self._end_opening)
        return word.bytes_taken

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        """Start the timer for what is awaited next, in place of the former one."""
        self._stop_waiting()
        self._patience = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> float:
        """Stop the timer; returns how many seconds were left."""
        patience, self._patience = self._patience, None
        if patience is None:
            return 0
        patience.cancel()
        return patience.when() - self._loop.time()

    def _miss_handshake(self) -> None:
        """End the connection: the client got the answer to START_TLS and has not begun the
        handshake.
        """
        peer, self._awaited = self._awaited, ""
        self._count_no_tls(peer, "no handshake behind START_TLS")
        self.abort()

    def _count_no_tls(self, peer: str, why: str) -> None:
        self._service.count_tls_failure()
        log.warning("close connection from %s: no TLS: %s", peer, why)

    def _end_opening(self) -> None:
        """Answer the greeting now: the client is under TLS, or does not want it."""
        opening, self._opening = self._opening, None
        if opening is not None and opening.greeting is not None:
            wire, greeting = opening.greeting
            self.do(partial(self._service.take, self._origin_on(wire), greeting))

    async def _start_tls(self, tls: PortTls, first: bytes, peer: str, seconds: float) -> None:
        """Do the handshake. `first`: its bytes so far. `seconds`: the time left for it."""
        try:
            await self._secure(
                tls.context(),
                first=first,
                why_not=tls.why_not,
                handshake_s=max(seconds, HANDSHAKE_S_MIN),
            )
        except Exception as error:  # `ssl` parses what a stranger wrote: it raises ValueError, too
            self._count_no_tls(peer, str(error) or repr(error))
            self.abort()

    def _go_on(self) -> None:
        if self._is_working or self._blocked:
            return
        self._is_working = True
        try:
            while self._work and not self._blocked:
                if self._work[0]():
                    self._work.popleft()
                else:
                    self._block()
        finally:
            self._is_working = False


class StockService:
    """Answers the stock port of one bookie."""

    def __init__(
        self,
        operations: Operations,
        sessions: Sessions,
        tls: PortTls | None = None,
        authentication: StockAuthentication | None = None,
    ) -> None:
        self.tls = tls
        self.authentication = authentication
        """None = every client that reaches the port may ask."""
        self.greeting_bytes_max = 0 if authentication is None else authentication.greeting_bytes_max
        """The longest authentication token that may arrive before a handshake."""
        self.tls_is_required = tls is not None and tls.is_required
        """True when requests before a handshake are refused."""
        self._operations = operations
        self._sessions = sessions
        self._state = operations.state
        self.on_bytes = operations.state.look_at_lease
        self._buffers = FrameBuffers()
        self._reads = ReadService(operations)
        facts = FactService(operations)
        self._handlers: dict[type[Any], Callable[[Origin, Any], bool]] = {
            Read: self._reads.read_one,
            BatchRead: self._reads.read_batch,
            ReadLac: facts.read_lac,
            WriteLac: facts.write_lac,
            Force: facts.force,
            ListEntries: facts.list_entries,
            BookieInfo: facts.bookie_info,
        }
        """The handler of each kind of request. False = there is no room now: the work stays first
        in the queue, and is tried again after `resume`."""

    def opened(self, connection: StockConnection) -> None:
        if connection.is_secure:
            self.note_tls(connection)
        self._sessions.opened(connection)
        if self.authentication is not None:
            self.authentication.opened(connection)

    def closed(self, connection: StockConnection) -> None:
        self._sessions.closed(connection)
        if self.authentication is not None:
            self.authentication.closed(connection)
        self._operations.forget(connection)
        if connection.version:
            self._state.traffic.stock_connections[connection.version] -= 1
        if connection.is_secure:
            self._state.traffic.tls_connections["stock"] -= 1

    def left(self, connection: StockConnection, size: int) -> None:
        """`size` bytes of read replies have left; see `DataConnection.owe`."""
        self._operations.replies_left(connection, size)

    def note_version(self, connection: StockConnection, wire: Wire) -> None:
        """Count the connection once its version of the wire is known."""
        if not connection.version:
            connection.version = "v2" if isinstance(wire, V2) else "v3"
            self._state.traffic.stock_connections[connection.version] += 1

    def note_tls(self, connection: StockConnection) -> None:
        """Note that the connection is under TLS now."""
        self._state.traffic.tls_connections["stock"] += 1
        if self.authentication is not None:
            self.authentication.secured(connection)

    def count_tls_failure(self) -> None:
        """Count a connection that is about to be closed for lack of TLS."""
        self._state.traffic.tls_failures["stock"] += 1

    def count_garbage(self) -> None:
        """Count a connection that is about to be closed for malformed bytes; `connections` logs
        why.
        """
        self._state.traffic.garbage += 1

    def plan(self, origin: Origin, requests: Sequence[Request | AddBlock]) -> Iterator[Work]:
        """Make pieces of work from these requests. Adds and plain reads are gathered up to the next
        request of another kind, so that they begin before it.
        """
        if len(requests) == 1 and isinstance(only := requests[0], Add):
            # The client waits for each answer: there is nothing to gather.
            yield partial(
                self._add, origin, run_of([only], only.entry_id, CONSECUTIVE, origin.wire)
            )
            return
        adds, reads = AddGather(origin.wire, self._buffers), ReadGather()
        for request in requests:
            if isinstance(request, Add):
                adds.add(request)
            elif isinstance(request, AddBlock):
                adds.add_block(request)
            elif isinstance(request, Read) and is_plain(request):
                reads.add(request)
            else:
                yield from self._gathered(origin, adds, reads)
                adds, reads = AddGather(origin.wire, self._buffers), ReadGather()
                yield partial(self.take, origin, request)
        yield from self._gathered(origin, adds, reads)

    def _gathered(self, origin: Origin, adds: AddGather, reads: ReadGather) -> Iterator[Work]:
        for run in adds.runs():
            yield partial(self._add, origin, run)
        for requests in reads.groups():
            yield partial(self._read, origin, requests)

    # Work
    def _add(self, origin: Origin, run: Run) -> bool:
        then = partial(_answer_adds, origin, run.answers)
        status = Status.BAD_REQUEST if not run.is_storable else self._refusal(origin)
        if status is not None:
            self._state.traffic.refused[status] += 1
            then(status, None, "")
            return True
        try:
            return self._operations.add(
                origin.client, run.frame, master_key=run.master_key, then=then
            )
        except FrameError as error:
            log.warning("refuse a run of ledger %d: %s", run.frame.ledger_id, error)
            self._state.traffic.refused[Status.BAD_REQUEST] += 1
            then(Status.BAD_REQUEST, None, "")
            return True

    def _read(self, origin: Origin, requests: Sequence[Read]) -> bool:
        status = self._refusal(origin)
        if status is None:
            return self._reads.read_many(origin, requests)
        self._refuse(origin, requests, status)
        return True

    def take(self, origin: Origin, request: Request) -> bool:
        """Carry out any other request."""
        if isinstance(request, Refused):
            self._state.traffic.refused[Status.BAD_REQUEST] += 1
            log.debug("refuse a request: %s", request.why)
            origin.client.send([request.answer])
        elif isinstance(request, Auth):
            return origin.client.authenticate(origin.wire, request)
        elif isinstance(request, StartTls):
            # This port has no TLS, or START_TLS was not the first request, so that answers may be
            # under way.
            origin.client.send([origin.wire.answer_start_tls(request, Outcome.BAD_REQUEST)])
        elif (status := self._refusal(origin)) is not None:
            self._refuse(origin, [request], status)
        else:
            return self._handlers[type(request)](origin, request)
        return True

    def _refusal(self, origin: Origin) -> Status | None:
        """The status for every request while this bookie does not serve, or not this client; None
        when it does.
        """
        if not self._state.phase.serves:
            return Status.NOT_READY
        return Status.UNAUTHORIZED if origin.client.is_barred else None

    def _refuse(self, origin: Origin, requests: Sequence[Answerable], status: Status) -> None:
        self._state.traffic.refused[status] += len(requests)
        for request in requests:
            origin.refuse(request, status)


def _answer_adds(
    origin: Origin, answers: Answers, status: Status, _found: None, _reason: str
) -> None:
    origin.client.send([answers(outcome_of(status))])
