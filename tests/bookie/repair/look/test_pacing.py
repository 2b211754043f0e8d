"""A rate of each bookie, over all that goes to it or comes from it."""

import asyncio

import pytest
from bookie.ids import BookieId
from bookie.repair.look.digests import DigestSettings
from bookie.repair.look.pacing import Paces
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings

ONE, OTHER = BookieId("one"), BookieId("other")


async def test_what_comes_later_waits_for_what_went_before() -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    paces = Paces(1000, sleep=note)
    for _frame in range(3):
        await paces.spend(ONE, 500)
    await paces.spend(OTHER, 500)
    assert [round(wait, 1) for wait in waits] == [0.5, 1.0, 1.5, 0.5], "each bookie by itself"


async def test_a_time_in_which_nothing_went_is_not_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits, now = list[float](), 1000.0

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    paces = Paces(1000, sleep=note)
    for idle_s in (0.0, 0.2, 0.5, 3600.0):
        now += idle_s
        await paces.spend(ONE, 500)
    assert [round(wait, 1) for wait in waits] == [0.5, 0.8, 0.8, 0.5]


def test_processes_that_know_nothing_of_one_another_share_a_rate() -> None:
    whole = RepairSettings(
        copy=CopySettings(bytes_per_second=1000), digests=DigestSettings(bytes_per_second=100)
    )
    part = whole.shared_by(4)
    assert part.copy.bytes_per_second == 250
    assert part.digests is not None and part.digests.bytes_per_second == 25
    assert RepairSettings().shared_by(4) == RepairSettings(), "no rate is no rate"
