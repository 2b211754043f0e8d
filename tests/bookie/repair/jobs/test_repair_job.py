"""Whole repairs on a fleet in memory; the scenarios S30-S36 and S42 at the level of repair."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import SettingsError
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import Cookie
from bookie.protocol.ledger import Fragment, LedgerState
from bookie.protocol.status import Status
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.mend.ledger_repair import recover_ledger
from bookie.repair.mend.outcome import Outcome
from repair_lab import AUDIT, SETTINGS, RepairLab


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def run(lab: RepairLab, *numbers: int, **options: Any) -> dict[str, Any]:
    bookies = tuple(lab.ids[number] for number in numbers)
    request = RepairRequest(bookies, engine="inline", settings=SETTINGS, **options)
    return await repair(lab.cluster, request)


async def look(lab: RepairLab) -> dict[str, Any]:
    return await audit(lab.cluster, AuditRequest(settings=AUDIT))


async def marks(lab: RepairLab, number: int) -> int:
    return len((await lab.control.list_marks(lab.ids[number])).marks)


async def test_a_killed_bookie_gets_its_entries_back_and_leaves_limbo(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=50, flush=False)
    await lab.crash(1)
    result = await run(lab, 1)
    assert lab.held(1, ledger.ledger_id) == list(range(50))
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == 49
    assert await marks(lab, 1) == 0
    assert result["ledgers"]["recovered"] == result["ledgers"]["cleared"] == 1
    assert result["entries_copied"] + result["entries_recovered"] >= 50
    assert result["exit_code"] == 0 and result["audit_after"]["ok"] == 50


async def gone(lab: RepairLab, number: int) -> None:
    """Down, not registered any more, its cookie still there."""
    bookie_id = lab.ids[number]
    lab.fleet[number].down = True
    await lab.store.unregister(bookie_id)
    await lab.store.create_cookie(Cookie(bookie_id, ("/journal",), ("/ledgers",), ""))


async def test_a_cookie_that_a_scale_down_left_blocks_no_repair() -> None:
    lab = await RepairLab(4).start()
    await lab.ledger((0, (0, 1, 2)), entries=10, last=9)
    await gone(lab, 3)
    result = await run(lab)
    assert result["exit_code"] == 0 and result["blocked"] == []
    assert result["left_over"] == [lab.ids[3]] and result["unreachable"] == []


async def test_whoever_is_asked_for_by_name_and_is_silent_is_named_whatever_it_is() -> None:
    """A person counts on it, and may have mistyped it."""
    lab = await RepairLab(4).start()
    await lab.ledger((0, (0, 1, 2)), entries=10, last=9)
    await gone(lab, 3)
    result = await run(lab, 3)
    assert result["left_over"] == [] and result["unreachable"] == [lab.ids[3]]
    assert result["exit_code"] == 4


async def test_a_bookie_that_is_down_and_named_is_no_left_over_cookie() -> None:
    lab = await RepairLab(4).start()
    await lab.ledger((0, (0, 1, 3)), entries=10, last=9)
    await gone(lab, 3)
    result = await run(lab)
    assert result["left_over"] == [] and result["unreachable"] == [lab.ids[3]]
    assert result["exit_code"] == 4


async def test_copies_of_closed_ledgers_are_counted_apart(lab: RepairLab) -> None:
    await lab.ledger(entries=10, last=9)
    await lab.ledger(entries=7, flush=False)
    await lab.crash(2, wipe=True)
    result = await run(lab, 2)
    assert result["entries_copied_closed"] == 10
    assert result["entries_copied"] > 10
    assert result["exit_code"] == 0 and await marks(lab, 2) == 0


async def test_an_open_ledger_with_an_old_fragment_keeps_its_writer(lab: RepairLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (0, 2, 3)), entries=8)
    await lab.crash(1, wipe=True)
    result = await run(lab, 1)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.OPEN
    assert lab.held(1, ledger.ledger_id) == [0, 1, 2, 3, 4]
    assert result["ledgers"]["recovered"] == 0 and await marks(lab, 1) == 0


async def test_d1_what_a_live_writer_knows_acknowledged_is_copied_to_a_member_of_now(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (0, 2, 3)))
    lab.write(ledger, range(5))
    lab.write(ledger, range(5, 20), on={0, 2})
    result = await run(lab)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.OPEN
    assert lab.held(3, ledger.ledger_id) == [*range(5, 19)], "19 may still be on its way"
    assert result["exit_code"] == 0 and result["entries_copied"] == 14


async def test_a_copy_that_only_a_member_of_before_has_is_no_loss_and_is_given_back() -> None:
    lab = await RepairLab(6).start()
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (3, 4, 5)), entries=5, last=9)
    # As a stock writer that counts an acknowledgement of a bookie it has just replaced.
    lab.write(replace(ledger, fragments=ledger.fragments[:1]), range(5, 7), on={0})
    lab.write(ledger, range(7, 10))
    lab.flush()
    result = await run(lab)
    assert result["losses"] == [] and result["exit_code"] == 0
    assert [lab.held(number, ledger.ledger_id) for number in (3, 4, 5)] == [[*range(5, 10)]] * 3


async def test_a_recovery_somebody_began_and_left_is_ended(lab: RepairLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (0, 2, 3)), entries=8)
    found = await lab.store.read_ledger(ledger.ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)
    await lab.crash(1, wipe=True)
    result = await run(lab, 1)
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == 7
    assert result["ledgers"]["recovered"] == 1 and await marks(lab, 1) == 0


async def test_striped_shares_come_back_as_patterned_runs() -> None:
    lab = await RepairLab(5).start()
    ledger = await lab.ledger((0, (0, 1, 2, 3, 4)), entries=200, last=199)
    share = lab.held(3, ledger.ledger_id)
    await lab.crash(3, wipe=True)
    sent = len(lab.fleet.calls)
    result = await run(lab, 3)
    assert lab.held(3, ledger.ledger_id) == share
    assert result["entries_copied"] == len(share) == 120
    assert len(lab.fleet.calls) - sent < 40, "runs, not entries"


async def test_running_a_repair_again_changes_nothing(lab: RepairLab) -> None:
    await lab.ledger(entries=20, flush=False)
    await lab.crash(0)
    await run(lab, 0)
    again = await run(lab, every_ledger=True)
    assert again["entries_copied"] == again["ledgers"]["recovered"] == 0
    assert again["exit_code"] == 0


async def test_two_repairs_at_once_do_the_work_of_one(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, flush=False)
    await lab.crash(1)
    results = await asyncio.gather(run(lab, 1), run(lab, 1))
    assert lab.held(1, ledger.ledger_id) == list(range(30))
    assert sum(r["ledgers"]["recovered"] for r in results) == 1
    assert await marks(lab, 1) == 0 and {r["exit_code"] for r in results} == {0}


async def test_a_deleted_ledger_is_cleared_without_ado(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=3, flush=False)
    await lab.crash(1)
    await lab.store.delete_ledger(ledger.ledger_id)
    result = await run(lab, 1)
    assert result["ledgers"]["deleted"] == 1 and await marks(lab, 1) == 0


async def test_a_bookie_that_is_down_is_named_and_not_called_clean(lab: RepairLab) -> None:
    await lab.ledger(entries=5, last=4)
    lab.fleet[2].down = True
    result = await run(lab)
    assert result["unreachable"] == [lab.ids[2]]
    assert result["audit_after"]["unknown"] == 5 and result["audit_after"]["missing"] == 0
    assert result["exit_code"] == 4


async def test_s30_an_aborted_recovery_leaves_limbo_in_place(lab: RepairLab) -> None:
    ledger = await lab.ledger(flush=False)
    lab.write(ledger, range(5), on=(0, 1))
    await lab.crash(0, 1)
    lab.fleet[2].down = True
    result = await run(lab, 0)
    assert await marks(lab, 0) == 1
    assert result["undecidable"][0]["ledger_id"] == ledger.ledger_id
    assert {row["reason"] for row in result["blocked"]} >= {"Undecidable", "NotClosed"}


async def test_s31_a_second_crash_before_the_flush_repeats_the_repair(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=12, last=11)
    await lab.crash(1, wipe=True)
    lab.control.refuse_flush.add(lab.ids[1])
    await run(lab, 1)
    await lab.crash(1)
    assert lab.held(1, ledger.ledger_id) == [] and await marks(lab, 1) == 1
    lab.control.refuse_flush.clear()
    result = await run(lab, 1)
    assert lab.held(1, ledger.ledger_id) == list(range(12))
    assert result["exit_code"] == 0 and await marks(lab, 1) == 0


async def test_s31_unsynced_copies_never_clear_a_mark(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=12, last=11)
    await lab.crash(1, wipe=True)
    lab.control.refuse_flush.add(lab.ids[1])
    result = await run(lab, 1)
    assert len(lab.held(1, ledger.ledger_id)) == 12, "copied, not synced"
    assert await marks(lab, 1) == 1
    assert result["blocked"][0]["reason"] == "EntriesMissing" and result["exit_code"] == 4


async def test_s32_one_good_copy_is_enough(lab: RepairLab) -> None:
    ledger = await lab.ledger()
    lab.write(ledger, [0], on=(0, 1))
    lab.fleet[0].flush()
    await lab.crash(1, wipe=True)
    result = await run(lab, 1)
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == 0
    assert lab.held(1, ledger.ledger_id) == [0] and result["exit_code"] == 0


async def test_s33_a_tail_nobody_remembers_is_left_open_and_named(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5)
    await lab.crash(0, 1)
    result = await run(lab)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.IN_RECOVERY
    undecidable = result["undecidable"][0]
    assert undecidable["possible_loss_from"] == 5
    assert undecidable["waiting_for"] == [lab.ids[0], lab.ids[1]]
    assert result["exit_code"] == 4 and result["losses"] == []


async def test_s33_what_a_disk_cannot_read_now_is_waited_for(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5)
    lab.write(ledger, [5], on=(0, 2))
    await lab.crash(0)
    lab.fleet[2].fail_reads(ledger.ledger_id, [EntryId(5)])
    result = await run(lab, 0)
    assert result["undecidable"][0]["away"] == [lab.ids[2]]
    assert (result["undecided"]["ledgers"], result["undecided"]["waiting"]) == (0, 1)


async def test_s33_nobody_waits_for_who_has_a_copy_outside_of_the_write_set(lab: RepairLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2, 3)), write=2)
    turned = tuple(lab.ids[number] for number in (2, 3, 0, 1))
    lab.write(ledger.with_fragments([Fragment(EntryId(0), turned)]), [0], on=(2,))
    await lab.crash(0, 1)
    outcome = Outcome(ledger.ledger_id)
    await recover_ledger(lab.cluster, outcome)
    assert (outcome.forgotten_by, outcome.away) == (tuple(lab.ids[:2]), ())


@pytest.mark.parametrize("silent", [(), (0,), (1,), (0, 1)], ids=str)
async def test_s33_who_does_not_say_what_it_has_did_not_forget(
    lab: RepairLab, silent: tuple[int, ...]
) -> None:
    """It said *unknown* to the read, as it also does while its disk does not answer."""
    outcome = Outcome((await lab.ledger(entries=5)).ledger_id)
    await lab.crash(0, 1)
    lab.control.unreachable.update(lab.ids[number] for number in silent)
    await recover_ledger(lab.cluster, outcome)
    assert outcome.away == tuple(lab.ids[number] for number in silent)
    assert outcome.forgotten_by == tuple(lab.ids[n] for n in (0, 1) if n not in silent)


async def test_s33_one_outside_the_write_set_that_is_away_is_waited_for(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=3, write=2)  # entry 3 belongs on bookies 0 and 1
    lab.write(ledger, [3], on=(0, 1))
    await lab.crash(0, 1)
    lab.fleet[2].down = True
    result = await run(lab, 0, 1)
    assert result["undecidable"][0]["away"] == [lab.ids[2]]
    assert result["undecided"]["ledgers"] == 0


async def test_s33_a_later_entry_elsewhere_proves_that_a_loss_is_certain(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=3, write=2)
    lab.write(ledger, [3], on=(0, 1))
    lab.write(ledger, [4], on=(2,), lac=3)
    lab.fleet[2].flush()
    await lab.crash(0, 1)
    result = await run(lab, 0, 1)
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == 4, "what follows is kept"
    assert result["undecidable"] == [] and result["losses"][0]["ranges"] == [[3, 3]]


async def test_s34_a_definite_loss_is_recorded_and_the_rest_survives() -> None:
    lab = await RepairLab(6).start()
    ledger = await lab.ledger((0, (0, 1, 2, 3, 4)))
    ids = ledger.ledger_id
    lab.write(ledger, [i for i in range(9) if i != 7])
    lab.write(ledger, [9], lac=8)
    for number in range(5):
        lab.fleet[number].flush()
        keep = {i for i in lab.held(number, ids) if i % 5 == number or i == 9}
        lab.fleet[number].ledgers[ids].durable = keep
    await lab.crash(0, 1, 2, 3, 4)
    first = await run(lab)
    assert first["undecidable"][0]["possible_loss_from"] == 10
    assert first["findings"][0]["gone"]["ranges"] == [[7, 7]], "definite, whatever the end will be"
    await accept_loss(lab.cluster, ids, by="jo", reason="power cut", first_entry_id=EntryId(10))
    second = await run(lab)
    assert (await lab.metadata(ids)).last_entry_id == 9
    assert [(x["ledger_id"], x["ranges"]) for x in second["losses"]] == [(ids, [[7, 7]])]
    assert second["audit_after"]["ok"] == 9 and second["audit_after"]["lost"] == 1
    assert second["exit_code"] == 3 and not (await run(lab))["blocked"]


async def test_s35_a_lost_last_entry_is_listed_and_never_called_ok(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=21, last=20)
    lab.fleet[2].lose(ledger.ledger_id, [20])
    for number in (0, 1):
        lab.fleet[number].ledgers[ledger.ledger_id].durable.discard(EntryId(20))
    before = await look(lab)
    assert before["audit"]["missing"] == 1
    await lab.crash(0, 1)
    result = await run(lab)
    assert result["losses"][0]["ranges"] == [[20, 20]]
    assert result["audit_after"]["lost"] == 1 and result["exit_code"] == 3
    assert await marks(lab, 0) == await marks(lab, 1) == 0, "a recorded loss lets the mark go"


async def test_a_bookie_whose_loss_record_is_gone_gets_another_one(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=21, last=20)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [20])
    await run(lab)
    lab.control.lost.pop((lab.fleet[0].bookie_id, ledger.ledger_id))  # its disks are new ones
    await lab.crash(0)
    again = await run(lab)
    assert again["losses"][0]["ranges"] == [[20, 20]] and not again["blocked"]
    assert await marks(lab, 0) == 0 and (await run(lab))["losses"] == []


async def test_s35_no_loss_is_recorded_while_a_member_is_down(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=2, last=2)
    lab.fleet[2].down = True
    result = await run(lab)
    assert result["losses"] == [] and lab.control.lost == {}
    assert ledger.ledger_id == result["findings"][0]["ledger_id"]


async def test_s36_a_closed_end_stays_whatever_repair_is_asked(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=1, last=0, flush=False)
    await lab.crash(0)
    lab.fleet[0].mark(ledger.ledger_id, limbo=True)
    await run(lab, 0)
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == 0
    assert lab.held(0, ledger.ledger_id) == [0]


async def test_s37_an_unmarked_hole_is_found_and_filled_by_a_later_pass(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=6, last=5)
    lab.fleet[1].lose(ledger.ledger_id, [2, 3])
    result = await run(lab)
    assert result["audit_before"]["missing"] == 2 and result["audit_after"]["ok"] == 6
    assert lab.held(1, ledger.ledger_id) == list(range(6))


async def test_s42_the_audit_reports_limbo_as_unknown_not_missing(lab: RepairLab) -> None:
    await lab.ledger(entries=9, last=8)
    await lab.crash(1, wipe=True)
    found = (await look(lab))["audit"]
    assert (found["missing"], found["unknown"], found["no_copy"]) == (0, 9, 0)


async def test_a_corrupt_copy_is_not_spread(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=3, last=2)
    lab.fleet[0].corrupt(ledger.ledger_id, EntryId(1))
    lab.fleet[1].lose(ledger.ledger_id, [0, 1, 2])
    result = await run(lab)
    good = lab.fleet[2].ledgers[ledger.ledger_id].entries[EntryId(1)]
    assert lab.fleet[1].ledgers[ledger.ledger_id].entries[EntryId(1)] == good
    assert result["entries_copied"] == 3


async def test_a_target_that_refuses_is_reported(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    await lab.crash(1, wipe=True)
    lab.fleet[1].refuse_adds = Status.IO_ERROR
    result = await run(lab, 1)
    assert result["blocked"][0]["reason"] == "CopyIncomplete"
    assert "IO_ERROR" in result["blocked"][0]["message"]


@pytest.mark.parametrize("engine", ["spark-kubernetes", "sparkle"])
async def test_an_engine_that_is_not_there_is_refused_by_name(lab: RepairLab, engine: str) -> None:
    with pytest.raises(SettingsError, match=r"inline, spark-local"):
        await repair(lab.cluster, RepairRequest(engine=engine))


async def test_a_ledger_nobody_holds_is_wholly_missing(lab: RepairLab) -> None:
    ledger = await lab.ledger(last=4)
    found = await look(lab)
    assert found["audit"]["no_copy"] == 5 and found["exit_code"] == 3
    assert found["findings"][0]["ledger_id"] == ledger.ledger_id == LedgerId(0)


async def test_a_copy_that_no_disk_has_is_in_the_way_of_a_clean_end(lab: RepairLab) -> None:
    """The bookie has no mark that it would keep for that reason."""
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    lab.control.refuse_flush.add(lab.ids[1])
    result = await run(lab)
    (row,) = result["blocked"]
    assert (row["bookie_id"], row["reason"]) == (lab.ids[1], "NotFlushed")
    assert result["exit_code"] == 4 and result["entries_copied"] == 1
