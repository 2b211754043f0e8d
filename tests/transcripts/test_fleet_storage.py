"""Stories of a storage: adds, notes, checkpoints, the journal, the logs, reads, full disks."""

from typing import Any, Final

import pytest
from bookie.frames.frame import Pattern
from bookie.testing.simulation.disk import MachineDisk
from storage_story import Acts, Keeper, kept, turns
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

MODES: Final = ("memory", "journal", "sync")


async def _adds(keeper: Keeper) -> None:
    keeper.begin(shows=True)
    keeper.put(1, master_key=b"key", noted=True)
    keeper.put(2, master_key=b"key", noted=True)
    keeper.add(1, 0, 3)
    keeper.add(2, 0, 1)
    keeper.add(1, 3, 2, lac=1)
    await turns()
    keeper.put(1, explicit_lac=4, lac_body=b"a body of sixteen.")
    keeper.read(1, 1, 4)
    await turns()
    keeper.say()
    keeper.checkpoint()
    keeper.note("nothing is new")
    keeper.checkpoint()
    keeper.read(1, 1, 4)
    keeper.add(1, 5, 1, lac=4)
    keeper.add(2, 1, 1, lac=0)
    keeper.read(1, 3, 6)
    await turns()
    keeper.note("power goes")
    keeper.crash()
    keeper.begin(shows=True)
    keeper.say()
    keeper.close()
    keeper.begin()


@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_adds(mode: str, dirs: int, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_adds, mode=mode, ledger_dirs=dirs)


async def _notes(keeper: Keeper) -> None:
    keeper.begin()
    for ledger in (1, 2, 3):
        keeper.put(ledger, noted=True)
        keeper.add(ledger, 0)
    await turns()
    for number in range(4):
        keeper.note(f"flush {number}")
        if number == 1:
            keeper.add(1, 1)
        keeper.checkpoint()
        if number == 1:
            keeper.add(2, 1)  # after the flush and before the notes
        while keeper.seen("notes", keeper.open.take_back_notes):
            pass
        keeper.say(where=lambda path: path.endswith("sqlite"))
    keeper.note("killed before the last ones were flushed")
    keeper.crash(MachineDisk.kill)
    keeper.begin()
    keeper.say()
    keeper.note("an old one is noted again")
    keeper.put(3, noted=True)
    await turns()
    keeper.crash()
    keeper.begin()
    keeper.say(where=lambda path: path.endswith("sqlite"))


@pytest.mark.parametrize("idle", [1, 2, None])
@pytest.mark.parametrize("dirs", [1, 2])
def test_notes(idle: int | None, dirs: int, snapshot: SnapshotAssertion) -> None:
    found = kept(_notes, ledger_dirs=dirs, shows_disk=False, settings={"note_idle_flushes": idle})
    assert snapshot(extension_class=Words) == found


async def _journal(keeper: Keeper) -> None:
    keeper.begin()
    keeper.note("records until there is no room, and the next file")
    for ledger in range(1, 90):
        with keeper.quiet():
            keeper.put(ledger, master_key=b"k" * 200, lac_body=b"b" * 300)
    keeper.seen("unwritten", lambda: len(keeper.open._unwritten))
    with keeper.quiet():
        await turns()
    keeper.seen("unwritten", lambda: len(keeper.open._unwritten))
    keeper.checkpoint()
    keeper.put(1, fenced=True)
    await turns()
    keeper.say(where=lambda path: path.startswith("journal"))
    keeper.note("the trim has no time to unlink the second file")
    keeper.seen("a new file", keeper.open._journal.begin_file)
    keeper.put(2, fenced=True)
    await turns()
    keeper.seen("a new file", keeper.open._journal.begin_file)
    keeper.disk.hiccups["journal"] = "unlink"
    keeper.checkpoint()
    keeper.checkpoint()
    keeper.crash()
    keeper.begin(shows=True)
    keeper.say(where=lambda path: path.startswith("journal"))
    keeper.close()
    keeper.say(where=lambda path: path.startswith("journal"))


def test_the_journal_rolls_and_is_trimmed(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_journal)


async def _log(keeper: Keeper) -> None:
    keeper.begin()
    keeper.note("too long for the log")
    keeper.add(1, 0, 1, size=9000)
    keeper.note("until there is no room, then more than one file")
    for first in range(0, 10, 2):
        keeper.add(1, first, 2, size=1800)
    await turns()
    for first in range(6, 20, 2):
        keeper.add(1, first, 2, size=1800)
        await turns()
    keeper.read(1, 0, 19)
    keeper.say()
    keeper.checkpoint()
    keeper.read(1, 0, 19, bytes_max=9000)
    keeper.seen("usage", keeper.open.maintenance.usage)
    keeper.close()
    keeper.say()
    keeper.begin()
    keeper.add(1, 20)
    keeper.checkpoint()
    keeper.say()


