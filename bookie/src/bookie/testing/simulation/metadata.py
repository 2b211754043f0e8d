"""The simulated metadata store: late, away, partitioned, its replies lost, its sessions expired.

Each process has a session, a `SimStore`; all share one `MemoryCluster`. What the contract calls
linearizable is; registrations may be read a few seconds old, as from a lagging server. Every change
of a ledger's metadata is given to the history.
"""

import asyncio
import contextlib
import contextvars
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bookie.errors import (
    BookieError,
    MetadataConflictError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import (
    BOOT_EPOCH_PROPERTY,
    BookieInfo,
    Cookie,
    StoredBoot,
    Underreplication,
    Unreadable,
    Versioned,
)
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.metadata import WrappedUnderreplication
from bookie.testing.simulation.loop import SimLoop
from bookie.testing.simulation.network import Network

Result = TypeVar("Result")

STORE: Final = "metadata"
"""The store's name in the network."""
SESSION_S: Final = 4.0
"""How long a registration outlives its process."""
PATIENCE_S: Final = 3.0
"""Seconds without an answer after which a call fails."""
REANNOUNCE_S: Final = 1.0
LATE_S: Final = 5.0
"""How long after its caller learned that it failed a late write happens, at most."""


@dataclass(slots=True)
class StoreWeather:
    """How the store behaves now. `lost_replies`: chance that a write happens and nobody learns."""

    latency_s: float = 0.002
    lost_replies: float = 0.0
    lost_values: float = 0.0
    """The same, of writes of values of our own and of barriers alone."""
    stale_listing: float = 0.0
    """Chance that the registered bookies are read as they were at the last read."""
    is_out: bool = False
    late_writes: float = 0.0
    """Chance that a write fails for whoever asked, and happens seconds later all the same."""
    deposed: dict[str, float] = field(default_factory=dict)
    """Process -> since when its server follows a leader that is none any more: ledgers are read as
    they were then, and nothing is written.
    """
    stale_since: float | None = None
    """Since when followers get no updates: they show ledgers as they were, until a session
    writes."""
    past: dict[LedgerId, list[tuple[float, Versioned[LedgerMetadata] | None]]] = field(
        default_factory=dict
    )
    """What each ledger's metadata was from when on."""


class SimStore:
    """One session; keeps the `MetadataStore` contract."""

    def __init__(
        self,
        name: str,
        cluster: MemoryCluster,
        *,
        loop: SimLoop,
        network: Network,
        weather: StoreWeather,
        rng: random.Random,
        changed: Callable[[LedgerId, LedgerMetadata | None, str], None],
    ) -> None:
        """`changed` hears of every change of a ledger's metadata, and who made it."""
        self._name = name
        self._inner = MemoryStore(cluster)
        self._cluster = cluster
        self._loop = loop
        self._network = network
        self._weather = weather
        self._rng = rng
        self._changed = changed
        self._announced: BookieInfo | None = None
        self._seen_bookies: Mapping[BookieId, BookieInfo] = {}
        self._is_closed = False
        self.is_asleep = False
        """Whether its process sleeps and sends nothing to the store."""
        self._wrote_at = -1.0
        """When this session last wrote; it sees everything up to then."""
        self._late: list[asyncio.Task[None]] = []
        self.before_call: Callable[[str], None] = lambda _what: None
        """Called before anything is sent and before a reply is taken; may crash the process."""

    # The session
    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._inner.close()

    def die(self) -> None:
        """The process is gone: nothing is sent any more, the session ends by itself."""
        self._is_closed = True
        self._loop.call_later(SESSION_S * (0.5 + self._rng.random()), self._forget)

    def expire(self) -> None:
        """The session is lost though the process lives; its announcement comes again later."""
        self._forget()
        self._loop.call_later(REANNOUNCE_S * (0.5 + self._rng.random()), self._announce_again)

    def _forget(self) -> None:
        self._cluster.end_session(self._inner)

    def _announce_again(self) -> None:
        if (
            self._announced is not None
            and not self._is_closed
            and (self.is_asleep or not self._is_there())
        ):
            self._loop.call_later(REANNOUNCE_S, self._announce_again)
            return
        info = self._announced
        if (
            info is not None
            and not self._is_closed
            and info.bookie_id not in self._cluster.registered
        ):
            self._cluster.registered[info.bookie_id] = (self._inner, info)

    # Calls
    async def _call(
        self,
        begin: Callable[[], Awaitable[Result]],
        *,
        writes: bool = False,
        may_be_late: bool = True,
        of_values: bool = False,
    ) -> Result:
        self.before_call("asking the metadata store")
        await self._reach()
        if writes and self._name in self._weather.deposed:
            await asyncio.sleep(PATIENCE_S)
            raise UnavailableError("the metadata store has no quorum")
        if writes and may_be_late and self._weather.late_writes:
            await self._perhaps_late(begin)
        result = await begin()
        if writes:
            self._wrote_at = self._loop.time()
        lost = max(self._weather.lost_replies, self._weather.lost_values * of_values)
        if writes and self._rng.random() < lost:
            await asyncio.sleep(PATIENCE_S)
            raise UnavailableError("the reply of the metadata store was lost: it did happen")
        await self._wait()
        self.before_call("hearing the metadata store")
        if self._is_closed:
            raise UnavailableError("the process is gone")
        return result

    async def _perhaps_late(self, begin: Callable[[], Awaitable[object]]) -> None:
        if self._rng.random() >= self._weather.late_writes:
            return
        late_s = PATIENCE_S + self._rng.random() * LATE_S

        async def happen() -> None:
            await asyncio.sleep(late_s)
            with contextlib.suppress(BookieError):
                await begin()

        # It is under way in the store, whatever becomes of the process that asked.
        self._late.append(self._loop.create_task(happen(), context=contextvars.Context()))
        await asyncio.sleep(PATIENCE_S)
        raise UnavailableError("the metadata store does not answer: it may happen later")

    async def _reach(self) -> None:
        await self._wait()
        if not self._is_there():
            await asyncio.sleep(PATIENCE_S)
        if not self._is_there() or self._is_closed:
            raise UnavailableError("the metadata store does not answer")

    def _is_there(self) -> bool:
        return not self._weather.is_out and self._network.reaches(self._name, STORE)

    async def _wait(self) -> None:
        """One way. Nobody waits for ever: a session in which nothing is heard is given up."""
        seconds = self._weather.latency_s * self._rng.random()
        seconds += self._network.delay(self._name, STORE)
        await asyncio.sleep(min(seconds, PATIENCE_S))
        if seconds > PATIENCE_S:
            raise UnavailableError("the metadata store does not answer in time")

    async def initialise(self) -> str:
        return await self._call(self._inner.initialise, writes=True)

    async def instance_id(self) -> str | None:
        return await self._call(self._inner.instance_id)

    async def barrier(self) -> None:
        await self._call(self._inner.barrier, writes=True, of_values=True)

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        return await self._call(self._inner.new_ledger_id, writes=True)

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        async def create() -> Versioned[LedgerMetadata]:
            created = await self._inner.create_ledger(metadata)
            self._note(metadata.ledger_id, created)
            return created

        return await self._call(create, writes=True)

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        async def read() -> Versioned[LedgerMetadata]:
            since = self._stale_since
            if since is None:
                return await self._inner.read_ledger(ledger_id)
            found = self._as_of(ledger_id, since)
            if found is None:
                raise NoSuchLedgerError(ledger_id)
            return found

        return await self._call(read)

    def _note(self, ledger_id: LedgerId, found: Versioned[LedgerMetadata] | None) -> None:
        self._weather.past.setdefault(ledger_id, []).append((self._loop.time(), found))
        self._changed(ledger_id, found.value if found is not None else None, self._name)

    @property
    def _stale_since(self) -> float | None:
        """The time whose state this session reads; None: the present state."""
        if self._name in self._weather.deposed:
            return self._weather.deposed[self._name]
        since = self._weather.stale_since
        return since if since is not None and self._wrote_at < since else None

    def _as_of(self, ledger_id: LedgerId, when: float) -> Versioned[LedgerMetadata] | None:
        known = self._weather.past.get(ledger_id, [])
        return next((found for at, found in reversed(known) if at <= when), None)

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        """One by one, each at its own time: more orders than one request would have."""

        async def read(ledger_id: LedgerId) -> dict[LedgerId, Versioned[LedgerMetadata]]:
            async def now() -> dict[LedgerId, Versioned[LedgerMetadata]]:
                if (since := self._stale_since) is None:
                    return await self._inner.read_ledgers([ledger_id], unreadable=unreadable)
                found = self._as_of(ledger_id, since)
                return {} if found is None else {ledger_id: found}

            return await self._call(now)

        found = await asyncio.gather(*map(read, ledger_ids))
        return {ledger_id: one for of_one in found for ledger_id, one in of_one.items()}

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        async def write() -> Versioned[LedgerMetadata]:
            written = await self._inner.write_ledger(metadata, version=version)
            self._note(metadata.ledger_id, written)
            return written

        return await self._call(write, writes=True)

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        async def delete() -> None:
            await self._inner.delete_ledger(ledger_id, version=version)
            self._note(ledger_id, None)

        await self._call(delete, writes=True)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        async def listed() -> list[LedgerId]:
            since = self._stale_since
            if since is not None:
                return [i for i in sorted(self._weather.past) if self._as_of(i, since) is not None]
            return [ledger_id async for ledger_id in self._inner.ledger_ids()]

        for ledger_id in await self._call(listed):
            yield ledger_id

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        fresh = await self._call(self._inner.bookies)
        if not self._seen_bookies or self._rng.random() >= self._weather.stale_listing:
            self._seen_bookies = fresh
        return self._seen_bookies

    async def register(self, info: BookieInfo) -> None:
        async def register() -> None:
            self._displace_left_over(info)
            await self._inner.register(info)
            self._announced = info

        await self._call(register, writes=True, may_be_late=False)

    def _displace_left_over(self, info: BookieInfo) -> None:
        found = self._cluster.registered.get(info.bookie_id)
        if found is not None and found[0] is not self._inner and _epoch(found[1]) < _epoch(info):
            del self._cluster.registered[info.bookie_id]

    async def unregister(self, bookie_id: BookieId) -> None:
        self._announced = None
        await self._call(lambda: self._inner.unregister(bookie_id), writes=True)

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        return await self._call(lambda: self._inner.read_cookie(bookie_id))

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        return await self._call(lambda: self._inner.create_cookie(cookie), writes=True)

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        return await self._call(
            lambda: self._inner.write_cookie(cookie, version=version), writes=True
        )

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        return await self._call(self._inner.cookies)

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        return await self._call(lambda: self._inner.read_boot(bookie_id))

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        return await self._call(
            lambda: self._inner.write_boot(bookie_id, boot, version=version), writes=True
        )

    @property
    def underreplication(self) -> Underreplication:
        async def read(_name: str, begin: Callable[[], Awaitable[Result]]) -> Result:
            return await self._call(begin)

        async def write(_name: str, begin: Callable[[], Awaitable[Result]]) -> Result:
            return await self._call(begin, writes=True)

        return WrappedUnderreplication(self._inner.underreplication, read=read, write=write)

    # Values of our own
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        return await self._call(lambda: self._inner.read_value(name))

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        return await self._call(
            lambda: self._inner.write_value(name, data, version=version),
            writes=True,
            of_values=True,
        )

    async def delete_value(self, name: str, *, version: int) -> None:
        await self._call(lambda: self._inner.delete_value(name, version=version), writes=True)


def _epoch(info: BookieInfo) -> int:
    try:
        return int(info.properties.get(BOOT_EPOCH_PROPERTY, "0"))
    except ValueError as error:
        raise MetadataConflictError(
            f"{info.bookie_id} is registered by another: {error}"
        ) from error
