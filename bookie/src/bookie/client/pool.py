"""The connections to the bookies of a cluster, over the native wire: the real `client.peers.Peers`.

There is one connection per bookie, which is opened when it is first needed. It begins with a
greeting that names the bookie, since another process may have got its address. Requests are
pipelined and matched by id. Every failure (no address, refused, another process there, cut off,
timed out, malformed) is answered UNREACHABLE: unknown, never a denial (R7). One timer per pool
looks for requests that have waited too long.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from bookie.client.addresses import AddressBook
from bookie.client.channel import LENT_BYTES_MIN, Channel
from bookie.client.pool_settings import PoolSettings
from bookie.errors import FrameError, UnavailableError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import Buffer
from bookie.frames.from_fields import from_fields
from bookie.ids import BookieId
from bookie.metadata.store import RUN_ADVERTISED, RUN_ENDPOINT, Endpoint, MetadataStore
from bookie.protocol.status import Status
from bookie.protocol.writer_effects import Recipient
from bookie.tls.principals import Role
from bookie.wire.identity import Identity, refusal
from bookie.wire.native import (
    ENVELOPE,
    FLAG_FENCE,
    MESSAGE_BYTES_MAX,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    envelope_header,
)

_log = logging.getLogger(__name__)


Reply = TypeVar("Reply")
OnAnswer = Callable[[Status, memoryview], None]
OnReply = Callable[[Status], None] | OnAnswer
"""Callbacks of adds get only the status; all others get status and body."""
_NOTHING: Final = memoryview(b"")
_ADVERTISED_FIRST: Final = (RUN_ADVERTISED, RUN_ENDPOINT)
_STATUSES: Final = {int(status): status for status in Status}
_ADD_RUN: Final = Op.ADD_RUN
_UNREACHABLE: Final = Status.UNREACHABLE
JOIN_BYTES_MAX: Final = 16 * 1024
"""Messages up to this size are sent as one buffer: a copy is cheaper than another system call."""
WORDS_BYTES_MAX: Final = 1024
"""How many bytes of the reason of a refused greeting are logged."""


Message = tuple[Buffer, ...]


class _Request(NamedTuple):
    """One message, to one bookie or to several at once; `size`: its bytes without the envelope."""

    op: Op
    request_id: int
    message: Message
    size: int
    sent_at: float
    deadline: float


_request: Final = from_fields(_Request)


class _Link:
    """The requests under way to one bookie, over its successive connections."""

    def __init__(
        self,
        bookie_id: BookieId,
        *,
        addresses: AddressBook,
        settings: PoolSettings,
        buffers: FrameBuffers,
    ) -> None:
        self._bookie_id = bookie_id
        self._buffers = buffers
        self._addresses = addresses
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._channel: Channel | None = None
        """The greeted connection; None while there is none that may carry requests."""
        self._connecting: asyncio.Task[None] | None = None
        """The connection attempt under way; None exactly when there is none."""
        self._requests: dict[int, tuple[_Request, Callable[..., None]]] = {}
        """The requests under way by id, oldest first, with the callbacks for their answers; at most
        in_flight_requests_max of the settings. Without `_channel` they wait for `_connecting`."""
        self._in_flight_bytes = 0
        """Bytes of `_requests`; at most in_flight_bytes_max of the settings."""
        self._connected_at = 0.0
        """When `_channel` was greeted, by the loop's clock."""
        self._epoch = 0
        """Boot epoch of the process that answered the last greeting."""
        self._backoff_s = settings.backoff_min_s
        """How many seconds to wait after the next failure, between min and max."""
        self._retry_at = 0.0
        """No attempt is made before this time of the loop's clock."""
        self._has_failed = False
        """True when no answer has arrived since a connection or an attempt failed."""

    @property
    def is_idle(self) -> bool:
        return not self._requests

    def send(self, request: _Request, on_reply: OnReply) -> None:
        """Send a request, or queue it while connecting; calls `on_reply` later, exactly once."""
        settings, requests = self._settings, self._requests
        if (
            len(requests) >= settings.in_flight_requests_max
            or self._in_flight_bytes + request.size > settings.in_flight_bytes_max
            or (self._channel is None and self._rests(request.sent_at))
        ):
            self._loop.call_soon(_fail, request, on_reply)
            return
        requests[request.request_id] = request, on_reply
        self._in_flight_bytes += request.size
        channel = self._channel
        if channel is not None:
            if channel.write_now is not None and len(request.message) == 1:
                channel.write_now(request.message[0])
            else:
                channel.send(request.message)
            return
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _rests(self, now: float) -> bool:
        """True when the last attempt failed and the next one is not due yet."""
        return self._connecting is None and now < self._retry_at

    # Connecting

    async def _connect(self) -> None:
        try:
            channel = await self._open()
        except Exception as error:  # a registration may hold anything, such as port 70000
            self._lost(f"cannot connect: {str(error) or type(error).__name__}")
            return
        finally:
            self._connecting = None
        if channel.is_lost:
            self._lost("connection lost at once")
            return
        self._channel = channel
        self._connected_at = self._loop.time()
        self.outlived(self._addresses.meant(self._bookie_id).epoch)
        for request, _on_reply in list(self._requests.values()):
            channel.send(request.message)

    async def _open(self) -> Channel:
        address = await self._addresses.find(self._bookie_id, fresh=self._has_failed)
        tls = self._tls_to(address.endpoint)
        greeting: asyncio.Future[None] = self._loop.create_future()
        async with asyncio.timeout(self._settings.connect_timeout_s):
            _transport, channel = await self._loop.create_connection(
                lambda: Channel(
                    on_message=partial(self._heard, greeting),
                    on_lost=partial(self._ended, greeting),
                    buffers=self._buffers,
                ),
                address.endpoint.host,
                address.endpoint.port,
                **tls,
            )
            await self._greet(channel, greeting, address.meant)
        return channel

    def _tls_to(self, endpoint: Endpoint) -> dict[str, Any]:
        """The arguments of `create_connection` for TLS to this endpoint; empty without TLS."""
        tls = self._settings.tls
        if tls is None or not tls.is_for(has_tls=endpoint.has_tls):
            return {}
        name = tls.server_name(Role.BOOKIE, self._bookie_id) or endpoint.host
        return {"ssl": tls.context(), "server_hostname": name}

    async def _greet(
        self, channel: Channel, greeting: "asyncio.Future[None]", meant: Identity
    ) -> None:
        """Greet the bookie; no request is sent before the other side has said that it is the
        process meant.
        """
        body = meant.encode()
        channel.send((envelope_header(Op.HELLO, 0, 0, len(body)), body))
        try:
            await greeting
            channel.on_message = self._answered
        except BaseException:
            channel.abort(UnavailableError("not greeted"))
            raise

    def _heard(
        self,
        greeting: "asyncio.Future[None]",
        op: int,
        code: int,
        request_id: int,
        body: memoryview,
    ) -> None:
        if greeting.done():
            self._answered(op, code, request_id, body)
            return
        if op == Op.HELLO and code == Status.OK:
            why = self._judge(body)
        else:
            why = bytes(body[:WORDS_BYTES_MAX]).decode(errors="replace") or "no reason given"
        if why and code == Status.UNAUTHORIZED:
            if not self._has_failed:  # a person must act: waiting does not help
                _log.warning("bookie %s refuses our connections: %s", self._bookie_id, why)
            greeting.set_exception(UnavailableError(f"connection refused: {why}"))
        elif why:
            greeting.set_exception(
                UnavailableError(f"another process answers at its address: {why}")
            )
        else:
            greeting.set_result(None)

    def _judge(self, body: memoryview) -> str:
        """Why the process that answers is not the one meant, as far as known now;
        empty when it is.
        """
        try:
            found = Identity.decode(body)
        except FrameError as error:
            return str(error)
        why = refusal(self._addresses.meant(self._bookie_id), found)
        if not why:
            self._epoch = found.epoch
            self._addresses.saw(self._bookie_id, found.epoch)
        return why

    def outlived(self, epoch: int) -> None:
        """Cut a connection to a process of an earlier boot, as the bookie has booted again."""
        if self._channel is not None and self._epoch < epoch:
            self._channel.abort(
                UnavailableError(f"the bookie has booted again, with epoch {epoch}")
            )

    def _ended(
        self, greeting: "asyncio.Future[None]", channel: Channel, error: Exception | None
    ) -> None:
        if not greeting.done():
            greeting.set_exception(error or UnavailableError("the bookie closed the connection"))
        self._channel_lost(channel, error)

    def _channel_lost(self, channel: Channel, error: Exception | None) -> None:
        if channel is self._channel:
            self._channel = None
            self._lost(f"connection lost: {error or 'closed by the bookie'}")

    def _lost(self, why: str) -> None:
        """The connection or attempt failed: answer all requests under way UNREACHABLE, and delay
        the next attempt.
        """
        _log.info("bookie %s: %s", self._bookie_id, why)
        self._retry_at = self._loop.time() + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, self._settings.backoff_max_s)
        self._has_failed = True
        requests, self._requests = self._requests, {}
        self._in_flight_bytes = 0
        for request, on_reply in requests.values():
            self._loop.call_soon(_fail, request, on_reply)

    def adds_under_way(self) -> list["asyncio.Future[None]"]:
        """For each add under way a future that is done once it is answered."""
        ends = []
        for request_id, (request, on_reply) in self._requests.items():
            if request.op is _ADD_RUN:
                end: asyncio.Future[None] = self._loop.create_future()
                self._requests[request_id] = request, partial(_answer, on_reply, end)
                ends.append(end)
        return ends

    async def close(self) -> None:
        """Cut the connection; requests under way are answered UNREACHABLE."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort(UnavailableError("the pool is closed"))
        self._lost("the pool is closed")

    # Answers

    def _answered(self, op: int, code: int, request_id: int, body: memoryview) -> None:
        under_way = self._requests.get(request_id)
        if under_way is None:
            return  # timed out before
        request, on_reply = under_way
        if op != request.op:
            raise FrameError(
                f"bookie {self._bookie_id} answered {Op(op).name} to a {request.op.name}"
            )
        del self._requests[request_id]
        self._in_flight_bytes -= request.size
        if self._has_failed:
            self._backoff_s, self._has_failed = self._settings.backoff_min_s, False
        status = _STATUSES.get(code, _UNREACHABLE)
        if request.op is _ADD_RUN:
            on_reply(status)
        else:
            on_reply(status, body)

    def sweep(self, now: float) -> None:
        """Answer requests that have waited too long UNREACHABLE; cut a connection that was silent
        meanwhile.
        """
        late = [one for one in self._requests.values() if one[0].deadline <= now]
        for request, on_reply in late:
            del self._requests[request.request_id]
            self._in_flight_bytes -= request.size
            _fail(request, on_reply)
        channel = self._channel
        if late and channel is not None:
            heard_at = channel.received_at
            sent_at = max(self._connected_at, *(request.sent_at for request, _on_reply in late))
            if heard_at is None or sent_at >= heard_at:
                channel.abort(TimeoutError("no answer in time"))


def _fail(request: _Request, on_reply: Callable[..., None]) -> None:
    if request.op is _ADD_RUN:
        on_reply(_UNREACHABLE)
    else:
        on_reply(_UNREACHABLE, _NOTHING)


def _answer(
    on_reply: Callable[[Status], None], end: "asyncio.Future[None]", status: Status
) -> None:
    if not end.done():
        end.set_result(None)
    on_reply(status)


class BookiePool:
    """Peers over TCP. Use within one event loop; `close` when done."""

    def __init__(self, store: MetadataStore, *, settings: PoolSettings | None = None) -> None:
        self._settings = settings or PoolSettings()
        self._loop = asyncio.get_running_loop()
        self._addresses = AddressBook(
            store,
            ttl_s=self._settings.address_ttl_s,
            endpoint_ids=_ADVERTISED_FIRST if self._settings.is_advertised else (RUN_ENDPOINT,),
            on_newer_boot=self._outlive,
        )
        self._links: dict[BookieId, _Link] = {}
        """A link for each bookie that was ever called; bounded by the bookies of the cluster."""
        self._buffers = FrameBuffers()
        self._next_id = 0
        """Id of the last request; no two requests have the same."""
        self._sweeper: asyncio.TimerHandle | None = None
        """The timer that looks for requests past their deadline; None while none is under way, so
        that an idle pool has no timer."""
        self._is_closed = False
        """True once closed: every request is answered UNREACHABLE from then on."""

    async def close(self) -> None:
        """Give adds under way a moment, then cut all connections; what is still under way is
        answered UNREACHABLE.

        A ledger is closed once an ack quorum has its entries: the other copies may be on their way
        yet, or wait for a connection, and a program that ends now would leave them out.
        """
        self._is_closed = True
        adds = [end for link in self._links.values() for end in link.adds_under_way()]
        try:
            if adds:
                await asyncio.wait(adds, timeout=self._settings.last_adds_s)
        finally:
            await self._cut()

    async def _cut(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for link in self._links.values():
            await link.close()
        await self._addresses.close()
        await asyncio.sleep(0)  # lets the transports close their sockets

    def add_run(
        self,
        bookie_id: BookieId,
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Status], None],
    ) -> None:
        """See Peers."""
        self._request(bookie_id, _ADD_RUN, prefix=master_key, body=frame, on_reply=on_reply)

    def add_run_to(
        self,
        recipients: Sequence[Recipient],
        *,
        master_key: bytes,
        frame: Buffer,
        on_reply: Callable[[Recipient, Status], None],
    ) -> None:
        """See Peers. All get the same message; its request id is unique on each connection."""
        request = self._new_request(_ADD_RUN, 0, master_key, frame)
        for recipient in recipients:
            self._send(recipient.bookie_id, request, partial(on_reply, recipient))

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        """See Peers."""
        flags = FLAG_FENCE if fence else 0
        status, body = await self._ask(bookie_id, Op.READ, flags=flags, body=request.encode())
        return _decoded(bookie_id, status, partial(ReadReply.decode, body))

    async def read_lac(
        self, bookie_id: BookieId, request: LacRequest, *, fence: bool = False
    ) -> tuple[Status, LacReply | None]:
        """See Peers."""
        flags = FLAG_FENCE if fence else 0
        status, body = await self._ask(bookie_id, Op.READ_LAC, flags=flags, body=request.encode())
        return _decoded(bookie_id, status, partial(LacReply.decode, body))

    async def wait_lac(
        self, bookie_id: BookieId, request: LacRequest
    ) -> tuple[Status, LacReply | None]:
        """See Peers. It ends within the request's own timeout plus the pool's."""
        status, body = await self._ask(
            bookie_id,
            Op.WAIT_LAC,
            body=request.encode(),
            extra_s=request.timeout_ms / 1000,
        )
        return _decoded(bookie_id, status, partial(LacReply.decode, body))

    async def write_lac(self, bookie_id: BookieId, request: LacRequest) -> Status:
        """See Peers."""
        return (await self._ask(bookie_id, Op.WRITE_LAC, body=request.encode()))[0]

    async def force(self, bookie_id: BookieId, request: LacRequest) -> Status:
        """See Peers."""
        return (await self._ask(bookie_id, Op.FORCE, body=request.encode()))[0]

    def _request(
        self,
        bookie_id: BookieId,
        op: Op,
        *,
        flags: int = 0,
        prefix: bytes = b"",
        body: Buffer,
        extra_s: float = 0.0,
        on_reply: OnReply,
    ) -> None:
        self._send(bookie_id, self._new_request(op, flags, prefix, body, extra_s), on_reply)

    def _send(self, bookie_id: BookieId, request: _Request, on_reply: OnReply) -> None:
        if self._is_closed:
            self._loop.call_soon(_fail, request, on_reply)
            return
        link = self._links.get(bookie_id)
        if link is None:
            link = self._links[bookie_id] = _Link(
                bookie_id, addresses=self._addresses, settings=self._settings, buffers=self._buffers
            )
        link.send(request, on_reply)
        if self._sweeper is None:
            self._schedule_sweep()

    def _outlive(self, bookie_id: BookieId, epoch: int) -> None:
        link = self._links.get(bookie_id)
        if link is not None:
            link.outlived(epoch)

    def _new_request(
        self, op: Op, flags: int, prefix: bytes, body: Buffer, extra_s: float = 0.0
    ) -> _Request:
        self._next_id += 1
        now, size = self._loop.time(), len(prefix) + len(body)
        assert size <= MESSAGE_BYTES_MAX
        head = ENVELOPE.pack(size, op, flags, 0, self._next_id)
        message: Message = (
            (b"".join((head, prefix, body)),) if size <= JOIN_BYTES_MAX else (head + prefix, body)
        )
        deadline = now + self._settings.request_timeout_s + extra_s
        return _request((op, self._next_id, message, size, now, deadline))

    async def _ask(
        self, bookie_id: BookieId, op: Op, *, flags: int = 0, body: Buffer, extra_s: float = 0.0
    ) -> tuple[Status, memoryview]:
        answer: asyncio.Future[tuple[Status, memoryview]]
        answer = self._loop.create_future()

        def resolve(status: Status, reply: memoryview) -> None:
            if not answer.done():  # the caller may have been cancelled
                is_ours = len(reply) >= LENT_BYTES_MIN
                answer.set_result((status, reply if is_ours else memoryview(bytes(reply))))

        self._request(bookie_id, op, flags=flags, body=body, extra_s=extra_s, on_reply=resolve)
        return await answer

    def _schedule_sweep(self) -> None:
        self._sweeper = self._loop.call_later(self._settings.sweep_interval_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        for link in list(self._links.values()):  # an answer may cause a request to another bookie
            link.sweep(now)
        if self._sweeper is None and any(not link.is_idle for link in self._links.values()):
            self._schedule_sweep()


def _decoded(
    bookie_id: BookieId, status: Status, decode: Callable[[], Reply]
) -> tuple[Status, Reply | None]:
    if status is not Status.OK:
        return status, None
    try:
        return status, decode()
    except (FrameError, ValueError, struct.error) as error:
        _log.warning("bookie %s: a reply cannot be read: %s", bookie_id, error)
        return Status.UNREACHABLE, None
