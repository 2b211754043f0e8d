"""One TCP connection to a bookie: messages out without joining big buffers, messages in.

Below `client.pool`, above the event loop's transport; knows nothing of requests.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from bookie.errors import FrameError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import Buffer
from bookie.wire.native import ENVELOPE, ENVELOPE_BYTES, Op, next_message

RECEIVE_BUFFER_BYTES: Final = 1024 * 1024
LENT_BYTES_MIN: Final = 256 * 1024
"""From here on another buffer is cheaper than a copy."""


OnMessage = Callable[[int, int, int, memoryview], None]
"""Given op, code, request id and body of an envelope."""
_ADD_OP: Final = int(Op.ADD_RUN)
_NOTHING: Final = memoryview(b"")


class Channel(asyncio.BufferedProtocol):
    """Calls `on_message` for each whole message, which may raise FrameError when it makes no sense,
    and `on_lost` once at the end.

    A message's body is valid only during the call, since the buffer is used again; but a body of
    `LENT_BYTES_MIN` or more is the receiver's to keep: what follows it lands in another buffer.
    """

    def __init__(
        self,
        *,
        on_message: OnMessage,
        on_lost: Callable[["Channel", Exception | None], None],
        buffers: FrameBuffers,
    ) -> None:
        """`buffers`: where messages land, shared by the channels of a pool."""
        self.on_message = on_message
        """May be changed between two messages."""
        self._on_lost = on_lost
        self._buffers = buffers
        self._buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """Where bytes land; another one takes its place when its memory was lent."""
        self._filled = 0
        """Bytes of `_buffer` that came and are not taken; the next ones land behind them."""
        self._is_lent = False
        """Somebody may keep a body that lies in the buffer."""
        self._outbox: deque[Buffer] = deque()
        """Waits while the transport takes no more; at most the link's requests, none once lost."""
        self._is_paused = False
        """The transport takes no more for now: what is sent waits in `_outbox`."""
        self._is_vectored = False
        """The transport takes many buffers in one call, without a copy. Set when connected."""
        self._transport: asyncio.Transport | None = None
        """None before `connection_made`; kept after the end, and closing then."""
        self.write_now: Callable[[Buffer], None] | None = None
        """Sends a message of one buffer as `send` does, when nothing waits to be sent before it."""
        self._loop = asyncio.get_running_loop()
        self._error: Exception | None = None
        """Why we cut it; None while nobody did. The first reason stays."""
        self.is_lost = False
        """`on_lost` was called, or is being called: once, and nothing is sent after it."""
        self.received_at: float | None = None
        """Loop time of the last bytes from the peer; None: there were none yet."""

    # Outgoing

    def send(self, message: Sequence[Buffer]) -> None:
        """Queue one message; it must not change afterwards. Nothing is sent once lost."""
        self._outbox.extend(message)
        if not self._is_paused:
            self._flush()

    def _flush(self) -> None:
        transport, outbox = self._transport, self._outbox
        if transport is None or transport.is_closing():
            outbox.clear()
            return
        if self._is_vectored and outbox:
            transport.writelines(outbox)
            outbox.clear()
        # This transport copies what the socket does not take at once: hand over one at a time.
        while outbox and not self._is_paused:
            transport.write(outbox.popleft())

    def pause_writing(self) -> None:
        self._is_paused, self.write_now = True, None

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()
        # Again paused, or else all is sent.
        if self._transport is not None and not self._is_paused:
            self.write_now = self._transport.write

    def abort(self, error: Exception) -> None:
        """Cut the connection; `on_lost` follows with this error."""
        self._error = self._error or error
        self._outbox.clear()
        self.write_now = None
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance check: uvloop's transports are no subclasses of asyncio's.
        transport = cast(asyncio.Transport, transport)
        self._transport, self.write_now = transport, transport.write
        is_uvloop = not isinstance(self._loop, asyncio.BaseEventLoop)
        is_secure = transport.get_extra_info("ssl_object") is not None
        self._is_vectored = is_uvloop or is_secure or sys.version_info >= (3, 12)
        # What the socket does not take at once stays here; and without a limit above nothing,
        # uvloop would send at the end of the loop's turn, when the next run might be in the making.
        # Under TLS a limit of 0 is reached by an empty buffer as well: a pause that nothing ends.
        transport.set_write_buffer_limits(high=1 if is_secure else 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._outbox.clear()
        self.is_lost, self.write_now = True, None
        self._on_lost(self, self._error or exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :] if self._filled else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received_at = self._loop.time()
        at, size, end = 0, 0, self._filled + nbytes
        try:
            if end == nbytes == ENVELOPE_BYTES:
                body_bytes, op, code, _zero, request_id = ENVELOPE.unpack_from(self._buffer)
                if op == _ADD_OP and not body_bytes:
                    self.on_message(op, code, request_id, _NOTHING)
                    return
            self._filled = end
            while at < end:
                size, envelope = next_message(self._buffer, at, end)
                if envelope is None:
                    break
                if size >= LENT_BYTES_MIN:
                    self._is_lent = True
                self.on_message(*envelope)
                at += size
        except FrameError as error:
            self.abort(error)
            return
        if at == end and not self._is_lent:
            self._filled = 0
        else:
            self._keep(at, size if at < end else 0)

    def _keep(self, consumed: int, needed: int) -> None:
        """The first bytes of a message of `needed` bytes (0 = unknown) wait for the rest."""
        rest = self._filled - consumed
        kept = self._buffer[consumed : self._filled]
        if self._is_lent or needed > len(self._buffer):
            self._buffer = self._buffers.take(max(needed, len(self._buffer)))
            self._is_lent = False
        self._buffer[:rest] = kept  # they may overlap: copied as if in one go
        self._filled = rest
