"""Latency of appends while the bookies have other work: a repair, or compaction.

Three real bookies (3/3/2, memory mode). One client appends 1 KiB at a fixed moderate rate;
`p50_us` and `p99_us` are from the call of `append` to its acknowledgement. The rows of one round
are measured one after the other on the same bookies. `second_p99_us` is the median of the p99 of
each second, which a neighbour on the machine does not spoil by a few bad seconds; `p99_growth` is
that of the row over that of `alone` in the same round.

`during a repair`: one bookie came back with an empty ledger disk, and a process of its own copies
back what it held, by the inline engine. `during compaction`: a ledger that had most of all bytes
was deleted, and every bookie copies what else lies in these log files. Only appends of the time in
which that work went on count; `background_mib_per_s` is what it copied meanwhile, of all bookies.
"""

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.status import Status
from bookie.repair.engine.choice import INLINE
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.grpc_control import GrpcControl
from bookie.repair.runs import repair_cluster
from bookie.storage.disk import RealDisk
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.log_files import LOG_FILES, list_files

from benchmarks.bench_repair import lose_disk
from benchmarks.fleet import BOOKIES, Fleet, lone_fleet, store_of
from benchmarks.load import append_all, new_ledger
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, size_name

SIZE: Final = KIB
APPENDS_PER_S: Final = 500
ALONE_S: Final = 6.0
WARM_UP_S: Final = 1.0
"""Appends before those that count: connections, first pages."""
WRITTEN_BYTES: Final = 384 * MIB
"""What a repair copies back, and of which most becomes garbage then."""
LIVE_SHARE: Final = 0.4
"""Of what was written; below what makes a file worth compacting."""
CHUNK_BYTES: Final = MIB
LOG_FILE_BYTES: Final = 16 * MIB
DUTY_INTERVAL_S: Final = 0.5
COMPACTION_S_MAX: Final = 10.0
COMPACTION_WAIT_S: Final = 30.0
"""Until the first file is gone."""
REST_S: Final = 2.0
"""Without a file that goes: what is left stays, the newest ones and those of other ledgers."""
LOOK_S: Final = 0.2
ROUNDS_MAX: Final = 3
VICTIM: Final = BOOKIES - 1

SETTINGS: Final[dict[str, Any]] = {
    "storage": {
        "logFileBytes": LOG_FILE_BYTES,
        "collectIntervalSeconds": DUTY_INTERVAL_S,
        "collectGraceSeconds": DUTY_INTERVAL_S,
        "compactionIntervalSeconds": DUTY_INTERVAL_S,
    }
}


@dataclass(frozen=True, slots=True)
class Work:
    """What went on beside the appends: from when to when, and how much it copied."""

    began: float
    ended: float
    copied_bytes: float = 0.0

    @property
    def mib_per_s(self) -> float:
        return self.copied_bytes / MIB / (self.ended - self.began)


def rows(options: Options) -> Iterator[Row]:
    """One fleet; each round has all three."""
    with asyncio.Runner(loop_factory=options.loop) as runner:
        yield from runner.run(_measure(options))


async def _measure(options: Options) -> list[Row]:
    found: dict[str, list[Repeat]] = {}
    with ExitStack() as stack:
        _folder, fleet = stack.enter_context(lone_fleet(options.directory, more=SETTINGS))
        spawn = multiprocessing.get_context("spawn")
        mender = stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn))
        mender.submit(os.getpid).result()  # it is up, and has imported what it needs
        async with store_of(fleet) as store, Client(store) as client:
            bench = _Bench(fleet, store, client, mender)
            for _ in range(min(options.rounds, ROUNDS_MAX)):
                for what, repeat in (await bench.round()).items():
                    found.setdefault(what, []).append(repeat)
    return [Row("latency", what, tuple(repeats)) for what, repeats in found.items()]


