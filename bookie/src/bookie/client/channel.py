"""One TCP connection to a bookie: sends messages without joining big buffers, and parses messages.

It is below `client.pool` and above the event loop's transport; it knows nothing about requests.
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
"""From this size on, switching to another buffer is cheaper than copying the message."""


OnMessage = Callable[[int, int, int, memoryview], None]
"""Gets op, code, request id and body of an envelope."""
_ADD_OP: Final = int(Op.ADD_RUN)
_NOTHING: Final = memoryview(b"")


class Channel(asyncio.BufferedProtocol):
    """Calls `on_message` for each whole message, and `on_lost` once at the end. `on_message` may
    raise FrameError for a malformed message.

    A message's body is valid only during the call, since the buffer is reused. But the receiver may
    keep a body of `LENT_BYTES_MIN` or more: the channel reads what follows into another buffer.
    """

    def __init__(
        self,
        *,
        on_message: OnMessage,
        on_lost: Callable[["Channel", Exception | None], None],
        buffers: FrameBuffers,
    ) -> None:
        """`buffers`: the read buffers, which the channels of a pool share."""
        self.on_message = on_message
        """The receiver of messages; may be replaced between two messages."""
        self._on_lost = on_lost
        self._buffers = buffers
        self._buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """The read buffer; another one replaces it when a receiver keeps its memory."""
        self._filled = 0
        """How many bytes of `_buffer` have arrived and are not taken; the next bytes are read
        behind them."""
        self._is_lent = False
        """True when a receiver may keep a body that lies in the buffer."""
        self._outbox: deque[Buffer] = deque()
        """Messages that wait while the transport takes no more; at most the link's requests, and
        none once lost."""
        self._is_paused = False
        """True while the transport takes no more: messages wait in `_outbox`."""
        self._is_vectored = False
        """True when the transport takes many buffers in one call without a copy. Set when
        connected."""
        self._transport: asyncio.Transport | None = None
        """None before `connection_made`; it stays set after the end, when it is closing."""
        self.write_now: Callable[[Buffer], None] | None = None
        """Sends a message of one buffer as `send` does; None unless nothing waits to be sent before
        it."""
        self._loop = asyncio.get_running_loop()
        self._error: Exception | None = None
        """Why this side cut the connection; the first reason stays; None while it did not."""
        self.is_lost = False
        """True once `on_lost` is called; nothing is sent after that."""
        self.received_at: float | None = None
        """When the last bytes arrived, by the loop's clock; None before the first."""

    # Outgoing

    def send(self, message: Sequence[Buffer]) -> None:
        """Send or queue one message, which must not change afterwards. Nothing is
        sent once lost.
        """
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
        # This transport copies bytes that the socket does not take at once, so it gets one buffer
        # at a time.
        while outbox and not self._is_paused:
            transport.write(outbox.popleft())

    def pause_writing(self) -> None:
        self._is_paused, self.write_now = True, None

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()
        # Unless it is paused again, everything is sent.
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
        # With the limit 0, bytes that the socket does not take at once stay in the outbox, and
        # uvloop sends at once instead of at the end of the loop's turn, when the next run may be
        # under construction. Under TLS an empty buffer would reach a limit of 0 too, and writing
        # would never resume.
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
        """Keep the first bytes of a message of `needed` bytes (0 = unknown) until the
        rest arrives.
        """
        rest = self._filled - consumed
        kept = self._buffer[consumed : self._filled]
        if self._is_lent or needed > len(self._buffer):
            self._buffer = self._buffers.take(max(needed, len(self._buffer)))
            self._is_lent = False
        self._buffer[:rest] = kept  # safe although they may overlap
        self._filled = rest
