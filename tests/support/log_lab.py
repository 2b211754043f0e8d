"""Owners of one log whose calls of the metadata store a test lets go one by one, as it likes.

Every call that decides what a log becomes waits for its turn. The test picks whose turn it is and
what comes of it: it happens, it happens unheard, it happens later, it never happens; or it kills
the owner there. After each step the rules that must hold at all times are checked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_list import LedgerList
from bookie.client.log_reading import LogEntry, LogPosition, read_log
from bookie.errors import BookieError, UnavailableError
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.testing.fleet import FakeFleet
from bookie.testing.simulation.log_history import LogAppend, log_violations
from fleet_writer import FleetClient

Result = TypeVar("Result")

KEY = "logs/log"
ACTS = ("append", "roll", "truncate", "close")
"""What an owner may do next; the first thing of a list is chosen most."""


@dataclass
class Waiting:
    """A call, or an owner between two of its doings. `ends`: what may come of it."""

    owner: int
    name: str
    ends: Sequence[str]
    begin: Callable[[], Awaitable[Any]]
    done: "asyncio.Future[Any]"


@dataclass
class ListWrite:
    """One, perhaps on its way. `version`: what it names; it can land while that is stored."""

    version: int | None
    written: LedgerList
    begin: Callable[[], Awaitable[Any]]

    def __call__(self) -> Awaitable[Any]:
        return self.begin()


class TurnStore(MemoryStore):
    """One owner's session."""

    def __init__(self, memory: MemoryStore, lab: "LogLab", owner: int) -> None:
        super().__init__(memory.cluster)
        self._lab = lab
        self._owner = owner

    async def _turn(self, name: str, begin: Callable[[], Awaitable[Result]], *ends: str) -> Result:
        result: Result = await self._lab.turn(self._owner, name, begin, ends)
        return result

    async def barrier(self) -> None:
        await self._turn("barrier", super().barrier, "happens", "never")

    async def read_value(self, name: str) -> Versioned[bytes] | None:
        read = super().read_value
        return await self._turn("read_value", lambda: read(name), "happens", "never")

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        write = super().write_value
        begin = lambda: write(name, data, version=version)  # noqa: E731
        landing = ListWrite(version, LedgerList.decode(data), begin)
        return await self._turn("write_value", landing, "happens", "unheard", "late", "never")

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        create = super().create_ledger
        return await self._turn("create_ledger", lambda: create(metadata), "happens", "unheard")

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        delete = super().delete_ledger

        async def checked() -> None:
            self._lab.check_deletable(ledger_id)
            await delete(ledger_id, version=version)

        await self._turn("delete_ledger", checked, "happens", "unheard")


