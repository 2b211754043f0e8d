"""A cluster that never holds still: between any two calls of an audit ledgers come, grow, change
their ensembles, are re-replicated, close and go. All of it is right, so nothing of it is a finding.

Beside them lie ledgers with planted damage, which nobody touches.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bookie.client.pool import BookiePool
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.opening import open_store
from bookie.metadata.store import RACK_PROPERTY, BookieInfo
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.repair.engine.opening import open_cluster
from bookie.repair.judge.expect import Holding
from bookie.repair.look.cluster import Cluster
from bookie.testing.control import FakeControl
from bookie.testing.fleet import FakeFleet
from bookie.testing.metadata import FaultyStore
from bookie.testing.run_service import served_fleet
from bookie.wire.native import ReadReply, ReadRequest
from repair_lab import RepairLab

BOOKIES = 9
RACKS = 3
ENTRIES = 3
LAST = ENTRIES - 1
SPREAD = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 4, 8), (1, 5, 6), (2, 3, 7))
TOGETHER = ((0, 3, 6), (1, 4, 7), (2, 5, 8))


@dataclass
class Planted:
    """What an audit has to find, by ledger."""

    lost: dict[LedgerId, tuple[BookieId, EntryId]] = field(default_factory=dict)
    corrupt: dict[LedgerId, tuple[BookieId, EntryId]] = field(default_factory=dict)
    misplaced: set[LedgerId] = field(default_factory=set)


class ChurnControl(FakeControl):
    """Before and after each answer something else happens."""

    churn: "Churn"

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        await self.churn.step()
        found = await super().availability(bookie_id, ledger_ids)
        await self.churn.step()
        return found


@dataclass
class ChurnPeers:
    """The reads of a deep audit, with something before each."""

    fleet: FakeFleet
    churn: "Churn"

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        await self.churn.step()
        return await self.fleet.read(bookie_id, request, fence=fence)


class Churn:
    """Changes ledgers of its own, with this `chance` at each step. `done`: how often what."""

    def __init__(self, lab: RepairLab, rng: random.Random, *, chance: float) -> None:
        self.lab = lab
        self.done: dict[str, int] = {}
        self._rng = rng
        self._chance = chance
        self._ledgers: list[LedgerId] = []
        self._turn = asyncio.Lock()

    async def step(self) -> None:
        """Perhaps one change, or several."""
        async with self._turn:
            while self._rng.random() < self._chance:
                change = self._rng.choice((self._create, self._grow, self._replace, self._copy,
                                           self._close, self._delete))  # fmt: skip
                await change()

    async def run(self) -> None:
        """Without an end."""
        while True:
            await self.step()
            await asyncio.sleep(0)

    async def begin(self, ledgers: int) -> None:
        """So many ledgers before the audit begins."""
        for _ in range(ledgers):
            await self._create()

    def _note(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    async def _picked(self, *states: LedgerState) -> LedgerMetadata | None:
        if not self._ledgers:
            return None
        found = await self.lab.metadata(self._rng.choice(self._ledgers))
        return found if found.state in states else None

    async def _create(self) -> None:
        made = await _ledger(self.lab, self._rng.choice(SPREAD), None)
        self._ledgers.append(made.ledger_id)
        if self._rng.random() < 0.5:
            await self._store(replace(made, state=LedgerState.CLOSED, last_entry_id=EntryId(LAST)))
        self._note("created")

    async def _grow(self) -> None:
        ledger = await self._picked(LedgerState.OPEN)
        if ledger is not None:
            self._write(ledger, self._end(ledger), 2)
            self._note("grown")

    async def _replace(self) -> None:
        """The writer loses a member: a new fragment from the first entry nobody acknowledged."""
        ledger = await self._picked(LedgerState.OPEN)
        if ledger is None:
            return
        end, last = self._end(ledger), ledger.last_fragment
        ensemble = self._with_another(last.ensemble)
        kept = ledger.fragments if last.first_entry_id < end else ledger.fragments[:-1]
        changed = ledger.with_fragments([*kept, Fragment(EntryId(end), ensemble)])
        await self._store(changed)
        self._write(changed, end, 1)
        self._note("re-ensembled")

    async def _copy(self) -> None:
        """A closed ledger leaves a bookie: copied, named, and only then forgotten there."""
        ledger = await self._picked(LedgerState.CLOSED)
        if ledger is None:
            return
        before = ledger.fragments[0].ensemble
        after = self._with_another(before)
        fragments = [replace(part, ensemble=after) if part.ensemble == before else part
                     for part in ledger.fragments]  # fmt: skip
        changed = ledger.with_fragments(fragments)
        self._write(changed, 0, int(ledger.last_entry_id) + 1)
        await self._store(changed)
        for bookie_id in set(before) - {b for part in fragments for b in part.ensemble}:
            self.lab.fleet[bookie_id].lose(ledger.ledger_id, range_of(ledger))
        self._note("re-replicated")

    async def _close(self) -> None:
        ledger = await self._picked(LedgerState.OPEN)
        if ledger is not None:
            end = EntryId(self._end(ledger) - 1)
            closed = replace(ledger, state=LedgerState.CLOSED, last_entry_id=end)
            await self._store(closed)
            self._note("closed")

    async def _delete(self) -> None:
        ledger = await self._picked(LedgerState.OPEN, LedgerState.CLOSED)
        if ledger is None:
            return
        self._ledgers.remove(ledger.ledger_id)
        await self.lab.store.delete_ledger(ledger.ledger_id)
        for bookie in self.lab.fleet.bookies.values():
            if ledger.ledger_id in bookie.ledgers:
                bookie.delete(ledger.ledger_id)
        self._note("deleted")

    def _end(self, ledger: LedgerMetadata) -> int:
        """The first entry that was never written: all before are acknowledged everywhere."""
        held = (self.lab.fleet[b].held(ledger.ledger_id) for b in ledger.last_fragment.ensemble)
        last = max((ids[-1] for ids in held if ids), default=-1)
        return max(last + 1, ledger.last_fragment.first_entry_id)

    def _write(self, ledger: LedgerMetadata, first: int, count: int) -> None:
        self.lab.write(ledger, range(first, first + count))

    def _with_another(self, ensemble: Sequence[BookieId]) -> tuple[BookieId, ...]:
        """One member changed for another of the same rack."""
        position = self._rng.randrange(len(ensemble))
        number = self.lab.ids.index(ensemble[position])
        others = [self.lab.ids[n] for n in range(number % RACKS, BOOKIES, RACKS) if n != number]
        taken = self._rng.choice(others)
        return (*ensemble[:position], taken, *ensemble[position + 1 :])

    async def _store(self, changed: LedgerMetadata) -> None:
        version = (await self.lab.store.read_ledger(changed.ledger_id)).version
        await self.lab.store.write_ledger(changed, version=version)


def range_of(ledger: LedgerMetadata) -> list[EntryId]:
    return [EntryId(entry_id) for entry_id in range(ledger.last_entry_id + 1)]


async def churning(seed: int, *, chance: float) -> tuple[RepairLab, Churn, Cluster]:
    """Nine bookies in three racks, and a cluster that changes at each call that goes through it."""
    lab = await RepairLab(BOOKIES, store=MemoryStore()).start()
    for number, bookie_id in enumerate(lab.ids):
        info = (await lab.store.bookies())[bookie_id]
        rack = {RACK_PROPERTY: f"/rack-{number % RACKS}"}
        await lab.store.register(BookieInfo(bookie_id, info.endpoints, rack))
    churn = Churn(lab, random.Random(seed), chance=chance)
    store = FaultyStore(lab.store)

    async def before(_name: str) -> None:
        await churn.step()

    store.before = before
    control = ChurnControl(lab.fleet, lab.store)
    control.churn = churn
    peers: BookiePool = ChurnPeers(lab.fleet, churn)  # type: ignore[assignment]
    return lab, churn, Cluster(store, peers, control)


@asynccontextmanager
async def served_churning(
    url: str, seed: int, *, chance: float
) -> AsyncIterator[tuple[RepairLab, Churn, Cluster]]:
    """The same for other processes: over real wires, with a real ZooKeeper."""
    store = await open_store(url)
    await store.initialise()
    lab = RepairLab(BOOKIES, store=store)
    churn = Churn(lab, random.Random(seed), chance=chance)
    control = ChurnControl(lab.fleet, store)
    control.churn = churn
    async with served_fleet(control, churn.step), open_cluster(url) as cluster:
        yield lab, churn, cluster
    await store.close()


async def plant(lab: RepairLab, rng: random.Random, *, each: int) -> Planted:
    """So many losses, corrupt copies and misplaced ledgers, each in a ledger of its own."""
    planted = Planted()
    for _ in range(each):
        ledger = await _ledger(lab, rng.choice(SPREAD))
        planted.lost[ledger.ledger_id] = place = _copy_of(ledger, rng)
        lab.fleet[place[0]].lose(ledger.ledger_id, [place[1]])
        ledger = await _ledger(lab, rng.choice(SPREAD))
        planted.corrupt[ledger.ledger_id] = place = _copy_of(ledger, rng)
        lab.fleet[place[0]].corrupt(ledger.ledger_id, place[1])
        ledger = await _ledger(lab, rng.choice(TOGETHER))
        planted.misplaced.add(ledger.ledger_id)
    return planted


async def _ledger(lab: RepairLab, on: tuple[int, ...], last: int | None = LAST) -> LedgerMetadata:
    return await lab.ledger((0, on), entries=ENTRIES, last=last, flush=False)


def _copy_of(ledger: LedgerMetadata, rng: random.Random) -> tuple[BookieId, EntryId]:
    entry_id = EntryId(rng.randrange(ENTRIES))
    ensemble = ledger.last_fragment.ensemble
    owing = write_set(entry_id, ensemble=ensemble, write_quorum=ledger.write_quorum)
    return rng.choice(owing), entry_id


def found_in(findings: Iterable[Mapping[str, object]]) -> dict[object, object]:
    """By ledger what each bookie lacks, as the result object says it."""
    return {found["ledger_id"]: found["bookies"] for found in findings}


def _lacks(place: tuple[BookieId, EntryId], *kinds: str) -> dict[str, Any]:
    entries = {"entries": 1, "ranges": [[place[1], place[1]]], "ranges_left_out": 0}
    return {place[0]: dict.fromkeys(kinds, entries)}


def expected(planted: Planted, *, is_deep: bool) -> dict[LedgerId, Mapping[str, Any]]:
    """As `found_in` has it."""
    found = {i: _lacks(place, "missing") for i, place in planted.lost.items()}
    if is_deep:
        found |= {i: _lacks(place, "missing", "corrupt") for i, place in planted.corrupt.items()}
    return found
