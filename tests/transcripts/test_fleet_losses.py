"""Losses of a fleet: what a person accepts, looks at before, and takes back."""

from functools import partial
from typing import Any

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.ledger_selector import parse_selector
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerState
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend import loss_decisions
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.mend.loss_decisions import Approval, decide_losses, outlooks
from bookie.repair.mend.retract_loss import retract_loss
from fleet_jobs import at, audited, back, job, made, put, repaired, restarted, say_rest
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

TAIL = {0: (2, 3), 1: (2, 3), 2: (2, 3)}
"""Nobody has the last two of four entries."""
RECOVERING = LedgerState.IN_RECOVERY


async def accepted(fleet: Fleet, ledger_id: int, first: int | None = None) -> Any:
    async def begin(cluster: Cluster, _say: Any) -> Any:
        entry = None if first is None else EntryId(first)
        found = await accept_loss(
            cluster, LedgerId(ledger_id), by="a person", reason="why", first_entry_id=entry
        )
        return found.json()

    return await job(fleet, f"accept the loss of {ledger_id}", begin)


async def decided(fleet: Fleet, selector: str, *, is_asked: bool = False) -> Any:
    """A decision about many; or only what it would mean."""

    async def begin(cluster: Cluster, _say: Any) -> Any:
        chosen = parse_selector(selector)
        if is_asked:
            return (await outlooks(cluster, chosen)).json()
        return (await decide_losses(cluster, chosen, Approval("a person", "why"))).json()

    return await job(fleet, f"{'ask about' if is_asked else 'decide'} {selector}", begin)


async def retracted(fleet: Fleet, ledger_id: int, entries: EntrySet = EMPTY) -> Any:
    async def begin(cluster: Cluster, _say: Any) -> Any:
        found = await retract_loss(
            cluster, LedgerId(ledger_id), by="a person", reason="why", entries=entries
        )
        return found.json()

    return await job(fleet, f"retract the loss of {ledger_id}", begin)