@pytest.mark.parametrize("mode", MODES)
def test_the_log_rolls(mode: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_log, mode=mode)


async def _recoveries(keeper: Keeper) -> None:
    keeper.begin()
    keeper.add(1, 0, 4)
    keeper.add(1, 1, 2, recovery=True)
    keeper.note("the same again is kept, a part too, but no more than that")
    keeper.add(1, 1, 2, recovery=True)
    keeper.add(1, 2, 1, recovery=True)
    keeper.add(1, 2, 2, recovery=True)
    keeper.add(1, 1, 2)
    await turns()
    keeper.add(1, 1, 2, recovery=True)
    await turns()
    keeper.read(1, 0, 9)
    keeper.checkpoint()
    keeper.note("nothing is in memory now: it is stored once more")
    keeper.add(1, 1, 2, recovery=True)
    keeper.note("between others, in stripes")
    keeper.add(1, 10, 3, recovery=True, pattern=Pattern(1, 3))
    keeper.add(1, 11, 4, pattern=Pattern(2, 3))
    keeper.add(1, 8, 8)
    await turns()
    for first, last in ((9, 12), (12, 12), (13, 20), (0, 30)):
        keeper.read(1, first, last)
    keeper.checkpoint()
    keeper.say()
    for first, last in ((9, 12), (12, 12), (13, 20), (0, 30)):
        keeper.read(1, first, last)
    keeper.read(1, 0, 30, bytes_max=1)
    keeper.crash()
    keeper.begin()
    keeper.say(where=lambda path: path.endswith("sqlite"))


@pytest.mark.parametrize("mode", MODES)
def test_recoveries(mode: str, snapshot: SnapshotAssertion) -> None:
    found = kept(_recoveries, mode=mode, shows_disk=False)
    assert snapshot(extension_class=Words) == found


async def _reads(keeper: Keeper) -> None:
    keeper.begin()
    keeper.add(1, 0, 90, size=600)
    keeper.add(2, 0, 60, size=600, pattern=Pattern(2, 3))
    keeper.add(1, 90, 1)
    keeper.note("in memory; of the long one a part")
    for first, last in ((0, 0), (5, 44), (5, 49), (5, 50), (60, 89), (88, 95), (91, 91)):
        keeper.read(1, first, last)
    for first, last in ((0, 0), (2, 2), (3, 4), (30, 60), (80, 95)):
        keeper.read(2, first, last)
    keeper.checkpoint()
    keeper.add(1, 91, 3)
    keeper.add(1, 89, 2)
    keeper.note("half in the index, half in memory")
    for first, last in ((0, 99), (88, 92), (90, 90)):
        keeper.read(1, first, last)
    keeper.read(1, 0, 99, bytes_max=50_000)
    keeper.read(1, 90, 99, bytes_max=200)
    keeper.read(3, 0, 10)
    keeper.close()
    keeper.begin()
    keeper.note("from the disk")
    for first, last in ((0, 99), (5, 44), (88, 92)):
        keeper.read(1, first, last)
    keeper.note("the disk fails while it is read, once, and then the index")
    for operation in ("read", "open"):
        keeper.disk.hiccups["log"] = operation
        keeper.read(2, 0, 10)
        keeper.read(2, 0, 10)


def test_reads(snapshot: SnapshotAssertion) -> None:
    found = kept(_reads, shows_disk=False, ring_blocks=32, file_blocks=32)
    assert snapshot(extension_class=Words) == found


FAILURES: Final = (
    ("log", "write"), ("log", "sync"), ("log", "rename"), ("log", "syncdir"), ("log", "create"),
    ("log", "space"), ("journal", "write"), ("journal", "sync"), ("journal", "rename"),
    ("journal", "syncdir"), ("journal", "create"), ("ledger-1", "write"), ("ledger-1", "sync"),
    ("ledger-1", "commit"), ("index.sqlite", "sync"),
)  # fmt: skip
"""A directory or file, and the operation that fails there once."""


