"""The right of a process to be its bookie, its registration, and its duties in the background.

Each of these is done again and again: so each story lets it fail once, change in between, or come
too late.
"""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import Versioned
from bookie.wire.native import Op
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
ID: Final = BookieId(NAME)
SHORT: Final = {"lease": {"seconds": 6, "confirmSeconds": 2}}


def leased(scenes: Any, **means: Any) -> str:
    settings = SHORT | means.pop("settings", {})
    return told(scenes, bookies=1, shows_messages=False, settings=settings, **means)


async def one(fleet: Fleet, count: int = 2) -> LedgerId:
    with fleet.quiet():
        ledger_id = await fleet.ledger(NAME, ack=1)
        line = await fleet.line(NAME)
        await line.add(ledger_id, 0, count)
        line.transport.close()
    return ledger_id


def stored(fleet: Fleet, **changes: Any) -> None:
    """Somebody else changes what the metadata store says of its last boot."""
    found = fleet.cluster.boots[ID]
    fleet.cluster.boots[ID] = Versioned(replace(found.value, **changes), found.version + 1)


# The lease
async def _runs_out(fleet: Fleet) -> None:
    await fleet.begin()
    ledger_id = await one(fleet)
    line = await fleet.line(NAME)
    fleet.note("away for one confirmation, then for longer than a lease")
    for away_s in (2, 8):
        fleet.weather.is_out = True
        await asyncio.sleep(away_s)
        await fleet.seen("an add", line.add(ledger_id, 2))
        await fleet.seen("a recovery add", line.add(ledger_id, 3, flags=1))
        await fleet.seen("a read", line.read(ledger_id, 0, 9))
        await fleet.seen("a fence", line.of_lac(Op.READ_LAC, ledger_id, fence=True))
        await fleet.ask(NAME, "GetHealth")
        fleet.weather.is_out = False
        await asyncio.sleep(4)
        await fleet.seen("a recovery add", line.add(ledger_id, 3, flags=1))
    await fleet.ask(NAME, "SetReadOnly", read_only=True)
    fleet.weather.is_out = True
    await asyncio.sleep(8)
    fleet.say_state()
    await fleet.ask(NAME, "SetReadOnly", read_only=False)
    fleet.weather.is_out = False
    await asyncio.sleep(6)
    fleet.say_state()


