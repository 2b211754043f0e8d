"""The writers under which `bench_crash` kills bookies: of our client, or of Apache's stock one.

Both hold a crowd of open ledgers (3/3/2), some of which are written all the time, some now and
then, and the rest not at all. The benchmark knows them by `Writers` alone, so that what it does to
the bookies is the same under both.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.errors import BookieError
from bookie.metadata.store import MetadataStore
from bookie.testing.apache import ApacheError

from benchmarks.apache_fleet import StockProgram
from benchmarks.fleet import Fleet
from benchmarks.load import new_ledger
from benchmarks.rows import KIB

SIZE: Final = KIB
AT_ONCE: Final = 50
"""Ledgers of ours that are written side by side."""
PAUSE_S: Final = 0.1
"""Between two appends of an active writer."""
SLOW_PAUSE_S: Final = 3.0
"""Between two appends of a slow one: longer than a bookie is down, and not longer than that and a
repair's grace."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many ledgers, or writers, of each kind."""

    active: int
    slow: int
    idle: int

    def __add__(self, other: "Crowd") -> "Crowd":
        return Crowd(self.active + other.active, self.slow + other.slow, self.idle + other.idle)

    @property
    def total(self) -> int:
        return self.active + self.slow + self.idle


class Writers(Protocol):
    """A crowd of open ledgers and who writes them."""

    async def write_on(self) -> None:
        """From now on the active and the slow ones append, each until it is refused."""

    async def rest(self) -> list[float]:
        """No longer; how long each append of the active ones took since, in seconds."""

    async def append_each(self) -> Crowd:
        """One entry into each; those that were refused, which are left out from then on."""


Opening = Callable[[Fleet, MetadataStore], AbstractAsyncContextManager[Writers]]
"""Opens a crowd's ledgers on a fleet, whose metadata store comes with it."""


# Ours
class OurWriters:
    """Those of our client, in this process."""

    def __init__(
        self, active: list[LedgerWriter], slow: list[LedgerWriter], idle: list[LedgerWriter]
    ) -> None:
        self._active = active
        self._slow = slow
        self._idle = idle
        self._writing: list[asyncio.Task[list[float]]] = []
        """The active ones' tasks, then the slow ones'."""

    async def write_on(self) -> None:
        active = [asyncio.create_task(_write_on(one, PAUSE_S)) for one in self._active]
        slow = [asyncio.create_task(_write_on(one, SLOW_PAUSE_S)) for one in self._slow]
        self._writing = [*active, *slow]

    async def rest(self) -> list[float]:
        for task in self._writing:
            task.cancel()
        ended = await asyncio.gather(*self._writing)
        return [wait for waits in ended[: len(self._active)] for wait in waits]

    async def append_each(self) -> Crowd:
        idle, self._idle = await _append_each(self._idle)
        active, self._active = await _append_each(self._active)
        slow, self._slow = await _append_each(self._slow)
        return Crowd(active, slow, idle)


def ours(crowd: Crowd) -> Opening:
    """Opens them with our client."""

    @asynccontextmanager
    async def opened(_fleet: Fleet, store: MetadataStore) -> AsyncIterator[Writers]:
        async with Client(store) as client:
            made = [
                [await new_ledger(client) for _ in range(count)]
                for count in (crowd.active, crowd.slow, crowd.idle)
            ]
            yield OurWriters(*made)

    return opened


async def _append_each(writers: Sequence[LedgerWriter]) -> tuple[int, list[LedgerWriter]]:
    """One entry into each; how many were refused, and the others."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def took(writer: LedgerWriter) -> bool:
        async with slots:
            try:
                await writer.append(bytes(SIZE))
            except BookieError:
                return False
        return True

    answers = await asyncio.gather(*map(took, writers))
    whole = [writer for writer, is_taken in zip(writers, answers, strict=True) if is_taken]
    return len(writers) - len(whole), whole


async def _write_on(writer: LedgerWriter, pause_s: float) -> list[float]:
    """Append until it is cancelled, or refused; how long each append took."""
    waits: list[float] = []
    try:
        while True:
            began = time.perf_counter()
            await writer.append(bytes(SIZE))
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(pause_s)
    except (asyncio.CancelledError, BookieError):
        return waits


# Theirs
class StockWriters:
    """Those of the stock client, in a JVM of its own (`benchmarks/apache/Crash.java`)."""

    def __init__(self, program: StockProgram) -> None:
        self._program = program

    async def open(self, crowd: Crowd) -> None:
        """Create the ledgers; call it once, before all else."""
        opened = await self._ask(f"open {crowd.active} {crowd.slow} {crowd.idle}")
        assert opened["opened"] == crowd.total

    async def write_on(self) -> None:
        await self._ask(f"write {PAUSE_S * 1000:.0f} {SLOW_PAUSE_S * 1000:.0f}")

    async def rest(self) -> list[float]:
        return [wait_ms / 1000 for wait_ms in (await self._ask("rest"))["waits_ms"]]

    async def append_each(self) -> Crowd:
        return Crowd(**await self._ask("append"))

    async def _ask(self, words: str) -> Mapping[str, Any]:
        line = await asyncio.to_thread(self._program.ask, words)
        try:
            found: Mapping[str, Any] = json.loads(line)
        except ValueError as error:
            raise ApacheError(f"the stock client said {line!r} to {words!r}") from error
        return found


def stock(crowd: Crowd, *, wire: str, classpath: str, folder: Path) -> Opening:
    """Opens them with the stock client. `folder`: where its JVM may leave its log."""

    @asynccontextmanager
    async def opened(fleet: Fleet, _store: MetadataStore) -> AsyncIterator[Writers]:
        root, size = fleet.url.removeprefix("zk://"), str(SIZE)
        program = StockProgram("Crash", root, size, wire=wire, classpath=classpath, folder=folder)
        try:
            writers = StockWriters(program)
            await writers.open(crowd)
            yield writers
        finally:
            program.stop()

    return opened
