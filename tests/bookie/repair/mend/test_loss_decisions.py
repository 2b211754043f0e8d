"""One decision about many ledgers: each for itself, and a look that changes nothing."""

import pytest
from bookie.ids import LedgerId
from bookie.ledger_selector import parse_selector
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.mend import loss_decisions
from bookie.repair.mend.loss_decisions import Approval, LossDecisions, decide_losses, outlooks
from repair_lab import SETTINGS, RepairLab

JO = Approval("jo", "power cut")


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def forgotten(lab: RepairLab, *tails: int) -> list[LedgerMetadata]:
    """Ledgers whose entry at the tail was on two bookies, which both crashed; repaired once."""
    ledgers = [await lab.ledger(entries=tail) for tail in tails]
    for ledger, tail in zip(ledgers, tails, strict=True):
        lab.write(ledger, [tail], on=(0, 1))
    await lab.crash(0, 1)
    await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))
    return ledgers


async def decide(lab: RepairLab, text: str) -> LossDecisions:
    return await decide_losses(lab.cluster, parse_selector(text), JO)


async def state(lab: RepairLab, number: int) -> LedgerState:
    return (await lab.metadata(LedgerId(number))).state


async def test_every_ledger_of_a_range_is_closed_before_its_own_entry(lab: RepairLab) -> None:
    await forgotten(lab, 5, 0, 2)
    found = await decide(lab, "0-9")
    assert [(one.ledger_id, one.lost_from) for one in found.decided] == [(0, 5), (1, 0), (2, 2)]
    assert found.refused == {}


async def test_the_name_and_the_reason_are_kept_with_each(lab: RepairLab) -> None:
    await forgotten(lab, 5, 0)
    await decide(lab, "0-1")
    for number in (0, 1):
        assert "jo" in str((await lab.metadata(LedgerId(number))).custom)


async def test_a_range_leaves_those_that_are_open_to_their_writers(lab: RepairLab) -> None:
    await forgotten(lab, 5)
    written = await lab.ledger(entries=3)
    assert [one.ledger_id for one in (await decide(lab, "0-9")).decided] == [0]
    assert await state(lab, written.ledger_id) is LedgerState.OPEN


async def test_what_is_refused_of_one_leaves_the_others_decided(lab: RepairLab) -> None:
    await forgotten(lab, 5, 2)
    found = await decide(lab, "0@4,1@2")
    assert [one.ledger_id for one in found.decided] == [1]
    assert "entry 5 is in question, not 4" in found.refused[LedgerId(0)]
    assert await state(lab, 0) is LedgerState.IN_RECOVERY


@pytest.mark.parametrize("named", [0, 1, 4, 6])
async def test_neither_a_decision_nor_a_look_is_about_another_entry_than_the_one_named(
    lab: RepairLab, named: int
) -> None:
    await forgotten(lab, 5)
    decided = await decide(lab, f"0@{named}")
    seen = await outlooks(lab.cluster, parse_selector(f"0@{named}"))
    assert decided.decided == [] and seen.seen == []
    for refused in (decided.refused, seen.refused):
        assert f"entry 5 is in question, not {named}" in refused[LedgerId(0)]


async def test_nothing_is_decided_while_a_member_is_merely_away(lab: RepairLab) -> None:
    await forgotten(lab, 5, 2)
    lab.fleet[2].down = True
    found = await decide(lab, "0-1")
    assert found.decided == [] and set(found.refused) == {0, 1}


async def test_a_ledger_that_does_not_exist_is_named(lab: RepairLab) -> None:
    await forgotten(lab, 5)
    assert set((await decide(lab, "0,7")).refused) == {7}


async def test_a_look_says_what_a_decision_then_does(lab: RepairLab) -> None:
    await forgotten(lab, 5, 0, 2)
    seen = await outlooks(lab.cluster, parse_selector("0-9"))
    found = await decide(lab, "0-9")
    assert [(one.ledger_id, one.closes_at, one.first_in_question) for one in seen.seen] == [
        (one.ledger_id, one.last_entry_id, one.lost_from) for one in found.decided
    ]


async def test_a_look_changes_nothing(lab: RepairLab) -> None:
    await forgotten(lab, 5)
    written = await lab.ledger(entries=3)
    ids = [LedgerId(0), written.ledger_id]
    before = [await lab.metadata(one) for one in ids]
    held = [lab.held(number, written.ledger_id) for number in range(3)]
    await outlooks(lab.cluster, parse_selector(f"0,{written.ledger_id}"))
    assert [await lab.metadata(one) for one in ids] == before
    assert [lab.held(number, written.ledger_id) for number in range(3)] == held
    lab.write(written, [3])  # nobody was fenced


async def test_a_look_counts_what_waits_for_a_member_apart(lab: RepairLab) -> None:
    await forgotten(lab, 5, 2)
    lab.control.unreachable.add(lab.ids[1])
    told = (await outlooks(lab.cluster, parse_selector("0-1"))).json()
    assert (told["closed"], told["given_up"], told["refused"]) == (0, 0, 2)
    assert told["decisions"][0]["away"] == ["bookie-1"]


async def test_a_look_says_that_another_entry_is_in_question(lab: RepairLab) -> None:
    await forgotten(lab, 5)
    seen = await outlooks(lab.cluster, parse_selector("0@4"))
    assert seen.refused == {LedgerId(0): "ledger 0: entry 5 is in question, not 4"}


async def test_a_look_at_a_closed_ledger_says_where_it_ends(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    seen = await outlooks(lab.cluster, parse_selector("0"))
    assert seen.refused == {LedgerId(0): "ledger 0 is CLOSED at entry 2"}


async def test_a_look_with_an_entry_that_is_denied_by_now_promises_that_nothing_is_lost(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=5)
    seen = await outlooks(lab.cluster, parse_selector(f"{ledger.ledger_id}@5"))
    assert [(one.closes_at, one.first_in_question) for one in seen.seen] == [(4, None)]
    assert (seen.json()["closed"], seen.json()["given_up"]) == (1, 0)


async def test_one_that_nobody_can_read_keeps_no_other_from_a_decision(lab: RepairLab) -> None:
    await forgotten(lab, 5, 2, 3)
    lab.garble(LedgerId(1))
    found = await decide(lab, "0-9")
    assert [one.ledger_id for one in found.decided] == [0, 2]
    assert set(found.refused) == {1}


async def test_a_range_is_read_to_its_end_block_by_block(
    lab: RepairLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_decisions, "LEDGERS_AT_ONCE", 2)
    await forgotten(lab, 5, 0, 2, 1, 3)
    assert [one.ledger_id for one in (await decide(lab, "0-9")).decided] == [0, 1, 2, 3, 4]


async def test_why_one_was_refused_is_cut(lab: RepairLab) -> None:
    found = LossDecisions(refused={LedgerId(4): "x" * 9000})
    assert len(found.json()["refusals"][0]["message"]) == loss_decisions.MESSAGE_MAX