class _Bench:
    """The fleet and what is done to it."""

    def __init__(
        self, fleet: Fleet, store: MetadataStore, client: Client, mender: ProcessPoolExecutor
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._client = client
        self._mender = mender

    async def round(self) -> dict[str, Repeat]:
        """The rows by name, `alone` first."""
        condition = f"{size_name(SIZE)}, {APPENDS_PER_S} appends/s"
        garbage, kept = await self._interleaved()
        alone = await self._beside(_nothing)
        await lose_disk(self._fleet, self._store)
        repair = await self._beside(self._repair)
        compaction = await self._beside(partial(self._compaction, garbage))
        await self._store.delete_ledger(kept)
        return {
            f"{condition}, alone": alone,
            f"{condition}, during a repair": _grown(repair, alone),
            f"{condition}, during compaction": _grown(compaction, alone),
        }

    async def _interleaved(self) -> tuple[LedgerId, LedgerId]:
        """Two closed ledgers of which every log file holds the same shares; the second one stays.

        Synced, as compaction leaves alone what no checkpoint has seen.
        """
        writers = [await new_ledger(self._client) for _ in range(2)]
        for _ in range(WRITTEN_BYTES // CHUNK_BYTES):
            for writer, share in zip(writers, (1 - LIVE_SHARE, LIVE_SHARE), strict=True):
                last = await append_all(writer, size=SIZE, count=int(CHUNK_BYTES * share) // SIZE)
                await writer.wait_acked(last)
        for writer in writers:
            await writer.close()
        control = GrpcControl(self._store)
        for number in range(BOOKIES):
            assert await control.flush(self._fleet.bookie_id(number)) is Status.OK
        await control.close()
        return writers[0].ledger_id, writers[1].ledger_id

    async def _beside(self, work: Callable[[], Awaitable[Work]]) -> Repeat:
        """Appends go on until the work has ended."""
        sent: list[tuple[float, float]] = []
        async with self._appending(sent):
            await asyncio.sleep(WARM_UP_S)
            done = await work()
        counted = [(at, delay) for at, delay in sent if done.began <= at <= done.ended]
        return {
            "p50_us": statistics.median(delay for _at, delay in counted) * 1e6,
            "p99_us": p99([delay for _at, delay in counted]) * 1e6,
            "second_p99_us": p99_of_seconds(counted) * 1e6,
            "background_mib_per_s": done.mib_per_s,
            "seconds": done.ended - done.began,
        }

    @asynccontextmanager
    async def _appending(self, sent: list[tuple[float, float]]) -> AsyncIterator[None]:
        """A writer at its pace; of each append, when it was and how long it took, in seconds."""
        writer = await new_ledger(self._client)
        pacing = asyncio.create_task(_pace(writer, sent))
        try:
            yield
        finally:
            pacing.cancel()
            await asyncio.gather(pacing, return_exceptions=True)
        await writer.close()
        await self._store.delete_ledger(writer.ledger_id)

    async def _repair(self) -> Work:
        bookie_id = self._fleet.bookie_id(VICTIM)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._mender, mend, self._fleet.url, bookie_id)

    async def _compaction(self, garbage: LedgerId) -> Work:
        """From the first file that goes to the last one, or for as long as it is watched."""
        old = self._log_files()
        await self._store.delete_ledger(garbage)
        gone: list[tuple[float, int]] = []
        """When there were so many old files less than before."""
        deadline = time.perf_counter() + COMPACTION_WAIT_S
        while not gone or time.perf_counter() < min(deadline, gone[-1][0] + REST_S):
            await asyncio.sleep(LOOK_S)
            now, files = time.perf_counter(), len(old - self._log_files())
            if files > (gone[-1][1] if gone else 0):
                gone.append((now, files))
                deadline = gone[0][0] + COMPACTION_S_MAX
            assert gone or now < deadline, "no bookie compacts anything"
        (began, before), (ended, after) = gone[0], gone[-1]
        return Work(began, ended, (after - before) * LOG_FILE_BYTES * LIVE_SHARE)

    def _log_files(self) -> set[tuple[int, int]]:
        """By number of bookie. Quick, and seldom: this process is the client that is timed."""
        disk, found = RealDisk(), set[tuple[int, int]]()
        for number in range(BOOKIES):
            folder = self._fleet.ledger_directory(number) / LOG_DIRECTORY
            found |= {(number, file_id) for file_id in list_files(disk, folder, kind=LOG_FILES)}
        return found


async def _nothing() -> Work:
    began = time.perf_counter()
    await asyncio.sleep(ALONE_S)
    return Work(began, time.perf_counter())


async def _pace(writer: LedgerWriter, sent: list[tuple[float, float]]) -> None:
    """Appends by the clock: one that is late does not delay those after it."""
    payload, began, number = os.urandom(SIZE), time.perf_counter(), 0
    while True:
        number += 1
        await asyncio.sleep(began + number / APPENDS_PER_S - time.perf_counter())
        at = time.perf_counter()
        writer.append(payload).add_done_callback(partial(_note, sent, at))


def _note(sent: list[tuple[float, float]], at: float, acked: "asyncio.Future[Any]") -> None:
    if not acked.cancelled():
        acked.result()
        sent.append((at, time.perf_counter() - at))


def p99(delays: Sequence[float]) -> float:
    """Of at least two."""
    return statistics.quantiles(delays, n=100)[-1]


def p99_of_seconds(sent: Sequence[tuple[float, float]]) -> float:
    """The median of the p99 of each whole second; of all together when there is none."""
    seconds: dict[int, list[float]] = {}
    for at, delay in sent:
        seconds.setdefault(int(at - sent[0][0]), []).append(delay)
    whole = [found for found in seconds.values() if len(found) >= APPENDS_PER_S * 0.9]
    return statistics.median(map(p99, whole or [[delay for _at, delay in sent]]))


def _grown(repeat: Repeat, alone: Repeat) -> Repeat:
    return {**repeat, "p99_growth": repeat["second_p99_us"] / alone["second_p99_us"]}


def mend(url: str, bookie_id: BookieId) -> Work:
    """One repair, in the process that calls it. All processes of a machine have one such clock."""
    request = RepairRequest((bookie_id,), INLINE)
    began = time.perf_counter()
    result = asyncio.run(repair_cluster(url, request, say=_quiet))
    assert result["exit_code"] == 0, result
    return Work(began, time.perf_counter(), result["entries_copied"] * SIZE)


def _quiet(_line: str) -> None:
    """Nobody watches."""
