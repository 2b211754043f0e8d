"""Data ports: bytes of one connection to messages and back, with back-pressure both ways.

Bytes land in one reused buffer; each whole message goes to the service, which takes it or says
"no room now". Then the message stays where it is, the socket is not read, and the service calls
`resume` when there is room: nothing is parked twice, nothing is judged before it is taken.
Replies of one loop turn leave in one vectored write, and those to what is just being taken as soon
as all of it is: before the loop turns again. `RunConnection` speaks native messages.
"""

import asyncio
import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.hosts import is_wildcard, listen_everywhere
from bookie.protocol.status import Status
from bookie.server.handshakes import shake_hands
from bookie.server.replies import Unread
from bookie.wire.native import (
    ENVELOPE,
    ENVELOPE_BYTES,
    MESSAGE_BYTES_MAX,
    Envelope,
    Op,
    envelope_header,
    next_message,
    total_bytes,
)

log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 2 * 1024 * 1024
BUFFER_BYTES_MAX: Final = MESSAGE_BYTES_MAX + ENVELOPE_BYTES
"""Longest message of any wire."""
READ_BYTES_MIN: Final = 256 * 1024
"""Free room below which unparsed bytes move to the front before the next read."""


class DataConnection(asyncio.BufferedProtocol, ABC):
    """One client of a data port; what its messages look like is the subclass's matter."""

    def __init__(self, on_bytes: Callable[[], object]) -> None:
        """`on_bytes`: called before messages are taken, when bytes came or there is room again."""
        self._on_bytes = on_bytes
        self._buffer = memoryview(bytearray())
        """What the socket is read into; none before the first read, as who does not end a handshake
        has none; replaced by a longer one for a longer message."""
        # Bytes [start, end) of it are read and not taken yet. Invariant: 0 <= start <= end <= len.
        self._start = 0
        """First byte in `_buffer` that is not taken: `0 <= _start <= _end <= len(_buffer)`."""
        self._end = 0
        """Behind the last byte that came."""
        self._touched = 0
        """Bytes of `_buffer` that were ever written, and so are memory: `_end <= _touched`."""
        self._begun_at: float | None = None
        """When the first message was begun that is not taken; None: every byte is taken."""
        self.has_asked = False
        """A message was taken."""
        self._blocked = False
        """The service has no room for the first of them; it will call `resume`."""
        self._write_paused = False
        """The transport holds more than it should: the client does not take its answers."""
        self._paused_at: float | None = None
        """Since when; None exactly while `_write_paused` is False."""
        self._is_paused = False
        """The socket is not read: blocked or paused, as of the last look."""
        self._is_closing = False
        """`close` was called, or the connection is gone: nothing more is taken."""
        self._is_taking = False
        """Messages are being taken; what is answered meanwhile leaves after the last of them."""
        self.is_secure = False
        """Under TLS."""
        self.reads_under_way = 0
        """Reads whose reply is not given to the transport yet."""
        self.reply_bytes = 0
        """See `disk_reads.Reader`."""
        self._unread = Unread()
        """Writes with replies to reads in them that the socket has not taken."""
        self._held = 0
        """Of what is written next, the bytes of replies to reads: see `owe`."""
        self._owes = False
        """One of these two is not empty."""
        self._replies: list[Buffer] = []
        """Queued; they leave in one write. Empty without a transport."""
        self._transport: asyncio.Transport | None = None
        """None before `connection_made` and after `connection_lost`."""
        self._plain: asyncio.Transport | None = None
        """The transport below TLS; None exactly while it is not under TLS."""
        self._loop = asyncio.get_running_loop()

    def _check(self) -> None:
        """What holds between events. For tests (`test_connections`)."""
        assert 0 <= self._start <= self._end <= self._touched <= len(self._buffer)
        assert (self._begun_at is None) == (self._start == self._end)
        assert (self._paused_at is not None) == self._write_paused
        assert self._owes == bool(self._held or self._unread)
        assert self._transport is not None or not self._replies
        assert (self._plain is not None) == self.is_secure

    # For the subclass
    @abstractmethod
    def _opened(self) -> None:
        """Connected."""

    @abstractmethod
    def _closed(self) -> None:
        """The connection is gone."""

    @abstractmethod
    def _left(self, size: int) -> None:
        """`size` bytes of read replies were sent, or dropped with the connection."""

    @abstractmethod
    def _take_next(self, view: memoryview) -> int:
        """Take what comes first in `view`, unparsed bytes; how many of them that were.

        None of them: no room (`_block` was called), or not a whole message (`_expect` was).
        FrameError when they make no sense.
        """

    def _block(self) -> None:
        """The service has no room; it calls `resume`."""
        self._blocked = True

    def _expect(self, size: int) -> None:
        """The first message has this many bytes, more than are here; 0 = not known yet."""
        assert size <= BUFFER_BYTES_MAX
        if len(self._buffer) - self._start < size:
            self._make_room(size)

    def _hold(self) -> None:
        """Read nothing more, until `_secure`."""
        self._block()
        self._steer_reading()

    async def _secure(
        self,
        context: ssl.SSLContext,
        *,
        first: bytes,
        why_not: Callable[[Mapping[str, Any] | None], str],
        handshake_s: float,
    ) -> None:
        """Go on under TLS, as its server; `_hold` was called, and nothing is under way.

        Parameters and errors are those of `handshakes.shake_hands`; after an error the connection
        is gone. What was answered before has left as it is. What the handshake brings along is
        taken once answers to it are encrypted, too.
        """
        plain = self._transport
        if plain is None or plain.is_closing():
            raise ConnectionResetError("closed before the handshake")
        self._flush()
        try:
            secured = await shake_hands(
                plain, self, context, first=first, why_not=why_not, seconds=handshake_s
            )
        except BaseException as error:
            plain.abort()
            # Loops tell of some of these ends, and of some they do not.
            self.connection_lost(error if isinstance(error, Exception) else None)
            raise
        self._transport, self._plain, self.is_secure = secured, plain, True
        self._is_paused = False  # as `start_tls` leaves it
        self.resume()

    def wait_for_handshake(self) -> None:
        """It is not open yet; what the handshake brings along is taken after `begin`."""
        self._block()

    def begin(self, secured: asyncio.Transport, *, below: asyncio.Transport) -> None:
        """The connection is open, under TLS from its first byte; `wait_for_handshake` was called.

        `below`: the transport that the other one writes to.
        """
        self._plain, self.is_secure = below, True
        self.connection_made(secured)
        self.resume()

    def _send(self, buffers: Sequence[Buffer]) -> None:
        """Queue a reply; it leaves with the others of this loop turn."""
        if self._transport is None:
            return
        if not (self._replies or self._is_taking):
            self._loop.call_soon(self._flush)
        self._replies.extend(buffers)

    # Socket events
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance check: uvloop's transports are no subclasses of asyncio's.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._opened()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._is_closing = True
        self._transport = None
        self._replies.clear()
        self._closed()
        self._settle(0)

    def get_buffer(self, sizehint: int) -> memoryview:
        if len(self._buffer) - self._end < READ_BYTES_MIN:
            self._make_room()
        return self._buffer[self._end :] if self._end else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._touched = max(self._touched, self._end + nbytes)
        self._end += nbytes
        self._on_bytes()
        self._take_messages()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._paused_at = self._loop.time()
        self._steer_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._paused_at = None
        if self._owes:
            self._settle(self._untaken())
        self.resume()

    # For the service
    def owe(self, size: int) -> None:
        """Counts the next `size` bytes sent as bytes of a read reply; `_left` is called when they
        have left."""
        self._held += size
        self._owes = True
        if self._transport is None:
            self._settle(0)

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        """True when a reply has been untaken for longer than this; also while it is closing."""
        if self._owes and self._transport is not None:
            self._settle(self._untaken())
        times = [at for at in (self._paused_at, self._unread.since) if at is not None]
        return bool(times) and now - min(times) > patience_s

    @property
    def peer(self) -> str:
        """Its address."""
        return self._peer() if self._transport is not None else "a connection that is gone"

    def resume(self) -> None:
        """There is room again: take what waits and read on."""
        self._blocked = False
        if self._transport is not None:
            # The process may have slept since the bytes came: what waits is ruled on now.
            self._on_bytes()
            self._take_messages()
            self._steer_reading()

    def close(self) -> None:
        """Send what was answered, take nothing more."""
        self._is_closing = True
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def bytes_held(self) -> int:
        """Read from the socket and not taken yet."""
        return self._end - self._start

    @property
    def unfinished_since(self) -> float | None:
        """When the message was begun that is not complete; None: there is none."""
        return None if self._blocked or self._write_paused else self._begun_at

    @property
    def buffer_bytes(self) -> int:
        """What its requests have taken of the memory."""
        return self._touched

    def shrink(self) -> None:
        """Give back what no bytes are in."""
        if self._start == self._end and self._touched > READ_BYTES_MIN:
            self._buffer = memoryview(bytearray())
            self._start = self._end = self._touched = 0

    # Inside
    def _take_messages(self) -> None:
        before, self._is_taking = self._start, True
        try:
            while self._start < self._end:
                if self._blocked or self._write_paused or self._is_closing:
                    break
                taken = self._take_next(self._buffer[self._start : self._end])
                if not taken:
                    break
                self._start += taken
                self.has_asked = True
        except FrameError as error:
            self._leave(error)
        finally:
            self._is_taking = False
            if self._replies:
                self._flush()
        if self._start == self._end:
            self._start = self._end = 0
            self._begun_at = None
        elif self._start != before or self._begun_at is None:
            self._begun_at = self._loop.time()
        if (self._blocked or self._write_paused) != self._is_paused:
            self._steer_reading()

    def _leave(self, error: FrameError) -> None:
        # The stream cannot be trusted to be in step any more: say why, then hang up.
        log.warning("close connection from %s: %s", self._peer(), error)
        self.close()

    def _make_room(self, size: int = 0) -> None:
        """Unparsed bytes to the front; into another buffer only when this one has the wrong size.

        Never resized in place, since a transport may hold a view of it during its read. Nor made
        again each time: zeroed pages for every other message cost more than all the parsing.
        """
        held = self._end - self._start
        room = max(BUFFER_BYTES, size, held + READ_BYTES_MIN)
        unparsed = self._buffer[self._start : self._end]
        if len(self._buffer) != room:
            self._buffer = memoryview(bytearray(room))
            self._touched = held
        self._buffer[:held] = unparsed  # they may overlap: copied as if in one go
        self._start, self._end = 0, held

    def _steer_reading(self) -> None:
        pauses = self._blocked or self._write_paused
        if pauses == self._is_paused or self._transport is None or self._transport.is_closing():
            return
        self._is_paused = pauses
        if pauses:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _flush(self) -> None:
        replies, self._replies = self._replies, []
        if not replies or self._transport is None or self._transport.is_closing():
            return
        if self.is_secure:  # every buffer would be a record of its own
            self._transport.write(b"".join(replies))
        else:
            self._transport.writelines(replies)
        if self._owes:
            self._account(replies)

    def _account(self, replies: Sequence[Buffer]) -> None:
        """What of this write, and of those before, the client has not taken."""
        untaken = self._untaken()
        if untaken:
            self._unread.wrote(sum(map(len, replies)), self._held, at=self._loop.time())
            self._held = 0
        self._settle(untaken)

    def _untaken(self) -> int:
        """Bytes that were written and that the socket has not taken."""
        assert self._transport is not None
        below = self._plain.get_write_buffer_size() if self._plain is not None else 0
        return self._transport.get_write_buffer_size() + below

    def _settle(self, untaken: int) -> None:
        """Give back what has left; nothing is untaken of a connection that is gone."""
        freed = self._unread.taken(untaken)
        if not untaken and not self._replies:
            freed, self._held = freed + self._held, 0
        self._owes = bool(self._held or self._unread)
        if freed:
            self._left(freed)

    def _peer(self) -> str:
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername"))


