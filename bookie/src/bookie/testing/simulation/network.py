"""The simulated network: who reaches whom, how late, and what gets lost.

Loss and doubling are of whole messages (a proxy or a dying peer does that), delays have a heavy
tail, a partition swallows what it meets and the connection with it. Control-plane calls go the same
ways as connections. `tap` hears every message where the bookie hears and says it.
"""

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from bookie.errors import FrameError
from bookie.frames.build import build_run
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.identity_watch import IdentityWatch
from bookie.testing.simulation.loop import OWNER, SimLoop
from bookie.testing.simulation.transport import End, Party, Server
from bookie.wire.native import Op, parse_add

FIRST_PORT: Final = 4000
ELSEWHERE: Final = "~"
"""Between a bookie's name and the number of another machine that it runs on."""


class Tap(Protocol):
    """Hears what bookies are asked and what they answer."""

    def heard(self, bookie: str, connection: int, message: bytes) -> None: ...

    def said(self, bookie: str, connection: int, message: bytes) -> None: ...

    def sent(self, client: str, connection: int, message: bytes) -> None:
        """A client sends it; `client` is the title of its process."""

    def answered(self, client: str, connection: int, message: bytes) -> None:
        """An answer has reached the client that asked."""

    def cleared(self, bookie: str, ledger_id: LedgerId) -> None:
        """A bookie says that it has let go of its mark of a ledger."""

    @property
    def moment(self) -> int:
        """A count that grows with every message heard."""

    def listed(
        self, bookie: str, ledger_id: LedgerId, held: EntrySet, lost: EntrySet, *, asked: int
    ) -> None:
        """Asked at that moment, a bookie says on its control plane that it holds these entries of a
        ledger and no other.
        """


@dataclass(frozen=True, slots=True)
class Weather:
    """How the network behaves all the time; seconds and chances per message."""

    latency_s: float = 0.0005
    tail: float = 0.01
    """Chance of a delay `tail_factor` times as long."""
    tail_factor: float = 100.0
    loss: float = 0.0
    doubling: float = 0.0


class Process(Party, Protocol):
    """What the network asks of the processes in it."""

    def spawn(self, work: Any) -> "asyncio.Task[Any]": ...


@dataclass(slots=True)
class _Listener:
    process: Process
    factory: Callable[[], Any]


