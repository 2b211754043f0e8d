"""The drain of a bookie: when it is refused, what it counts, and what stays of it over restarts."""

import asyncio
import errno
from collections.abc import Callable
from typing import Final

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.testing.simulation.disk import MachineDisk
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
OTHERS: Final = ("bookie-3", "bookie-1", "bookie-2")


def drained(scenes: Callable[[Fleet], object], **means: object) -> str:
    return told(scenes, bookies=1, shows_messages=False, **means)  # type: ignore[arg-type]


async def health(fleet: Fleet) -> None:
    """What of the health is about the drain."""
    with fleet.quiet():
        found = await fleet.ask(NAME, "GetHealth")
    count = f"{found.ledgers_naming_it}" if found.ledgers_counted else "unknown"
    registered = fleet.cluster.registered.get(BookieId(NAME))
    says = "not at all" if registered is None else f"read-only {registered[1].read_only}"
    fleet.record.note(
        f"= phase {found.phase}, draining {found.draining}, ledgers naming it: {count}"
        f" at {found.counted_at_ms}, registered {says}: {found.message!r}"
    )


async def change(
    fleet: Fleet, ledger_id: LedgerId, how: Callable[[LedgerMetadata], LedgerMetadata]
) -> None:
    with fleet.quiet():
        store = fleet.stores["client"]
        found = await store.read_ledger(ledger_id)
        await store.write_ledger(how(found.value), version=found.version)


async def requests(fleet: Fleet, ledger_id: LedgerId, first: int) -> None:
    line = await fleet.line(NAME)
    await fleet.seen("an add", line.add(ledger_id, first))
    await fleet.seen("a recovery add", line.add(ledger_id, first + 1, flags=1))
    await fleet.seen("a read", line.read(ledger_id, 0, 0))
    line.transport.close()


# What it counts
async def _counts(fleet: Fleet) -> None:
    await fleet.begin()
    ids = [await fleet.ledger(NAME, *OTHERS[1:]) for _ in range(3)]
    other = await fleet.ledger(*OTHERS)
    await requests(fleet, ids[0], 0)
    await fleet.ask(NAME, "Drain")
    await fleet.ask(NAME, "Drain")
    await requests(fleet, ids[0], 2)
    for _ in range(4):
        await health(fleet)
        await asyncio.sleep(1)
    fleet.note("one is moved away, another's writer changes its ensemble, a third is in recovery")
    away = tuple(map(BookieId, OTHERS))
    await change(fleet, ids[0], lambda one: one.with_fragments([Fragment(EntryId(0), away)]))
    moved = Fragment(EntryId(4), away)
    await change(fleet, ids[1], lambda one: one.with_fragments([*one.fragments, moved]))
    await change(fleet, other, LedgerMetadata.in_recovery)
    await asyncio.sleep(6)
    await health(fleet)
    fleet.note("one cannot be read, and stays so; then it is mended")
    fleet.cluster.garbled.add(other)
    await asyncio.sleep(12)
    await health(fleet)
    fleet.cluster.garbled.clear()
    for ledger_id in ids:
        await fleet.stores["client"].delete_ledger(ledger_id)
    await change(fleet, other, lambda one: one.closed(EntryId(-1), length=0))
    await asyncio.sleep(6)
    await health(fleet)
    fleet.note("it is cancelled, twice, and begins again")
    await fleet.ask(NAME, "Drain", cancel=True)
    await fleet.ask(NAME, "Drain", cancel=True)
    await health(fleet)
    await requests(fleet, other, 4)
    await fleet.ask(NAME, "Drain")
    await health(fleet)
    await asyncio.sleep(3.5)
    await health(fleet)
    fleet.say_state()


