"""Stories of bookies that run while their disks fail, fill up, rot, or are of an older version."""

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Final

import pytest
from bookie.frames.build import build_run
from bookie.frames.frame import parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import StoredBoot, Versioned
from bookie.protocol.availability import EntrySet
from bookie.storage.log_files import HEADER_BYTES
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.disk import CAPACITY_BYTES
from boot_scenes import ALL, FIRST, JOURNAL, ONE, SECOND, SHORT_LEASE, Scenes, down, facts, written
from fleet_disks import files, flip, put
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

OPERATIONS: Final = (
    "mkdir", "list", "stat", "open", "read", "create", "write", "sync", "rename", "syncdir",
    "space", "commit", "unlink",
)  # fmt: skip


def _boots_fail(place: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await down(fleet, "killed")
        for operation in OPERATIONS:
            bookie.disk.hiccups[place] = operation
            with fleet.quiet():
                await fleet.boot()
            if not bookie.disk.hiccups:
                fleet.note(f"{operation} fails")
                fleet.say_boot()
            bookie.disk.hiccups.clear()
            with fleet.quiet():
                fleet.crash(ONE)
        await fleet.boot()
        fleet.say_state()

    return scenes


@pytest.mark.parametrize("place", ["DIRTY", "DIRTY.new", "STAMP.new", "journal", "ledger-1", "log"])
def test_an_operation_of_a_boot_fails(place: str, snapshot: SnapshotAssertion) -> None:
    found = told(_boots_fail(place), bookies=1, ledger_dirs=2, level=100)
    assert snapshot(extension_class=Words) == found


def _runs_fail(place: str, operation: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await fleet.begin()
        quorums = {"ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1}
        with fleet.quiet():
            writer = await fleet.write(1, **quorums)
        bookie.disk.hiccups[place] = operation
        bookie.is_wanted = False
        writer.append(b"more")
        await asyncio.sleep(1.0)
        await fleet.seen("flush", fleet.handles().control.flush(BookieId(ONE)))
        await asyncio.sleep(5.0)
        fleet.say_boot()
        fleet.note("the platform begins it again")
        with fleet.quiet():
            await fleet.boot()
        fleet.say_boot()
        fleet.say_state()

    return scenes


@pytest.mark.parametrize("mode", ["memory", "journal", "sync"])
@pytest.mark.parametrize(
    ("place", "operation"), [("log", "sync"), ("journal", "write"), ("ledger-0", "commit")]
)
def test_a_disk_fails(place: str, operation: str, mode: str, snapshot: SnapshotAssertion) -> None:
    found = told(_runs_fail(place, operation), bookies=1, mode=mode, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


def _used(bookie: SimBookie) -> int:
    found = bookie.disk.directories.values()
    return sum(len(inode.seen) for each in found for inode in each.seen.values())


async def _space(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await fleet.begin()
    await written(fleet, 2, 1)
    control = fleet.handles().control
    fleet.note("so much is used by others that it is too little")
    bookie.disk.capacity_bytes = _used(bookie) + 30_000
    await fleet.seen("flush", control.flush(BookieId(ONE)))
    await asyncio.sleep(1.5)
    fleet.say_state()
    fleet.note("a little more is not enough")
    bookie.disk.capacity_bytes = _used(bookie) + 36_000
    await fleet.seen("flush", control.flush(BookieId(ONE)))
    await asyncio.sleep(1.5)
    fleet.note("a boot meanwhile")
    with fleet.quiet():
        await fleet.stop(ONE)
        await fleet.boot()
        await asyncio.sleep(1.5)
    fleet.say_boot()
    fleet.say_state()
    fleet.note("and now it is enough")
    bookie.disk.capacity_bytes = CAPACITY_BYTES
    await fleet.seen("flush", control.flush(BookieId(ONE)))
    await asyncio.sleep(1.5)
    fleet.say_state()


def test_space_runs_low_and_is_free_again(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_space, bookies=1, ledger_dirs=2)


async def _no_space_at_boot(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await down(fleet, "killed")
    for spare in (0, 2_000, 40_000):
        fleet.note(f"{spare} bytes are free")
        bookie.disk.capacity_bytes = _used(bookie) + spare
        with fleet.quiet():
            await fleet.boot()
            await asyncio.sleep(1.5)
        fleet.say_boot()
        fleet.say_disk(ONE, where=lambda path: path.endswith("DIRTY"))
        with fleet.quiet():
            fleet.crash(ONE)


def test_no_space_at_a_boot(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_no_space_at_boot, bookies=1, ledger_dirs=2)


async def _generation(fleet: Fleet) -> None:
    bookie = fleet.bookies[ONE]
    await fleet.begin()
    where = lambda path: path.endswith("DIRTY")  # noqa: E731
    for what in ("nothing is written", "something is", "the marker has no space", "it has again"):
        fleet.note(what)
        if what != "nothing is written":
            await written(fleet, 1)
        bookie.disk.capacity_bytes = CAPACITY_BYTES if "space" not in what else 0
        await asyncio.sleep(4.0)
        fleet.say_disk(ONE, where=where)
    fleet.note("the second marker cannot be written")
    await written(fleet, 1)
    bookie.disk.hiccups["ledger-0"] = "rename"
    bookie.is_wanted = False
    await asyncio.sleep(5.0)
    fleet.say_boot()
    fleet.say_disk(ONE, where=where)
    with fleet.quiet():
        await fleet.boot()
    fleet.say_boot()


def test_the_generation_rises(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_generation, bookies=1, settings=SHORT_LEASE)


def _power_goes(point: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await fleet.begin()
        await written(fleet, 2, 1)
        bookie.is_wanted = False
        bookie.arm_point(point, lambda disk: disk.power_cut(), restart_s=1.0)
        await asyncio.sleep(5.0)
        if bookie.is_up:
            await fleet.stop(ONE)
        fleet.say_disk(ONE, where=facts)
        await fleet.boot()
        fleet.say_state()

    return scenes


@pytest.mark.parametrize(
    "point",
    [
        "stop: flushed, markers still dirty", "lease: generation raised, store not written",
        "checkpoint: log synced, index not committed",
        "checkpoint: indexes committed, journal not trimmed",
    ],
    ids=lambda point: point.partition(": ")[2].replace(", ", "_").replace(" ", "_"),
)  # fmt: skip
@pytest.mark.parametrize("mode", ["memory", "journal"])
def test_power_goes_while_it_runs(point: str, mode: str, snapshot: SnapshotAssertion) -> None:
    found = told(_power_goes(point), bookies=1, mode=mode, ledger_dirs=2, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == found


def _forged(content: bytes) -> bytes:
    """The first frame of a log, with another entry 2 in it, and a good checksum."""
    frame = parse_run(content[HEADER_BYTES:])
    entries = [bytes(entry).replace(b"entry 2", b"ENTRY 2") for entry in frame.entries()]
    made = build_run(frame.ledger_id, frame.first_entry_id, entries, lac=frame.lac)
    assert len(made) == len(frame.buffer)
    return bytes(made)


async def _rot(fleet: Fleet) -> None:
    await fleet.begin()
    bookie, control = fleet.bookies[ONE], fleet.handles().control
    with fleet.quiet():
        for _ in range(2):
            writer = await fleet.write(4, ensemble_size=1, write_quorum=1, ack_quorum=1)
            await writer.close()
        await control.flush(BookieId(ONE))
        await fleet.stop(ONE)
    path = files(bookie.disk, FIRST / "log", ".log")[0]
    forged = _forged(bookie.disk.content(path))
    bookie.disk.damage(path, HEADER_BYTES, forged)
    flip(bookie.disk, path, HEADER_BYTES + len(forged) + 100)
    await fleet.boot()
    asked = EntrySet.from_ranges([(0, 9)])
    for ledger in (1, 2, 1, 3):
        what = control.recheck(BookieId(ONE), LedgerId(ledger), asked)
        await fleet.seen(f"recheck of {ledger}", what)
    for ledger, last in ((1, 1), (1, 2), (2, 0)):
        reader = await fleet.client().open_ledger(LedgerId(ledger), password=b"secret")
        await fleet.seen("read", reader.read(EntryId(0), EntryId(last)))
    fleet.say_state()
    fleet.say_disk(ONE, where=lambda path: path.endswith("sqlite"))


def test_rot_is_found(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_rot, bookies=1)


async def _duties(fleet: Fleet) -> None:
    await fleet.begin()
    await written(fleet, 2, 1)
    for _ in range(5):
        await asyncio.sleep(2.0)
        await written(fleet, 1)
        fleet.say_state()
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.say_disk(ONE)


def test_flushes_and_compactions_by_themselves(snapshot: SnapshotAssertion) -> None:
    often = {
        "durability": {"flushIntervalSeconds": 2}, "storage": {"compactionIntervalSeconds": 3}
    }  # fmt: skip
    found = told(_duties, bookies=1, ledger_dirs=2, settings=often, shows_disk=True)
    assert snapshot(extension_class=Words) == found


async def _older(fleet: Fleet) -> None:
    """Markers, stamps and indexes as the first versions wrote them."""
    disk = fleet.bookies[ONE].disk
    await down(fleet, "killed")
    disk = fleet.bookies[ONE].disk
    for directory in ALL:
        stamp = json.loads(disk.content(directory / "STAMP"))
        del stamp["volume_uids"]
        put(disk, directory / "STAMP", json.dumps(stamp).encode())
        put(disk, directory / "DIRTY", b'{"bootEpoch": 1, "mode": "memory"}')
    for directory in (FIRST, SECOND):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            database.deserialize(disk.content(directory / "index.sqlite"))
            for table in ("lac_bodies", "notes", "decisions"):
                database.execute(f"DROP TABLE {table}")
            database.execute("DELETE FROM facts WHERE name = 'noted_to'")
            put(disk, directory / "index.sqlite", database.serialize())
    fleet.cluster.boots[BookieId(ONE)] = Versioned(StoredBoot(1, is_bare=True), 7)
    await fleet.boot()
    fleet.say_state()
    fleet.say_disk(ONE, where=facts)
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("and once more")
    await fleet.boot()


def test_an_older_version_ran_before(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_older, bookies=1, ledger_dirs=2)


def _volumes(found: tuple[str, str, str], wiped: int | None) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        fleet.set(bookie, _named("j", "a", "b"))
        await down(fleet, "stopped")
        if wiped is not None:
            bookie.wipe(wiped)
        fleet.set(bookie, _named(*found))
        with fleet.quiet():
            await fleet.boot()
        fleet.say_boot()
        fleet.say_disk(ONE, where=lambda path: path.endswith("STAMP"))

    return scenes


def _named(journal: str, first: str, second: str) -> dict[str, object]:
    ledgers = [(FIRST, first), (SECOND, second)]
    return {
        "journal": {"directory": str(JOURNAL), "volumeUid": journal},
        "ledgers": [{"directory": str(path), "volumeUid": uid} for path, uid in ledgers],
    }


VOLUMES: Final[dict[str, tuple[tuple[str, str, str], int | None]]] = {
    "the same": (("j", "a", "b"), None), "wiped": (("j", "a", "b"), 2),
    "replaced": (("j", "a", "c"), 2), "the journal replaced": (("k", "a", "b"), 0),
    "a clone": (("j", "a", "c"), None), "exchanged": (("j", "b", "a"), None),
    "not named any more": (("", "", ""), None), "not named, and wiped": (("", "", ""), 2),
}  # fmt: skip


@pytest.mark.parametrize("volumes", VOLUMES)
def test_volumes_have_names(volumes: str, snapshot: SnapshotAssertion) -> None:
    found, wiped = VOLUMES[volumes]
    text = told(_volumes(found, wiped), bookies=1, ledger_dirs=2, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == text


PLACES: Final[dict[str, tuple[str, list[str]]]] = {
    "one added": ("journal", ["ledger-0", "ledger-1", "ledger-2"]),
    "one taken away": ("journal", ["ledger-0"]),
    "swapped": ("journal", ["ledger-1", "ledger-0"]),
    "journal and ledger swapped": ("ledger-0", ["journal", "ledger-1"]),
    "one elsewhere, empty": ("journal", ["ledger-0", "ledger-7"]),
}


def _elsewhere(journal: str, ledgers: list[str], how: str) -> Scenes:
    async def scenes(fleet: Fleet) -> None:
        bookie = fleet.bookies[ONE]
        await down(fleet, how)
        root = f"/{ONE}"
        changed = {
            "journal": {"directory": f"{root}/{journal}"},
            "ledgers": [{"directory": f"{root}/{name}"} for name in ledgers],
        }
        fleet.set(bookie, changed)
        with fleet.quiet():
            await fleet.boot()
        fleet.say_boot()
        fleet.note("as before")
        with fleet.quiet():
            await fleet.stop(ONE)
            fleet.set(bookie, _named("", "", ""))
            await fleet.boot()
        fleet.say_boot()

    return scenes


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("places", PLACES)
def test_other_places(places: str, how: str, snapshot: SnapshotAssertion) -> None:
    text = told(_elsewhere(*PLACES[places], how), bookies=1, ledger_dirs=2, settings=SHORT_LEASE)
    assert snapshot(extension_class=Words) == text


async def _others(fleet: Fleet) -> None:
    await down(fleet, "stopped")
    one, two = fleet.bookies[ONE], fleet.bookies["bookie-1"]
    theirs = two.disk.replace_volume(two.directories[1])
    moved = {FIRST / path.relative_to(two.directories[1]): each for path, each in theirs.items()}
    ours = one.disk.replace_volume(FIRST, moved)
    fleet.note("the disk of another bookie")
    await fleet.boot(ONE)
    with fleet.quiet():
        await fleet.stop(ONE)
    fleet.note("and its own again")
    one.disk.replace_volume(FIRST, ours)
    await fleet.boot(ONE)


def test_the_disk_of_another_bookie(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_others, bookies=2)
