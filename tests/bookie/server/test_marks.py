"""The end of the check after an unclean boot: when the boundary is lifted, and what holds it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from bookie.boot.boot import Booted
from bookie.errors import StorageError, UnavailableError
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.clearing import ClearReason
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.protocol.status import Status
from bookie.server.marks import LossRequest, Marks, RetractionRequest
from bookie.server.state import BookieState
from bookie.storage.decisions import DecisionKind, PersonDecision
from bookie.storage.records import LedgerRecord
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from boot_lab import ENSEMBLE, ME, OTHERS, BootLab

from bookie import points


async def unclean(lab: BootLab) -> Marks:
    """Killed and booted again."""
    lab.kill()
    return judge(lab, await lab.boot())


def judge(lab: BootLab, booted: Booted) -> Marks:
    return Marks(
        booted.storage,
        lab.store,
        bookie_id=ME,
        state=BookieState(ME),
        unchecked=set(booted.unchecked),
    )


async def is_away(_operation: str) -> None:
    raise UnavailableError("the store does not answer")


async def begin_recovery(lab: BootLab, ledger_id: LedgerId) -> None:
    found = await lab.store.read_ledger(ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)


async def change_ensemble(lab: BootLab, ledger_id: LedgerId, first: int) -> None:
    """The writer's new last fragment names this bookie."""
    found = await lab.store.read_ledger(ledger_id)
    fragments = (*found.value.fragments, Fragment(EntryId(first), ENSEMBLE))
    await lab.store.write_ledger(found.value.with_fragments(fragments), version=found.version)


async def close(lab: BootLab, ledger_id: LedgerId, end: int, *fragments: Fragment) -> None:
    found = await lab.store.read_ledger(ledger_id)
    closed = found.value.closed(EntryId(end), length=0, fragments=fragments or None)
    await lab.store.write_ledger(closed, version=found.version)


async def test_with_nothing_to_check_the_boundary_is_lifted_and_absence_denied(
    lab: BootLab,
) -> None:
    await lab.boot()
    elsewhere = await lab.ledger((0, OTHERS), closed_at=0)
    marks = await unclean(lab)
    assert lab.now is not None and lab.now.storage.is_unchecked(elsewhere)
    assert await marks.finish_unchecked()
    assert not lab.now.storage.is_unchecked(elsewhere)
    boundary = lab.now.storage.boundary()
    assert boundary is not None and boundary.covers(elsewhere), "the fence stays forever"