def _fails(place: str, operation: str) -> Acts:
    async def acts(keeper: Keeper) -> None:
        keeper.begin()
        keeper.put(1, fenced=True)
        keeper.add(1, 0)
        keeper.add(2, 0)
        await turns()
        keeper.disk.hiccups[place] = operation
        keeper.note("it fails")
        keeper.put(2, fenced=True)
        for first in (1, 3, 5):
            keeper.add(1, first, 2, size=1800)
            keeper.add(2, first, 2, size=1800)
            await turns()
        keeper.seen("fails still", lambda: dict(keeper.disk.hiccups))
        keeper.checkpoint()
        keeper.note("a disk that works again")
        keeper.disk.hiccups.clear()
        keeper.seen("failure", lambda: str(keeper.open.failure))
        keeper.add(1, 7)
        keeper.put(1, explicit_lac=3)
        await turns()
        keeper.checkpoint()
        keeper.read(1, 0, 9)
        keeper.close()
        keeper.crash()
        keeper.begin()
        keeper.say(where=lambda path: path.endswith("sqlite"))

    return acts


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("place", "operation"), FAILURES)
def test_an_operation_fails_once(
    place: str, operation: str, mode: str, snapshot: SnapshotAssertion
) -> None:
    found = kept(_fails(place, operation), mode=mode, ledger_dirs=2, shows_disk=False)
    assert snapshot(extension_class=Words) == found


RESERVE: Final = {"reserve_bytes": 8 << 20}
"""As much as a journal leaves free."""


async def _full(keeper: Keeper) -> None:
    keeper.begin()
    for first in range(0, 14, 2):
        keeper.add(1, first, 2, size=1800)
        await turns()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.put(1, fenced=True)
    await turns()
    keeper.seen("usage", keeper.open.maintenance.usage)
    keeper.checkpoint()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.note("there is less space than the index needs")
    keeper.disk.capacity_bytes = sum(map(_size, keeper.disk.directories.values()))
    for ledger in (2, 3, 4):
        keeper.put(ledger, master_key=b"k" * 200, lac_body=b"b" * 1000)
    await turns()
    keeper.checkpoint()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.read(1, 0, 20)
    keeper.note("somebody frees space")
    keeper.disk.capacity_bytes = 1 << 24
    keeper.checkpoint()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    await turns()
    keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    for first in (14, 16, 18):
        keeper.add(1, first, 2, size=1800)
        await turns()
    keeper.close()
    keeper.begin()
    keeper.say()


def _size(directory: Any) -> int:
    return sum(len(inode.seen) for inode in directory.seen.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk(mode: str, snapshot: SnapshotAssertion) -> None:
    found = kept(_full, mode=mode, shows_disk=False, capacity_blocks=2048 + 21, settings=RESERVE)
    assert snapshot(extension_class=Words) == found


async def _reserve(keeper: Keeper) -> None:
    keeper.begin()
    keeper.note("a spare is made only if so much stays free")
    for blocks in (14, 13, 12, 30):
        keeper.disk.capacity_bytes = 4096 * (2048 + blocks)
        keeper.seen(f"{blocks} blocks: full", lambda: keeper.open.maintenance.is_full)
        keeper.checkpoint()
        keeper.seen("usage", keeper.open.maintenance.usage)
        keeper.seen("full", lambda: keeper.open.maintenance.is_full)
        await turns()
        keeper.seen("full", lambda: keeper.open.maintenance.is_full)
        keeper.add(1, blocks, 2, size=1800)
        keeper.add(1, blocks + 2, 2, size=1800)
        await turns()


def test_space_runs_low_and_is_free_again(snapshot: SnapshotAssertion) -> None:
    found = kept(_reserve, shows_disk=False, capacity_blocks=2048 + 14, settings=RESERVE)
    assert snapshot(extension_class=Words) == found


async def _hasty(keeper: Keeper) -> None:
    """Nobody asks for a sync in memory mode; half a ring of bytes is written by itself."""
    keeper.begin()
    keeper.add(1, 0)
    keeper.checkpoint()
    await turns()
    keeper.note("just less than half of the ring")
    keeper.add(1, 1, size=4008)
    keeper.add(1, 2, size=4007)
    await turns()
    keeper.note("one byte more makes half of it")
    keeper.checkpoint()
    keeper.add(1, 3, size=4008)
    keeper.add(1, 4, size=4008)
    await turns()


def test_half_a_ring_is_written(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == kept(_hasty, file_blocks=8)


async def _second_is_full(keeper: Keeper) -> None:
    keeper.begin()
    keeper.note("the first directory gets the last file")
    keeper.disk.capacity_bytes = 4096 * (2048 + 20)
    for ledger in (2, 1):
        keeper.add(ledger, 0)
        keeper.checkpoint()
        await turns()
        keeper.seen("full", lambda: keeper.open.maintenance.is_full)
    keeper.say(where=lambda path: "log" in path)


def test_the_second_directory_is_full(snapshot: SnapshotAssertion) -> None:
    found = kept(
        _second_is_full, ledger_dirs=2, shows_disk=False, capacity_blocks=3000, settings=RESERVE
    )
    assert snapshot(extension_class=Words) == found
