"""The load of the stories, run in a pod of the bookie's image: write, remember, read all back.

`write` appends to many ledgers at once and notes every acknowledged entry in a file; a file `stop`
in its folder ends that. `check` is a fresh client that reads each noted entry back and compares
its bytes, which follow from its number. Both print lines of JSON; the last one counts.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TextIO

from bookie.client.bookkeeper_client import Client
from bookie.client.reader import Entry, LedgerReader
from bookie.client.writer import LedgerWriter
from bookie.errors import (
    BookieError,
    DataLossError,
    MetadataConflictError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnavailableError,
    UndecidableError,
)
from bookie.ids import EntryId, LedgerId
from bookie.metadata.opening import open_store

BATCH_ENTRIES: Final = 16
ROLL_ENTRIES: Final = 320
"""A ledger gets so many entries; then the next one begins."""
LEFT_OPEN_EVERY: Final = 3
"""Of so many ledgers one is left open, as by a writer that crashed."""
BACKOFF_S: Final = 0.5
PROGRESS_S: Final = 0.5
PREFILL_BYTES: Final = 8192
PREFILL_AT_ONCE: Final = 8
CHECKS_AT_ONCE: Final = 4
CHECK_TRIES: Final = 4
EXAMPLES_MAX: Final = 5


def payload_of(number: int, size: int) -> bytes:
    """The bytes of the entry with this number, the same for ever."""
    return random.Random(number).randbytes(size)


@dataclass(slots=True)
class Progress:
    """What `write` prints."""

    acked: int = 0
    ledgers: int = 0
    left_open: int = 0
    trouble: dict[str, int] = field(default_factory=dict)
    """Errors met and survived, by kind."""
    longest_gap_s: float = 0.0
    """The longest time in which nothing at all was acknowledged."""
    stopped: bool = False


class Notes:
    """The file of acknowledged entries: ledger, first entry, count, first number, size."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._number = 0
        self._last = time.monotonic()
        self.progress = Progress()

    def numbers(self, count: int) -> range:
        """Numbers that no other entry has."""
        self._number += count
        return range(self._number - count, self._number)

    def acked(self, ledger_id: int, first: int, numbers: range, size: int) -> None:
        if not numbers:
            return
        self._file.write(f"{ledger_id} {first} {len(numbers)} {numbers.start} {size}\n")
        self._file.flush()
        self.look()
        self.progress.acked += len(numbers)
        self._last = time.monotonic()

    def look(self) -> None:
        gap = round(time.monotonic() - self._last, 3)
        self.progress.longest_gap_s = max(self.progress.longest_gap_s, gap)

    def begin_counting(self) -> None:
        """Gaps count from here: the first ledger exists."""
        self._last = time.monotonic()

    def trouble(self, error: BookieError) -> None:
        kinds = Counter(self.progress.trouble)
        kinds[type(error).__name__] += 1
        self.progress.trouble = dict(kinds)

    def say(self) -> None:
        print(json.dumps(asdict(self.progress)), flush=True)


