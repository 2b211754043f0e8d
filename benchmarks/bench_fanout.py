"""What the client and the bookies make of the machine: appends against a bare fan-out to disk.

    python -m benchmarks.bench_fanout [--dir DIRECTORY] [--rounds 3] [--mib 256] [--loop auto]

The probe is one sender and one or three sinks that write what they receive to disk with direct
writes (`benchmarks.sink`): no framing, no checksums, no acks. Our side sends the same payload to
one bookie (1/1/1) or three (ensemble 3, write quorum 3, ack quorum 2), real processes in memory
mode beside the embedded ZooKeeper, and waits for the last entry's ack by the watermark. Both take
turns within one round; the figure to look at is the ratio of a round, its median and its spread
over the rounds. At the end of a turn up to a ring (32 MiB a bookie) may still be on its way to the
disk: that is what memory mode means. Needs four times `--mib` of free space, twice over.
"""

import argparse
import asyncio
import importlib
import os
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bookie.client.ledgers import Client
from bookie.metadata.opening import open_store
from bookie.protocol.entry import ENTRY_HEADER
from bookie.protocol.ids import EntryId, LedgerId
from bookie.protocol.runs import build_run

from benchmarks.fleet import BOOKIES, Fleet, Sinks
from benchmarks.sink import ANNOUNCEMENT_BYTES

KIB: Final = 1024
MIB: Final = 1024 * KIB
SIZES: Final = (KIB, 64 * KIB)
FANS: Final = ((1, (1, 1, 1)), (BOOKIES, (3, 3, 2)))
APPEND_BYTES: Final = 256 * KIB
"""Payload bytes given to the writer at a time, as an application that batches a little would."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One measurement. `client_us` and `bookies_us`: CPU per entry, all bookies together."""

    mib_per_s: float
    entries_per_s: float
    client_us: float = 0.0
    bookies_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the rounds, MiB/s of payload per receiver; `low`..`high`: the ratio's spread."""

    entry_bytes: int
    bookies: int
    probe_mib_per_s: float
    client_mib_per_s: float
    entries_per_s: float
    client_us: float
    bookies_us: float
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, size: int, bookies: int, rounds: Sequence[tuple[Turn, Turn]]) -> "Row":
        ratios = [ours.mib_per_s / probe.mib_per_s for probe, ours in rounds]
        median = statistics.median
        return cls(
            size,
            bookies,
            median(probe.mib_per_s for probe, _ in rounds),
            median(ours.mib_per_s for _, ours in rounds),
            median(ours.entries_per_s for _, ours in rounds),
            median(ours.client_us for _, ours in rounds),
            median(ours.bookies_us for _, ours in rounds),
            median(ratios),
            min(ratios),
            max(ratios),
        )


HEADINGS: Final = (
    f"{'entry':>7} {'bookies':>7} {'probe':>7} {'client':>7}  {'ratio (spread)':<18}"
    f"{'entries/s':>9}  {'us/entry client + bookies':>25}"
)


def line_of(row: Row) -> str:
    return (
        f"{row.entry_bytes // KIB:>3} KiB {row.bookies:>7} {row.probe_mib_per_s:>7.0f} "
        f"{row.client_mib_per_s:>7.0f}  {row.ratio:.2f} ({row.low:.2f}-{row.high:.2f})  "
        f"{row.entries_per_s:>11.0f}  {row.client_us:>15.2f} + {row.bookies_us:.2f}"
    )


