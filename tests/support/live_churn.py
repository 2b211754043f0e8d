"""Real bookies whose ledgers never hold still: what `churn_lab` does in memory, over the wires.

Ledgers come, grow, change their ensembles, are re-replicated, close and go, beside an audit in
other processes. All of it is right, as a writer and a repairer do it: what an entry's LAC covers is
on all its members, and a copy is there before metadata names it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.look.cluster import Cluster
from churn_lab import Planted

BOOKIES: Final = tuple(BookieId(f"bookie-{number}") for number in range(6))
RACKS: Final = {bookie_id: f"/rack-{number % 3}" for number, bookie_id in enumerate(BOOKIES)}
ENTRIES: Final = 3
PASSWORD: Final = b"churn"
AT_ONCE: Final = 32
CHURNERS: Final = 2
LEDGERS_MIN: Final = 210
"""Of one churner: fewer, and one of them might change at every look."""
CLOSED_AT_BEGIN: Final = 60
"""So that each kind of change can be made from the first one on."""


def spread(rng: random.Random) -> tuple[BookieId, ...]:
    """One bookie of each rack."""
    return tuple(rng.choice(BOOKIES[rack::3]) for rack in range(3))


def together(rng: random.Random) -> tuple[BookieId, ...]:
    """Two bookies of one rack."""
    return BOOKIES[rng.randrange(3) :: 3]


def entry(ledger: LedgerMetadata, entry_id: int, lac: int, *, is_wrong: bool = False) -> bytes:
    codec = EntryCodec(ledger.ledger_id, ledger.digest_type, PASSWORD)
    body = codec.encode(EntryId(entry_id), b"payload", lac=EntryId(lac), length=7 * (entry_id + 1))
    return body[:-1] + b"!" if is_wrong else body


async def send(
    cluster: Cluster, ledger_id: LedgerId, bookie_id: BookieId, entries: Sequence[bytes], lac: int
) -> None:
    """Consecutive entries in one run; a bookie that refuses is an error of the test."""
    first = EntryId(int.from_bytes(entries[0][8:16], "big"))
    frame = build_run(ledger_id, first, entries, lac=EntryId(lac), flags=FLAG_RECOVERY)
    answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    key = master_key(PASSWORD)

    def on_reply(status: Status) -> None:
        if not answer.done():  # who waited may be cancelled by now
            answer.set_result(status)

    cluster.peers.add_run(bookie_id, master_key=key, frame=frame, on_reply=on_reply)
    status = await answer
    assert status is Status.OK, f"{bookie_id} answered {status.name} to ledger {ledger_id}"


async def new_ledger(
    cluster: Cluster, ensemble: tuple[BookieId, ...], last: int | None = None
) -> LedgerMetadata:
    """Metadata alone; CLOSED at `last` unless None."""
    size = len(ensemble)
    metadata = LedgerMetadata(
        await cluster.store.new_ledger_id(), size, size, 2, (Fragment(EntryId(0), ensemble),),
        password=PASSWORD,
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry_id=NO_ENTRY if last is None else EntryId(last),
    )  # fmt: skip
    await cluster.store.create_ledger(metadata)
    return metadata


# Planted
async def plant(cluster: Cluster, rng: random.Random, *, each: int) -> Planted:
    """So many losses, corrupt copies and misplaced ledgers, each in a ledger of its own."""
    planted, slots = Planted(), asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, ensemble: tuple[BookieId, ...]) -> None:
        entry_id, victim = EntryId(rng.randrange(ENTRIES)), rng.choice(ensemble)
        async with slots:
            ledger = await new_ledger(cluster, ensemble, last=ENTRIES - 1)
            for bookie_id in ensemble:
                await _fill(cluster, ledger, bookie_id, entry_id, kind * (bookie_id == victim))
        if kind == "misplaced":
            planted.misplaced.add(ledger.ledger_id)
        else:
            getattr(planted, kind)[ledger.ledger_id] = victim, entry_id

    kinds = [("lost", spread), ("corrupt", spread), ("misplaced", together)] * each
    await asyncio.gather(*(one(kind, chosen(rng)) for kind, chosen in kinds))
    return planted


async def _fill(
    cluster: Cluster, ledger: LedgerMetadata, bookie_id: BookieId, at: int, damage: str
) -> None:
    bodies = [entry(ledger, i, i - 1, is_wrong=damage == "corrupt" and i == at) for i in range(3)]
    parts = [bodies[:at], bodies[at + 1 :]] if damage == "lost" else [bodies]
    for part in filter(None, parts):
        await send(cluster, ledger.ledger_id, bookie_id, part, ENTRIES - 2)


# Churn
class Churner:
    """Changes ledgers of its own, one after the other, until it is cancelled."""

    def __init__(self, cluster: Cluster, rng: random.Random, done: Counter[str]) -> None:
        self._cluster = cluster
        self._rng = rng
        self._done = done
        self._ledgers: list[LedgerId] = []
        self._ends: dict[LedgerId, int] = {}
        self._closed: set[LedgerId] = set()

    async def begin(self) -> None:
        for _ in range(LEDGERS_MIN):
            await self._create()
        for _ in range(CLOSED_AT_BEGIN):
            await self._close()

    async def run(self) -> None:
        changes = (self._create, self._grow, self._replace, self._copy, self._close, self._delete)
        while True:
            await self._rng.choice(changes)()

    async def _picked(self, *, is_closed: bool) -> LedgerMetadata:
        of_state = [one for one in self._ledgers if (one in self._closed) is is_closed]
        return (await self._cluster.store.read_ledger(self._rng.choice(of_state))).value

    async def _create(self) -> None:
        ledger = await new_ledger(self._cluster, spread(self._rng))
        self._ends[ledger.ledger_id] = 0
        await self._write(ledger, ENTRIES)
        self._ledgers.append(ledger.ledger_id)
        self._done["created"] += 1

    async def _grow(self) -> None:
        await self._write(await self._picked(is_closed=False), 2)
        self._done["grown"] += 1

    async def _replace(self) -> None:
        """The writer loses a member: a new fragment from the first entry nobody acknowledged."""
        ledger = await self._picked(is_closed=False)
        end, last = self._ends[ledger.ledger_id], ledger.last_fragment
        kept = ledger.fragments if last.first_entry_id < end else ledger.fragments[:-1]
        fragment = Fragment(EntryId(end), self._with_another(last.ensemble))
        changed = ledger.with_fragments([*kept, fragment])
        await self._store(changed)
        await self._write(changed, 1)
        self._done["re-ensembled"] += 1

    async def _copy(self) -> None:
        """A closed ledger leaves a bookie: copied, and only then named."""
        ledger = await self._picked(is_closed=True)
        before = ledger.fragments[0].ensemble
        after = self._with_another(before)
        ids = range(ledger.last_entry_id + 1)
        bodies = [entry(ledger, i, i - 1) for i in ids]
        (fresh,) = set(after) - set(before)
        await send(self._cluster, ledger.ledger_id, fresh, bodies, len(bodies) - 2)
        fragments = [
            replace(part, ensemble=after) if part.ensemble == before else part
            for part in ledger.fragments
        ]
        await self._store(ledger.with_fragments(fragments))
        self._done["re-replicated"] += 1

    async def _close(self) -> None:
        ledger = await self._picked(is_closed=False)
        end = EntryId(self._ends[ledger.ledger_id] - 1)
        await self._store(replace(ledger, state=LedgerState.CLOSED, last_entry_id=end))
        self._closed.add(ledger.ledger_id)
        self._done["closed"] += 1

    async def _delete(self) -> None:
        """From the metadata; bookies let go of it by themselves."""
        if len(self._ledgers) <= LEDGERS_MIN:
            return
        ledger_id = self._ledgers.pop(self._rng.randrange(len(self._ledgers)))
        await self._cluster.store.delete_ledger(ledger_id)
        self._done["deleted"] += 1

    async def _write(self, ledger: LedgerMetadata, count: int) -> None:
        """Entries in one run to each member of the last ensemble, acknowledged when all have it."""
        first = self._ends[ledger.ledger_id]
        bodies = [entry(ledger, i, first - 1) for i in range(first, first + count)]
        members = ledger.last_fragment.ensemble
        await asyncio.gather(
            *(send(self._cluster, ledger.ledger_id, b, bodies, first - 1) for b in members)
        )
        self._ends[ledger.ledger_id] = first + count

    def _with_another(self, ensemble: Sequence[BookieId]) -> tuple[BookieId, ...]:
        """One member changed for the other one of its rack."""
        position = self._rng.randrange(len(ensemble))
        rack = BOOKIES.index(ensemble[position]) % 3
        (other,) = set(BOOKIES[rack::3]) - {ensemble[position]}
        return (*ensemble[:position], other, *ensemble[position + 1 :])

    async def _store(self, changed: LedgerMetadata) -> None:
        version = (await self._cluster.store.read_ledger(changed.ledger_id)).version
        await self._cluster.store.write_ledger(changed, version=version)


@asynccontextmanager
async def churning(cluster: Cluster, seeds: Iterable[int]) -> AsyncIterator[Counter[str]]:
    """Several churners at once; how often what was done. Their first error is the test's."""
    done = Counter[str]()
    churners = [Churner(cluster, random.Random(seed), done) for seed in seeds]
    await asyncio.gather(*(churner.begin() for churner in churners))
    tasks = [asyncio.create_task(churner.run()) for churner in churners]
    try:
        yield done
        for task in tasks:
            assert not task.done() or task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
