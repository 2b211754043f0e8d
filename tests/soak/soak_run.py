"""One soak from the first start to the last audit.

Up: ZooKeeper, bookies, clients. Then two tracks of faults side by side until the time is up:
losses, each repaired before the next, and nuisances. Then everybody is healed, the clients close
their ledgers, and every promise is read back. The first finding ends it.
"""

import asyncio
import random
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from bookie.repair.engine.opening import open_cluster
from fault_plan import LEASES_S, LOSSES, Kind, draw_mode, losses, nuisances
from payload_rule import PayloadRule
from promises import Findings, Promises
from small_disks import MIB, SmallDisk
from soak_bookies import SoakBookie, SoakError
from soak_clients import ClientProcess
from soak_ending import JobOutput
from soak_foreign import Foreign
from soak_metadata import SoakMetadata
from soak_report import Load, Tally, progress_line
from soak_strikes import Strikes
from soak_twins import Twins

BOOKIES: Final = 5
CLIENTS: Final = 2
ACK_QUORUM: Final = 2
SMALL_DISK_BYTES: Final = 512 * MIB
SMALL_DISK_BYTES_PER_MINUTE: Final = 32 * MIB
WATCH_EVERY_S: Final = 0.5
PROGRESS_EVERY_S: Final = 10.0
ACK_WAIT_S: Final = 90.0
"""Longer than any fault of the plan together with the time-outs it causes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user wants. `has_small_disks`: disks can be filled here. `only`: kinds of losses.

    `losses_max`: end after so many, if the time is not up before.
    """

    minutes: float
    seed: int
    work: Path
    has_small_disks: bool
    only: frozenset[Kind] = frozenset(LOSSES)
    losses_max: int | None = None
    busy: int = 3
    quiet: int = 8

    @property
    def loss_kinds(self) -> frozenset[Kind]:
        return self.only if self.has_small_disks else self.only - {Kind.DISK_FULL}


def modes_of(seed: int) -> list[str]:
    """How each bookie acknowledges at first."""
    rng = random.Random(f"modes {seed}")
    return [draw_mode(rng) for _ in range(BOOKIES)]


