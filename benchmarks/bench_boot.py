"""An unclean boot with many ledgers: from the start of the process to a bookie that serves.

The bookie is killed and started again; it serves when it is registered with its new boot epoch (its
data port is open, its health says SERVING). Before that it must find every ledger that exists, put
a fence boundary round all of them, and put those in limbo that are not closed and name it. That it
did is asserted by what its control plane says. Almost all ledgers exist in the metadata only, since
a boot looks there; a few have entries. No probe: `seconds`, and ledgers a second.

With 100,000 ledgers, all closed and a tenth of them open; the whole table has a boot with 1,000,000
as well, once, since it takes minutes to make them.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bookie.client.bookkeeper_client import Client
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.codec import encode_ledger
from bookie.metadata.layout import Paths, ledger_path
from bookie.metadata.store import ADMIN_ENDPOINT, BookieInfo, MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.wire.admin.client import Call, control_plane
from bookie.wire.admin.health import Health

from benchmarks.fleet import HEAP_MB, Fleet, epoch_of, lone_fleet, store_of
from benchmarks.rows import KIB, MIB, Options, Repeat, Row

OPEN_SHARE: Final = 10
"""One ledger in so many is open, in rows with open ones."""
FILLED: Final = 10
"""Ledgers with entries, besides."""
FILLED_ENTRIES: Final = 1000
HEAP_BYTES_EACH: Final = 3 * KIB
"""Of ZooKeeper, for one ledger: what it keeps and what a listing makes it answer."""
BATCH: Final = 500
"""Znodes of one transaction, which must stay below ZooKeeper's limit of 1 MB."""
BATCHES_AT_ONCE: Final = 4
BOOT_WAIT_S: Final = 1800.0
HEALTH_S: Final = 10.0
NO_NOTES: Final = {"durability": {"journalWriteData": False, "noteIdleFlushes": None}}
"""So that every ledger is in doubt, as after a crash of which notes say nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row: how many ledgers there are, how many of them open; repeated at most `rounds_max`."""

    ledgers: int
    open_ledgers: int = 0
    rounds_max: int = 3

    @property
    def what(self) -> str:
        percent = self.open_ledgers * 100 // self.ledgers
        return f"{self.ledgers} ledgers, {f'{percent} % open' if percent else 'all closed'}"


