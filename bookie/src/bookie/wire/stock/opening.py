"""The first requests of a connection on a port that offers TLS: does the client ask for TLS?
Sans-I/O.

START_TLS must be the first request of a connection, and nothing else may come between it and the
handshake: what comes in plaintext is not protected, and an attacker's bytes would be taken for
those of a client under TLS. There is one exception. A stock client with an authentication plugin
sends its first AUTH when it is connected, once, on its own version of the wire, without waiting for
anything. START_TLS is sent by a listener of the connect and AUTH by an event of the pipeline, and
both run in the thread that also reads (`PerChannelBookieClient.ConnectionFutureListener`,
`AuthHandler.channelActive`). So a stock client sends only START_TLS and one AUTH in plaintext, in
either order. Where START_TLS is first, AUTH may come after its answer, since the client may first
look up a name or fetch a ticket. It never comes after the first byte of the handshake, which that
thread sends in its next turn.

That AUTH is called a *greeting*; it is kept, and answered under TLS. With a password it has no
token, so one that an attacker sends is no different. With Kerberos, where the bookie accepts
tickets, it has the ticket, which the client does not send again. An attacker who puts in another
ticket gains nothing, as a first token never suffices: the last message, under TLS, needs the key
that is sealed in the ticket.

A greeting without a token is one small write and arrives whole; one with a ticket arrives in many
packets.
"""

from typing import Final, NamedTuple

from bookie.errors import FrameError
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.framing import FRAME_LENGTH_BYTES, frame_end
from bookie.wire.stock.messages import Auth, Request, StartTls
from bookie.wire.stock.wire import Wire

HANDSHAKE: Final = 22
"""Content type of the first record of a TLS connection (RFC 8446, 5.1). No frame begins with this
byte: its length would be 352 MiB or more."""
GREETING_BYTES_MAX: Final = 1024
"""Most bytes of a greeting without its token: lengths, header and the plugin's name. Apache's
clients need 66."""


class TooEarlyError(FrameError):
    """Raised when more than a greeting came before the handshake."""


class Greeting(NamedTuple):
    wire: Wire
    request: Auth


class Asked(NamedTuple):
    """A START_TLS request, and the `wire` to answer it with."""

    wire: Wire
    request: StartTls


class Word(NamedTuple):
    """What a step found. `is_over`: the client does not ask for TLS, at least not with its first
    request. `is_hello`: the handshake comes next; none of its bytes are taken.
    """

    bytes_taken: int
    asked: Asked | None = None
    is_over: bool = False
    is_hello: bool = False


class Opening:
    """Watches the start of one connection. It is no longer needed once the handshake, or a request
    other than START_TLS and a greeting, has come.
    """

    def __init__(self, token_bytes_max: int = 0) -> None:
        """`token_bytes_max`: largest token of a greeting; 0: a greeting has no token."""
        self._token_bytes_max = token_bytes_max
        self._bytes_max = token_bytes_max + GREETING_BYTES_MAX
        """Largest greeting, its length field included."""
        self.greeting: Greeting | None = None
        """The greeting, which is to be answered first, whatever comes next."""
        self.is_asked = False
        """True once START_TLS came: the handshake comes next."""

    def step(self, view: memoryview) -> Word:
        """Look at the bytes at the start of `view`. The caller must not pass those again that
        `bytes_taken` counts.

        On TooEarlyError, close the connection. When nothing is taken and it is neither over nor the
        handshake, part of a frame is still missing.
        """
        if self.is_asked:
            return self._between(view)
        at = 0
        while (end := frame_end(view, at)) is not None:
            wire, request = _parsed(view[at:end])
            if isinstance(request, StartTls):
                self.is_asked = True
                return Word(end + self._take_rest(view[end:]), Asked(wire, request))
            if not self._is_greeted_by(wire, request, size=end - at):
                return Word(at, is_over=True)
            at = end
        return Word(at)

    def _between(self, view: memoryview) -> Word:
        """Look at what comes between START_TLS and the handshake: a greeting, if there was none
        before.
        """
        if not view:
            return Word(0)
        if view[0] == HANDSHAKE:
            return Word(0, is_hello=True)
        if self.greeting is None and self._may_greet(view):
            end = frame_end(view, 0)
            if end is None and self._token_bytes_max:
                return Word(0)
            if end is not None and self._is_greeted_by(*_parsed(view[:end]), size=end):
                return Word(end)
        raise TooEarlyError("more came behind START_TLS, before the handshake")

    def _take_rest(self, behind: memoryview) -> int:
        """Look at what came with START_TLS, before its answer; returns how many bytes of it are
        taken.
        """
        word = self._between(behind)
        if word.is_hello:
            raise TooEarlyError("a handshake came with START_TLS, before its answer")
        if word.bytes_taken:
            self._take_rest(behind[word.bytes_taken :])
        return word.bytes_taken

    def _may_greet(self, begun: memoryview) -> bool:
        """True when a frame that begins so can be as short as a greeting, as far as its length
        field is there.
        """
        length = bytes(begun[:FRAME_LENGTH_BYTES]).ljust(FRAME_LENGTH_BYTES, b"\0")
        return FRAME_LENGTH_BYTES + int.from_bytes(length) <= self._bytes_max

    def _is_greeted_by(self, wire: Wire, request: Request | None, *, size: int) -> bool:
        if self.greeting is not None or size > self._bytes_max:
            return False
        if not isinstance(request, Auth) or len(request.payload) > self._token_bytes_max:
            return False
        self.greeting = Greeting(wire, request)
        return True


def _parsed(frame: memoryview) -> tuple[Wire, Request | None]:
    """Parse one frame with its length field, of either version; None when it cannot be parsed.

    Each frame is parsed on its own: a client of version 2 asks for TLS with version 3, before or
    after its greeting.
    """
    try:
        wire, requests, _consumed = StockConnection().parse_all(frame)
    except FrameError:
        return StockConnection().wire, None
    return wire, requests[0]