class LogLab:
    """See the module. `choose`: picks one of so many."""

    def __init__(self, memory: MemoryStore, owners: int, choose: Callable[[int], int]) -> None:
        self.memory = memory
        self.fleet = FakeFleet(2)
        self._choose = choose
        self._steps = 0
        self._waiting: list[Waiting] = []
        self._late: list[ListWrite] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._names = range(owners)
        self.appends: list[LogAppend] = []
        self.truncated = LedgerId(0)
        """Somebody has asked for a truncation up to here; whether it happened may be unknown."""

    async def run(self, steps: int) -> None:
        await self.memory.initialise()
        await self.fleet.register(self.memory)
        for owner in self._names:
            self._begin(owner)
        for _ in range(steps):
            await self.fleet.settle()
            await self._step()
            await self._check()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        while self._late:
            await self._land(self._late.pop(self._choose(len(self._late))))
        await self._check()

    # Turns
    async def turn(
        self, owner: int, name: str, begin: Callable[[], Awaitable[Any]], ends: Sequence[str]
    ) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = Waiting(owner, name, ends, begin, done)
        self._waiting.append(waiting)
        try:
            return await done
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def _step(self) -> None:
        options: list[tuple[str, Any]] = []
        for waiting in self._waiting:
            # What is usual is chosen more often, or nobody would ever get anywhere.
            options += [(waiting.ends[0], waiting)] * 6
            options += [(end, waiting) for end in waiting.ends[1:]]
        options += [("land", late) for late in self._late]
        options += [("kill", owner) for owner in self._names]
        self._steps += 1
        what, whom = options[self._choose(len(options))]
        if what == "land":
            self._late.remove(whom)
            await self._land(whom)
        elif what == "kill":
            self._tasks[whom].cancel()
            await asyncio.gather(self._tasks[whom], return_exceptions=True)
            self._begin(whom)
        else:
            self._waiting.remove(whom)
            await self._end(whom, what)

    async def _end(self, waiting: Waiting, end: str) -> None:
        if waiting.name == "act":
            waiting.done.set_result(end)
            return
        try:
            if end in ("happens", "unheard"):
                result = await waiting.begin()
                if end == "happens":
                    waiting.done.set_result(result)
                    return
            if end == "late":
                assert isinstance(waiting.begin, ListWrite)
                self._late.append(waiting.begin)
            waiting.done.set_exception(UnavailableError(f"{waiting.name}: {end}"))
        except BookieError as error:
            waiting.done.set_exception(error)

    async def _land(self, late: ListWrite) -> None:
        with suppress(BookieError):
            await late()

    # Owners
    def _begin(self, owner: int) -> None:
        self._tasks[owner] = asyncio.get_running_loop().create_task(self._own(owner))

    async def _own(self, owner: int) -> None:
        store = TurnStore(self.memory, self, owner)
        async with FleetClient(store, self.fleet) as ledgers:
            while True:
                with suppress(BookieError):
                    log = await ReplicatedLog.open(
                        "log", ledgers=ledgers, store=store, settings=LogSettings(2, 2, 2)
                    )
                    while log.is_owned:
                        with suppress(UnavailableError):
                            await self._act(owner, log)
                await self.turn(owner, "act", _nothing, ("open",))

    async def _act(self, owner: int, log: ReplicatedLog) -> None:
        act = await self.turn(owner, "act", _nothing, ACTS)
        if act == "append":
            await self.append(log, f"{owner} at {self._steps}".encode())
        elif act == "roll":
            await log.roll()
        elif act == "close":
            await log.close()
        elif act == "truncate":
            before = log.ledger_ids[len(log.ledger_ids) // 2]
            self.truncated = max(self.truncated, before)
            await log.truncate(LogPosition(before, EntryId(0)))

    async def append(self, log: ReplicatedLog, payload: bytes) -> None:
        begun = self._steps
        position = await log.append(payload)
        self.appends.append(LogAppend(position, payload, begun, self._steps))

    # Rules
    def listed(self) -> tuple[LedgerList, int | None]:
        stored = self.memory.cluster.values.get(KEY)
        if stored is None:
            return LedgerList(), None
        return LedgerList.decode(stored.value), stored.version

    def check_deletable(self, ledger_id: LedgerId) -> None:
        """Nobody deletes what is listed, or may be listed by a write that is on its way."""
        current, version = self.listed()
        assert ledger_id not in current.ledgers, f"{ledger_id} is on the list and is deleted"
        for late in self._late:
            may_come = late.version == version and ledger_id in late.written.ledgers
            assert not may_come, f"{ledger_id} may come onto the list and is deleted"

    async def _check(self) -> None:
        current, _version = self.listed()
        assert sorted(set(current.ledgers)) == list(current.ledgers)
        found = await self.memory.read_ledgers(current.ledgers)
        assert found.keys() == set(current.ledgers), "a listed ledger does not exist"
        for ledger_id in current.ledgers[:-2]:
            assert found[ledger_id].value.state is LedgerState.CLOSED

    async def read_back(self) -> None:
        """Somebody opens the log in good weather, adds an entry, and all of it is read."""
        async with FleetClient(self.memory, self.fleet) as ledgers:
            log = await ReplicatedLog.open(
                "log", ledgers=ledgers, store=self.memory, settings=LogSettings(2, 2, 2)
            )
            self._steps += 1
            await self.append(log, b"last")
            await log.close()
            found: list[LogEntry] = [
                entry
                async for entry in read_log(
                    "log", ledgers=ledgers, store=self.memory, on_missing=_never
                )
            ]
        excused = range(self.truncated)
        assert list(log_violations(self.appends, found, excused=excused)) == []


async def _nothing() -> None:
    return None


def _never(ledger_id: LedgerId) -> None:
    raise AssertionError(f"listed ledger {ledger_id} does not exist")
