"""The repair that loses its executors, on a small scale; and that its judges can say no."""

import asyncio
from pathlib import Path

import pytest
from lost_story import lost_claims, tell_lost
from repair_lab import RepairLab
from scale_ledgers import Kind, plans
from scale_story import Size, claims, failed, tell
from scale_watch import MarkWatch, looking

SMALL = Size(ledgers=120, kills=1, seed=3, is_whole=False)


@pytest.mark.process
async def test_a_repair_whose_executor_is_killed_ends_whole(tmp_path: Path) -> None:
    saw = await tell(tmp_path, SMALL)
    assert failed(claims(saw, SMALL)) == []
    assert saw["to_the_end"]["exit_code"] == 0


@pytest.mark.process
async def test_a_re_replication_whose_executor_is_killed_ends_whole(tmp_path: Path) -> None:
    saw = await tell_lost(tmp_path, SMALL)
    assert failed(lost_claims(saw, SMALL)) == []


async def watched(lab: RepairLab, *, may_clear: bool) -> MarkWatch:
    """An open ledger of two entries is in limbo on bookie 1; its mark was seen."""
    await lab.start()
    await lab.ledger(entries=2)
    await lab.crash(1)
    watch = MarkWatch(lab.cluster, (lab.ids[1],), lambda: may_clear)
    await watch.look()
    return watch


async def test_a_mark_that_goes_while_the_ledger_is_open_is_early() -> None:
    lab = RepairLab()
    watch = await watched(lab, may_clear=True)
    lab.fleet[1].clear(next(iter(watch.marked[lab.ids[1]])))
    await watch.look()
    assert watch.early == ["bookie-1 ledger 0: OPEN"] and watch.cleared == 0


async def test_a_mark_that_goes_before_the_audit_is_early() -> None:
    lab = RepairLab()
    watch = await watched(lab, may_clear=False)
    lab.fleet[1].clear(next(iter(watch.marked[lab.ids[1]])))
    await watch.look()
    assert "bookie-1 ledger 0: before the audit" in watch.early


async def test_a_mark_that_goes_without_the_entries_is_early() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=4, last=3)
    await lab.crash(1, wipe=True)
    watch = MarkWatch(lab.cluster, (lab.ids[1],), lambda: True)
    await watch.look()
    lab.fleet[1].clear(ledger.ledger_id)
    await watch.look()
    assert watch.early == ["bookie-1 ledger 0: 4 not there"]


async def test_a_mark_that_comes_again_is_counted_and_held_again() -> None:
    lab = RepairLab()
    watch = await watched(lab, may_clear=True)
    (ledger_id,) = watch.marked[lab.ids[1]]
    lab.fleet[1].clear(ledger_id)
    await watch.look()
    lab.fleet[1].mark(ledger_id, limbo=True)
    await watch.look()
    assert watch.seen == 2


async def test_what_a_look_has_begun_to_judge_is_judged_though_the_job_has_ended() -> None:
    begun, judged = asyncio.Event(), list[int]()

    async def look() -> None:
        begun.set()
        await asyncio.sleep(0)
        judged.append(len(judged))

    async with looking(look):
        await begun.wait()
    assert judged == [0, 1]


def test_every_kind_of_damage_is_planned() -> None:
    import random

    found = list(plans(50, random.Random(1)))
    assert {plan.kind for plan in found} == set(Kind) and len(found) == 50
    assert all(len(set(plan.ensemble)) == 3 for plan in found)
    assert all(plan.hurt in plan.ensemble for plan in found)