def test_a_loss_that_a_person_accepts(snapshot: SnapshotAssertion) -> None:
    """Two members have forgotten; another entry than the one in question; then the right one."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=4, lacks=TAIL, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        await accepted(fleet, one.ledger_id, 1)
        await accepted(fleet, one.ledger_id, 2)
        fleet.note("it is closed; a repair clears the marks, and an audit names it")
        await accepted(fleet, one.ledger_id)
        with fleet.quiet():
            await repaired(fleet)
        await audited(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_an_end_that_needs_no_decision(snapshot: SnapshotAssertion) -> None:
    """Enough members deny the entry; or one has a copy that nobody knew of; or it is deleted."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        denied = await made(fleet, entries=3, flushed=False)
        copied = await made(fleet, entries=4, lacks=TAIL, flushed=False)
        await back(fleet, "bookie-0")
        await accepted(fleet, denied.ledger_id)
        with fleet.quiet():
            await repaired(fleet)
        fleet.note("both members of another have forgotten; a copy turns up while it is recorded")
        tail = await made(fleet, entries=4, lacks=TAIL, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        late = partial(put, fleet, tail, [2], on="2", is_told=True)
        at(fleet, "> bookie-1: RecordLoss", lambda: fleet.spawn("late", late()))
        await accepted(fleet, tail.ledger_id)
        await accepted(fleet, 77)
        say_rest(fleet)
        assert copied

    assert snapshot(extension_class=Words) == told(scenes)


def test_who_is_only_away(snapshot: SnapshotAssertion) -> None:
    """No loss while a member does not answer, refuses the record, or lists what it cannot read."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=4, lacks=TAIL, flushed=False)
        await back(fleet, "bookie-0", "bookie-1")
        fleet.network.isolate("bookie-2")
        await accepted(fleet, one.ledger_id)
        fleet.network.rejoin("bookie-2")
        fleet.note("one goes away before it records; one cannot write")
        at(fleet, "> bookie-0: RecordLoss", partial(fleet.network.block, "repair", "bookie-0"))
        await accepted(fleet, one.ledger_id)
        fleet.network.heal()
        fleet.bookies["bookie-1"].disk.hiccups["ledger-0"] = "sync"
        await accepted(fleet, one.ledger_id)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_an_entry_that_is_listed_and_cannot_be_read(snapshot: SnapshotAssertion) -> None:
    """Its bookie has it on a bad disk: no loss, and no member that forgot."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=2, flushed=False)
        await put(fleet, one, [2], on="2")
        await restarted(fleet, "bookie-2")
        await back(fleet, "bookie-0", "bookie-1")
        fleet.bookies["bookie-2"].disk.broken["log"] = "read"
        await decided(fleet, f"{one.ledger_id}", is_asked=True)
        await repaired(fleet, "01")
        await accepted(fleet, one.ledger_id)
        fleet.bookies["bookie-2"].disk.broken.clear()
        fleet.note("its disk is well")
        await accepted(fleet, one.ledger_id)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_entries_beyond_the_one_in_question(snapshot: SnapshotAssertion) -> None:
    """One of them has a copy, which the close cuts off; each member records its own share."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        whole = await made(fleet, entries=2, state=RECOVERING, flushed=False)
        await put(fleet, whole, [4], on="2", lac=0)
        striped = await made(
            fleet, (0, "0123"), write=2, entries=2, state=RECOVERING, flushed=False
        )
        await put(fleet, striped, [5], on="2", lac=0)
        await back(fleet, "bookie-0", "bookie-1", "bookie-3")
        for ledger in (whole, striped):
            await decided(fleet, str(ledger.ledger_id), is_asked=True)
            await accepted(fleet, ledger.ledger_id)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_too_few_to_shut_out_the_old_writer(snapshot: SnapshotAssertion) -> None:
    """Enough members deny the entry, and the others could still take more: nothing is decided."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for state in (LedgerState.OPEN, RECOVERING):
            await made(fleet, (0, "0123"), write=2, ack=2, entries=4, state=state)
        await made(fleet, (0, "0123"), write=3, ack=1, entries=4)
        fleet.network.block("repair", "bookie-1")
        fleet.network.block("repair", "bookie-2")
        await decided(fleet, "4,5,6", is_asked=True)
        await decided(fleet, "4,5,6")
        fleet.network.unblock("repair", "bookie-2")
        await decided(fleet, "4,5,6", is_asked=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_many_at_once(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range, single ones, and wrong ones; first what it would mean, then the decision."""
    monkeypatch.setattr(loss_decisions, "LEDGERS_AT_ONCE", 2)
    monkeypatch.setattr(loss_decisions, "MESSAGE_MAX", 60)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for state in (RECOVERING, LedgerState.OPEN, RECOVERING):
            await made(fleet, entries=4, lacks=TAIL, state=state, flushed=False)
        await made(fleet, entries=4, end=3, flushed=False)
        await made(fleet, (0, "123"), entries=2, state=RECOVERING, flushed=False)
        await made(fleet, (0, "0123"), write=2, ack=2, entries=6, state=RECOVERING, flushed=False)
        fleet.cluster.garbled.add((await made(fleet, state=RECOVERING)).ledger_id)
        await back(fleet, "bookie-0", "bookie-1")
        fleet.network.block("repair", "bookie-3")
        await decided(fleet, "4@2,5@3,6-10,20", is_asked=True)
        await decided(fleet, "4@2,5@3,6-10,20")
        fleet.network.heal()
        fleet.note("all members are there")
        await decided(fleet, "4-10", is_asked=True)
        await decided(fleet, "4-5,8-99")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_records_that_are_taken_back(snapshot: SnapshotAssertion) -> None:
    """All of a ledger's, or some entries of it; a member that is silent; twice."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = dict.fromkeys(range(3), (1, 2, 3))
        one = await made(fleet, entries=5, end=4, lacks=lacks)
        await made(fleet, entries=5, end=4, lacks=lacks)
        with fleet.quiet():
            await repaired(fleet)
        await retracted(fleet, one.ledger_id, EntrySet.from_ranges([(2, 2)]))
        say_rest(fleet)
        fleet.note("one is silent")
        fleet.network.block("repair", "bookie-1")
        await retracted(fleet, one.ledger_id)
        fleet.network.heal()
        fleet.note("what turned up is copied, the rest is recorded once more")
        await put(fleet, one, [2], on="0")
        await repaired(fleet)
        await retracted(fleet, one.ledger_id, EntrySet.from_ranges([(4, 4)]))
        await retracted(fleet, 77)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_retraction_that_fails(snapshot: SnapshotAssertion) -> None:
    """A bookie that cannot write, one that goes away, and no metadata store."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=3, end=2, lacks=dict.fromkeys(range(3), (1,)))
        with fleet.quiet():
            await repaired(fleet)
        fleet.bookies["bookie-0"].disk.hiccups["ledger-0"] = "commit"
        at(fleet, "> bookie-1: RetractLoss", partial(fleet.crash, "bookie-1"))
        await retracted(fleet, one.ledger_id)
        fleet.weather.is_out = True
        await retracted(fleet, one.ledger_id)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)