async def test_a_mark_that_is_left_holds_the_boundary(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    marks = await unclean(lab)
    assert not await marks.finish_unchecked()
    await close(lab, ledger, -1)
    assert (await marks.clear([ledger]))[0].may_clear
    assert await marks.finish_unchecked()


async def test_s38_no_mark_goes_and_no_loss_is_taken_by_what_a_lagging_follower_shows(
    faulty: tuple[BootLab, FaultyStore],
) -> None:
    lab, store = faulty
    await lab.boot()
    anew = await lab.ledger(closed_at=0)
    marks = await unclean(lab)
    await store.delete_ledger(anew)
    await store.freeze_ledgers()
    await lab.ledger(ledger_id=anew, closed_at=0)
    assert (await marks.clear([anew]))[0].reason is ClearReason.ENTRIES_MISSING
    await store.freeze_ledgers()
    await store.delete_ledger(anew)
    everybody = frozenset[str](ENSEMBLE)
    lost = LossRequest(anew, EntrySet.from_ranges([(0, 0)]), False, "all denied it", everybody)
    assert await marks.record_loss(lost) == f"ledger {anew} does not exist"


async def test_s37_while_a_ledger_is_being_recovered_the_boundary_stays(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    await begin_recovery(lab, ledger)
    await lab.add(ledger, 0, 2, recovery=True)  # a replacement that is in no metadata yet
    marks = await unclean(lab)
    assert not await marks.finish_unchecked()
    assert lab.now is not None and lab.now.storage.is_unchecked(ledger)
    await close(lab, ledger, 1, Fragment(EntryId(0), ENSEMBLE))
    assert not await marks.finish_unchecked()
    assert [mark.ledger_id for mark in marks.marked(include_unchecked=True)] == [ledger]


async def test_a_recovery_of_a_ledger_made_after_the_boot_holds_nothing(lab: BootLab) -> None:
    await lab.boot()
    marks = await unclean(lab)
    await begin_recovery(lab, await lab.ledger((0, OTHERS)))
    assert await marks.finish_unchecked()


async def test_a_recovery_that_began_after_the_boot_holds_nothing(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    marks = await unclean(lab)
    await begin_recovery(lab, ledger)
    assert await marks.finish_unchecked()


async def test_a_recovery_may_wait_for_a_bookie_whose_check_does_not_wait_for_its_end(
    lab: BootLab,
) -> None:
    # Its writer chose this bookie after the boot, was refused by it, and a recovery was begun. If
    # another member is in limbo, too, this one's denial is what the recovery needs to close.
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    marks = await unclean(lab)
    await change_ensemble(lab, ledger, 5)
    await begin_recovery(lab, ledger)
    assert not await marks.finish_unchecked()
    assert (await marks.clear([ledger]))[0].may_clear
    assert lab.now is not None and not lab.now.storage.is_unchecked(ledger)
    assert await marks.finish_unchecked()


async def test_s37_a_recovery_that_was_under_way_is_waited_for_over_a_clean_restart(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, ENSEMBLE), (2, OTHERS))
    await begin_recovery(lab, ledger)
    await unclean(lab)
    await lab.stop()
    marks = judge(lab, await lab.boot())
    await lab.add(ledger, 0, 2, recovery=True)
    assert (await marks.clear([ledger]))[0].reason is ClearReason.NOT_CLOSED
    assert not await marks.finish_unchecked()


async def test_what_a_clean_boot_sees_being_recovered_holds_nothing(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    await unclean(lab)
    await change_ensemble(lab, ledger, 5)
    await begin_recovery(lab, ledger)
    await lab.stop()
    marks = judge(lab, await lab.boot())
    assert (await marks.clear([ledger]))[0].may_clear
    assert await marks.finish_unchecked()


async def test_a_lifted_boundary_stays_lifted_over_restarts(lab: BootLab) -> None:
    await lab.boot()
    elsewhere = await lab.ledger((0, OTHERS), closed_at=0)
    marks = await unclean(lab)
    assert await marks.finish_unchecked()
    await lab.stop()
    booted = await lab.boot()
    assert not booted.storage.is_unchecked(elsewhere)
    assert not await marks.finish_unchecked()


async def test_a7_a_ledger_that_cannot_be_read_keeps_its_mark_and_holds_the_boundary(
    lab: BootLab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS), closed_at=0)
    lab.cluster.garbled.add(ledger)
    marks = await unclean(lab)
    (kept,) = await marks.clear([ledger])
    assert kept.reason is ClearReason.METADATA_UNREADABLE
    assert not await marks.finish_unchecked()
    lab.cluster.garbled.clear()
    assert (await marks.clear([ledger]))[0].may_clear and await marks.finish_unchecked()


async def test_a7_the_end_of_the_check_waits_for_what_cannot_be_read_and_says_so_once(
    lab: BootLab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.boot()
    ledger = await lab.ledger((0, OTHERS))
    await begin_recovery(lab, ledger)
    marks = await unclean(lab)
    lab.cluster.garbled.add(ledger)
    assert not await marks.finish_unchecked() and not await marks.finish_unchecked()
    assert caplog.text.count(f"whose metadata cannot be read ({ledger})") == 1


async def test_a2_without_a_lease_the_control_plane_denies_nothing_either(lab: BootLab) -> None:
    marks = judge(lab, await lab.boot())
    (denied,) = await marks.availability([LedgerId(7)])
    marks.state.lease_until = 0.0
    (unknown,) = await marks.availability([LedgerId(7)])
    assert (denied.status, unknown.status) == (Status.NO_SUCH_LEDGER, Status.UNKNOWN)


async def test_a_mark_is_cleared_once_that_is_durable_and_no_sooner(
    lab: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    marks = await unclean(lab)
    await close(lab, ledger, -1)
    assert lab.now is not None
    put, durable = lab.now.storage.put_record, asyncio.get_running_loop().create_future()

    def later(record: LedgerRecord, *, done: Callable[[StorageError | None], None]) -> None:
        put(record, done=lambda error: durable.set_result(partial(done, error)))

    monkeypatch.setattr(lab.now.storage, "put_record", later)
    clearing = asyncio.create_task(marks.clear([ledger]))
    say = await durable
    for _ in range(20):
        await asyncio.sleep(0)
    assert not clearing.done() and not marks.state.traffic.limbo_cleared
    say()
    assert (await clearing)[0].may_clear and marks.state.traffic.limbo_cleared == 1


async def test_a_mark_whose_clearing_the_disk_did_not_take_is_not_called_cleared(
    sim: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sim.boot()
    ledger = await sim.ledger(closed_at=-1)
    marks = await unclean(sim)
    disk = sim.disk
    assert isinstance(disk, SimDisk) and marks.unchecked == {ledger}

    def fail(point: str) -> None:
        if point == "clear: copies synced, mark not cleared":
            disk.fail("sync", pattern="*.jnl*")

    monkeypatch.setattr(points, "_observers", [fail])
    with pytest.raises(StorageError):
        await marks.clear([ledger])
    assert (marks.unchecked_count, marks.state.traffic.limbo_cleared) == (1, 0)


async def test_a_mark_that_goes_while_the_copies_are_listed_leaves_what_is_absent_unknown(
    lab: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    marks = await unclean(lab)
    assert lab.now is not None
    storage, held = lab.now.storage, lab.now.storage.held
    epoch = lab.now.record.boot_epoch
    cleared = LedgerRecord(ledger, mark_epoch=epoch, checked_epoch=epoch)

    def listed(ledger_id: LedgerId) -> EntrySet:
        found = held(ledger_id)
        storage.put_record(cleared, done=lambda _error: None)
        return found

    monkeypatch.setattr(storage, "held", listed)
    assert (await marks.availability([ledger]))[0].status is Status.UNKNOWN


# ---- losses taken back --------------------------------------------------------------------------


def wrong(ledger: LedgerId, entries: EntrySet | None = None) -> RetractionRequest:
    return RetractionRequest(ledger, entries, by="ann", reason="bookie-2 has a copy")


async def cleared_by_a_record(lab: BootLab) -> tuple[Marks, LedgerId]:
    """Entry 0 of a closed ledger is not here, and a record said that it is lost."""
    await lab.boot()
    ledger = await lab.ledger(closed_at=0)
    marks = await unclean(lab)
    everybody = frozenset[str](ENSEMBLE)
    lost = LossRequest(ledger, EntrySet.from_ranges([(0, 0)]), False, "all denied it", everybody)
    assert await marks.record_loss(lost) == ""
    assert (await marks.clear([ledger]))[0].may_clear and await marks.finish_unchecked()
    return marks, ledger


async def test_a_loss_taken_back_is_unknown_until_its_entry_was_copied(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    assert (await marks.availability([ledger]))[0].status is not Status.UNKNOWN
    done = await marks.retract_loss(wrong(ledger))
    assert done.into_limbo and len(done.entries) == 1 and not done.refusal
    [found] = await marks.availability([ledger])
    assert found.status is Status.UNKNOWN and found.lost.is_empty
    assert (await marks.clear([ledger]))[0].reason is ClearReason.ENTRIES_MISSING
    await lab.add(ledger, 0, 1, recovery=True)
    assert (await marks.clear([ledger]))[0].may_clear and not marks.losses_count


async def test_a_ledger_whose_loss_is_taken_back_before_it_was_checked_has_one_mark(
    lab: BootLab,
) -> None:
    await lab.boot()
    ledger = await lab.ledger(closed_at=0)
    marks, others = await unclean(lab), frozenset[str](ENSEMBLE)
    lost = LossRequest(ledger, EntrySet.from_ranges([(0, 0)]), False, "all denied it", others)
    assert await marks.record_loss(lost) == "" and marks.unchecked_count == 1
    assert (await marks.retract_loss(wrong(ledger))).into_limbo
    assert [one.limbo for one in marks.marked(include_unchecked=True)] == [True]
    assert (marks.limbo_count, marks.unchecked_count) == (1, 0)


async def test_a_loss_is_taken_back_once_and_by_name(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    assert (await marks.retract_loss(wrong(ledger))).entries
    again = await marks.retract_loss(wrong(ledger))
    assert not again.refusal and not again.entries and not again.into_limbo
    assert lab.now is not None
    [one] = lab.now.storage.decisions
    assert (one.kind, one.by) == ("LossRetracted", "ann")
    assert one.about == f"entries 0..0 of ledger {ledger} are lost no more: bookie-2 has a copy"


async def test_a_loss_is_not_taken_back_without_a_reason_or_of_other_entries(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    refused = await marks.retract_loss(RetractionRequest(ledger, None, by="ann", reason=" "))
    assert "expected why" in refused.refusal
    assert not (await marks.retract_loss(wrong(ledger, EntrySet.from_ranges([(1, 9)])))).entries
    assert (await marks.retract_loss(wrong(ledger, EMPTY))).entries == EMPTY
    assert marks.losses_count == 1


async def test_an_entry_that_turns_up_takes_its_loss_record_back_with_the_next_flush(
    lab: BootLab,
) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    await marks.flush()
    assert marks.losses_count == 1, "nothing is here yet"
    await lab.add(ledger, 0, 1, recovery=True)
    await marks.flush()
    [found] = await marks.availability([ledger])
    assert not marks.losses_count and found.lost.is_empty and not found.limbo
    marks = await unclean(lab)
    assert not marks.losses_count, "durably"


async def test_the_record_of_a_loss_goes_no_earlier_than_its_copy_is_durable(
    lab: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    await lab.add(ledger, 0, 1, recovery=True)
    counts: list[int] = []
    monkeypatch.setattr(points, "_observers", [lambda _point: counts.append(marks.losses_count)])
    await marks.flush()
    assert set(counts) == {1} and not marks.losses_count


async def test_flushes_at_once_take_a_record_back_once(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    await lab.add(ledger, 0, 1, recovery=True)
    await asyncio.gather(*(marks.flush() for _ in range(3)))
    assert not marks.losses_count


async def test_a_record_of_a_ledger_that_nobody_can_read_keeps_no_other(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    unreadable = await lab.ledger(closed_at=0)
    everybody = frozenset[str](ENSEMBLE)
    lost = LossRequest(unreadable, EntrySet.from_ids([0]), False, "all denied it", everybody)
    assert await marks.record_loss(lost) == ""
    for one in (ledger, unreadable):
        await lab.add(one, 0, 1, recovery=True)
    lab.cluster.garbled.add(min(ledger, unreadable))
    await marks.flush()
    assert marks.storage.lossy_ledgers() == [min(ledger, unreadable)]


async def test_what_a_person_gave_up_beyond_the_end_stays_lost_though_it_turns_up(
    lab: BootLab,
) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    found = await lab.store.read_ledger(ledger)
    ended = replace(found.value, last_entry_id=NO_ENTRY, custom={ACCEPTED_LOSS_KEY: b"-1"})
    await lab.store.write_ledger(ended, version=found.version)
    await lab.add(ledger, 0, 1, recovery=True)
    await marks.flush()
    assert marks.losses_count == 1


@pytest.mark.parametrize("trouble", ["deleted", "unreadable", "away"])
async def test_a_record_stays_while_nobody_knows_its_ledger_and_the_flush_is_done(
    lab: BootLab, trouble: str
) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    await lab.add(ledger, 0, 1, recovery=True)
    if trouble == "deleted":
        await lab.store.delete_ledger(ledger)
    elif trouble == "unreadable":
        lab.cluster.garbled.add(ledger)
    else:
        marks.store = FaultyStore(lab.store)
        marks.store.before = is_away
    assert await marks.flush() > 0 and marks.losses_count == 1


async def test_a_loss_beyond_an_end_that_a_person_accepted_stays_on_record(lab: BootLab) -> None:
    marks, ledger = await cleared_by_a_record(lab)
    found = await lab.store.read_ledger(ledger)
    ended = replace(found.value, last_entry_id=NO_ENTRY, custom={ACCEPTED_LOSS_KEY: b"-1"})
    await lab.store.write_ledger(ended, version=found.version)
    refused = await marks.retract_loss(wrong(ledger))
    assert "which cannot be undone" in refused.refusal and not refused.entries
    assert marks.losses_count == 1


async def test_a_mark_that_is_cleared_while_its_record_is_taken_back_stays(
    lab: BootLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.boot()
    ledger = await lab.ledger(closed_at=0)
    marks = await unclean(lab)
    everybody = frozenset[str](ENSEMBLE)
    lost = LossRequest(ledger, EntrySet.from_ranges([(0, 0)]), False, "all denied it", everybody)
    assert await marks.record_loss(lost) == ""
    assert lab.now is not None
    maintenance, epoch = lab.now.storage.maintenance, marks.state.boot_epoch
    decision = PersonDecision(0, DecisionKind.RETRACTION, "ann", "bookie-2 has a copy")

    def taken_back(point: str) -> None:
        if point == "clear: copies synced, mark not cleared":
            maintenance.retract_loss(ledger, lost.lost, decision=decision, limbo_since=epoch)

    monkeypatch.setattr(points, "_observers", [taken_back])
    [verdict] = await marks.clear([ledger])
    assert verdict.reason is ClearReason.ENTRIES_MISSING
    assert (await marks.availability([ledger]))[0].status is Status.UNKNOWN


class LateAnswers(FaultyStore):
    """What it answers to the first reading of a ledger is old when it comes."""

    def __init__(self, lab: BootLab, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(lab.store)
        self.meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        found = await super().read_ledger(ledger_id)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


async def given_up(lab: BootLab) -> tuple[Marks, LedgerId]:
    """Entry 0 of a ledger IN_RECOVERY is not here, and a person has accepted its loss."""
    await lab.boot()
    ledger = await lab.ledger()
    marks = await unclean(lab)
    await begin_recovery(lab, ledger)
    lost = EntrySet.from_ranges([(0, 0)])
    request = LossRequest(ledger, lost, True, "ann: burnt", frozenset())
    assert await marks.record_loss(request) == ""
    return marks, ledger


async def test_a2_a_ledger_closed_and_cleared_while_its_record_is_taken_back_is_unknown(
    lab: BootLab,
) -> None:
    marks, ledger = await given_up(lab)

    async def closed_and_cleared() -> None:
        await close(lab, ledger, 0)
        assert (await marks.clear([ledger]))[0].may_clear

    marks.store = LateAnswers(lab, closed_and_cleared)
    assert not (await marks.retract_loss(wrong(ledger))).refusal
    assert (await marks.availability([ledger]))[0].status is Status.UNKNOWN


async def test_a_loss_that_a_person_accepted_is_kept_with_who_said_so(lab: BootLab) -> None:
    await lab.boot()
    ledger = await lab.ledger()
    marks = await unclean(lab)
    await begin_recovery(lab, ledger)
    lost = EntrySet.from_ranges([(0, 0)])
    request = LossRequest(ledger, lost, True, "ann: burnt", frozenset(), "decision ann", "ann")
    assert await marks.record_loss(request) == "" and lab.now is not None
    [one] = lab.now.storage.decisions
    assert (one.kind, one.by) == ("LossAccepted", "ann") and "ann: burnt" in one.about
    assert request.kept_reason == "a person: ann: burnt (sent by decision ann)"
