"""Whole drains on a fleet in memory: what moves, what is refused, and being cut off anywhere."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.mend.ledger_move import COPIES_MAX, STARTS_MAX, Handover, LedgerMoves
from bookie.repair.mend.losses import LOSS_REASON
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.testing.fleet import Call
from bookie.testing.metadata import FaultyStore
from bookie.wire.native import Op
from fleet_ledgers import FleetLedgers
from fleet_writer import FleetClient
from repair_lab import AUDIT, SETTINGS, RepairLab, payload


class Killed(Exception):
    """The drain's process ends here."""


class DrainLab(RepairLab):
    """A lab over a metadata store with switches, and the drain of one of its bookies."""

    def __init__(self, bookies: int = 5) -> None:
        self.faulty = FaultyStore(MemoryStore(MemoryCluster()))
        super().__init__(bookies, store=self.faulty)

    async def drain(
        self, number: int = 0, *, begin: bool = True, say: Say = say_nothing, **options: Any
    ) -> dict[str, Any]:
        settings = EvacuationSettings(grace_s=0.0, ledgers_per_batch=3, repair=SETTINGS)
        request = DrainRequest(self.ids[number], begin=begin, settings=settings, **options)
        return await drain(self.cluster, request, say=say)

    async def names(self, number: int) -> list[LedgerId]:
        found = [i async for i in self.store.ledger_ids()]
        return [i for i in found if (await self.metadata(i)).names(self.ids[number])]

    async def audit_without(self, number: int) -> dict[str, Any]:
        """What is there once the bookie is gone for good."""
        self.fleet[number].down = True
        return await audit(self.cluster, AuditRequest(settings=AUDIT))

    async def read_all(self, ledger_id: LedgerId) -> list[bytes]:
        client = FleetClient(self.store, self.fleet)
        reader = await client.open_ledger(ledger_id, password=b"secret")
        last = (await self.metadata(ledger_id)).last_entry_id
        return [entry.payload for entry in await reader.read(EntryId(0), last)]


@pytest.fixture
async def lab() -> DrainLab:
    lab = DrainLab()
    await lab.start()
    return lab


def reasons(result: dict[str, Any]) -> list[str]:
    return [row["reason"] for row in result["blocked"]]


# ---- what moves ---------------------------------------------------------------------------------


async def test_a_drained_ledger_reads_back_with_the_bookie_gone(lab: DrainLab) -> None:
    ledgers = [await lab.ledger(entries=20, last=19) for _ in range(8)]
    result = await lab.drain(0)
    assert (result["ledgers"]["moved"], result["ledgers_left"], result["exit_code"]) == (8, 0, 0)
    assert result["entries_copied"] == 160 and await lab.names(0) == []
    after = await lab.audit_without(0)
    assert after["audit"]["ok"] == 160 and after["exit_code"] == 0
    for ledger in ledgers:
        assert await lab.read_all(ledger.ledger_id) == [payload(i) for i in range(20)]


async def test_no_ledger_moves_to_a_bookie_that_does_not_answer(lab: DrainLab) -> None:
    """By preference half of them would."""
    for _ in range(8):
        await lab.ledger(entries=2, last=1)
    lab.control.unreachable.add(lab.ids[3])
    result = await lab.drain(0)
    assert (len(await lab.names(3)), len(await lab.names(4))) == (0, 8)
    assert result["unreachable"] == [lab.ids[3]]