# The probe
def wire_block(size: int) -> tuple[bytes, int]:
    """About 1 MiB as our client would send it, and the entries in it."""
    count = max(MIB // size, 1)
    entries = [ENTRY_HEADER.pack(1, i, -1, 0) + bytes(4) + os.urandom(size) for i in range(count)]
    return build_run(LedgerId(1), EntryId(0), entries, lac=EntryId(-1)), count


def probe(ports: Sequence[int], block: bytes, *, count: int, size: int) -> Turn:
    """Send `count` entries in blocks to every sink at once; until all have written them."""
    per_block = max(MIB // size, 1)
    total = len(block) * (count // per_block)
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    began = time.perf_counter()
    for one in sockets:
        one.sendall(total.to_bytes(ANNOUNCEMENT_BYTES, "big"))
    _send_all(sockets, block, total)
    for one in sockets:
        one.setblocking(True)
        assert one.recv(1) == b"."
    seconds = time.perf_counter() - began
    for one in sockets:
        one.close()
    return Turn(count * size / MIB / seconds, count / seconds)


def _send_all(sockets: Sequence[socket.socket], block: bytes, total: int) -> None:
    view, sent = memoryview(block), dict.fromkeys(sockets, 0)
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            one.setblocking(False)
            selector.register(one, selectors.EVENT_WRITE, one)
        while selector.get_map():
            for key, _events in selector.select():
                sink: socket.socket = key.data
                sent[sink] += sink.send(view[sent[sink] % len(block) :])
                if sent[sink] == total:
                    selector.unregister(sink)


# Our side
async def append(
    client: Client, fleet: Fleet, *, quorums: tuple[int, int, int], count: int, size: int
) -> Turn:
    """Append `count` entries to a new ledger; until the last is acknowledged."""
    ensemble, write, ack = quorums
    payloads = [os.urandom(size)] * max(APPEND_BYTES // size, 1)
    writer = await client.create_ledger(ensemble_size=ensemble, write_quorum=write, ack_quorum=ack)
    cpu, fleet_cpu, began = time.process_time(), fleet.cpu_s(), time.perf_counter()
    last = EntryId(-1)
    for _ in range(count // len(payloads)):
        await writer.room()
        last = writer.append_many(payloads)
    await writer.wait_acked(last)
    seconds = time.perf_counter() - began
    client_us = (time.process_time() - cpu) / count * 1e6
    fleet_us = (fleet.cpu_s() - fleet_cpu) / count * 1e6
    await writer.close()
    await client.delete_ledger(writer.ledger_id)
    return Turn(count * size / MIB / seconds, count / seconds, client_us, fleet_us)


async def measure(folder: Path, *, size: int, rounds: int, mib: int) -> list[Row]:
    """All turns of one entry size, on a fleet of their own."""
    count = mib * MIB // size
    block, _ = wire_block(size)
    turns: dict[int, list[tuple[Turn, Turn]]] = {fan: [] for fan, _ in FANS}
    sinks = Sinks(folder, count=BOOKIES)
    try:
        with Fleet(folder) as fleet:
            store = await open_store(fleet.url)
            await fleet.until_registered(store)
            async with Client(store) as client:
                await append(client, fleet, quorums=(3, 3, 2), count=count // 8, size=size)
                for _ in range(rounds):
                    for fan, quorums in FANS:
                        bare = probe(sinks.ports[:fan], block, count=count, size=size)
                        ours = await append(client, fleet, quorums=quorums, count=count, size=size)
                        turns[fan].append((bare, ours))
            await store.close()
    finally:
        sinks.stop()
    return [Row.of(size, fan, turns[fan]) for fan, _ in FANS]


def loop_factory(name: str) -> tuple[str, Callable[[], Any]]:
    """The loop asked for; `auto` is what `bookie serve` takes: uvloop where it is installed."""
    if name != "asyncio":
        try:
            return "uvloop", importlib.import_module("uvloop").new_event_loop
        except ImportError:
            if name == "uvloop":
                raise
    return "asyncio", asyncio.new_event_loop


def run(*, directory: str | None, rounds: int, mib: int, loop: str) -> list[dict[str, Any]]:
    """Measure, print the table, return its rows."""
    name, factory = loop_factory(loop)
    print(f"fan-out, {mib} MiB a turn, {rounds} rounds, client on {name}; MiB/s per receiver")
    print(HEADINGS, flush=True)
    rows: list[Row] = []
    for size in SIZES:
        with (
            tempfile.TemporaryDirectory(dir=directory, prefix="bench-") as folder,
            asyncio.Runner(loop_factory=factory) as runner,
        ):
            found = runner.run(measure(Path(folder), size=size, rounds=rounds, mib=mib))
        for row in found:
            print(line_of(row), flush=True)
        rows += found
    return [{**asdict(row), "loop": name} for row in rows]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", default=None, help="where bookies and sinks write (default: temp)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=256, help="payload per turn and bookie")
    parser.add_argument("--loop", choices=["auto", "asyncio", "uvloop"], default="auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    options = parser.parse_args()
    run(directory=options.dir, rounds=options.rounds, mib=options.mib, loop=options.loop)


if __name__ == "__main__":
    main()
