"""S33: a person closes a ledger at a possible loss; refused whenever there is a better way."""

import json
from dataclasses import replace
from typing import Any

import pytest
from bookie.client.recovery import RecoverySettings
from bookie.errors import BadRequestError, UnavailableError, UndecidableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.mend.accept_loss import LossDecision, accept_loss
from bookie.testing.metadata import FaultyStore
from bookie.wire.admin.request_answer import RequestAnswer
from repair_lab import AUDIT, SETTINGS, RepairLab


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def forgotten_tail(lab: RepairLab) -> LedgerMetadata:
    """e0..e4 durable; e5 was on two bookies, which both crashed."""
    ledger = await lab.ledger(entries=5)
    lab.write(ledger, [5], on=(0, 1))
    await lab.crash(0, 1)
    return ledger


async def accept(lab: RepairLab, ledger: LedgerMetadata, first: int | None = 5) -> LossDecision:
    named = None if first is None else EntryId(first)
    return await accept_loss(
        lab.cluster, ledger.ledger_id, by="jo", reason="power cut", first_entry_id=named
    )


async def test_s33_closes_at_the_highest_contiguous_readable_entry(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    decision = await accept(lab, ledger)
    assert (decision.last_entry_id, decision.lost_from) == (4, 5)
    closed = await lab.metadata(ledger.ledger_id)
    assert closed.is_closed and closed.last_entry_id == 4


async def test_a_close_that_landed_unheard_is_the_decision_and_no_refusal(lab: RepairLab) -> None:
    """Neither its answer nor a look at it came back: the second attempt finds our own record."""
    ledger, store = await forgotten_tail(lab), FaultyStore(lab.store)
    recovery = RecoverySettings(attempts=2, backoff_s=0)
    lab.cluster = replace(lab.cluster, store=store, recovery=recovery)

    async def before(name: str) -> None:
        if name == "write_ledger" and store.calls.count(name) == 2:  # the close
            store.lost_replies, store.before = 1, outage

    async def outage(name: str) -> None:
        store.before = None
        raise UnavailableError(f"not there for {name}")

    store.before = before
    assert (await accept(lab, ledger)).lost_from == 5


async def test_the_decision_stays_visible(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    await accept(lab, ledger)
    record = (await lab.metadata(ledger.ledger_id)).custom[ACCEPTED_LOSS_KEY]
    assert json.loads(record)["by"] == "jo"
    found = await audit(lab.cluster, AuditRequest(settings=AUDIT))
    assert found["accepted_losses"][0]["ledger_id"] == ledger.ledger_id


async def test_every_member_has_a_durable_record_by_a_person(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    decision = await accept(lab, ledger)
    assert decision.recorded_on == tuple(lab.ids[:3])
    assert lab.control.by_person == {(b, ledger.ledger_id) for b in lab.ids[:3]}
    assert lab.control.lost[lab.ids[0], ledger.ledger_id].ranges() == [(5, 5)]


async def test_a10_each_member_records_its_own_share_of_a_striped_ledger(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, write=2)
    lab.write(ledger, [4], on=(1, 2))
    await lab.crash(1, 2)
    decision = await accept(lab, ledger, first=4)
    assert (decision.last_entry_id, decision.lost_from) == (3, 4)
    assert decision.recorded_on == tuple(lab.ids[1:3])


async def test_limbo_clears_after_it(lab: RepairLab) -> None:
    await accept(lab, await forgotten_tail(lab))
    result = await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))
    assert result["ledgers"]["cleared"] == 1 and result["blocked"] == []


async def test_refused_while_a_member_is_merely_down(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.fleet[2].down = True
    with pytest.raises(UndecidableError):
        await accept(lab, ledger)
    assert not (await lab.metadata(ledger.ledger_id)).is_closed


async def test_refused_while_a_control_plane_is_silent(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.control.unreachable.add(lab.ids[1])
    with pytest.raises(UndecidableError, match="merely away"):
        await accept(lab, ledger)
    assert lab.control.lost == {}


async def test_the_members_of_now_are_asked_and_record_it(lab: RepairLab) -> None:
    """Its writer replaced bookie 2 while the command began."""
    ledger, read = await forgotten_tail(lab), lab.store.read_ledger

    async def late(ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        found = await read(ledger_id)
        lab.store.read_ledger = read  # type: ignore[method-assign]
        await lab.moves_on(ledger_id, 5, 0, 1, 3)
        return found

    lab.store.read_ledger = late  # type: ignore[method-assign]
    decision = await accept(lab, ledger)
    assert decision.recorded_on == (lab.ids[0], lab.ids[1], lab.ids[3])


@pytest.mark.parametrize("named", [0, 1, 4, 6])
async def test_no_entry_is_given_up_but_the_one_that_was_named(lab: RepairLab, named: int) -> None:
    ledger = await forgotten_tail(lab)
    with pytest.raises(BadRequestError, match=f"entry 5 is in question, not {named}"):
        await accept(lab, ledger, named)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.IN_RECOVERY


async def test_a_copy_that_turned_up_is_recovered_instead(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.write(ledger, [5], on=(1,))
    with pytest.raises(BadRequestError, match="entry 6 is in question, not 5"):
        await accept(lab, ledger)
    decision = await accept(lab, ledger, first=None)
    assert (decision.last_entry_id, decision.lost_from) == (5, 6)


def while_recorded(
    lab: RepairLab, ledger: LedgerMetadata, turned_up: list[int], *, repaired: bool = False
) -> None:
    """These entries turn up on bookie 1 as the last member records the loss; `repaired`: bookie 0
    is out of limbo then."""
    record = lab.control.record_loss

    async def slow(bookie_id: BookieId, *words: Any, **more: Any) -> RequestAnswer:
        if bookie_id == lab.ids[2]:
            lab.write(ledger, turned_up, on=(1,), lac=4)
            lab.fleet[0].ledgers[ledger.ledger_id].limbo = not repaired
        return await record(bookie_id, *words, **more)

    lab.control.record_loss = slow  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("turned_up", "end", "lost_from"), [([5], 5, None), ([5, 6], 6, None), ([6], 4, 5)]
)
async def test_what_turned_up_while_it_was_recorded_is_kept_and_not_given_up(
    lab: RepairLab, turned_up: list[int], end: int, lost_from: int | None
) -> None:
    ledger = await forgotten_tail(lab)
    while_recorded(lab, ledger, turned_up, repaired=True)
    decision = await accept(lab, ledger)
    assert (decision.last_entry_id, decision.lost_from) == (end, lost_from)
    assert (await lab.metadata(ledger.ledger_id)).last_entry_id == end


async def test_where_that_puts_another_entry_in_question_nothing_is_closed(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    while_recorded(lab, ledger, [5])
    with pytest.raises(UndecidableError, match="entry 6 cannot be decided"):
        await accept(lab, ledger)
    assert not (await lab.metadata(ledger.ledger_id)).is_closed


async def test_entries_beyond_a_hole_are_cut_off_and_not_called_lost(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.write(ledger, [7], on=(1,), lac=4)
    decision = await accept(lab, ledger)
    assert decision.last_entry_id == 4
    assert lab.control.lost[lab.ids[0], ledger.ledger_id].ranges() == [(5, 6)]


async def test_refused_while_a_member_lists_the_entry_it_cannot_return(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.write(ledger, [5], on=(1,))
    lab.fleet[1].fail_reads(ledger.ledger_id, [5])
    with pytest.raises(UndecidableError, match="lists entry 5"):
        await accept(lab, ledger)


async def test_nothing_is_accepted_when_recovery_can_close(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5)
    decision = await accept(lab, ledger)
    assert (decision.last_entry_id, decision.lost_from, decision.recorded_on) == (4, None, ())


async def test_nothing_is_closed_when_a_member_does_not_record(lab: RepairLab) -> None:
    ledger = await forgotten_tail(lab)
    lab.control.refuse_loss.add(lab.ids[2])
    with pytest.raises(UndecidableError, match="did not record"):
        await accept(lab, ledger)
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.IN_RECOVERY


async def test_s36_a_closed_ledger_is_refused(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=1, last=0)
    with pytest.raises(BadRequestError, match="CLOSED at entry 0"):
        await accept(lab, ledger)
