"""The end of the check after an unclean boot: when the boundary is lifted, and what holds it."""

import pytest
from bookie.boot.boot import Booted
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.clearing import ClearReason
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.server.marks import LossRequest, Marks
from bookie.server.state import BookieState
from bookie.testing.metadata import FaultyStore
from boot_lab import ENSEMBLE, ME, OTHERS, BootLab


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
    assert boundary is not None and boundary.covers(elsewhere), "the fence stays for ever"


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
