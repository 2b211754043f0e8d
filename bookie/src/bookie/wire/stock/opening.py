"""The first words of a connection on a port that offers TLS: is it to go under TLS? Sans-I/O.

START_TLS is the first request of a connection, and nothing else comes before the handshake: what
comes in plain is not protected, and whoever put it there would have it taken for words of a client
that is. One thing is let pass. A stock client with an authentication plugin sends its first AUTH
when it is connected, once, on its own version of the wire, and waits for nothing. The one is a
listener of the connect, the other an event of the pipeline, both in the one thread that reads, too
(`PerChannelBookieClient.ConnectionFutureListener`, `AuthHandler.channelActive`). So all that it
ever sends in plain is START_TLS and one AUTH, in either order. Where START_TLS is first, AUTH may
come behind its answer, as its client looks up a name or fetches a ticket meanwhile; it never comes
behind the first byte of the handshake, which is of that thread's next turn.

That AUTH, a *greeting*, is kept and answered under TLS. With a password it has no token, hence says
nothing that somebody else could not say. With Kerberos it has the ticket, where tickets are a way
in: its client does not say it again. Who puts another one there gains nothing, as no first token
lets in: the last word, under TLS, needs the key that is sealed in the ticket.

A greeting without a token is one small write and comes whole; one with a ticket has many packets.
"""

from typing import Final, NamedTuple

from bookie.errors import FrameError
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.framing import FRAME_LENGTH_BYTES, frame_end
from bookie.wire.stock.messages import Auth, Request, StartTls
from bookie.wire.stock.wire import Wire

HANDSHAKE: Final = 22
"""Content type of the first record of a TLS connection (RFC 8446, 5.1). No frame begins so: its
length would be 352 MiB or more."""
GREETING_BYTES_MAX: Final = 1024
"""Of a greeting beside its token: lengths, header, the plugin's name, of which Apache's are 66."""


class TooEarlyError(FrameError):
    """More than a greeting came before the handshake."""


class Greeting(NamedTuple):
    wire: Wire
    request: Auth


class Asked(NamedTuple):
    """START_TLS, which `wire` answers."""

    wire: Wire
    request: StartTls


class Word(NamedTuple):
    """What was found. `is_over`: it does not ask for TLS, at least not as its first request.
    `is_hello`: what comes now is the handshake; nothing of it is taken."""

    bytes_taken: int
    asked: Asked | None = None
    is_over: bool = False
    is_hello: bool = False


class Opening:
    """Of one connection; of no use once the handshake came, or something else."""

    def __init__(self, token_bytes_max: int = 0) -> None:
        """`token_bytes_max`: of a greeting; 0: it has none."""
        self._token_bytes_max = token_bytes_max
        self._bytes_max = token_bytes_max + GREETING_BYTES_MAX
        """Of a greeting, its length included."""
        self.greeting: Greeting | None = None
        """What to answer first, whatever comes then."""
        self.is_asked = False
        """START_TLS came: the handshake is next."""

    def step(self, view: memoryview) -> Word:
        """What the bytes at the start of `view` are; those that are taken do not come again.

        TooEarlyError: close. Nothing taken and neither over nor the handshake: a frame is not all
        there.
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
        """START_TLS came, the handshake did not: there may be a greeting, if there was none."""
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
        """What came behind START_TLS, before its answer; how many bytes of it are done with."""
        word = self._between(behind)
        if word.is_hello:
            raise TooEarlyError("a handshake came with START_TLS, before its answer")
        if word.bytes_taken:
            self._take_rest(behind[word.bytes_taken :])
        return word.bytes_taken

    def _may_greet(self, begun: memoryview) -> bool:
        """A frame that begins so is no longer than a greeting, as far as its length is there."""
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
    """One frame with its length, of whichever version; None when it makes no sense.

    By itself: a client of version 2 asks for TLS on version 3, before or after its greeting.
    """
    try:
        wire, requests, _consumed = StockConnection().parse_all(frame)
    except FrameError:
        return StockConnection().wire, None
    return wire, requests[0]
