"""Repairs of a fleet that are cut off and run again: what they remember, and when it counts."""

import asyncio
import json
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bookie.ids import LedgerId
from bookie.metadata.store import Versioned
from bookie.repair.jobs import resume
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.testing.simulation.surroundings import EPOCH_S
from fleet_jobs import at, back, delete, kill, made, repaired, rewrite, say_rest
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME = "repair/checkpoint"
ONE_BY_ONE: dict[str, Any] = {"checkpoint": True, "settings": RepairSettings(ledgers_per_batch=1)}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ledgers to a block, written each tenth of a second."""
    monkeypatch.setattr(resume, "BLOCK_LEDGERS", 2)
    monkeypatch.setattr(resume, "EVERY_S", 0.1)


def say_checkpoint(fleet: Fleet, name: str = NAME) -> None:
    """What it holds, decoded."""
    found = fleet.cluster.values.get(name)
    tree = json.loads(zlib.decompress(found.value)) if found is not None else None
    fleet.record.note(f"{name}: {json.dumps(tree)}")


def put_checkpoint(fleet: Fleet, raw: bytes) -> None:
    found = fleet.cluster.values.get(NAME)
    fleet.cluster.values[NAME] = Versioned(raw, found.version + 1 if found is not None else 0)


def packed(**tree: Any) -> bytes:
    return zlib.compress(json.dumps(tree).encode())


def changed(fleet: Fleet, **fields: Any) -> bytes:
    tree = json.loads(zlib.decompress(fleet.cluster.values[NAME].value))
    return packed(**tree | fields)


async def five(fleet: Fleet) -> list[LedgerId]:
    """Closed ledgers that lack an entry on one bookie."""
    lacks = {1: (1,)}
    return [(await made(fleet, entries=2, end=1, lacks=lacks)).ledger_id for _ in range(5)]


async def cut_off(fleet: Fleet, text: str = "ADD_RUN", *, nth: int = 1) -> None:
    """A repair that is killed when that is written down, and its session ends. Each copy is asked
    for and answered, so that of N copies it is the 2N-th line.
    """
    at(fleet, text, partial(kill, fleet), nth=nth)
    await repaired(fleet, **ONE_BY_ONE)
    await asyncio.sleep(5.0)


def test_a_repair_that_is_killed(snapshot: SnapshotAssertion) -> None:
    """The next one goes on where it was, and takes what is remembered away."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        await cut_off(fleet, nth=8)
        say_checkpoint(fleet)
        await repaired(fleet, **ONE_BY_ONE)
        say_checkpoint(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_one_that_is_killed_twice(snapshot: SnapshotAssertion) -> None:
    """What the first had done stays done over the second."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        await cut_off(fleet, nth=4)
        say_checkpoint(fleet)
        await cut_off(fleet, nth=4)
        say_checkpoint(fleet)
        await repaired(fleet, **ONE_BY_ONE)
        say_checkpoint(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_what_has_changed_since(snapshot: SnapshotAssertion) -> None:
    """A ledger has other metadata, one lacks copies again, one is deleted, one came into limbo."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledgers = [
            (await made(fleet, (0, "012"), entries=2, lacks={1: (1,)}, flushed=False)).ledger_id
            for _ in range(2)
        ]
        ledgers += await five(fleet)
        await cut_off(fleet, "7 of 7 ledgers")
        say_checkpoint(fleet)
        rewrite(fleet, ledgers[2], lambda found: found)
        delete(fleet, ledgers[5])
        await back(fleet, "bookie-1")
        await repaired(fleet, **ONE_BY_ONE)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


WRONG: dict[str, Callable[[Fleet], bytes]] = {
    "of-another-cluster": lambda fleet: changed(fleet, instance_id="another"),
    "of-another-schema": lambda fleet: changed(fleet, schema=2),
    "no-json": lambda _fleet: zlib.compress(b"{"),
    "not-packed": lambda _fleet: b"plain",
    "no-list": lambda fleet: changed(fleet, blocks={}),
    "overlapping": lambda fleet: changed(fleet, blocks=[[3, 5, 2, "ab", 1], [4, 6, 2, "ab", 1]]),
    "too-many": lambda fleet: changed(fleet, blocks=[[3, 4, 3, "ab", 1]]),
    "other-types": lambda fleet: changed(fleet, blocks=[[3, 4, 2, 7, 1]]),
    "negative": lambda fleet: changed(fleet, blocks=[[-3, 4, 2, "ab", 1]]),
    "no-names": lambda fleet: changed(fleet, touched=[1]),
    "too-short": lambda fleet: changed(fleet, blocks=[[3, 4]]),
}


