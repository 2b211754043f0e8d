"""The first words of a connection on a port that offers TLS: is it to go under TLS? Sans-I/O.

START_TLS is the first request of a connection, and nothing else comes before its answer: what came
with it was not protected, and whoever put it there would have it taken for words of a client that
is. One thing is let pass. A stock client with an authentication plugin sends its first AUTH when it
is connected, beside START_TLS and in either order, on its own version of the wire; it does not wait
(`PerChannelBookieClient`, `AuthHandler`). That AUTH, a *greeting*, has no token, hence says nothing
that somebody else could not say: it is kept, and answered under TLS.
"""

from typing import NamedTuple

from bookie.errors import FrameError
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.framing import frame_end
from bookie.wire.stock.messages import Auth, Request, StartTls
from bookie.wire.stock.wire import Wire


class TooEarlyError(FrameError):
    """More than a greeting came before the answer to START_TLS."""


class Greeting(NamedTuple):
    wire: Wire
    request: Auth


class Asked(NamedTuple):
    """START_TLS, which `wire` answers."""

    wire: Wire
    request: StartTls


class Word(NamedTuple):
    """What was found. `is_over`: it does not ask for TLS, at least not as its first request."""

    bytes_taken: int
    asked: Asked | None = None
    is_over: bool = False


class Opening:
    """Of one connection; of no use once START_TLS came, or something else."""

    def __init__(self) -> None:
        self.greeting: Greeting | None = None
        """What to answer first, whatever comes then."""

    def step(self, view: memoryview) -> Word:
        """What the bytes at the start of `view` are; those that are taken do not come again.

        TooEarlyError: close. Nothing taken and not over: the frame is not all there.
        """
        at = 0
        while (end := frame_end(view, at)) is not None:
            wire, request = _parsed(view[at:end])
            if isinstance(request, StartTls):
                self._take_rest(view[end:])
                return Word(len(view), Asked(wire, request))
            if not self._is_greeted_by(wire, request):
                return Word(at, is_over=True)
            at = end
        return Word(at)

    def _take_rest(self, behind: memoryview) -> None:
        """What came behind START_TLS."""
        if not behind:
            return
        end = frame_end(behind, 0)
        if end != len(behind) or not self._is_greeted_by(*_parsed(behind)):
            raise TooEarlyError("more came with START_TLS, before its answer")

    def _is_greeted_by(self, wire: Wire, request: Request | None) -> bool:
        if self.greeting is not None or not isinstance(request, Auth) or request.payload:
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
