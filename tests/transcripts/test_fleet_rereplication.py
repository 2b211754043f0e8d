"""Re-replications of a fleet: bookies that are lost, BookKeeper's marks, locks and switch."""

import asyncio
from functools import partial

import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore, MemoryUnderreplication
from bookie.metadata.store import RPC_ENDPOINT, BookieInfo, Endpoint, UnderreplicationMark
from bookie.protocol.ledger import LedgerState
from bookie.repair.jobs.evacuation import EvacuationSettings
from fleet_jobs import (
    at,
    kill,
    lines_of_page,
    made,
    mark,
    rereplicated,
    rewrite,
    say_rest,
)
from fleet_story import CLIENT, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


async def _gone(fleet: Fleet, *names: str) -> None:
    with fleet.quiet():
        await fleet.stop(*names)


def test_a_bookie_that_is_lost(snapshot: SnapshotAssertion) -> None:
    """Every kind of ledger that names it; then nothing is left to do."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=4, end=3)
        await made(fleet, (0, "012"), (2, "023"), entries=4)
        await made(fleet, (0, "023"), (2, "012"), entries=4)
        await made(fleet, entries=2, state=LedgerState.IN_RECOVERY)
        await made(fleet, (0, "023"), entries=2, end=1)
        await made(fleet, (0, "0123"), write=2, ack=1, entries=8, end=7)
        await _gone(fleet, "bookie-1")
        document = await rereplicated(fleet, "1")
        for line in lines_of_page(document):
            fleet.record.note(line)
        fleet.note("once more")
        await rereplicated(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_two_bookies_that_are_lost(snapshot: SnapshotAssertion) -> None:
    """One after the other, in batches of two; what only they had is not there any more."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(3):
            await made(fleet, (0, "123"), entries=2, end=1)
        await made(fleet, (0, "124"), entries=3, end=2, lacks={4: (1,)})
        await _gone(fleet, "bookie-1", "bookie-2")
        await rereplicated(fleet, "12", settings=EvacuationSettings(ledgers_per_batch=2))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=6)


