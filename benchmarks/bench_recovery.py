"""Recovery of an open ledger whose writer is gone: fence, read and write back, close.

Three real bookies (3/3/2, memory mode). `beyond the LAC`: no entry was ever confirmed to a bookie,
so a recoverer must read and write back every one: the worst that a writer can leave behind, many
times what a real one has under way. `confirmed`: the bookies know the LAC of the last entry, so
that only the fence and the close are left, however long the ledger is. Another client recovers,
with connections of its own. No probe: `seconds` or `ms`, and entries recovered a second.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.pool import BookiePool
from bookie.client.recovery import recover
from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status

from benchmarks.fleet import lone_fleet, store_of
from benchmarks.load import APPEND_BYTES, append_all, new_ledger
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, size_name

KEY: Final = master_key(b"")
EXPLICIT_LAC_WAIT_S: Final = 1.5
"""After the last append: the idle writer has told the bookies its LAC by then."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row."""

    size: int
    count: int
    is_confirmed: bool

    @property
    def what(self) -> str:
        state = "confirmed" if self.is_confirmed else "beyond the LAC"
        return f"{self.count} x {size_name(self.size)}, {state}"


GATED: Final = tuple(Case(KIB, 100_000, is_confirmed) for is_confirmed in (False, True))
FULL: Final = (*GATED, *(Case(100, 1_000_000, is_confirmed) for is_confirmed in (False, True)))


def rows(options: Options) -> Iterator[Row]:
    """Each repeat has a ledger of its own."""
    with asyncio.Runner(loop_factory=options.loop) as runner:
        yield from runner.run(_measure(FULL if options.is_full else GATED, options))


async def _measure(cases: tuple[Case, ...], options: Options) -> list[Row]:
    found = []
    with lone_fleet(options.directory) as (_folder, fleet):
        async with store_of(fleet) as store:
            for case in cases:
                repeats = [await _repeat(case, store) for _ in range(options.rounds)]
                found.append(Row("recovery", case.what, tuple(repeats)))
    return found


async def _repeat(case: Case, store: MetadataStore) -> Repeat:
    ledger_id = await (_confirmed(case, store) if case.is_confirmed else _beyond(case, store))
    pool = BookiePool(store)
    try:
        cpu, began = time.process_time(), time.perf_counter()
        result = await recover(store, pool, ledger_id)
        seconds = time.perf_counter() - began
        cpu = time.process_time() - cpu
    finally:
        await pool.close()
    await store.delete_ledger(ledger_id)
    assert result.metadata.value.last_entry_id == case.count - 1
    assert result.recovered == (0 if case.is_confirmed else case.count)
    if case.is_confirmed:
        return {"ms": seconds * 1000}
    return {
        "seconds": seconds,
        "entries_per_s": case.count / seconds,
        "mib_per_s": case.count * case.size / MIB / seconds,
        "client_us": cpu / case.count * 1e6,
    }


async def _confirmed(case: Case, store: MetadataStore) -> LedgerId:
    """An open ledger of which the bookies know every entry to be acknowledged."""
    async with Client(store) as client:
        writer = await new_ledger(client)
        await writer.wait_acked(await append_all(writer, size=case.size, count=case.count))
        await asyncio.sleep(EXPLICIT_LAC_WAIT_S)
        writer.abandon()
    return writer.ledger_id


async def _beyond(case: Case, store: MetadataStore) -> LedgerId:
    """An open ledger that every member has wholly, and none has heard of a LAC."""
    async with Client(store) as client:
        writer = await new_ledger(client)
        writer.abandon()
    pool = BookiePool(store)
    try:
        step = APPEND_BYTES // case.size
        for first in range(0, case.count, step):
            frame = _frame(writer.metadata, EntryId(first), min(step, case.count - first), case)
            await _send(pool, writer.metadata, frame)
    finally:
        await pool.close()
    return writer.ledger_id


def _frame(metadata: LedgerMetadata, first: EntryId, count: int, case: Case) -> bytearray:
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, b"")
    payload = os.urandom(case.size)
    entries = [
        codec.encode(EntryId(i), payload, lac=NO_ENTRY, length=(i + 1) * case.size)
        for i in range(first, first + count)
    ]
    return build_run(metadata.ledger_id, first, entries, lac=NO_ENTRY)


async def _send(pool: BookiePool, metadata: LedgerMetadata, frame: bytearray) -> None:
    """To every member, until all have it."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[Status]] = []
    for bookie_id in metadata.last_fragment.ensemble:
        answers.append(loop.create_future())
        pool.add_run(bookie_id, master_key=KEY, frame=frame, on_reply=answers[-1].set_result)
    assert set(await asyncio.gather(*answers)) == {Status.OK}