def test_a_lease_that_runs_out(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(_runs_out)


async def _generations(fleet: Fleet) -> None:
    await fleet.begin()
    fleet.note("nothing is written: the generation stays")
    await asyncio.sleep(4.5)
    ledger_id = await one(fleet)
    await asyncio.sleep(4.5)
    fleet.note("no space for it on one of two disks; then there is")
    disk, line = fleet.bookies[NAME].disk, await fleet.line(NAME)
    await line.add(ledger_id, 2)
    disk.fail("create", pattern="DIRTY.new", error=errno.ENOSPC)
    await asyncio.sleep(4.5)
    fleet.note("the answer of the store is lost, and it happens late")
    await line.add(ledger_id, 3)
    fleet.weather.late_writes = 1.0
    await asyncio.sleep(2)
    fleet.weather.late_writes = 0.0
    await asyncio.sleep(12)
    fleet.note("a disk fails")
    fleet.bookies[NAME].is_wanted = False
    await line.add(ledger_id, 4)
    disk.fail("create", pattern="DIRTY.new", error=errno.EIO)
    await asyncio.sleep(3)
    fleet.say_state()
    fleet.say_store()


def test_generations(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(_generations, ledger_dirs=2, shows_disk=False)


RIVALS: Final[dict[str, dict[str, Any]]] = {
    "another process of a later boot": {"epoch": 2, "nonce": "rival"},
    "another process of the same boot": {"nonce": "rival"},
    "an earlier process": {"epoch": 0, "nonce": "former"},
    "a person's decision": {"rolled_back": "found by somebody"},
}


async def _rivals(fleet: Fleet, what: str) -> None:
    await fleet.begin()
    fleet.bookies[NAME].is_wanted = False
    ledger_id = await one(fleet)
    await asyncio.sleep(1)
    fleet.note(what)
    stored(fleet, **RIVALS[what])
    await asyncio.sleep(2)
    with fleet.quiet():
        line = await fleet.line(NAME) if fleet.bookies[NAME].is_serving else None
    if line is not None:
        await fleet.seen("an add", line.add(ledger_id, 2))
        await fleet.ask(NAME, "GetHealth")
        fleet.note("and a person accepts it")
        stored(fleet, rolled_back="")
        await asyncio.sleep(2)
        await fleet.ask(NAME, "GetHealth")
    fleet.say_state()
    fleet.say_store()


@pytest.mark.parametrize("what", RIVALS)
def test_somebody_else_writes_its_claim(what: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(lambda fleet: _rivals(fleet, what))


async def _put_back(fleet: Fleet) -> None:
    await fleet.begin()
    former = fleet.cluster.boots[ID]
    ledger_id = await one(fleet)
    await asyncio.sleep(5)
    fleet.note("the metadata store is put back to what it was; then it knows nothing of it")
    fleet.cluster.boots[ID] = former
    await asyncio.sleep(2.5)
    await fleet.ask(NAME, "GetHealth")
    del fleet.cluster.boots[ID]
    await asyncio.sleep(2.5)
    line = await fleet.line(NAME)
    await fleet.seen("an add", line.add(ledger_id, 2))
    fleet.say_state()
    fleet.say_store()


def test_a_metadata_store_that_is_put_back(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(_put_back)


# The registration
async def _registers(fleet: Fleet, folder: Path) -> None:
    rack, advertised = folder / "rack", folder / "advertised"
    fleet.set(fleet.bookies[NAME], {"rackFile": str(rack), "advertisedFile": str(advertised)})
    await fleet.start()
    for what, text in (
        ("a rack", "/rack-a\n"), ("the same", "/rack-a"),
        ("a wrong one", "rack"), ("again", "rack"),
        ("none", ""), ("a long one", "/" + 99 * "r"), ("the longest", "/" + 98 * "r"),
        ("two levels", "/region/rack-b"), ("no words", "\udc80"),
    ):  # fmt: skip
        fleet.note(f"rack file: {what}")
        rack.write_text(text, errors="surrogateescape")
        await asyncio.sleep(1)
    rack.unlink()
    await asyncio.sleep(1)
    for what, text in (
        ("both", "run=run.example.org:31812 stock=192.0.2.7:31811\n"),
        ("one", "run=[2001:db8::7]:31812"),
        ("unknown", "admin=a:1"),
        ("unknown again", "admin=a:1"),
        ("twice", "run=a:1 run=b:2"),
        ("no port", "run=a:0 stock=b:1"),
        ("too high a port", "run=a:65536"),
        ("none", ""),
        ("too long", "run=a:1 " * 200),
    ):
        fleet.note(f"advertised file: {what}")
        advertised.write_text(text)
        await asyncio.sleep(1)


def test_what_is_registered(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    text = leased(lambda fleet: _registers(fleet, tmp_path))
    assert snapshot(extension_class=Words) == text.replace(str(tmp_path), "/FOLDER")


async def _settings(fleet: Fleet, folder: Path) -> None:
    (folder / "rack").write_text("/of-the-file")
    (folder / "advertised").write_text("run=of-the-file:1")
    fleet.set(
        fleet.bookies[NAME],
        {
            "rackFile": str(folder / "rack"), "advertisedFile": str(folder / "advertised"),
            "rack": "/of-the-settings", "advertised": {"run": "settings:2"},
        },
    )  # fmt: skip
    with fleet.quiet():
        await fleet.start()
    fleet.say_store()


def test_settings_come_before_files(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(lambda fleet: _settings(fleet, tmp_path))


async def _registration_lost(fleet: Fleet) -> None:
    await fleet.begin()
    bookie = fleet.bookies[NAME]
    fleet.note("its session ends, and again while the store is away")
    for is_out in (False, True):
        bookie.store.expire()  # type: ignore[union-attr]
        fleet.weather.is_out = is_out
        await asyncio.sleep(1)
        fleet.record.note(f"= registered: {ID in fleet.cluster.registered}")
        await asyncio.sleep(3)
        fleet.weather.is_out = False
        await asyncio.sleep(2)
        fleet.record.note(f"= registered: {ID in fleet.cluster.registered}")
    fleet.note("the answer to a change is lost: it is made again; and it is taken back meanwhile")
    fleet.weather.lost_replies = 1.0
    await fleet.ask(NAME, "SetReadOnly", read_only=True)
    fleet.weather.lost_replies = 0.0
    await fleet.ask(NAME, "GetHealth")
    await fleet.ask(NAME, "SetReadOnly", read_only=False)
    await asyncio.sleep(2)
    asked = [fleet.ask(NAME, "SetReadOnly", read_only=one) for one in (True, False, True, False)]
    await asyncio.gather(*asked)
    fleet.say_store()
    fleet.note("it stops while the store is away")
    fleet.weather.is_out = True
    await fleet.stop(NAME)
    fleet.say_store()


def test_a_registration_that_is_lost(snapshot: SnapshotAssertion) -> None:
    settings = {"lease": {"seconds": 60, "confirmSeconds": 15}}
    assert snapshot(extension_class=Words) == leased(_registration_lost, settings=settings)


# Starts and stops
async def _starts(fleet: Fleet) -> None:
    bookie = fleet.bookies[NAME]
    fleet.note("it stops while it waits for the metadata store")
    fleet.weather.is_out = True
    bookie.start()
    await asyncio.sleep(4)
    await fleet.stop(NAME)
    fleet.say_state()
    fleet.note("the store goes away in the middle of the boot, and comes back")
    fleet.weather.is_out = False
    fleet.network.lags[NAME, "metadata"] = 0.2
    bookie.is_wanted = True
    bookie.start()
    await asyncio.sleep(1.5)
    fleet.weather.is_out = True
    await asyncio.sleep(4)
    fleet.weather.is_out = False
    await fleet.until(lambda: bookie.is_serving, "it serves")
    await asyncio.sleep(1)
    fleet.note("it stops in the middle of its next boot, at once, and with an answer under way")
    fleet.network.lags.clear()
    await fleet.stop(NAME)
    fleet.network.lags[NAME, "metadata"] = 0.2
    bookie.start()
    await asyncio.sleep(0.9)
    await fleet.stop(NAME)
    fleet.say_state()
    fleet.network.lags.clear()
    with fleet.quiet():
        await fleet.start()
    ledger_id = await one(fleet)
    line = await fleet.line(NAME)
    asked = [line.read(ledger_id, 0, 1), line.add(ledger_id, 2), line.of_lac(Op.FORCE, ledger_id)]
    await asyncio.sleep(0.001)
    await fleet.stop(NAME)
    for found in await asyncio.gather(*asked):
        fleet.record.note(f"= {found}")
    fleet.say_state()


def test_starts_and_stops(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(_starts)


async def _port_taken(fleet: Fleet) -> None:
    bookie = fleet.bookies[NAME]
    await fleet.begin()
    await one(fleet)
    await fleet.stop(NAME)
    fleet.note("somebody listens on its port; then nobody")

    async def listens() -> Any:
        loop = asyncio.get_running_loop()
        return await loop.create_server(asyncio.Protocol, NAME, 3182)

    server = await fleet.spawn("other", listens())
    bookie.start()
    await asyncio.sleep(1)
    fleet.say_state()
    server.close()
    with fleet.quiet():
        await fleet.start()
    fleet.say_state()


def test_a_port_that_is_taken(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == leased(_port_taken)


# Duties
async def _duties(fleet: Fleet) -> None:
    await fleet.begin()
    ids = [await one(fleet) for _ in range(2)]
    line, disk = await fleet.line(NAME), fleet.bookies[NAME].disk
    fleet.note("checkpoints by themselves; one ledger is idle, and its note is taken back")
    for number in range(2, 6):
        await line.add(ids[0], number)
        await asyncio.sleep(1.2)
    fleet.say_state()
    fleet.note("a checkpoint finds no space; the next does")
    disk.fail("commit", pattern="index.sqlite", error=errno.ENOSPC)
    await line.add(ids[1], 2)
    await asyncio.sleep(3)
    fleet.say_state()
    fleet.note("logs are compacted, with somebody who adds beside it and without")
    with fleet.quiet():
        for number in range(200):
            await line.add(ids[number % 2], 100 + number, size=1000)
        await fleet.stores["client"].delete_ledger(ids[0])
        await asyncio.sleep(20)
    fleet.say_state()
    fleet.note("a checkpoint meets a disk that fails")
    fleet.bookies[NAME].is_wanted = False
    await line.add(ids[1], 500)
    disk.fail("commit", pattern="index.sqlite", error=errno.EIO)
    await asyncio.sleep(3)
    fleet.say_state()


def test_duties_in_the_background(snapshot: SnapshotAssertion) -> None:
    settings = {
        "durability": {"flushIntervalSeconds": 1},
        "storage": {
            "compactionIntervalSeconds": 3, "collectIntervalSeconds": 2, "collectGraceSeconds": 3,
        },
        "lease": {"seconds": 60, "confirmSeconds": 15},
    }  # fmt: skip
    assert snapshot(extension_class=Words) == leased(_duties, settings=settings)


async def _compaction(fleet: Fleet) -> None:
    await fleet.begin()
    disk, log = fleet.bookies[NAME].disk, fleet.bookies[NAME].directories[1] / "log"
    line = await fleet.line(NAME)
    for is_busy in (False, True):
        with fleet.quiet():
            ids = [await one(fleet) for _ in range(2)]
            for number in range(240):
                await line.add(ids[number % 2], 100 + number, size=1000)
            await fleet.at(NAME, fleet.services(NAME).marks.flush())
            await fleet.at(NAME, delete(fleet, ids[0]))
        fleet.note(f"half of what the logs hold is deleted; somebody adds: {is_busy}")
        for number in range(60):
            before = disk.list_directory(log)
            await asyncio.sleep(0.25)
            if is_busy and number < 40:
                await line.add(ids[1], 1000 + number)
            if disk.list_directory(log) != before:
                fleet.record.note(f"= {' '.join(disk.list_directory(log))}")


async def delete(fleet: Fleet, ledger_id: LedgerId) -> None:
    fleet.services(NAME).booted.storage.maintenance.delete_ledgers([ledger_id])


def test_compaction_beside_adds(snapshot: SnapshotAssertion) -> None:
    settings = {
        "storage": {"compactionIntervalSeconds": 3, "compactionBytesPerSecondBusy": 20_000},
        "lease": {"seconds": 600, "confirmSeconds": 150},
    }
    assert snapshot(extension_class=Words) == leased(_compaction, settings=settings)