class Service(Protocol):
    """Handles messages. `connection` is where the reply goes, at once or later."""

    def on_bytes(self) -> object:
        """Bytes came: called before any message in them is taken."""

    def handle(self, envelope: Envelope, connection: "RunConnection") -> bool:
        """False: no room now, nothing happened; the service will call `connection.resume`."""

    def opened(self, connection: "RunConnection") -> None: ...

    def closed(self, connection: "RunConnection") -> None: ...

    def left(self, connection: "RunConnection", size: int) -> None:
        """See `DataConnection.owe`."""


class RunConnection(DataConnection):
    """One client on the native port."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.on_bytes)
        self._service = service
        self.is_greeted = False
        """The client said that it means this bookie."""

    def reply(
        self, op: Op, status: Status, request_id: int, buffers: Sequence[Buffer] = ()
    ) -> None:
        """Queue one reply; it leaves with the others of this loop turn."""
        self._send((envelope_header(op, status, request_id, total_bytes(buffers)), *buffers))

    def reply_ok(self, op: Op, request_id: int) -> None:
        """Queue an OK reply with an empty body."""
        self._send((ENVELOPE.pack(0, op, 0, 0, request_id),))

    def _opened(self) -> None:
        self._service.opened(self)

    def _closed(self) -> None:
        self._service.closed(self)

    def _left(self, size: int) -> None:
        self._service.left(self, size)

    def _take_next(self, view: memoryview) -> int:
        size, envelope = next_message(view, 0, len(view))
        if envelope is None:
            self._expect(size)
            return 0
        if not self._service.handle(envelope, self):
            self._block()
            return 0
        return size


class DataServer:
    """Listens on a data port."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._make = make
        self._server: asyncio.Server | None = None
        """None before `start`."""

    async def start(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        if is_wildcard(host):
            self._server = await loop.create_server(self._make, sock=listen_everywhere(port))
        else:
            self._server = await loop.create_server(self._make, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Take no new connections; the open ones are the service's to end."""
        if self._server is not None:
            self._server.close()
