"""One connection of the simulated network: two ends, each a transport for a real protocol object.

Bytes are cut into whole native messages, the unit in which the network delays, loses or doubles
them. Order within a direction is kept, as TCP keeps it. An end belongs to a process; when that is
gone its end neither hears nor says anything any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bookie.testing.native_messages import message_bytes
from bookie.wire.native import ENVELOPE_BYTES

IN_FLIGHT_HIGH_BYTES: Final = 256 * 1024
"""Beyond this a writer has to pause, as when the peer does not read."""


class Transports(Protocol):
    """What the loop asks of the network, for the process in whose context it is called."""

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> "Server": ...

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> "tuple[End, Any]": ...


class Party(Protocol):
    """A process, as its ends know it."""

    @property
    def name(self) -> str: ...

    @property
    def is_alive(self) -> bool: ...

    def call(self, callback: Callable[..., object], *args: object) -> None:
        """Calls it in the context of this process."""


class Route(Protocol):
    """What the network does with messages."""

    def carry(self, sender: "End", message: bytes) -> None: ...

    def tell_end(self, sender: "End", error: Exception | None) -> None:
        """The other end learns of the end of the connection, if the network lets it."""


@dataclass(slots=True)
class _Name:
    host: str
    port: int

    def getsockname(self) -> tuple[str, int]:
        return (self.host, self.port)


class Server:
    """What `create_server` gives back."""

    def __init__(self, host: str, port: int, close: Callable[[], None]) -> None:
        self.sockets = [_Name(host, port)]
        self._close = close

    def close(self) -> None:
        self._close()


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, party: Party, route: Route, *, is_server: bool) -> None:
        super().__init__()
        self.party = party
        self.is_server = is_server
        self.peer: End
        self.protocol: Any = None
        self.last_arrival = 0.0
        """When the last message that is in flight reaches the peer."""
        self.in_flight = 0
        self.is_cut = False
        """True after a partition has dropped a message: nothing passes on this connection any
        more."""
        self._route = route
        self._partial = bytearray()
        self._inbox: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        self._is_over = False
        self._is_paused = False

    # For the protocol object
    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._is_closing or not self.party.is_alive:
            return
        for data in list_of_data:
            self._partial += data
        while len(self._partial) >= ENVELOPE_BYTES:
            size = message_bytes(self._partial[:ENVELOPE_BYTES])
            if len(self._partial) < size:
                break
            message = bytes(self._partial[:size])
            del self._partial[:size]
            self.in_flight += size
            self._route.carry(self, message)
        if self.in_flight > IN_FLIGHT_HIGH_BYTES and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def arrived(self, size: int) -> None:
        """A message of this end has left the network, one way or the other."""
        self.in_flight -= size
        if self._is_paused and self.in_flight <= IN_FLIGHT_HIGH_BYTES and not self._is_over:
            self._is_paused = False
            self.party.call(self.protocol.resume_writing)

    def close(self) -> None:
        self._finish(None, None)

    def abort(self) -> None:
        self._finish(None, ConnectionResetError("reset by the peer"))

    def _finish(self, own: Exception | None, others: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._route.tell_end(self, others)
        self.party.call(self._over, own)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self.in_flight

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            if self._inbox:
                self.party.call(self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The network's own bound counts."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer.party.name, 0) if name == "peername" else default

    # For the network
    def hear(self, message: bytes) -> None:
        """In the context of the party: a message has come. Not to an end that is closing: nothing
        is read from a socket any more that its owner has closed."""
        self._inbox.append(message)
        self._deliver()

    def _deliver(self) -> None:
        while self._inbox and self._is_reading and not self._is_closing:
            message = memoryview(self._inbox.popleft())
            while message:
                room = self.protocol.get_buffer(len(message))
                taken = min(len(room), len(message))
                room[:taken] = message[:taken]
                message = message[taken:]
                self.protocol.buffer_updated(taken)

    def lose(self, error: Exception | None) -> None:
        """In the context of the party: the connection has ended, not by this end."""
        if not self._is_closing:
            self._is_closing = True
            self._over(error)

    def _over(self, error: Exception | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._inbox.clear()
            self.protocol.connection_lost(error)