GATED: Final = (Case(100_000), Case(100_000, 100_000 // OPEN_SHARE))
HUGE: Final = (Case(1_000_000, 1_000_000 // OPEN_SHARE, rounds_max=1),)


def rows(options: Options) -> Iterator[Row]:
    """One bookie, killed and started for each repeat; the same ledgers in both rows but for their
    state."""
    for cases in (GATED, HUGE) if options.is_full else (GATED,):
        with asyncio.Runner(loop_factory=options.loop) as runner:
            yield from runner.run(_measure(cases, options))


async def _measure(cases: tuple[Case, ...], options: Options) -> list[Row]:
    found = []
    heap_mb = HEAP_MB + cases[0].ledgers * HEAP_BYTES_EACH // MIB
    with lone_fleet(options.directory, count=1, heap_mb=heap_mb, more=NO_NOTES) as (_folder, fleet):
        async with store_of(fleet) as store:
            many = await _Ledgers.make(fleet, store, count=cases[0].ledgers)
            for case in cases:
                await many.reopen(case.open_ledgers)
                rounds = range(min(options.rounds, case.rounds_max))
                repeats = [await _boot(fleet, store, case) for _ in rounds]
                found.append(Row("boot", case.what, tuple(repeats)))
    return found


async def _boot(fleet: Fleet, store: MetadataStore, case: Case) -> Repeat:
    bookie_id = fleet.bookie_id(0)
    before = epoch_of((await store.bookies())[bookie_id])
    fleet.bookies[0].kill()
    began = time.perf_counter()
    fleet.restart(0)
    info = await fleet.until_booted_again(store, 0, after=before, wait_s=BOOT_WAIT_S)
    seconds = time.perf_counter() - began
    health = await health_of(info)
    boot = health.boot
    assert boot is not None and not boot.clean
    assert boot.ledgers_fenced == case.ledgers + FILLED, boot
    assert boot.ledgers_in_limbo == case.open_ledgers, boot
    assert boot.ledgers_in_limbo + boot.ledgers_unchecked == case.ledgers + FILLED, boot
    assert health.limbo_ledgers >= case.open_ledgers, health
    return {
        "seconds": seconds,
        "ledgers_per_s": boot.ledgers_fenced / seconds,
        "cpu_s": fleet.cpu_s(),
        "resident_mib": fleet.resident_bytes() / MIB,
        "fenced": boot.ledgers_fenced,
        "limbo": boot.ledgers_in_limbo,
    }


async def health_of(info: BookieInfo) -> Health:
    """What the bookie's control plane says."""
    endpoint = info.endpoint(ADMIN_ENDPOINT)
    assert endpoint is not None
    async with control_plane(f"{endpoint.host}:{endpoint.port}") as bookie:
        return await bookie.health(Call(None, HEALTH_S))


# The ledgers
class _Ledgers:
    """Metadata of so many ledgers of three bookies, one of which is ours.

    Written in transactions, past the interface of the store, which makes them one by one.
    """

    def __init__(self, fleet: Fleet, store: ZooKeeperStore, *, first: int, count: int) -> None:
        self._store = store
        self._paths = Paths("/" + fleet.url.rpartition("/")[2])
        self._ensemble = (fleet.bookie_id(0), BookieId("other-1"), BookieId("other-2"))
        self._first = first
        self._numbers = range(count)

    @classmethod
    async def make(cls, fleet: Fleet, store: MetadataStore, *, count: int) -> "_Ledgers":
        """All closed, and a few more that have entries."""
        assert isinstance(store, ZooKeeperStore)
        many = cls(fleet, store, first=await store.new_ledger_id() + 1, count=count)
        await many._make_folders()
        await many._in_batches(many._numbers, many._create_closed)
        await many._use_up_ids()
        await _fill(store)
        return many

    async def reopen(self, count: int) -> None:
        """The last `count` are made anew, open."""
        await self._in_batches(self._numbers[len(self._numbers) - count :], self._replace_by_open)

    async def _in_batches(self, numbers: range, change: Any) -> None:
        slots = asyncio.Semaphore(BATCHES_AT_ONCE)

        async def one(batch: Sequence[int]) -> None:
            async with slots:
                await self._store.session.transact(lambda changes: change(changes, batch))

        starts = range(0, len(numbers), BATCH)
        await asyncio.gather(*(one(numbers[start : start + BATCH]) for start in starts))

    def _create_closed(self, changes: Any, batch: Sequence[int]) -> None:
        for number in batch:
            closed = self._metadata(number).closed(NO_ENTRY, length=0)
            changes.create(self._path(number), encode_ledger(closed))

    def _replace_by_open(self, changes: Any, batch: Sequence[int]) -> None:
        for number in batch:
            changes.delete(self._path(number))
            changes.create(self._path(number), encode_ledger(self._metadata(number)))

    def _metadata(self, number: int) -> LedgerMetadata:
        fragments = (Fragment(EntryId(0), self._ensemble),)
        return LedgerMetadata(LedgerId(self._first + number), 3, 3, 2, fragments)

    def _path(self, number: int) -> str:
        return f"{self._paths.root}/{ledger_path(LedgerId(self._first + number))}"

    async def _make_folders(self) -> None:
        """Of the ledgers, which transactions do not make."""
        folders = dict.fromkeys(self._path(number).rpartition("/")[0] for number in self._numbers)
        for folder in folders:
            await self._store.session.write(partial(_begin_folder, path=folder))

    async def _use_up_ids(self) -> None:
        """Until the generator is past the last ledger, as if it had given all these ids."""
        path = f"{self._paths.short_ids}/used"

        def use(changes: Any, batch: Sequence[int]) -> None:
            for _number in batch:  # each child of the folder counts
                changes.create(path)
                changes.delete(path)

        await self._in_batches(self._numbers, use)
        assert await self._store.new_ledger_id() >= self._first + len(self._numbers)


def _begin_folder(zk: Any, *, path: str) -> Any:
    return zk.ensure_path_async(path)


async def _fill(store: MetadataStore) -> None:
    async with Client(store) as client:
        for _ in range(FILLED):
            writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            writer.append_many([os.urandom(KIB)] * FILLED_ENTRIES)
            await writer.close()