def test_what_a_drain_counts(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == drained(_counts)


# The store is away or slow
async def _store_away(fleet: Fleet) -> None:
    await fleet.begin()
    ids = [await fleet.ledger(NAME, *OTHERS[1:]) for _ in range(2)]
    fleet.note("while the store is away it drains, and is not registered as it is")
    fleet.weather.is_out = True
    await fleet.ask(NAME, "Drain")
    await asyncio.sleep(4)
    await health(fleet)
    fleet.weather.is_out = False
    await asyncio.sleep(6)
    await health(fleet)
    fleet.note("the store is away for a count")
    fleet.weather.is_out = True
    await asyncio.sleep(7)
    await health(fleet)
    fleet.weather.is_out = False
    await asyncio.sleep(6)
    await health(fleet)
    fleet.note("slow counts pause for longer")
    fleet.network.lags[NAME, "metadata"] = 0.5
    await asyncio.sleep(30)
    fleet.network.lags.clear()
    await health(fleet)
    await asyncio.sleep(12)
    fleet.note("it is cancelled and begun again in the middle of a slow count")
    await asyncio.sleep(3.5)
    fleet.network.lags[NAME, "metadata"] = 0.4
    await asyncio.sleep(2)
    fleet.network.lags.clear()
    await fleet.ask(NAME, "Drain", cancel=True)
    for ledger_id in ids:
        await fleet.stores["client"].delete_ledger(ledger_id)
    await fleet.ask(NAME, "Drain")
    await health(fleet)
    await asyncio.sleep(1.5)
    await health(fleet)
    await asyncio.sleep(3)
    await health(fleet)
    fleet.note("its session ends: it is registered again, as it is")
    fleet.bookies[NAME].store.expire()  # type: ignore[union-attr]
    await health(fleet)
    await asyncio.sleep(3)
    await health(fleet)


def test_a_drain_without_the_metadata_store(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == drained(_store_away)


# Marks
async def _marked(fleet: Fleet) -> None:
    with fleet.quiet():
        await fleet.begin()
        ids = [await fleet.ledger(NAME, *OTHERS[1:]) for _ in range(2)]
        await change(fleet, ids[1], lambda one: one.closed(EntryId(-1), length=0))
        line = await fleet.line(NAME)
        for ledger_id in ids:
            await line.add(ledger_id, 0)
        fleet.crash(NAME)
        await fleet.start()
    await fleet.ask(NAME, "Drain")
    await fleet.ask(NAME, "Drain", cancel=True)
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=ids[1:])
    await fleet.ask(NAME, "Drain")
    await change(fleet, ids[0], lambda one: one.closed(EntryId(-1), length=0))
    await fleet.ask(NAME, "ClearLimbo", ledger_ids=ids[:1])
    await fleet.ask(NAME, "Drain")
    await asyncio.sleep(4)
    await health(fleet)
    fleet.note("a crash while it drains: it has marks, and still drains")
    line = await fleet.line(NAME)
    await line.add(ids[0], 0, flags=1)
    fleet.crash(NAME)
    with fleet.quiet():
        await fleet.start()
    await health(fleet)
    await fleet.ask(NAME, "Drain")
    await asyncio.sleep(4)
    await health(fleet)
    await fleet.ask(NAME, "Drain", cancel=True)
    await fleet.ask(NAME, "Drain")
    await health(fleet)


def test_a_drain_and_marks(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == drained(_marked)


# Restarts
IMAGES: Final[dict[str, Callable[[MachineDisk], MachineDisk] | None]] = {
    "stopped": None,
    "killed": lambda disk: disk.kill(),
    "without power": lambda disk: disk.power_cut(),
}


async def _restarts(fleet: Fleet, how: str) -> None:
    async def again() -> None:
        image = IMAGES[how]
        with fleet.quiet():
            if image is None:
                await fleet.stop(NAME)
            else:
                fleet.crash(NAME, image=image)
        await fleet.start()
        await health(fleet)

    await fleet.begin()
    ledger_id = await fleet.ledger(NAME, *OTHERS[1:])
    await fleet.ask(NAME, "Drain")
    await again()
    await requests(fleet, ledger_id, 0)
    await asyncio.sleep(3.5)
    await health(fleet)
    fleet.say_state()
    await fleet.ask(NAME, "Drain", cancel=True)
    await again()
    fleet.say_state()


@pytest.mark.parametrize("how", IMAGES)
def test_a_drain_goes_on_after_a_restart(how: str, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == drained(
        lambda fleet: _restarts(fleet, how), ledger_dirs=2, mode="sync"
    )


# Markers that cannot be written
async def _markers(fleet: Fleet) -> None:
    await fleet.begin()
    disk = fleet.bookies[NAME].disk
    for operation, error in (("create", errno.ENOSPC), ("unlink", errno.ENOSPC)):
        fleet.note(f"{operation} fails, then works")
        disk.fail(operation, pattern="DRAINING*", error=error)
        for _ in range(2):
            await fleet.ask(NAME, "Drain", cancel=operation == "unlink")
            await health(fleet)
            fleet.say_state()
    fleet.note("two begin at once, and one cancels")
    asked = [
        fleet.ask(NAME, "Drain"),
        fleet.ask(NAME, "Drain"),
        fleet.ask(NAME, "Drain", cancel=True),
    ]
    await asyncio.gather(*asked)
    await health(fleet)
    fleet.note("read-only by a person too")
    await fleet.ask(NAME, "Drain")
    await fleet.ask(NAME, "SetReadOnly", read_only=True)
    await fleet.ask(NAME, "Drain", cancel=True)
    await health(fleet)
    await fleet.ask(NAME, "SetReadOnly", read_only=False)
    await health(fleet)


def test_markers_of_a_drain_that_cannot_be_written(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == drained(_markers, ledger_dirs=2)