class Network:
    """See the module."""

    def __init__(self, rng: random.Random, weather: Weather) -> None:
        self.loop: SimLoop
        self.weather = weather
        self.tap: Tap | None = None
        self.identities: IdentityWatch | None = None
        self.slowness: dict[str, float] = {}
        """Process -> by what factor all its messages are late."""
        self.lags: dict[tuple[str, str], float] = {}
        """(Sender, receiver) -> by how many seconds messages are late."""
        self.leaks: dict[tuple[str, str], float] = {}
        """(Sender, receiver) -> the probability that a message is lost."""
        self.forging: dict[str, float] = {}
        """Bookie -> the probability that an add is changed before it is stored (see `forged`)."""
        self._rng = rng
        self._nobody = contextvars.Context()
        """What is on its way belongs to no process: it arrives though its sender sleeps."""
        self._blocked: dict[frozenset[str], int] = {}
        self._isolated: dict[str, int] = {}
        self._listeners: dict[tuple[str, int], _Listener] = {}
        self._services: dict[str, tuple[Process, Any]] = {}
        self._ends: list[End] = []
        self._ports = FIRST_PORT
        """The last port that was given out."""
        self._connections: dict[End, int] = {}
        self.lost = self.doubled = 0

    # Faults
    def block(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        self._blocked[pair] = self._blocked.get(pair, 0) + 1

    def unblock(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        self._blocked[pair] -= 1

    def isolate(self, name: str) -> None:
        self._isolated[name] = self._isolated.get(name, 0) + 1

    def rejoin(self, name: str) -> None:
        self._isolated[name] -= 1

    def heal(self) -> None:
        """No partition, no slow link, no loss from now on."""
        self._blocked.clear()
        self._isolated.clear()
        for weather in (self.slowness, self.lags, self.leaks, self.forging):
            weather.clear()
        self.weather = Weather()

    def reset(self, name: str) -> None:
        """Cuts every connection of this process, and both sides learn it."""
        for end in list(self._ends):
            if end.party.name == name:
                end.party.call(end.lose, ConnectionResetError("reset by a fault"))
                end.peer.party.call(end.peer.lose, ConnectionResetError("reset by a fault"))

    def reaches(self, one: str, other: str) -> bool:
        if self._isolated.get(one) or self._isolated.get(other):
            return False
        return not self._blocked.get(frozenset((one, other)))

    def delay(self, one: str, other: str) -> float:
        weather, rng = self.weather, self._rng
        seconds = weather.latency_s * (0.5 + rng.random())
        if rng.random() < weather.tail:
            seconds *= 1 + rng.random() * weather.tail_factor
        seconds *= max(self.slowness.get(one, 1.0), self.slowness.get(other, 1.0))
        return seconds + self.lags.get((one, other), 0.0)

    def forget(self, process: Process) -> None:
        """The process is gone; its peers learn it unless they cannot be reached."""
        for address in [a for a, one in self._listeners.items() if one.process is process]:
            del self._listeners[address]
        for target in [t for t, one in self._services.items() if one[0] is process]:
            del self._services[target]
        gone = [end for end in self._ends if end.party is process]
        for end in gone:
            self.tell_end(end, ConnectionResetError("the process is gone"))
        self._ends = [end for end in self._ends if end.party is not process]

    # Connections (see transport.Transports)
    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Server:
        process = _current()
        address = (host, port or self.next_port())
        if address in self._listeners:
            raise OSError(98, f"{address} is in use")
        listener = self._listeners[address] = _Listener(process, factory)
        return Server(*address, partial(self._stop_listening, address, listener))

    def _stop_listening(self, address: tuple[str, int], listener: _Listener) -> None:
        # A dead process on its way out must not close the port of the one that came after it.
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def next_port(self) -> int:
        self._ports += 1
        return self._ports

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[End, Any]:
        process = _current()
        await asyncio.sleep(self.delay(process.name, host))
        while not self.reaches(process.name, host):  # noqa: ASYNC110
            await asyncio.sleep(1.0)  # SYN after SYN; the caller's own patience ends it
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(111, f"nobody listens on {host}:{port}")
        ours = End(process, self, is_server=False)
        theirs = End(listener.process, self, is_server=True)
        ours.peer, theirs.peer = theirs, ours
        ours.protocol, theirs.protocol = factory(), None
        self._ends += [ours, theirs]
        self._connections[theirs] = len(self._connections)
        ours.last_arrival = theirs.last_arrival = self.loop.time()
        listener.process.call(self._accept, listener, theirs)
        ours.protocol.connection_made(ours)
        return ours, ours.protocol

    def lasting(self) -> set[int]:
        """Connections of which both ends are open and nothing is lost between them any more."""
        return {
            self._connections[end]
            for end in self._ends
            if end.is_server and end.peer in self._ends and not (end.is_cut or end.is_closing())
        }

    def _accept(self, listener: _Listener, end: End) -> None:
        end.protocol = listener.factory()
        end.protocol.connection_made(end)

    # Messages (see transport.Route)
    def carry(self, sender: End, message: bytes) -> None:
        if self.identities is not None and sender.is_server:
            self.identities.said(self._connections[sender], message)
        if self.tap is not None and sender.is_server:
            self.tap.said(bookie_of(sender.party.name), self._connections[sender], message)
        elif self.tap is not None:
            self.tap.sent(_title(sender.party), self._connections[sender.peer], message)
        one, other = sender.party.name, sender.peer.party.name
        if not self.reaches(one, other):
            sender.is_cut = sender.peer.is_cut = True
        late = self.delay(one, other)
        sender.last_arrival = max(sender.last_arrival, self.loop.time() + late)
        copies = 1
        loss = max(self.weather.loss, self.leaks.get((one, other), 0.0))
        if sender.is_cut or self._rng.random() < loss:
            copies, self.lost = 0, self.lost + 1
        elif self._rng.random() < self.weather.doubling:
            copies, self.doubled = 2, self.doubled + 1
        self.loop.call_at(
            sender.last_arrival, self._arrive, sender, message, copies, context=self._nobody
        )

    def _arrive(self, sender: End, message: bytes, copies: int) -> None:
        sender.arrived(len(message))
        receiver = sender.peer
        if not self.reaches(sender.party.name, receiver.party.name):
            sender.is_cut = receiver.is_cut = True
            return
        for _ in range(copies):
            if receiver.party.is_alive:
                receiver.party.call(self._hear, receiver, message)

    def _hear(self, receiver: End, message: bytes) -> None:
        if receiver.party.is_alive and not receiver.is_closing():
            if self.identities is not None and receiver.is_server:
                self.identities.heard(self._connections[receiver], message)
            if self.tap is not None and receiver.is_server:
                self.tap.heard(bookie_of(receiver.party.name), self._connections[receiver], message)
            elif self.tap is not None:
                self.tap.answered(_title(receiver.party), self._connections[receiver.peer], message)
            chance = self.forging.get(receiver.party.name, 0.0) if receiver.is_server else 0.0
            if chance and self._rng.random() < chance:
                message = forged(message, self._rng)
            receiver.hear(message)

    def tell_end(self, sender: End, error: Exception | None) -> None:
        if sender in self._ends:
            self._ends.remove(sender)
        peer = sender.peer
        if sender.is_cut or not self.reaches(sender.party.name, peer.party.name):
            return  # the peer waits until its own patience ends
        at = max(sender.last_arrival, self.loop.time()) + self.weather.latency_s
        self.loop.call_at(at, peer.party.call, peer.lose, error, context=self._nobody)

    # Control-plane calls
    def serve(self, target: str, service: Any) -> None:
        """`service` answers calls to `target`, until its process is gone or `unserve`."""
        if target in self._services:
            raise OSError(98, f"{target} is in use")
        self._services[target] = (_current(), service)

    def unserve(self, target: str, service: Any) -> None:
        if target in self._services and self._services[target][1] is service:
            del self._services[target]

    async def call(self, target: str, begin: Callable[[Any], Awaitable[Any]]) -> Any:
        """Runs `begin(service)` at the target; ConnectionError when it is not there or goes away.

        Waits for ever when the answer is lost: a caller has a deadline.
        """
        process, host = _current(), target.rpartition(":")[0]
        await asyncio.sleep(self.delay(process.name, host))
        if not self.reaches(process.name, host):
            await asyncio.get_running_loop().create_future()
        found = self._services.get(target)
        if found is None:
            raise ConnectionRefusedError(111, f"nobody listens on {target}")
        server, service = found
        work = server.spawn(_run(begin, service))
        await asyncio.wait([work])
        await asyncio.sleep(self.delay(process.name, host))
        if not self.reaches(process.name, host):
            await asyncio.get_running_loop().create_future()
        if work.cancelled():
            raise ConnectionResetError(104, "the bookie went away")
        return work.result()


async def _run(begin: Callable[[Any], Awaitable[Any]], service: Any) -> Any:
    return await begin(service)


def bookie_of(process: str) -> str:
    """The bookie that a process is: a second one of the same has the name of its machine."""
    return process.partition(ELSEWHERE)[0]


def _title(party: Party) -> str:
    return str(getattr(party, "title", party.name))


def forged(message: bytes, rng: random.Random) -> bytes:
    """The message with one bit of one entry changed and all its checksums but the digest right.

    The frame's checksum is made where the frame is: what changes before that (the memory of a
    bookie that gathers stock adds) is guarded by the entry's own digest alone.
    """
    envelope = parse_envelope(message)
    if envelope.op is not Op.ADD_RUN:
        return message
    try:
        _key, run = parse_add(envelope.body)
    except FrameError:
        return message
    entries = [bytearray(entry) for entry in run.entries()]
    chosen = rng.choice(entries)
    chosen[-1] ^= 1 << rng.randrange(8)
    frame = build_run(
        run.ledger_id, run.first_entry_id, entries,
        lac=run.lac, pattern=run.pattern, flags=run.flags,
    )  # fmt: skip
    assert len(frame) == len(run.buffer)
    return message[: len(message) - len(frame)] + bytes(frame)


def _current() -> Process:
    owner = OWNER.get()
    assert owner is not None, "only processes of the simulation use its network"
    return owner  # type: ignore[return-value]  # every owner is a process
