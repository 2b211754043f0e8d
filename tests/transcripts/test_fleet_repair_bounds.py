"""Repairs of a fleet with more than there is room for: cut lists, pages, calls, batches."""

from typing import Any

import pytest
from bookie.ids import LedgerId
from bookie.repair.jobs import repair_result
from bookie.repair.look import grpc_control, left_over
from bookie.repair.mend import ledger_repair
from bookie.repair.reports import result
from fleet_jobs import back, drained, made, mark, repaired, rereplicated, say_rest
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

TAIL = {0: (1,), 1: (1,), 2: (1,)}


def test_more_than_a_result_has_room_for(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of losses, ledgers to decide and what is in the way the first are named, and all counted."""
    for module, name, most in (
        (repair_result, "FINDINGS_MAX", 2), (result, "FINDINGS_MAX", 2),
        (repair_result, "UNDECIDED_MAX", 1), (result, "RANGES_MAX", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, most)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(3):
            await made(fleet, entries=4, end=3, lacks=dict.fromkeys(range(3), (0, 2)))
        for _ in range(3):
            await made(fleet, entries=2, lacks=TAIL, flushed=False)
        await made(fleet, (0, "123"), entries=2, lacks=TAIL | {3: (1,)}, flushed=False)
        for _ in range(3):
            accepted = {"bookie-operator.accepted-loss": b"by me"}
            await made(fleet, end=-1, custom=accepted)
        fleet.cluster.garbled |= {(await made(fleet)).ledger_id for _ in range(2)}
        await back(fleet, "bookie-0", "bookie-1")
        fleet.crash("bookie-3")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_more_than_a_drain_has_room_for(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledgers that stay are named as far as there is room, and counted."""
    monkeypatch.setattr(repair_result, "FINDINGS_MAX", 2)
    monkeypatch.setattr(result, "FINDINGS_MAX", 2)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(4):
            await made(fleet, (0, "0123"), write=4, entries=2, end=1, lacks={2: (number % 2,)})
        for number in range(3):
            await made(fleet, entries=2, end=1, lacks={2: (number % 2,)})
        await drained(fleet, 1, begin=True)
        await mark(fleet, LedgerId(5), "2")
        await mark(fleet, LedgerId(6), "3")
        with fleet.quiet():
            await fleet.stop("bookie-1", "bookie-3")
        await rereplicated(fleet, "1")

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_many_marks_of_several_bookies(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two marks to a page, two ledgers to a call and to a batch, one at a time."""
    for module, name in (
        (grpc_control, "MARKS_PER_PAGE"), (grpc_control, "LEDGERS_PER_CALL"),
        (left_over, "LEDGERS_PER_BATCH"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(ledger_repair, "LEDGERS_IN_FLIGHT", 1)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(5):
            await made(fleet, entries=2, end=1 if number % 2 else None, flushed=False)
        await back(fleet, "bookie-1")
        await made(fleet, entries=2, end=1, flushed=False)
        await back(fleet, "bookie-2")
        with fleet.quiet():
            await fleet.stop("bookie-3")
        await repaired(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


@pytest.mark.parametrize("way", ["named", "named-and-all"])
def test_which_ledgers_are_looked_after(snapshot: SnapshotAssertion, way: str) -> None:
    """Those with a mark on the named bookies, or all; an unnamed bookie keeps its mark."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1, lacks={0: (1,)})
        await made(fleet, (0, "12"), write=2, entries=2, end=1, flushed=False)
        await made(fleet, (0, "23"), write=2, entries=2, end=1, flushed=False)
        await made(fleet, (0, "02"), write=2, entries=2, end=1, flushed=False)
        await back(fleet, "bookie-1", "bookie-3")
        await back(fleet, "bookie-0")
        request: dict[str, Any] = {"every_ledger": way == "named-and-all"}
        await repaired(fleet, "13", **request)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)
