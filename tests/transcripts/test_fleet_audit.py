"""Audits of a fleet: what they look at, what they find, since when, and what they leave out."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import RPC_ENDPOINT, BookieInfo, Endpoint
from bookie.protocol.ledger import LedgerState
from bookie.repair.jobs.audit_job import Checks
from bookie.repair.judge import last_copies, quorums
from bookie.repair.look import survey, underreplication_grace
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.reports import findings_report, result
from bookie.repair.reports.finding_history import InStore
from bookie.repair.reports.parquet import copies_table, findings_table
from bookie.testing.simulation.surroundings import EPOCH_S
from fleet_jobs import (
    at,
    audited,
    back,
    delete,
    lines_of_page,
    made,
    mark,
    put,
    repaired,
    rewrite,
    say_rest,
)
from fleet_story import CLIENT, Fleet, told
from fleet_words import shown
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

IN_STORE: dict[str, Any] = {"history": lambda cluster: InStore(cluster.store)}
RACKS = {BookieId(f"bookie-{n}"): f"/rack-{n // 2}" for n in range(5)}


def _now_ms(fleet: Fleet, *, ago_s: float = 0.0) -> int:
    return int((EPOCH_S + fleet.loop.time() - ago_s) * 1000)


def test_a_fleet_that_is_whole(snapshot: SnapshotAssertion) -> None:
    """All ledgers are counted by the first look; of named ones each is looked at for itself."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2)
        await made(fleet, (0, "0123"), (3, "1230"), write=2, ack=1, entries=7)
        await made(fleet, end=-1)
        await audited(fleet)
        fleet.note("three are named, one of which there is not")
        await audited(fleet, ledger_ids=[LedgerId(4), LedgerId(6), LedgerId(77)])
        fleet.note("with another engine the ledgers are counted first")
        await audited(fleet, engine="auto")
        await audited(fleet, engine="spark")

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_every_kind_of_finding_about_entries(snapshot: SnapshotAssertion) -> None:
    """Worst first; the second audit knows since when; what was mended is healed."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        every = range(3)
        await made(fleet, entries=3, end=2)
        await made(fleet, entries=5, end=4, lacks={1: (1,)})
        await made(fleet, entries=5, end=4, lacks={1: (1, 2), 2: (1, 3)})
        lost = await made(fleet, entries=4, end=3, lacks=dict.fromkeys(every, (2,)))
        await made(fleet, entries=4, ack=3, lacks={0: (0,)})
        await audited(fleet, **IN_STORE)
        await asyncio.sleep(5.0)
        fleet.note("repaired, and one is not there any more")
        with fleet.quiet():
            await repaired(fleet)
        await made(fleet, entries=2, end=1, lacks={2: (0,)})
        delete(fleet, LedgerId(lost.ledger_id + 1))
        document = await audited(fleet, **IN_STORE)
        for line in lines_of_page(document):
            fleet.record.note(line)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_bookies_that_are_silent(snapshot: SnapshotAssertion) -> None:
    """One is away for a moment, one for good, one is not registered, one is Apache's."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, end=2)
        await made(fleet, (0, "134"), entries=3, end=2)
        await made(fleet, (0, "012"), (1, "014"), entries=2, end=1)
        fleet.network.isolate("bookie-1")
        fleet.network.isolate("bookie-4")
        with fleet.quiet():
            await fleet.stop("bookie-2")
        rpc = Endpoint(RPC_ENDPOINT, "apache", 3181, RPC_ENDPOINT)
        session = fleet.stores[CLIENT]._inner
        fleet.cluster.registered[BookieId("bookie-2")] = (
            session,
            BookieInfo(BookieId("bookie-2"), (rpc,)),
        )
        at(fleet, "ledgers looked at again", partial(fleet.network.rejoin, "bookie-1"))
        await audited(fleet, **IN_STORE)
        fleet.note("no second look; and what is not known is not healed")
        await audited(fleet, settings=AuditSettings(recheck_s=None), **IN_STORE)
        fleet.note("all are back")
        fleet.network.heal()
        del fleet.cluster.registered[BookieId("bookie-2")]
        with fleet.quiet():
            await fleet.start("bookie-2")
        await audited(fleet, **IN_STORE)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_marks_and_their_grace(snapshot: SnapshotAssertion) -> None:
    """A young mark excuses what its ledger lacks, an old one is a finding, far ahead is none."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        young = await made(fleet, entries=2, end=1, lacks={1: (1,)})
        old = await made(fleet, entries=2, end=1, lacks={1: (1,)})
        whole = await made(fleet, entries=2, end=1)
        await made(fleet, entries=2, end=1, lacks={2: (0,)})
        ahead = await made(fleet, entries=2, end=1)
        await mark(fleet, young.ledger_id, "1", at_ms=_now_ms(fleet, ago_s=50))
        await mark(fleet, old.ledger_id, "1", at_ms=_now_ms(fleet, ago_s=200))
        await mark(fleet, whole.ledger_id, "", at_ms=_now_ms(fleet, ago_s=100))
        await mark(fleet, ahead.ledger_id, "02", at_ms=_now_ms(fleet, ago_s=-500))
        await audited(fleet, checks=Checks(grace_s=100.0), **IN_STORE)
        fleet.note("no grace at all; of two that are named")
        await audited(fleet, ledger_ids=[young.ledger_id, whole.ledger_id], **IN_STORE)
        fleet.note("a day of grace, and half a minute on")
        await asyncio.sleep(30.0)
        await audited(fleet, checks=Checks(grace_s=86_400.0), **IN_STORE)

    assert snapshot(extension_class=Words) == told(scenes)


def test_racks(snapshot: SnapshotAssertion) -> None:
    """By what bookies report and a person says; an ensemble, a stripe, an end that is empty."""

    async def scenes(fleet: Fleet) -> None:
        fleet.set(fleet.bookies["bookie-4"], {"rack": "/rack-9"})
        await fleet.begin()
        await made(fleet, (0, "014"), entries=2, end=1)
        await made(fleet, (0, "01"), write=2, entries=2, end=1)
        await made(fleet, (0, "0123"), write=2, ack=1, entries=2, end=1)
        await made(fleet, (0, "02"), (2, "01"), write=2, entries=2, end=1)
        await made(fleet, (0, "02"), (2, "01"), (3, "10"), write=2, entries=2)
        await made(
            fleet, *[(n, "01" if n % 2 else "10") for n in range(7)], write=2, entries=7, end=6
        )
        await audited(fleet, **IN_STORE)
        fleet.note("by a person's word")
        await audited(fleet, checks=Checks(racks=RACKS), **IN_STORE)
        fleet.note("three racks are asked for, and one bookie is away")
        with fleet.quiet():
            await fleet.stop("bookie-1")
        await audited(
            fleet, checks=Checks(racks={BookieId("bookie-0"): "/rack-9"}, min_racks=3), **IN_STORE
        )
        fleet.note("deep, of one that moves before it is looked at again")
        rewrite(fleet, LedgerId(6), lambda found: replace(found, fragments=found.fragments[:1]))
        checks = Checks(racks=RACKS)
        await audited(
            fleet,
            checks=checks,
            digests=DigestSettings(),
            ledger_ids=[LedgerId(6), LedgerId(7)],
            **IN_STORE,
        )

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_quorums_and_last_copies(snapshot: SnapshotAssertion) -> None:
    """How many ledgers have too low an ack quorum; who holds the only copies, or perhaps does."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, ack=1, lacks={0: (0,), 1: (0,)})
        await made(fleet, entries=2, ack=1, end=1, lacks={0: (0,), 1: (0,)})
        await made(fleet, entries=4, ack=3, end=3, lacks={2: (1,)})
        await made(fleet, (0, "3"), write=1, ack=1, entries=2, end=1)
        await made(fleet, (0, "013"), entries=3, end=2, lacks={0: (1,), 1: (1, 2)})
        await audited(fleet)
        fleet.note("an ack quorum of 2 is asked for, and one bookie is away")
        with fleet.quiet():
            await fleet.stop("bookie-3")
        await audited(fleet, checks=Checks(ack_quorum=2))
        fleet.note("of 3")
        await audited(fleet, checks=Checks(ack_quorum=3), settings=AuditSettings(recheck_s=None))

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_metadata_that_nobody_can_read(snapshot: SnapshotAssertion) -> None:
    """It is neither right nor wrong; a finding of before is not healed by it."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=2, end=1, lacks={1: (1,)})
        two = await made(fleet, entries=2, end=1, lacks={1: (1,)})
        await audited(fleet, **IN_STORE)
        fleet.cluster.garbled |= {one.ledger_id, two.ledger_id}
        await audited(fleet, **IN_STORE)
        fleet.note("one of them can be read again, the other is deleted")
        fleet.cluster.garbled.clear()
        delete(fleet, two.ledger_id)
        await audited(fleet, **IN_STORE)

    assert snapshot(extension_class=Words) == told(scenes)


def test_ledgers_that_move_while_they_are_looked_at(snapshot: SnapshotAssertion) -> None:
    """A writer goes on; one is deleted, one closed, one changes at every look."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacks = {1: (1,)}
        gone, closed, busy, open_ = [await made(fleet, entries=3, lacks=lacks) for _ in range(4)]
        answer = "bookie-2 > repair: GetAvailability"
        at(fleet, answer, partial(delete, fleet, gone.ledger_id), nth=2)
        end = partial(replace, state=LedgerState.CLOSED, last_entry_id=EntryId(0))
        at(fleet, answer, partial(rewrite, fleet, closed.ledger_id, end), nth=2)
        for look in range(1, 9):
            at(
                fleet,
                answer,
                partial(rewrite, fleet, busy.ledger_id, lambda found: found),
                nth=look,
            )
        late = lambda: fleet.spawn("late", put(fleet, open_, [1, 3, 4], on="012", is_told=True))  # noqa: E731
        at(fleet, "ledgers ok", late)
        await audited(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_limbo_and_losses(snapshot: SnapshotAssertion) -> None:
    """Ledgers with marks, losses that are on record, and ends that a person accepted."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=3, flushed=False)
        await made(fleet, entries=3, end=2, flushed=False)
        lost = await made(
            fleet, entries=3, end=2, lacks=dict.fromkeys(range(3), (1,)), flushed=False
        )
        with fleet.quiet():
            await repaired(fleet)
        custom = {"bookie-operator.accepted-loss": b"by: me, from 3"}
        await made(fleet, entries=3, end=2, custom=custom, flushed=False)
        await back(fleet, "bookie-1")
        await audited(fleet)
        fleet.note("after a repair")
        with fleet.quiet():
            await repaired(fleet, "1")
        document = await audited(fleet, ledger_ids=[lost.ledger_id])
        for line in lines_of_page(document):
            fleet.record.note(line)

    assert snapshot(extension_class=Words) == told(scenes)


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two or three where there are hundreds."""
    for module, name, value in (
        (result, "FINDINGS_MAX", 2), (findings_report, "FINDINGS_MAX", 2),
        (result, "RANGES_MAX", 2), (underreplication_grace, "MARKS_NAMED_MAX", 2),
        (underreplication_grace, "ONE_BY_ONE_MAX", 1), (last_copies, "GROUPS_MAX", 2),
        (last_copies, "ROWS_MAX", 1), (last_copies, "LEDGERS_NAMED", 2),
        (quorums, "LEDGERS_NAMED", 2), (quorums, "ROWS_MAX", 1), (survey, "LEDGERS_PER_BATCH", 2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("small_bounds")
def test_more_than_there_is_room_for(snapshot: SnapshotAssertion) -> None:
    """Of each list the first are named, and the others counted."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(4):
            lacks = {0: range(0, 7, 2), number % 3: range(1, 4 + number)}
            ledger = await made(fleet, entries=8, end=7, ack=1 + number % 2, lacks=lacks)
            await mark(fleet, ledger.ledger_id, "1", at_ms=_now_ms(fleet, ago_s=300 - 10 * number))
        for _ in range(3):
            fleet.cluster.garbled.add((await made(fleet)).ledger_id)
            await made(fleet, (0, "01"), write=2, entries=1, end=0)
        custom = {"bookie-operator.accepted-loss": b"by me"}
        for _ in range(3):
            await made(fleet, (0, "02"), write=2, entries=1, lacks={0: (0,)}, end=0, custom=custom)
        checks = Checks(ack_quorum=2, racks=RACKS, grace_s=275.0)
        document = await audited(fleet, checks=checks, **IN_STORE)
        for line in lines_of_page(document):
            fleet.record.note(line)
        fleet.note("all healed")
        for ledger_id in list(fleet.cluster.ledgers):
            del fleet.cluster.ledgers[ledger_id]
        fleet.cluster.marks.clear()
        fleet.cluster.garbled.clear()
        await audited(fleet, checks=checks, **IN_STORE)

    assert snapshot(extension_class=Words) == told(scenes)


def test_what_became_of_corrupt_copies(snapshot: SnapshotAssertion) -> None:
    """Only a deep audit may call them healed; one of other ledgers says nothing about them."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=2, end=1, wrong={1: (1,)})
        two = await made(fleet, entries=2, end=1, wrong={2: (0,)})
        deep = DigestSettings()
        await audited(fleet, digests=deep, **IN_STORE)
        fleet.note("a plain one, and a deep one of another ledger")
        await audited(fleet, **IN_STORE)
        with fleet.quiet():
            await repaired(fleet, settings=RepairSettings(digests=deep))
        await audited(fleet, digests=deep, ledger_ids=[two.ledger_id], **IN_STORE)
        fleet.note("a deep one of all, of which one bookie is away for half of it")
        with fleet.quiet():
            await fleet.stop("bookie-0")
        document = await audited(fleet, digests=deep, **IN_STORE)
        for table in (findings_table(document), copies_table(document)):
            for row in table.to_pylist():
                fleet.record.note(shown({k: str(v) for k, v in row.items() if k != "run_id"}))
        with fleet.quiet():
            await fleet.start("bookie-0")
        await audited(fleet, digests=deep, **IN_STORE)
        assert one

    assert snapshot(extension_class=Words) == told(scenes)


def test_tables_of_a_result(snapshot: SnapshotAssertion) -> None:
    """A row to each class of a finding, to each bookie it is about, and to each other finding."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=9, ack=1, end=8, lacks={0: (0, 1, 4), 1: (1, 3)})
        await made(fleet, (0, "01"), write=2, entries=1, end=0)
        fleet.cluster.garbled.add((await made(fleet)).ledger_id)
        await mark(fleet, LedgerId(3), "1", at_ms=_now_ms(fleet, ago_s=300))
        fleet.network.isolate("bookie-2")
        with fleet.quiet():
            document = await audited(fleet, checks=Checks(ack_quorum=2, racks=RACKS), **IN_STORE)
        for table in (findings_table(document), copies_table(document)):
            for row in table.to_pylist():
                fleet.record.note(shown({k: str(v) for k, v in row.items() if k != "run_id"}))

    assert snapshot(extension_class=Words) == told(scenes)


def test_many_ledgers_in_small_batches(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two to a batch; those whose bookie is silent are asked about at the end, in batches too."""
    monkeypatch.setattr(survey, "LEDGERS_PER_BATCH", 2)

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(5):
            await made(
                fleet,
                (0, "012" if number % 2 else "123"),
                entries=2,
                end=1,
                lacks={2: (number % 2,)},
            )
        with fleet.quiet():
            await fleet.stop("bookie-3")
        settings = AuditSettings(
            ledgers_per_batch=2, metadata_in_flight=1, grace_s=2.0, recheck_s=7.0
        )
        await audited(fleet, settings=settings)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)
