"""What a look promises of a close is what a recovery then does, on fleets of every kind."""

import random

import pytest
from bookie.client.recovery import recover
from bookie.errors import UndecidableError
from bookie.protocol.answers import UndecidedError
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding
from bookie.repair.judge.outlook import Outlook, outlook
from bookie.repair.mend.ledger_repair import note_undecided
from bookie.repair.mend.outcome import Outcome
from repair_lab import PASSWORD, RepairLab


async def seen(lab: RepairLab, ledger: LedgerMetadata) -> Outlook:
    ids = [ledger.ledger_id]
    members = ledger.last_fragment.ensemble
    holdings = {one: await lab.control.availability(one, ids) for one in members}
    return outlook(ledger, {one: found[ids[0]] for one, found in holdings.items()})


async def forgotten_tail(*crashed: int, tail_on: tuple[int, ...] = (0, 1)) -> Outlook:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=5)
    lab.write(ledger, [5], on=tail_on)
    await lab.crash(*crashed)
    return await seen(lab, ledger)


async def test_what_nobody_remembers_is_in_question_by_those_who_forgot() -> None:
    found = await forgotten_tail(0, 1)
    assert (found.closes_at, found.first_in_question) == (4, 5)
    assert (found.forgotten_by, found.away) == (("bookie-0", "bookie-1"), ())


async def test_a_copy_that_is_left_is_kept() -> None:
    found = await forgotten_tail(0)
    assert found.closes_at == 5


async def test_nothing_is_in_question_where_enough_members_deny_it() -> None:
    found = await forgotten_tail(0, tail_on=())
    assert (found.closes_at, found.first_in_question, found.forgotten_by) == (4, None, ())


async def test_a_member_that_is_away_is_waited_for() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=5)
    await lab.crash(0)
    lab.control.unreachable.add(lab.ids[1])
    found = await seen(lab, ledger)
    assert (found.forgotten_by, found.away) == (("bookie-0",), ("bookie-1",))


async def test_a_copy_outside_its_write_set_keeps_nothing() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(write=2)  # entry 0 belongs on bookies 0 and 1
    stray = Holding(lab.ids[2], ledger.ledger_id, Status.OK, EntrySet.from_ids([0]))
    others = {one: Holding(one, ledger.ledger_id, Status.OK) for one in lab.ids[:2]}
    assert outlook(ledger, {**others, stray.bookie_id: stray}).closes_at == -1


async def ledger_of(lab: RepairLab, draw: random.Random) -> LedgerMetadata:
    """Entries everywhere, then some with fewer copies, then any bookies that forget. No LAC is
    higher than what was acknowledged, as no writer's is."""
    begun, is_flushed, write = draw.randrange(5), draw.random() < 0.5, draw.choice([2, 3])
    parts = [(0, (0, 1, 2))] + ([(2, (1, 2, 3))] if begun > 2 and draw.random() < 0.5 else [])
    ack = draw.randrange(1, write + 1)
    ledger = await lab.ledger(*parts, entries=begun, write=write, ack=ack, flush=is_flushed)
    lac = begun - 1
    for entry in range(begun, begun + draw.randrange(4)):
        lab.write(ledger, [entry], on=draw.sample(range(4), draw.randrange(5)), lac=lac)
        copies = sum(entry in lab.held(number, ledger.ledger_id) for number in range(4))
        lac += copies >= ledger.ack_quorum and lac == entry - 1
    await lab.crash(*draw.sample(range(4), draw.randrange(5)))
    for number in draw.sample(range(4), draw.choice([0, 0, 1])):
        lab.fleet[number].down = True
        lab.control.unreachable.add(lab.ids[number])
    return ledger


@pytest.mark.parametrize("seed", range(300))
async def test_a_recovery_ends_where_the_look_said(seed: int) -> None:
    lab = await RepairLab().start()
    ledger = await ledger_of(lab, random.Random(seed))
    promised = await seen(lab, ledger)
    try:
        closed = await recover(
            lab.store, lab.fleet, ledger.ledger_id, password=PASSWORD, settings=lab.cluster.recovery
        )
    except UndecidedError as error:
        assert (error.entry_id, error.lac) == (
            promised.first_in_question,
            promised.last_add_confirmed,
        )
        outcome = Outcome(ledger.ledger_id)
        note_undecided(outcome, error)
        assert (outcome.forgotten_by, outcome.away) == (promised.forgotten_by, promised.away)
    except UndecidableError as error:
        assert promised.away and "cannot be fenced" in str(error)
    else:  # what was never acknowledged may be cut off: a copy and enough denials both decide
        end = closed.metadata.value.last_entry_id
        assert promised.last_add_confirmed <= end <= promised.closes_at
