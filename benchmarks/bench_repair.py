"""Repair of a bookie that came back with an empty ledger disk, by the inline engine.

Three real bookies (3/3/2, memory mode). One is stopped, the files of its ledger directory are
removed, and it is started again with the cookie fix policy Auto: it marks whatever names it. Then a
repair of its marks runs in this process, with all that belongs to it: listing, recovery of what is
open, audit before and after, copies with their digests checked, flush, clearing. `seconds` is until
the repair says that it is done and no mark is left.

One big ledger: `ratio` of the rate of a bare copy of the same bytes, in turn, from a process that
reads a file through this process to a sink that writes them to disk (`source`, `probes`). A first
round does not count: it reads its source from the disk, since direct writes leave nothing in the
page cache, where the probe's file always is. Many small ledgers: a tenth of them is open, with no
writer, when the repair begins; no probe.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from bookie.client.bookkeeper_client import Client
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.status import Status
from bookie.repair.engine.choice import INLINE
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.grpc_control import GrpcControl
from bookie.repair.runs import repair_cluster

from benchmarks.bench_append import wire_block
from benchmarks.fleet import BOOKIES, Fleet, lone_fleet, store_of
from benchmarks.load import append_all, new_ledger
from benchmarks.probes import Sinks
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, over_probe, size_name
from benchmarks.source import Source, relay

SIZE: Final = KIB
BIG_BYTES: Final = 256 * MIB
SMALL_LEDGERS: Final = 1000
SMALL_BYTES: Final = 64 * KIB
OPEN_SHARE: Final = 10
"""One in so many small ledgers is open."""
VICTIM: Final = BOOKIES - 1
WRITERS: Final = 16
ROUNDS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Case:
    """So many ledgers of `payload` bytes each, `open_ledgers` of them not closed."""

    ledgers: int
    payload: int
    open_ledgers: int = 0

    @property
    def what(self) -> str:
        if self.ledgers == 1:
            return f"1 ledger, {self.payload // MIB} MiB of {size_name(SIZE)}"
        return f"{self.ledgers} ledgers, {size_name(self.payload)} each of {size_name(SIZE)}"


def rows(options: Options) -> Iterator[Row]:
    """A fleet for each row; the disk is lost anew for each repeat."""
    small = Case(SMALL_LEDGERS, SMALL_BYTES, SMALL_LEDGERS // OPEN_SHARE)
    for case in (Case(1, BIG_BYTES), small):
        with asyncio.Runner(loop_factory=options.loop) as runner:
            yield runner.run(_measure(case, options))


async def _measure(case: Case, options: Options) -> Row:
    repeats: list[Repeat] = []
    with ExitStack() as stack:
        folder, fleet = stack.enter_context(lone_fleet(options.directory))
        sinks = Sinks(folder, count=1)
        stack.callback(sinks.stop)
        block, count = wire_block(SIZE, MIB // SIZE)
        source = Source(folder, name="bytes", block=block, blocks=BIG_BYTES // SIZE // count)
        stack.callback(source.stop)
        async with store_of(fleet) as store:
            await _write(store, case, ledgers=case.ledgers - case.open_ledgers, is_open=False)
            for number in range(min(options.rounds, ROUNDS_MAX) + 1):
                left = await _write(store, case, ledgers=case.open_ledgers, is_open=True)
                await lose_disk(fleet, store)
                ours = await _repair(fleet, store, case)
                probe = BIG_BYTES / MIB / relay(source, sinks.ports[0])
                is_big = case.ledgers == 1
                if number:  # the first one warms up
                    repeats.append(over_probe(ours, probe_mib_per_s=probe) if is_big else ours)
                for ledger_id in left:  # they are closed by now
                    await store.delete_ledger(ledger_id)
    return Row("repair", case.what, tuple(repeats))


# The loss
async def lose_disk(fleet: Fleet, store: MetadataStore) -> None:
    """Stop, empty disk, start: as a platform does that replaces a volume."""
    fleet.bookies[VICTIM].stop()
    directory = fleet.ledger_directory(VICTIM)
    shutil.rmtree(directory)
    directory.mkdir()
    fleet.restart(VICTIM)
    await fleet.until_registered(store)


async def _repair(fleet: Fleet, store: MetadataStore, case: Case) -> Repeat:
    bookie_id, control = fleet.bookie_id(VICTIM), GrpcControl(store)
    marks = (await control.list_marks(bookie_id)).marks
    assert len(marks) >= case.ledgers
    assert sum(mark.limbo for mark in marks) == case.open_ledgers
    request = RepairRequest((bookie_id,), INLINE)
    cpu, began = time.process_time(), time.perf_counter()
    result = await repair_cluster(fleet.url, request, say=_quiet)
    after = await control.list_marks(bookie_id)
    seconds = time.perf_counter() - began
    cpu = time.process_time() - cpu
    await control.close()
    assert after.status is Status.OK
    assert not after.marks
    return _figures(result, seconds=seconds, cpu_s=cpu, case=case)


def _figures(result: dict[str, Any], *, seconds: float, cpu_s: float, case: Case) -> Repeat:
    # What a recovery has written back is on the new disk as well, and no copy any more.
    entries = result["entries_copied"] + result["entries_recovered"]
    # A writer closes at its ack quorum: another member may lack the last ones, and gets them too.
    assert entries >= case.ledgers * case.payload // SIZE
    return {
        "seconds": seconds,
        "mib_per_s": entries * SIZE / MIB / seconds,
        "entries_per_s": entries / seconds,
        "ledgers_per_s": case.ledgers / seconds,
        "repair_us": cpu_s / entries * 1e6,
    }


def _quiet(_line: str) -> None:
    """Nobody watches."""


# What there was
async def _write(
    store: MetadataStore, case: Case, *, ledgers: int, is_open: bool
) -> list[LedgerId]:
    """Ledgers of the case, written a few at a time."""
    slots = asyncio.Semaphore(WRITERS)

    async def one(client: Client) -> LedgerId:
        async with slots:
            return await _write_one(client, case, is_open=is_open)

    async with Client(store) as client:
        return await asyncio.gather(*(one(client) for _ in range(ledgers)))


async def _write_one(client: Client, case: Case, *, is_open: bool) -> LedgerId:
    writer = await new_ledger(client)
    last = await append_all(writer, size=SIZE, count=case.payload // SIZE)
    if is_open:
        await writer.wait_acked(last)
        writer.abandon()
    else:
        await writer.close()
    return writer.ledger_id