def test_what_is_refused(snapshot: SnapshotAssertion) -> None:
    """One that is there; one that never was; while it is switched off, unless forced."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1)
        await rereplicated(fleet, "1")
        for wrong in ("8", "9"):
            await mark(fleet, LedgerId(77), "9")
            await rereplicated(fleet, wrong)
        await rereplicated(fleet, bookies=(BookieId(""),))
        await _gone(fleet, "bookie-1")
        fleet.cluster.replication_enabled = False
        fleet.note("switched off")
        await rereplicated(fleet, "1")
        fleet.note("forced")
        await rereplicated(fleet, "1", force=True)
        fleet.note("it is known by the record of its boot alone")
        del fleet.cluster.cookies[BookieId("bookie-1")]
        await rereplicated(fleet, "1", force=True)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_marks(snapshot: SnapshotAssertion) -> None:
    """A member lacks entries, is away, came back, is written to; a whole and a deleted ledger."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lacking = await made(fleet, entries=3, end=2, lacks={1: (1, 2)})
        away = await made(fleet, (0, "023"), entries=3, end=2)
        written = await made(fleet, (0, "012"), entries=3)
        whole = await made(fleet, entries=3, end=2)
        for ledger, missing in ((lacking, "1"), (away, "3"), (written, "1"), (whole, "")):
            await mark(fleet, ledger.ledger_id, missing, at_ms=1_000)
        await mark(fleet, LedgerId(88), "2")
        await _gone(fleet, "bookie-3")
        await rereplicated(fleet)
        fleet.note("the writer has closed its ledger")
        rewrite(fleet, written.ledger_id, lambda found: found.closed(EntryId(2), length=30))
        await rereplicated(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_marks_that_stay(snapshot: SnapshotAssertion) -> None:
    """Nobody has the entries; a member is away and stays a member; it is marked again meanwhile."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        lost = await made(fleet, entries=3, end=2, lacks=dict.fromkeys(range(3), (1,)))
        again = await made(fleet, entries=3, end=2, lacks={1: (1,)})
        garbled = await made(fleet, entries=1, end=0)
        fleet.cluster.garbled.add(garbled.ledger_id)
        for ledger in (lost, again, garbled):
            await mark(fleet, ledger.ledger_id, "1")
        at(fleet, "repair: Flush", lambda: fleet.spawn("apache", mark(fleet, again.ledger_id, "2")))
        await rereplicated(fleet)
        fleet.note("nobody can take over")
        member = await made(fleet, (0, "0123"), write=3, entries=3, end=2)
        await mark(fleet, member.ledger_id, "3")
        await _gone(fleet, "bookie-3")
        await rereplicated(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


class _OneBroken(MemoryUnderreplication):
    """One mark has no form that anybody knows."""

    broken = LedgerId(-1)

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        if ledger_id == self.broken:
            raise MetadataFormatError(f"the mark of ledger {ledger_id} has no known form")
        return await super().read_mark(ledger_id)


def test_a_mark_that_nobody_can_read(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger is left alone; a mark that is gone by then is none."""
    monkeypatch.setattr(MemoryStore, "underreplication", property(_OneBroken))

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one, two, three = [await made(fleet, entries=3, end=2, lacks={1: (1,)}) for _ in range(3)]
        for ledger in (one, two, three):
            await mark(fleet, ledger.ledger_id, "1")
        monkeypatch.setattr(_OneBroken, "broken", one.ledger_id)
        at(fleet, "underreplication.lock", lambda: fleet.cluster.marks.pop(two.ledger_id))
        await rereplicated(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_locks_of_others(snapshot: SnapshotAssertion) -> None:
    """What another worker has reserved is left to it; the locks of one that is killed go."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(2):
            ledger = await made(fleet, (0, "012"), entries=3, end=2, lacks={2: (0,)})
            await mark(fleet, ledger.ledger_id, "2")
        await _gone(fleet, "bookie-1")
        fleet.process("apache")
        with fleet.quiet():
            await fleet.stores["apache"].underreplication.lock(ledger.ledger_id, holder="apache")
        await rereplicated(fleet, "1")
        fleet.note("the other one has ended; this one is killed while it copies")
        with fleet.quiet():
            await fleet.stores["apache"].underreplication.unlock(ledger.ledger_id)
        at(fleet, "ADD_RUN", partial(kill, fleet))
        await rereplicated(fleet, "1")
        say_rest(fleet)
        fleet.note("its session has not ended yet, and then it has")
        await rereplicated(fleet, "1")
        await asyncio.sleep(5.0)
        await rereplicated(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_a_bookie_that_comes_back(snapshot: SnapshotAssertion) -> None:
    """One that marks name: what is left of its ledgers stays with it. One that a person named: no
    more is done."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for _ in range(3):
            ledger = await made(fleet, entries=2, end=1)
            await mark(fleet, ledger.ledger_id, "1")
        await _gone(fleet, "bookie-1")
        settings = EvacuationSettings(ledgers_per_batch=1)
        at(fleet, "write_ledger", lambda: fleet.spawn("platform", fleet.start("bookie-1")))
        at(fleet, "underreplication.unlock", lambda: setattr(fleet.weather, "latency_s", 0.4))
        await rereplicated(fleet, settings=settings)
        fleet.note("once more, by the word of a person")
        fleet.weather.latency_s = 0.0
        await _gone(fleet, "bookie-2")
        at(fleet, "write_ledger", lambda: fleet.spawn("platform", fleet.start("bookie-2")))
        at(fleet, "underreplication.unlock", lambda: setattr(fleet.weather, "latency_s", 0.4))
        await rereplicated(fleet, "2", settings=settings)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=5)


def test_copies_that_are_not_synced(snapshot: SnapshotAssertion) -> None:
    """A member that does not flush keeps the mark; one of Apache's is not asked to."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        one = await made(fleet, entries=3, end=2, lacks={1: (1,)})
        await mark(fleet, one.ledger_id, "1")
        fleet.bookies["bookie-1"].disk.hiccups["log"] = "sync"
        await rereplicated(fleet)
        say_rest(fleet)
        fleet.note("one of Apache's is a member")
        with fleet.quiet():
            await fleet.stop("bookie-1")
        rpc = Endpoint(RPC_ENDPOINT, "apache", 3181, RPC_ENDPOINT)
        session = fleet.stores[CLIENT]._inner
        name = BookieId("bookie-1")
        fleet.cluster.registered[name] = (session, BookieInfo(name, (rpc,)))
        await mark(fleet, one.ledger_id, "2")
        await rereplicated(fleet)
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes)


def test_too_few_bookies_and_a_silent_one(snapshot: SnapshotAssertion) -> None:
    """Nobody is left to take over; then the only one does not answer; then it does."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        await made(fleet, entries=2, end=1)
        await made(fleet, entries=2)
        await _gone(fleet, "bookie-1", "bookie-3")
        await rereplicated(fleet, "1")
        with fleet.quiet():
            await fleet.start("bookie-3")
        fleet.network.isolate("bookie-3")
        await rereplicated(fleet, "1")
        fleet.network.rejoin("bookie-3")
        await rereplicated(fleet, "1")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_two_at_once(snapshot: SnapshotAssertion) -> None:
    """Each ledger is worked on by one of them."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        for number in range(2):
            ledger = await made(fleet, entries=2, end=1, lacks={2: (number,)})
            await mark(fleet, ledger.ledger_id, "2")
        await _gone(fleet, "bookie-1")
        await asyncio.gather(rereplicated(fleet, "1"), rereplicated(fleet, "1", who="another"))
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_the_metadata_store_is_away(snapshot: SnapshotAssertion) -> None:
    """While ledgers are locked: their locks go with the session, and the next run goes on."""

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        ledger = await made(fleet, entries=2, end=1, lacks={2: (1,)})
        await mark(fleet, ledger.ledger_id, "2")
        await made(fleet, entries=2, end=1)
        await _gone(fleet, "bookie-1")
        at(fleet, "ADD_RUN", lambda: setattr(fleet.weather, "is_out", True))
        await rereplicated(fleet, "1")
        say_rest(fleet)
        fleet.weather.is_out = False
        fleet.note("it is back")
        await rereplicated(fleet, "1", who="the next")
        kill(fleet)
        await asyncio.sleep(5.0)
        fleet.note("the session of the first has ended")
        await rereplicated(fleet, "1", who="the next")
        say_rest(fleet)

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)