def test_checkpoints_that_are_none(snapshot: SnapshotAssertion) -> None:
    """Each is said to be none, and all is done again."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        await cut_off(fleet, "> repair: Flush")
        good = fleet.cluster.values[NAME].value
        for name, make in WRONG.items():
            put_checkpoint(fleet, good)
            put_checkpoint(fleet, make(fleet))
            fleet.note(name)
            with fleet.quiet():
                lines: list[str] = []
                document = await repaired(fleet, says=lines, **ONE_BY_ONE)
            fleet.record.note(
                "; ".join(line for line in lines if "checkpoint" in line or "before" in line)
            )
            fleet.record.note(f"done before: {document['ledgers']['done_before']}")

    assert snapshot(extension_class=Words) == told(scenes)


AGES = {"a-day": 86_400.0, "seven-days": 7 * 86_400.0 - 1, "more": 7 * 86_400.0 + 2, "ahead": -2.0}


@pytest.mark.parametrize("age", AGES)
def test_how_old_it_may_be(snapshot: SnapshotAssertion, age: str) -> None:
    """A week, and no second of the future."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        await cut_off(fleet, "> repair: Flush")
        tree = json.loads(zlib.decompress(fleet.cluster.values[NAME].value))
        made_at = int(EPOCH_S + fleet.loop.time() - AGES[age])
        put_checkpoint(
            fleet, changed(fleet, blocks=[[*block[:4], made_at] for block in tree["blocks"]])
        )
        lines: list[str] = []
        with fleet.quiet():
            await repaired(fleet, says=lines, **ONE_BY_ONE)
        fleet.record.note("; ".join(lines))

    assert snapshot(extension_class=Words) == told(scenes)


def test_deep_and_plain_ones_apart(snapshot: SnapshotAssertion) -> None:
    """What was only listed was not read; a copy that nobody could read is not done."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        await cut_off(fleet, nth=6)
        say_checkpoint(fleet)
        deep = RepairSettings(ledgers_per_batch=1, digests=DigestSettings())
        fleet.network.block("repair", "bookie-2")
        at(fleet, "5 of 5 ledgers", partial(kill, fleet))
        await repaired(fleet, checkpoint=True, settings=deep)
        fleet.network.heal()
        await asyncio.sleep(5.0)
        say_checkpoint(fleet)
        say_checkpoint(fleet, f"{NAME}-deep")
        await repaired(fleet, checkpoint=True, settings=deep)
        say_checkpoint(fleet)
        say_checkpoint(fleet, f"{NAME}-deep")

    assert snapshot(extension_class=Words) == told(scenes)


def test_what_cannot_be_remembered(snapshot: SnapshotAssertion) -> None:
    """The metadata store takes no values for a while: the next write has all; nor is it removed."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)
        at(fleet, "ADD_RUN", lambda: setattr(fleet.weather, "lost_values", 1.0), nth=2)
        at(fleet, "cannot be written now", lambda: setattr(fleet.weather, "lost_values", 0.0))
        at(fleet, "audit: ", lambda: setattr(fleet.weather, "lost_values", 1.0))
        await repaired(fleet, **ONE_BY_ONE)
        fleet.weather.lost_values = 0.0
        say_checkpoint(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_bookies_that_an_earlier_run_wrote_to(snapshot: SnapshotAssertion) -> None:
    """They are flushed by the next one, though it writes nothing to them itself."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1, lacks={1: (1,)})
        await made(fleet, entries=2, end=1, lacks={2: (1,)})
        garbled = await made(fleet, entries=2, end=1)
        fleet.cluster.garbled.add(garbled.ledger_id)
        await cut_off(fleet, "> repair: Flush")
        say_checkpoint(fleet)
        await repaired(fleet, **ONE_BY_ONE)
        say_checkpoint(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_one_that_ends_in_an_error(snapshot: SnapshotAssertion) -> None:
    """The metadata store is away: what was done is written before it gives up, once it is back."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await five(fleet)

        def away() -> None:
            fleet.weather.is_out = True
            fleet.loop.call_later(4.0, setattr, fleet.weather, "is_out", False)

        at(fleet, "ADD_RUN", away, nth=6)
        await repaired(fleet, **ONE_BY_ONE)
        say_checkpoint(fleet)
        await repaired(fleet, **ONE_BY_ONE)
        say_checkpoint(fleet)

    assert snapshot(extension_class=Words) == told(scenes)
