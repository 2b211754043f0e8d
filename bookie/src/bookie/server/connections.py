"""The data ports: turns the bytes of a connection into messages and back, with back-pressure both
ways.

A connection reads into one reused buffer and gives each whole message to the service, which takes
it or says "no room now". In the second case the message stays in the buffer, the connection stops
reading its socket, and the service calls `resume` when there is room: so no message is stored
twice, and none is judged before it is taken. All replies of one loop turn leave in one vectored
write; replies made while messages are being taken leave after the last of these, before the loop
turns. `RunConnection` speaks native messages.
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
"""The longest message of any wire."""
READ_BYTES_MIN: Final = 256 * 1024
"""If the buffer has less free room, unparsed bytes move to its front before the next read."""


class DataConnection(asyncio.BufferedProtocol, ABC):
    """One client of a data port; the subclass knows the format of its messages."""

    def __init__(self, on_bytes: Callable[[], object]) -> None:
        """`on_bytes`: called before messages are taken, when bytes arrived or there
        is room again.
        """
        self._on_bytes = on_bytes
        self._buffer = memoryview(bytearray())
        """The read buffer. It is empty until the first read, so that clients that never finish a
        handshake cost no memory; a longer message gets a longer buffer."""
        # Bytes [start, end) of the buffer are read and not taken yet. Invariant: 0 <= start <= end
        # <= len.
        self._start = 0
        """First byte in `_buffer` that is not taken: `0 <= _start <= _end <= len(_buffer)`."""
        self._end = 0
        """The end of the bytes that were read."""
        self._touched = 0
        """How many bytes of `_buffer` were ever written, and so occupy memory: `_end <=
        _touched`."""
        self._begun_at: float | None = None
        """When the first message that is not taken began to arrive; None when every byte is
        taken."""
        self.has_asked = False
        """True once a message was taken."""
        self._blocked = False
        """True while the service has no room for the first message; it will call `resume`."""
        self._write_paused = False
        """True while the transport holds too many bytes, as the client does not read its
        replies."""
        self._paused_at: float | None = None
        """Since when writing is paused; None exactly while `_write_paused` is False."""
        self._is_paused = False
        """True while the socket is not read, because the connection is blocked or paused."""
        self._is_closing = False
        """True once `close` was called or the connection is gone: no further message is taken."""
        self._is_taking = False
        """True while messages are being taken; replies made meanwhile leave after the last of
        them."""
        self.is_secure = False
        """True once the connection is under TLS."""
        self.reads_under_way = 0
        """How many reads are under way, whose reply the transport does not have yet."""
        self.reply_bytes = 0
        """Bytes of its replies to reads; see `disk_reads.Reader`."""
        self._unread = Unread()
        """Writes that contain replies to reads and that the socket has not taken yet."""
        self._held = 0
        """How many bytes of the next write are replies to reads; see `owe`."""
        self._owes = False
        """True when `_unread` or `_held` is not empty."""
        self._replies: list[Buffer] = []
        """Queued replies, which leave in one write; empty without a transport."""
        self._transport: asyncio.Transport | None = None
        """None before `connection_made` and after `connection_lost`."""
        self._plain: asyncio.Transport | None = None
        """The transport below TLS; None exactly while it is not under TLS."""
        self._loop = asyncio.get_running_loop()

    def _check(self) -> None:
        """Assert the invariants between events; for tests (`test_connections`)."""
        assert 0 <= self._start <= self._end <= self._touched <= len(self._buffer)
        assert (self._begun_at is None) == (self._start == self._end)
        assert (self._paused_at is not None) == self._write_paused
        assert self._owes == bool(self._held or self._unread)
        assert self._transport is not None or not self._replies
        assert (self._plain is not None) == self.is_secure

    # For the subclass
    @abstractmethod
    def _opened(self) -> None:
        """The connection is open."""

    @abstractmethod
    def _closed(self) -> None:
        """The connection is gone."""

    @abstractmethod
    def _left(self, size: int) -> None:
        """`size` bytes of read replies were sent, or dropped with the connection."""

    @abstractmethod
    def _take_next(self, view: memoryview) -> int:
        """Take the first message of `view`, the unparsed bytes; returns its length in bytes.

        Returns 0 when there is no room (then `_block` was called) or no whole message (then
        `_expect` was called). FrameError when the bytes are malformed.
        """

    def _block(self) -> None:
        """Wait until the service, which has no room, calls `resume`."""
        self._blocked = True

    def _expect(self, size: int) -> None:
        """Make room for the first message, which has this many bytes, more than have arrived; 0 =
        unknown yet.
        """
        assert size <= BUFFER_BYTES_MAX
        if len(self._buffer) - self._start < size:
            self._make_room(size)

    def _hold(self) -> None:
        """Stop reading, until `_secure` is called."""
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
        """Switch to TLS as the server; `_hold` was called before, and no request is under way.

        Parameters and errors are those of `handshakes.shake_hands`; after an error the connection
        is gone. Earlier replies have left unencrypted. Messages that arrive with the handshake are
        taken only when their replies will be encrypted too.
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
            # Event loops report some of these ends, and others not.
            self.connection_lost(error if isinstance(error, Exception) else None)
            raise
        self._transport, self._plain, self.is_secure = secured, plain, True
        self._is_paused = False  # as it is after `start_tls`
        self.resume()

    def wait_for_handshake(self) -> None:
        """Take no message before `begin`: the connection is not open yet, and the handshake may
        bring messages along.
        """
        self._block()

    def begin(self, secured: asyncio.Transport, *, below: asyncio.Transport) -> None:
        """Open the connection, under TLS from its first byte; `wait_for_handshake` was called
        before.

        `below`: the plain transport that `secured` writes to.
        """
        self._plain, self.is_secure = below, True
        self.connection_made(secured)
        self.resume()

    def _send(self, buffers: Sequence[Buffer]) -> None:
        """Queue a reply; it leaves with the others of this turn of the loop."""
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
        """Count the next `size` bytes sent as bytes of a read reply; `_left` is called once they
        have left.
        """
        self._held += size
        self._owes = True
        if self._transport is None:
            self._settle(0)

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        """True when the client has not read a reply for longer than `patience_s`; also while the
        connection closes.
        """
        if self._owes and self._transport is not None:
            self._settle(self._untaken())
        times = [at for at in (self._paused_at, self._unread.since) if at is not None]
        return bool(times) and now - min(times) > patience_s

    @property
    def peer(self) -> str:
        """The client's address, for messages."""
        return self._peer() if self._transport is not None else "a connection that is gone"

    def resume(self) -> None:
        """Take the waiting messages and read on, as there is room again."""
        self._blocked = False
        if self._transport is not None:
            # The process may have slept since the bytes arrived, so check the lease again before
            # the ruling.
            self._on_bytes()
            self._take_messages()
            self._steer_reading()

    def close(self) -> None:
        """Send the queued replies, take no further message, and close."""
        self._is_closing = True
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def bytes_held(self) -> int:
        """How many bytes were read from the socket and not taken yet."""
        return self._end - self._start

    @property
    def unfinished_since(self) -> float | None:
        """When an incomplete message began to arrive; None when there is none."""
        return None if self._blocked or self._write_paused else self._begun_at

    @property
    def buffer_bytes(self) -> int:
        """How much memory the connection's buffer occupies."""
        return self._touched

    def shrink(self) -> None:
        """Release the buffer if it holds no bytes."""
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
        # The rest of the stream cannot be parsed reliably any more: log why, then hang up.
        log.warning("close connection from %s: %s", self._peer(), error)
        self.close()

    def _make_room(self, size: int = 0) -> None:
        """Move unparsed bytes to the front; take another buffer only if this one has the wrong
        size.

        A buffer is never resized in place, since a transport may hold a view of it during its read.
        Nor is a new one made each time: zeroing its pages would cost more than all the parsing.
        """
        held = self._end - self._start
        room = max(BUFFER_BYTES, size, held + READ_BYTES_MIN)
        unparsed = self._buffer[self._start : self._end]
        if len(self._buffer) != room:
            self._buffer = memoryview(bytearray(room))
            self._touched = held
        self._buffer[:held] = unparsed  # safe although they may overlap
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
        if self.is_secure:  # else each buffer becomes a TLS record
            self._transport.write(b"".join(replies))
        else:
            self._transport.writelines(replies)
        if self._owes:
            self._account(replies)

    def _account(self, replies: Sequence[Buffer]) -> None:
        """Account for a write: note which bytes of read replies the client has not taken yet."""
        untaken = self._untaken()
        if untaken:
            self._unread.wrote(sum(map(len, replies)), self._held, at=self._loop.time())
            self._held = 0
        self._settle(untaken)

    def _untaken(self) -> int:
        """How many written bytes the socket has not taken yet."""
        assert self._transport is not None
        below = self._plain.get_write_buffer_size() if self._plain is not None else 0
        return self._transport.get_write_buffer_size() + below

    def _settle(self, untaken: int) -> None:
        """Report the bytes of read replies that have left. `untaken`: see `_untaken`; 0 once the
        connection is gone.
        """
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
    """Handles messages. It sends the reply on `connection`, at once or later."""

    def on_bytes(self) -> object:
        """Called when bytes have arrived, before any message in them is taken."""

    def handle(self, envelope: Envelope, connection: "RunConnection") -> bool:
        """Handle a message. False = there is no room now and nothing happened; the service will
        call `connection.resume`.
        """

    def opened(self, connection: "RunConnection") -> None: ...

    def closed(self, connection: "RunConnection") -> None: ...

    def left(self, connection: "RunConnection", size: int) -> None:
        """`size` bytes of read replies have left; see `DataConnection.owe`."""


class RunConnection(DataConnection):
    """One client on the native port."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.on_bytes)
        self._service = service
        self.is_greeted = False
        """True once the client has said that it means this bookie."""

    def reply(
        self, op: Op, status: Status, request_id: int, buffers: Sequence[Buffer] = ()
    ) -> None:
        """Queue one reply; it leaves with the others of this turn of the loop."""
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
        """Take no new connections; the service ends the open ones."""
        if self._server is not None:
            self._server.close()