class Stream:
    """One writer after the other, each with a ledger of its own."""

    def __init__(self, client: Client, notes: Notes, *, size: int) -> None:
        self._client = client
        self._notes = notes
        self._size = size
        self._writer: LedgerWriter | None = None
        self._written = 0

    async def append(self, count: int) -> None:
        """The next entries into the present ledger; on trouble, the next ledger goes on."""
        try:
            writer = await self._open()
            await self._append(writer, self._notes.numbers(count))
            if self._written >= ROLL_ENTRIES:
                await self.end()
        except BookieError as error:
            self._notes.trouble(error)
            self._abandon()
            await asyncio.sleep(BACKOFF_S)

    async def _open(self) -> LedgerWriter:
        """The present ledger's writer, with a new ledger if there is none."""
        if self._writer is None:
            self._writer = await self._client.create_ledger(
                ensemble_size=3, write_quorum=3, ack_quorum=2
            )
            self._written = 0
            self._notes.progress.ledgers += 1
        return self._writer

    async def _append(self, writer: LedgerWriter, numbers: range) -> None:
        last = writer.append_many([payload_of(n, self._size) for n in numbers])
        first = last - len(numbers) + 1
        try:
            await writer.wait_acked(last)
        finally:
            done = max(0, min(last, writer.lac) - first + 1)
            self._notes.acked(writer.ledger_id, first, numbers[:done], self._size)
            self._written += done

    async def end(self) -> None:
        """Close the ledger, or leave it open now and then, as a writer that crashed."""
        progress = self._notes.progress
        if self._writer is None:
            return
        if progress.ledgers % LEFT_OPEN_EVERY == 0:
            progress.left_open += 1
            self._abandon()
            return
        await self._writer.close()
        self._writer = None

    async def end_quietly(self) -> None:
        try:
            await self.end()
        except BookieError as error:
            self._notes.trouble(error)
            self._abandon()

    def _abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        self._writer = None


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is written."""

    streams: int
    rate: int
    size: int
    prefill_ledgers: int
    prefill_mib: int


class Load:
    """All streams at a steady rate until told to stop."""

    def __init__(self, client: Client, notes: Notes, stop: Path, shape: Shape) -> None:
        self._client = client
        self._notes = notes
        self._stop = stop
        self._shape = shape

    async def run(self) -> None:
        await self._prefill()
        self._notes.begin_counting()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._shape.streams):
                group.create_task(self._write(self._stream(self._shape.size)))
            group.create_task(self._tell())

    def _stream(self, size: int) -> Stream:
        return Stream(self._client, self._notes, size=size)

    async def _write(self, stream: Stream) -> None:
        pause = BATCH_ENTRIES * self._shape.streams / self._shape.rate
        while not self._stop.exists():
            due = asyncio.create_task(asyncio.sleep(pause))
            await stream.append(BATCH_ENTRIES)
            await due
        await stream.end_quietly()

    async def _tell(self) -> None:
        while not self._stop.exists():
            self._notes.look()
            self._notes.say()
            await asyncio.sleep(PROGRESS_S)

    async def _prefill(self) -> None:
        """So many ledgers before anything else, some closed and some left open."""
        ledgers = self._shape.prefill_ledgers
        if not ledgers:
            return
        entries = max(1, self._shape.prefill_mib * 2**20 // (ledgers * PREFILL_BYTES))
        turns = iter(range(ledgers))
        async with asyncio.TaskGroup() as group:
            for _ in range(PREFILL_AT_ONCE):
                group.create_task(self._fill(turns, entries))

    async def _fill(self, turns: Iterator[int], entries: int) -> None:
        stream = self._stream(PREFILL_BYTES)
        for _ in turns:
            await stream.append(entries)
            await stream.end_quietly()
        self._notes.say()


@dataclass(slots=True)
class Verdict:
    """What `check` prints. `lost`: denied, or cut off by a close; `unknown`: no answer now."""

    acked: int = 0
    ledgers: int = 0
    read: int = 0
    lost: int = 0
    wrong: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(text)


@dataclass(frozen=True, slots=True)
class Noted:
    """Acknowledged entries of one ledger: `count` from `first`, numbered from `number`."""

    first: int
    count: int
    number: int
    size: int


def read_notes(path: Path) -> dict[int, list[Noted]]:
    found: dict[int, list[Noted]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        ledger, first, count, number, size = map(int, line.split())
        found.setdefault(ledger, []).append(Noted(first, count, number, size))
    return found


class Check:
    """Reads back what was noted, ledger by ledger; an open ledger is recovered first."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.verdict = Verdict()

    async def run(self, notes: dict[int, list[Noted]]) -> None:
        turns = iter(notes.items())
        async with asyncio.TaskGroup() as group:
            for _ in range(CHECKS_AT_ONCE):
                group.create_task(self._some(turns))

    async def _some(self, turns: Iterator[tuple[int, list[Noted]]]) -> None:
        for ledger, noted in turns:
            self.verdict.ledgers += 1
            self.verdict.acked += sum(one.count for one in noted)
            try:
                reader = await self._tried(LedgerId(ledger))
            except BookieError as error:
                self._blame(ledger, sum(one.count for one in noted), error)
                continue
            for one in noted:
                await self._range(reader, one)

    async def _tried(self, ledger_id: LedgerId) -> LedgerReader:
        """A reader of the ledger, closed if a recovery can be decided now."""
        for _ in range(CHECK_TRIES - 1):
            with suppress(UndecidableError, UnavailableError, MetadataConflictError):
                return await self._open(ledger_id)
            await asyncio.sleep(BACKOFF_S)
        return await self._open(ledger_id)

    async def _open(self, ledger_id: LedgerId) -> LedgerReader:
        reader = await self._client.open_ledger(ledger_id)
        if reader.is_closed:
            return reader
        return await self._client.recover_ledger(ledger_id)

    async def _range(self, reader: LedgerReader, noted: Noted) -> None:
        """Together first; one by one if that fails, so that each entry is judged by itself."""
        last = noted.first + noted.count - 1
        try:
            entries = await reader.read(EntryId(noted.first), EntryId(last))
        except BookieError:
            if noted.count == 1:
                await self._one(reader, noted)
                return
            for i in range(noted.count):
                await self._one(reader, Noted(noted.first + i, 1, noted.number + i, noted.size))
            return
        for entry in entries:
            self._compare(reader, noted, entry)

    async def _one(self, reader: LedgerReader, noted: Noted) -> None:
        try:
            (entry,) = await reader.read(EntryId(noted.first), EntryId(noted.first))
        except BookieError as error:
            self._blame(reader.ledger_id, 1, error)
        else:
            self._compare(reader, noted, entry)

    def _compare(self, reader: LedgerReader, noted: Noted, entry: Entry) -> None:
        self.verdict.read += 1
        if entry.payload != payload_of(noted.number + entry.entry_id - noted.first, noted.size):
            self.verdict.wrong += 1
            self.verdict.complain(f"ledger {reader.ledger_id} entry {entry.entry_id}: other bytes")

    def _blame(self, ledger: int, count: int, error: BookieError) -> None:
        """Denied is lost; whatever else stands in the way leaves it unknown."""
        if isinstance(error, DataLossError | NoSuchEntryError | NoSuchLedgerError):
            self.verdict.lost += count
        else:
            self.verdict.unknown += count
        self.verdict.complain(f"ledger {ledger}, {count} entries: {error!r}")


async def write(options: argparse.Namespace) -> None:
    shape = Shape(
        options.streams, options.rate, options.size, options.prefill_ledgers, options.prefill_mib
    )
    stop = options.folder / "stop"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.touch)
    store = await open_store(options.metadata)
    try:
        with (options.folder / "acked").open("w", encoding="utf-8") as file:
            notes = Notes(file)
            async with Client(store) as client:
                await Load(client, notes, stop, shape).run()
    finally:
        await store.close()
    notes.progress.stopped = True
    notes.say()


async def check(options: argparse.Namespace) -> None:
    store = await open_store(options.metadata)
    try:
        async with Client(store) as client:
            checking = Check(client)
            await checking.run(read_notes(options.folder / "acked"))
    finally:
        await store.close()
    print(json.dumps(asdict(checking.verdict)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("--metadata", required=True, help="zk://host:port/ledgers")
    parser.add_argument("--folder", type=Path, required=True, help="notes and the stop file")
    parser.add_argument("--streams", type=int, default=6)
    parser.add_argument("--rate", type=int, default=240, help="entries a second, in all")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--prefill-ledgers", type=int, default=0)
    parser.add_argument("--prefill-mib", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(write(options) if options.what == "write" else check(options))


if __name__ == "__main__":
    main()