class Soak:
    """The whole of it. What was found is in `findings`; SoakError is what ended it before."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tally = Tally()
        self.modes = modes_of(options.seed)
        self._promises = Promises(PayloadRule(options.seed))
        self._clients: list[ClientProcess] = []
        self._gone: list[ClientProcess] = []
        self._bookies: list[SoakBookie] = []
        self._strikes: Strikes | None = None
        self._started = time.monotonic()

    # Figures
    @property
    def findings(self) -> Findings:
        """Ours, and those of all clients there have been."""
        found = Findings()
        found.add(self._promises.findings)
        for client in (*self._clients, *self._gone):
            found.add(client.findings)
        return found

    @property
    def load(self) -> Load:
        clients = (*self._clients, *self._gone)
        return Load(
            acked=self._promises.acked,
            checked=self._promises.checked + sum(c.figure("checked") for c in clients),
            ledgers=len(self._promises.ledgers),
            unanswered=sum(c.figure("unanswered") for c in clients),
            taken_over=sum(c.figure("taken_over") for c in clients),
            deleted=sum(c.figure("deleted") for c in clients),
            longest_pause_s=max((c.figure("longest_pause_s") for c in clients), default=0.0),
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    # Course
    async def run(self) -> None:
        """Until all is audited, or the first finding. Nothing that it started is left behind."""
        async with AsyncExitStack() as stack:
            metadata = SoakMetadata(self.options.work / "zookeeper")
            stack.callback(metadata.stop)
            await metadata.start()
            url = metadata.url
            await self._start_bookies(stack, url)
            cluster = await stack.enter_async_context(open_cluster(url))
            stack.push_async_callback(self._end_clients)
            for number in range(CLIENTS):
                self._clients.append(await self._start_client(number, url))
            foreign = Foreign(self.options.work / "other", metadata_url=url, seed=self.options.seed)
            stack.callback(foreign.end)
            await foreign.start()
            self._strikes = Strikes(
                self._bookies,
                self._clients,
                metadata=metadata,
                cluster=cluster,
                tally=self.tally,
                promises=self._promises,
                twins=Twins(
                    cluster,
                    rule=PayloadRule(self.options.seed),
                    tally=self.tally,
                    findings=self._promises.findings,
                ),
                foreign=foreign,
                ack_quorum=ACK_QUORUM,
                kill_client=lambda number: self._replace_client(number, url),
            )
            await self._watched(self._strike(self._strikes), is_writing=True)
            await self._watched(self._close())
            if not self.load.acked:
                raise SoakError(f"nothing was acknowledged at all: see {self.options.work}")
            await self._watched(JobOutput(cluster, self._promises, self.tally).judge())

    async def _start_bookies(self, stack: AsyncExitStack, metadata_url: str) -> None:
        options = self.options
        size = SMALL_DISK_BYTES + int(options.minutes * SMALL_DISK_BYTES_PER_MINUTE)
        for number, mode in enumerate(self.modes):
            name = f"b{number}"
            small = None
            if Kind.DISK_FULL in options.loss_kinds:
                small = SmallDisk(options.work / "small" / name, size=size)
            bookie = SoakBookie(
                name,
                options.work / name,
                metadata_url=metadata_url,
                mode=mode,
                lease_s=LEASES_S[number % len(LEASES_S)],
                small=small,
                small_journal=number % 2 == 1,
            )
            self._bookies.append(bookie)
            stack.callback(bookie.end)
            bookie.start()
        for bookie in self._bookies:
            await bookie.serving()

    async def _start_client(self, number: int, metadata_url: str) -> ClientProcess:
        options = self.options
        name = f"c{number}-{len(self._gone)}"
        command = ["--metadata", metadata_url, "--seed", str(options.seed)]
        command += ["--busy", str(options.busy), "--quiet", str(options.quiet)]
        log = options.work / f"{name}.log"
        client = ClientProcess(name, self._promises, command=command, log=log)
        await client.start()
        return client

    async def _replace_client(self, number: int, metadata_url: str) -> None:
        await self._clients[number].kill()
        self._gone.append(self._clients[number])
        self._clients[number] = await self._start_client(number, metadata_url)

    async def _end_clients(self) -> None:
        for client in self._clients:
            await client.kill()

    async def _strike(self, strikes: Strikes) -> None:
        self._started = time.monotonic()
        options = self.options
        plan = losses(options.seed, bookies=BOOKIES, kinds=options.loss_kinds)
        others = nuisances(options.seed, bookies=BOOKIES, clients=CLIENTS)
        tracks = [
            asyncio.create_task(strikes.carry_out(islice(plan, options.losses_max))),
            asyncio.create_task(strikes.carry_out(others)),
        ]
        try:
            await asyncio.wait(
                tracks, timeout=options.minutes * 60, return_when=asyncio.FIRST_COMPLETED
            )
            strikes.stop()
            await asyncio.gather(*tracks)
        finally:
            for track in tracks:
                track.cancel()
            await asyncio.gather(*tracks, return_exceptions=True)

    async def _close(self) -> None:
        """The clients close what they have open, now that everybody is well."""
        await asyncio.gather(*(client.stop() for client in self._clients))

    # Watching
    async def _watched(
        self, work: Coroutine[None, None, None], *, is_writing: bool = False
    ) -> None:
        """Does the work unless something is found meanwhile: SoakError then."""
        task = asyncio.ensure_future(work)
        watch = asyncio.create_task(self._watch(is_writing))
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                await watch
            await task
        finally:
            for one in (task, watch):
                one.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)
        self._check()

    async def _watch(self, is_writing: bool) -> None:
        told = grown = time.monotonic()
        acked = 0
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            self._check()
            if self.load.acked > acked or not is_writing:
                acked, grown = self.load.acked, time.monotonic()
            if time.monotonic() - grown > ACK_WAIT_S:
                raise SoakError(
                    f"nothing was acknowledged for {ACK_WAIT_S:.0f} s, {acked} entries before: "
                    f"see whether bookies are short of space, in {self.options.work}"
                )
            if time.monotonic() - told >= PROGRESS_EVERY_S:
                told = time.monotonic()
                print(self.progress(), flush=True)

    def _check(self) -> None:
        for bookie in self._bookies:
            if bookie.is_expected and not bookie.runs:
                raise SoakError(
                    f"{bookie.name} ended by itself with code {bookie.exit_code}: {bookie.log}"
                )
        for client in self._clients:
            if client.is_expected and not client.runs:
                raise SoakError(f"client {client.name} ended by itself: {client.log}")
        if self.findings.total:
            raise SoakError("a promise was broken")

    def progress(self) -> str:
        return progress_line(
            self.tally,
            self.load,
            elapsed_s=self.seconds,
            minutes=self.options.minutes,
            limbo=self._strikes.limbo if self._strikes else "",
        )

    def end_small_disks(self, *, keep: bool) -> None:
        """Unmounts them; `keep`: what lies there is put beside the rest before."""
        for bookie in self._bookies:
            if bookie.small is None:
                continue
            if keep:
                bookie.small.keep(bookie.folder / "small-disk")
            bookie.small.unmount()