async def test_copies_are_synced_before_the_metadata_names_them(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.drain(0)
    (new,) = set((await lab.metadata(ledger.ledger_id)).last_fragment.ensemble) - set(lab.ids[:3])
    await lab.crash(lab.ids.index(new))
    assert lab.held(lab.ids.index(new), ledger.ledger_id) == list(range(10))


async def test_every_fragment_and_every_stripe_finds_a_new_home(lab: DrainLab) -> None:
    many = await lab.ledger((0, (0, 1, 2)), (7, (1, 0, 3)), (12, (1, 2, 3)), entries=20, last=19)
    striped = await lab.ledger((0, (0, 1, 2, 3)), write=2, entries=40, last=39)
    assert (await lab.drain(0))["exit_code"] == 0
    for ledger in (many, striped):
        for fragment in (await lab.metadata(ledger.ledger_id)).fragments:
            assert len(set(fragment.ensemble)) == len(fragment.ensemble)
    assert (await lab.audit_without(0))["audit"]["ok"] == 60


async def test_an_empty_ledger_only_changes_its_metadata(lab: DrainLab) -> None:
    await lab.ledger(last=-1)
    result = await lab.drain(0)
    assert (result["ledgers"]["moved"], result["entries_copied"]) == (1, 0)
    assert await lab.names(0) == []


async def test_what_the_leaving_bookie_lacks_comes_from_the_others(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[0].lose(ledger.ledger_id, range(3, 7))
    assert (await lab.drain(0))["exit_code"] == 0
    assert (await lab.audit_without(0))["audit"]["ok"] == 10


async def test_what_only_the_leaving_bookie_has_is_not_left_behind(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in (1, 2):
        lab.fleet[number].lose(ledger.ledger_id, [4])
    assert (await lab.drain(0))["ledgers"]["moved"] == 1
    assert (await lab.read_all(ledger.ledger_id))[4] == payload(4)


async def test_a_corrupt_copy_is_not_passed_on(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[0].corrupt(ledger.ledger_id, 2)
    result = await lab.drain(0)
    assert result["exit_code"] == 0
    assert await lab.read_all(ledger.ledger_id) == [payload(i) for i in range(5)]


async def test_a_bookie_that_is_gone_is_emptied_from_the_other_copies(lab: DrainLab) -> None:
    await lab.ledger(entries=10, last=9)
    lab.fleet[0].down = True
    await lab.store.unregister(lab.ids[0])
    result = await lab.drain(0)
    assert result["ledgers_left"] == 0 and (await lab.audit_without(0))["exit_code"] == 0


async def test_a_loss_on_record_stays_on_record(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [4])
    gone = EntrySet.from_ranges([(4, 4)])
    await lab.control.record_loss(
        lab.ids[0], ledger.ledger_id, gone,
        reason=LOSS_REASON, by_person=False, answered_by=lab.ids[:3],
    )  # fmt: skip
    await lab.drain(0)
    found = await lab.audit_without(0)
    assert (found["audit"]["lost"], found["audit"]["missing"]) == (1, 0)


@pytest.mark.parametrize(("keeper", "recorder"), [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)])
async def test_an_entry_that_a_loss_record_names_and_somebody_has_all_the_same_is_moved(
    lab: DrainLab, keeper: int, recorder: int
) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in {0, 1, 2} - {keeper}:
        lab.fleet[number].lose(ledger.ledger_id, [4])
    answer = await lab.control.record_loss(
        lab.ids[recorder], ledger.ledger_id, EntrySet.from_ranges([(4, 4)]),
        reason=LOSS_REASON, by_person=False, answered_by=lab.ids[:3],
    )  # fmt: skip
    assert answer.accepted and (await lab.drain(0))["ledgers"]["moved"] == 1
    assert [4 in lab.held(number, ledger.ledger_id) for number in (3, 4)].count(True) == 1


# ---- ledgers that are written -------------------------------------------------------------------


async def test_an_open_ledger_whose_writer_moved_on_is_moved_under_it(lab: DrainLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (3, 1, 2)), entries=8)
    result = await lab.drain(0)
    after = await lab.metadata(ledger.ledger_id)
    assert after.state is LedgerState.OPEN and not after.names(lab.ids[0])
    assert (result["ledgers"]["moved"], result["ledgers"]["recovered"]) == (1, 0)


async def test_a_ledger_still_written_to_it_is_closed_and_moved(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=8)
    result = await lab.drain(0)
    after = await lab.metadata(ledger.ledger_id)
    assert (after.state, after.last_entry_id) == (LedgerState.CLOSED, 7)
    assert (result["ledgers"]["recovered"], result["ledgers_left"]) == (1, 0)
    assert (await lab.audit_without(0))["audit"]["ok"] == 8


async def test_a_writer_that_moves_on_while_its_ledger_waits_for_its_turn_is_left_alone(
    lab: DrainLab,
) -> None:
    ledger = await lab.ledger(entries=8)
    reads = 0

    async def moves_on(name: str) -> None:
        nonlocal reads
        reads += name == "read_ledger"
        if reads == 3:  # listed, read with the others that are written, about to be recovered
            lab.faulty.before = None
            await lab.moves_on(ledger.ledger_id, 8, 1, 2, 3)

    lab.faulty.before = moves_on
    result = await lab.drain(0)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.OPEN
    assert (result["ledgers"]["recovered"], result["ledgers_left"]) == (0, 0)


async def test_a_writer_is_not_cut_off_when_nobody_could_take_over() -> None:
    lab = DrainLab(3)
    await lab.start()
    ledger = await lab.ledger(entries=8)
    result = await lab.drain(0)
    assert reasons(result) == ["NotEnoughBookies"] and result["exit_code"] == 4
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.OPEN


async def test_a_ledger_in_recovery_elsewhere_is_ended_too(lab: DrainLab) -> None:
    ledger = await lab.ledger((0, (1, 2, 3)), entries=4)
    found = await lab.store.read_ledger(ledger.ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)
    result = await lab.drain(0)
    assert (await lab.metadata(ledger.ledger_id)).is_closed
    assert (result["ledgers"]["recovered"], result["ledgers"]["moved"]) == (1, 0)


async def test_a_recovery_that_cannot_decide_blocks_its_ledger_alone(lab: DrainLab) -> None:
    stuck = await lab.ledger()
    lab.write(stuck, range(5), on=(1,))
    await lab.ledger(entries=5, last=4)
    lab.fleet[1].down = lab.fleet[2].down = True
    result = await lab.drain(0)
    assert reasons(result)[0] == "Undecidable"
    assert (result["ledgers"]["moved"], result["ledgers_left"]) == (1, 1)


async def test_a_busy_writer_moves_on_by_itself_and_loses_nothing() -> None:
    ledgers = FleetLedgers(4)
    await ledgers.create(3, 3, 2)
    client = FleetClient(ledgers.store, ledgers.fleet)
    writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    await writer.append(b"before")
    leaving = writer.metadata.last_fragment.ensemble[0]
    ledgers.fleet[leaving].read_only = True
    info = (await ledgers.store.bookies())[leaving]
    await ledgers.store.register(replace(info, read_only=True))
    for _ in range(3):
        await writer.append(b"after")
    assert leaving not in writer.metadata.last_fragment.ensemble
    assert await writer.close() == 3
    await client.close()


async def test_a_writer_takes_a_move_under_it_for_what_it_is(lab: DrainLab) -> None:
    """Its next change of the ensemble meets the moved fragment and adopts it (R20)."""
    client = FleetClient(lab.store, lab.fleet)
    writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    await writer.append(b"one")
    first, second, _third = writer.metadata.last_fragment.ensemble
    await lab.control.drain(first)
    await writer.append(b"two")
    assert (await lab.drain(lab.ids.index(first)))["ledgers"]["moved"] == 1
    lab.fleet[second].down = True
    while second in writer.metadata.last_fragment.ensemble:
        await writer.append(b"more")
    assert await writer.close() == writer.lac
    assert not (await lab.metadata(writer.ledger_id)).names(first)
    await client.close()


# ---- refused and blocked ------------------------------------------------------------------------


async def test_limbo_anywhere_refuses_the_whole_drain(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    await lab.ledger((0, (1, 2, 3)), entries=5)
    await lab.crash(3)
    result = await lab.drain(0)
    assert result["exit_code"] == 5 and reasons(result) == ["LimboPresent"]
    assert "1 ledgers are in limbo on bookie-3" in result["refused"]
    assert (result["ledgers_left"], result["ledgers"]["moved"]) == (1, 0)


async def test_a_bookie_that_was_not_told_is_not_emptied(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    result = await lab.drain(0, begin=False)
    assert result["exit_code"] == 5 and reasons(result) == ["NotDraining"]
    assert len(await lab.names(0)) == 1


async def test_a_silent_bookie_that_takes_new_ledgers_is_not_emptied(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    lab.control.unreachable.add(lab.ids[0])
    assert reasons(await lab.drain(0, begin=False)) == ["NotDraining"]


async def test_a_bookie_that_refuses_to_drain_says_why(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[0].mark(ledger.ledger_id, unchecked=True)
    result = await lab.drain(0)
    assert (result["exit_code"], result["refused"]) == (5, "bookie-0 has marks")


async def test_too_few_bookies_block_and_say_so() -> None:
    lab = DrainLab(3)
    await lab.start()
    await lab.ledger(entries=5, last=4)
    result = await lab.drain(0)
    assert reasons(result) == ["NotEnoughBookies"] and "start one more" in str(result["blocked"])
    assert (result["ledgers_left"], result["exit_code"]) == (1, 4)


async def test_an_entry_that_nobody_has_blocks_its_ledger(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [2])
    result = await lab.drain(0)
    assert reasons(result) == ["CopyIncomplete"] and await lab.names(0) == [ledger.ledger_id]


async def test_a_member_that_is_away_blocks_nothing_that_others_hold(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    lab.fleet[2].down = True
    result = await lab.drain(0)
    assert result["ledgers"]["moved"] == 1 and result["unreachable"] == [lab.ids[2]]


async def test_a_target_that_does_not_sync_is_never_named(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.control.refuse_flush.update(lab.ids[3:])
    result = await lab.drain(0)
    assert reasons(result) == ["NotFlushed"] and await lab.names(0) == [ledger.ledger_id]


async def test_an_engine_it_does_not_have_is_a_wrong_setting(lab: DrainLab) -> None:
    with pytest.raises(SettingsError, match="expected one of"):
        await lab.drain(0, engine="fast")


async def test_few_ledgers_are_moved_in_process_and_the_reason_is_told(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    result = await lab.drain(0)
    reason = "1 ledgers, fewer than 100000"
    assert (result["engine"], result["engine_reason"]) == ("inline", reason)
    assert (result["spark_app_id"], result["executors"]) == (None, 0)


async def test_how_far_it_came_is_told_and_kept(lab: DrainLab) -> None:
    for last in (4, 4, 4, -1):
        await lab.ledger(entries=last + 1, last=last)
    await lab.ledger(entries=8)
    said: list[str] = []
    result = await lab.drain(0, say=said.append)
    assert [line for line in said if line.startswith("5 of 5 ledgers, 24 entries, ")]
    told = result["progress"]
    assert (told["ledgers"], told["of"], told["entries"]) == (5, 5, 24)
    assert told["bytes"] == result["bytes_copied"] > 0


async def test_the_progress_of_a_refused_drain_says_what_there_was_to_do(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    result = await lab.drain(0, begin=False)
    assert reasons(result) == ["NotDraining"]
    assert (result["progress"]["ledgers"], result["progress"]["of"]) == (0, 1)


# ---- cut off, raced, cancelled ------------------------------------------------------------------


@pytest.mark.parametrize("step", range(12))
async def test_a_drain_killed_at_any_step_is_finished_by_the_next(lab: DrainLab, step: int) -> None:
    for _ in range(3):
        await lab.ledger(entries=5, last=4)
    left = step

    async def kill(name: str) -> None:
        nonlocal left
        if name in ("write_ledger", "read_ledger"):
            left -= 1
            if left == 0:
                raise Killed

    lab.faulty.before = kill
    await asyncio.gather(lab.drain(0), return_exceptions=True)
    lab.faulty.before = None
    assert (await lab.drain(0))["exit_code"] == 0
    assert (await lab.audit_without(0))["audit"]["ok"] == 15


async def test_copies_of_a_killed_drain_are_not_made_again(lab: DrainLab) -> None:
    await lab.ledger(entries=50, last=49)

    async def kill(name: str) -> None:
        if name == "write_ledger":
            raise Killed

    lab.faulty.before = kill
    with pytest.raises(Killed):
        await lab.drain(0)
    lab.faulty.before = None
    result = await lab.drain(0)
    assert (result["entries_copied"], result["ledgers"]["moved"]) == (0, 1)


@pytest.mark.parametrize("earlier", [1, 2])
async def test_copies_that_an_earlier_drain_made_are_synced_before_they_are_named(
    lab: DrainLab, earlier: int
) -> None:
    ledgers = [await lab.ledger(entries=10, last=9) for _ in range(4)]
    lab.control.refuse_flush.update(lab.ids[3:])
    for _ in range(earlier):
        assert set(reasons(await lab.drain(0))) == {"NotFlushed"}
    lab.control.refuse_flush.clear()
    assert (await lab.drain(0))["entries_copied"] == 0 and await lab.names(0) == []
    await lab.crash(3, 4)
    for ledger in ledgers:
        assert await lab.read_all(ledger.ledger_id) == [payload(i) for i in range(10)]
        held = [lab.held(number, ledger.ledger_id) for number in (3, 4)]
        assert sorted(held) == [[], [*range(10)]]


async def test_a_lost_reply_to_the_compare_and_set_is_looked_up(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    await lab.control.drain(lab.ids[0])

    async def lose(name: str) -> None:
        if name == "write_ledger":
            lab.faulty.lost_replies, lab.faulty.before = 1, None

    lab.faulty.before = lose
    result = await lab.drain(0, begin=False)
    assert (result["ledgers"]["moved"], result["exit_code"]) == (1, 0)


async def test_a_move_that_nobody_heard_of_counts_though_the_writer_went_on(lab: DrainLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (5, (1, 2, 3)), entries=8)

    async def lose(name: str) -> None:
        if name == "write_ledger":
            lab.faulty.lost_replies, lab.faulty.before = 1, go_on

    async def go_on(_name: str) -> None:
        lab.faulty.before = None
        await lab.moves_on(ledger.ledger_id, 8, 1, 2, 4)

    lab.faulty.before, outcome = lose, Outcome(ledger.ledger_id)
    await LedgerMoves(lab.cluster, Handover(lab.ids[0], lab.ids[1:]), SETTINGS).move([outcome])
    assert outcome.moved and not (await lab.metadata(ledger.ledger_id)).names(lab.ids[0])


@pytest.mark.parametrize("lost", range(STARTS_MAX + 2))
async def test_a_ledger_counts_as_moved_only_once_its_metadata_is_read_so(
    lab: DrainLab, lost: int
) -> None:
    """Compare-and-sets without an answer, of which none has happened."""
    ledger = await lab.ledger(entries=5, last=4)
    await lab.control.drain(lab.ids[0])
    written = 0

    async def lose(name: str) -> None:
        nonlocal written
        written += name == "write_ledger"
        lab.faulty.late_writes = int(name == "write_ledger" and written <= lost)

    lab.faulty.before = lose
    result = await lab.drain(0, begin=False)
    lab.faulty.before = None
    is_moved = not (await lab.metadata(ledger.ledger_id)).names(lab.ids[0])
    assert is_moved is (lost < STARTS_MAX) and result["ledgers"]["moved"] == int(is_moved)
    reasons = [row["reason"] for row in result["blocked"]]
    assert reasons == ([] if is_moved else ["MetadataConflict"])
    assert (result["ledgers_left"], result["exit_code"]) == ((0, 0) if is_moved else (1, 4))


async def test_without_a_metadata_store_it_ends_with_that(lab: DrainLab) -> None:
    await lab.control.drain(lab.ids[0])
    lab.faulty.is_out = True
    with pytest.raises(UnavailableError):
        await lab.drain(0, begin=False)


async def race(lab: DrainLab, change: Any) -> None:
    """`change` gets its metadata in before the drain's first compare-and-set."""
    raced = False

    async def before(name: str) -> None:
        nonlocal raced
        if name == "write_ledger" and not raced:
            raced = True
            await change()

    lab.faulty.before = before


async def test_metadata_that_changed_meanwhile_makes_the_ledger_start_over(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)

    async def custom() -> None:
        found = await lab.store.read_ledger(ledger.ledger_id)
        changed = replace(found.value, custom={"owner": b"ann"})
        await lab.faulty.inner.write_ledger(changed, version=found.version)

    await race(lab, custom)
    result = await lab.drain(0)
    after = await lab.metadata(ledger.ledger_id)
    assert after.custom == {"owner": b"ann"} and not after.names(lab.ids[0])
    assert (result["ledgers"]["moved"], result["entries_copied"]) == (1, 10)


async def test_a_ledger_deleted_under_it_is_no_trouble(lab: DrainLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await race(lab, lambda: lab.faulty.inner.delete_ledger(ledger.ledger_id))
    result = await lab.drain(0)
    assert (result["ledgers"]["deleted"], result["exit_code"]) == (1, 0)


async def test_two_drains_of_one_bookie_do_the_work_of_one(lab: DrainLab) -> None:
    for _ in range(7):
        await lab.ledger(entries=5, last=4)
    await lab.ledger(entries=5)
    results = await asyncio.gather(lab.drain(0), lab.drain(0))
    assert {result["exit_code"] for result in results} == {0}
    assert sum(result["ledgers"]["moved"] for result in results) == 8
    assert (await lab.audit_without(0))["audit"]["ok"] == 40


async def test_two_bookies_drained_at_once_never_share_a_place(lab: DrainLab) -> None:
    for _ in range(5):
        await lab.ledger(entries=5, last=4)
    await asyncio.gather(*(lab.control.drain(lab.ids[number]) for number in (0, 1)))
    results = await asyncio.gather(lab.drain(0), lab.drain(1))
    assert [result["ledgers_left"] for result in results] == [0, 0]
    lab.fleet[1].down = True
    assert (await lab.audit_without(0))["audit"]["ok"] == 25


async def test_a_cancel_leaves_what_is_written_to_its_writers(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)
    written = await lab.ledger(entries=5)
    await race(lab, lambda: lab.control.drain(lab.ids[0], cancel=True))
    result = await lab.drain(0)
    assert result["exit_code"] == 5 and reasons(result) == ["NotDraining"]
    assert (await lab.metadata(written.ledger_id)).state is LedgerState.OPEN


async def test_a_cancel_while_written_ledgers_are_ended_moves_none_of_them(lab: DrainLab) -> None:
    written = await lab.ledger(entries=5)
    writes = 0

    async def before(name: str) -> None:
        nonlocal writes
        writes += name == "write_ledger"
        if writes == 2:  # in recovery, and about to be closed
            lab.faulty.before = None
            await lab.control.drain(lab.ids[0], cancel=True)

    lab.faulty.before = before
    result = await lab.drain(0)
    assert (await lab.metadata(written.ledger_id)).is_closed
    assert reasons(result) == ["NotDraining"] and await lab.names(0) == [written.ledger_id]


async def test_a_cancel_stops_it_between_two_batches(lab: DrainLab) -> None:
    for _ in range(9):
        await lab.ledger(entries=2, last=1)
    await lab.control.drain(lab.ids[0])
    await race(lab, lambda: lab.control.drain(lab.ids[0], cancel=True))
    result = await lab.drain(0, begin=False)
    assert result["exit_code"] == 5 and reasons(result) == ["NotDraining"]
    assert (result["ledgers"]["moved"], result["ledgers_left"]) == (3, 6)
    assert not lab.fleet[0].read_only


async def test_limbo_that_comes_between_two_batches_stops_it(lab: DrainLab) -> None:
    for _ in range(6):
        await lab.ledger(entries=2, last=1)
    await lab.ledger((0, (1, 2, 4)), entries=2)
    await race(lab, lambda: lab.crash(4))
    result = await lab.drain(0)
    assert "LimboPresent" in reasons(result) and result["exit_code"] == 5
    assert result["ledgers_left"] == 3


async def test_a_target_that_loses_its_disk_as_it_is_named_gets_its_copies_again() -> None:
    lab = DrainLab(4)
    await lab.start()
    ledger = await lab.ledger(entries=10, last=9)

    async def wipe() -> None:
        lab.fleet[3].ledgers.clear()

    await race(lab, wipe)
    result = await lab.drain(0)
    assert lab.held(3, ledger.ledger_id) == list(range(10))
    assert (result["entries_copied"], result["exit_code"]) == (20, 0)


@pytest.mark.parametrize("losses", range(5))
async def test_a_target_that_loses_them_again_and_again_is_told_of(losses: int) -> None:
    """It is named by then, and the bookie that leaves may be gone before anybody looks."""
    lab = DrainLab(4)
    await lab.start()
    ledger = await lab.ledger(entries=10, last=9)
    sync, wiped = lab.control.flush, 0

    async def wipe() -> None:
        nonlocal wiped
        if wiped < losses:
            lab.fleet[3].ledgers.clear()
            wiped += 1

    async def flush(bookie_id: BookieId) -> Status:
        status = await sync(bookie_id)
        if await lab.names(3):
            await wipe()
        return status

    lab.control.flush = flush  # type: ignore[method-assign]
    await race(lab, wipe)
    result = await lab.drain(0)
    assert reasons(result) == (["CopyLost"] if losses > COPIES_MAX else [])
    assert (result["exit_code"] == 0) == (losses <= COPIES_MAX)
    assert lab.held(3, ledger.ledger_id) == ([] if losses > COPIES_MAX else list(range(10)))


async def test_a_target_that_forgets_before_it_synced_is_not_named() -> None:
    lab = DrainLab(4)
    await lab.start()
    ledger = await lab.ledger(entries=10, last=9)
    sync = lab.control.flush

    async def forget(bookie_id: BookieId) -> Status:
        lab.fleet[bookie_id].crash()
        lab.fleet[bookie_id].down = False
        return await sync(bookie_id)

    lab.control.flush = forget  # type: ignore[method-assign]
    result = await lab.drain(0)
    assert reasons(result) == ["CopyIncomplete"]
    assert await lab.names(0) == [ledger.ledger_id] and await lab.names(3) == []


async def test_a_target_whose_control_plane_falls_silent_is_not_written_to(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)

    async def silence(name: str) -> None:
        if name == "read_ledger" and ("list_marks", lab.ids[3]) in lab.control.asked:
            lab.control.unreachable.update(lab.ids[3:])

    lab.faulty.before = silence
    result = await lab.drain(0)
    assert reasons(result) == ["TargetSilent"] and result["entries_copied"] == 0


async def test_a_target_that_falls_silent_is_said_and_tried_again_later(lab: DrainLab) -> None:
    await lab.ledger(entries=5, last=4)

    def is_copy(call: Call) -> bool:
        return call.op is Op.ADD_RUN and call.recovery

    for number in (3, 4):
        lab.fleet.lose_requests(number, only=is_copy)
    result = await lab.drain(0)
    assert reasons(result) == ["CopyIncomplete"] and "UNREACHABLE" in str(result["blocked"])
    for number in (3, 4):
        lab.fleet.heal(number)
    assert (await lab.drain(0))["exit_code"] == 0


async def test_it_writes_only_by_recovery_adds_so_that_fences_do_not_matter(lab: DrainLab) -> None:
    ledger: LedgerMetadata = await lab.ledger(entries=5, last=4)
    for number in (3, 4):
        lab.fleet[number].mark(ledger.ledger_id)
        lab.fleet[number].ledgers[ledger.ledger_id].fenced = True
    assert (await lab.drain(0))["exit_code"] == 0


async def test_a7_a_ledger_that_cannot_be_read_stays_and_the_others_move(lab: DrainLab) -> None:
    ledgers = [await lab.ledger(entries=10, last=9) for _ in range(3)]
    lab.garble(ledgers[1].ledger_id)
    result = await lab.drain(0)
    assert (result["ledgers"]["moved"], result["ledgers_left"]) == (2, 1)
    (blocked,) = result["blocked"]
    assert (blocked["ledger_id"], blocked["reason"]) == (
        ledgers[1].ledger_id, "MetadataUnreadable",
    )  # fmt: skip


async def test_a7_metadata_that_cannot_be_read_any_more_is_not_taken_for_a_deletion(
    lab: DrainLab,
) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.garble(ledger.ledger_id)
    outcome = Outcome(ledger.ledger_id)
    await LedgerMoves(lab.cluster, Handover(lab.ids[0], lab.ids[1:]), SETTINGS).move([outcome])
    assert (outcome.reason, outcome.state_before) == ("MetadataUnreadable", "")
