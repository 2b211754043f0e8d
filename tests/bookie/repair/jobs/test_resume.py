"""A deep repair that was cut off goes on from the metadata store, and trusts nothing but facts."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata import rewriting
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.repair.engine.engine import InProcess
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.jobs.resume import (
    AGE_MAX_S,
    BLOCK_LEDGERS,
    EVERY_S,
    Block,
    Checkpoint,
    digest_of,
)
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.mend.outcome import Done, LedgerTask, Outcome
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.wire.native import Op
from repair_lab import SETTINGS, RepairLab
from virtual_time import in_virtual_time

LEDGERS, DONE = 6, 4
DEEP = replace(SETTINGS, digests=DigestSettings())
REQUEST = RepairRequest(engine="inline", every_ledger=True, settings=DEEP, checkpoint=True)
NAME = "repair/checkpoint-deep"
OURS = "ours"


class Killed(Exception):
    """The repair's process ends here."""


@pytest.fixture
async def lab() -> RepairLab:
    lab = await RepairLab().start()
    for _ in range(LEDGERS):
        await lab.ledger(entries=10, last=9)
    return lab


async def run(lab: RepairLab, *, say: Say = say_nothing) -> dict[str, Any]:
    return await repair(lab.cluster, REQUEST, say=say)


@dataclass(slots=True)
class CutOff(InProcess):
    """An engine whose process dies when so many ledgers are done."""

    ledgers: int = 0

    async def repair(
        self, tasks: Sequence[LedgerTask], settings: RepairSettings, done: Done
    ) -> Sequence[Outcome]:
        await InProcess.repair(self, tasks[: self.ledgers], settings, done)
        raise Killed


async def cut_off(lab: RepairLab, *, done: int = DONE, request: RepairRequest = REQUEST) -> None:
    """A run whose process dies when so many ledgers are done."""
    with pytest.raises(Killed):
        await repair(
            lab.cluster,
            request,
            engines=lambda _choice, cluster, *_: nullcontext(CutOff(cluster, ledgers=done)),
        )
    lab.fleet.calls.clear()


def read_again(lab: RepairLab) -> set[LedgerId]:
    """Ledgers of which entries were read."""
    return {call.ledger_id for call in lab.fleet.calls if call.op is Op.READ}


async def ledgers(lab: RepairLab) -> list[LedgerId]:
    return [ledger_id async for ledger_id in lab.store.ledger_ids()]


async def test_what_was_read_before_the_cut_is_not_read_again(lab: RepairLab) -> None:
    await cut_off(lab)
    result = await run(lab)
    assert read_again(lab) == set((await ledgers(lab))[DONE:])
    assert (result["ledgers"]["done_before"], result["ledgers"]["considered"]) == (DONE, 2)
    assert (result["exit_code"], result["audit_after"]["ok"]) == (0, 10 * LEDGERS)


async def test_a_run_that_comes_to_its_end_takes_it_away(lab: RepairLab) -> None:
    await cut_off(lab)
    assert await lab.store.read_value(NAME) is not None
    await run(lab)
    assert await lab.store.read_value(NAME) is None


async def test_a_ledger_that_changed_is_read_again_with_its_block(lab: RepairLab) -> None:
    await cut_off(lab)
    first = (await ledgers(lab))[0]
    found = await lab.store.read_ledger(first)
    await lab.store.write_ledger(found.value, version=found.version)
    result = await run(lab)
    assert result["ledgers"]["done_before"] == 0 and first in read_again(lab)


async def test_a_copy_that_went_since_is_made_and_only_its_ledger_read_again(
    lab: RepairLab,
) -> None:
    await cut_off(lab)
    first, *others = await ledgers(lab)
    del lab.fleet[0].ledgers[first]
    result = await run(lab)
    assert result["ledgers"]["done_before"] == DONE - 1 and first in read_again(lab)
    assert not read_again(lab) & set(others[: DONE - 1])
    assert lab.held(0, first) == list(range(10))


async def test_what_came_into_limbo_since_is_recovered_though_it_was_done(lab: RepairLab) -> None:
    written = await lab.ledger(entries=10)
    await cut_off(lab, done=LEDGERS + 1)
    await lab.crash(0)
    await run(lab)
    assert (await lab.metadata(written.ledger_id)).is_closed and await lab.marks() == 0


async def test_a_second_cut_loses_nothing_of_the_first(lab: RepairLab) -> None:
    await cut_off(lab, done=2)
    await cut_off(lab, done=2)
    assert (await run(lab))["ledgers"]["done_before"] == 4


async def test_a_shallow_repair_has_another_one(lab: RepairLab) -> None:
    await cut_off(lab)
    shallow = replace(REQUEST, settings=SETTINGS)
    assert (await repair(lab.cluster, shallow))["ledgers"]["done_before"] == 0
    assert await lab.store.read_value(NAME) is not None


async def test_that_of_another_cluster_is_left_unread_with_a_word(lab: RepairLab) -> None:
    ids = await ledgers(lab)
    await put(lab.store, checkpoint(MemoryStore(), ids, instance_id="other"), *ids)
    said: list[str] = []
    assert (await run(lab, say=said.append))["ledgers"]["done_before"] == 0
    assert any("is of cluster other" in line and "left unread" in line for line in said)


async def test_garbage_in_its_place_is_left_unread_with_a_word(lab: RepairLab) -> None:
    await lab.store.write_value(NAME, b"hello", version=None)
    said: list[str] = []
    assert (await run(lab, say=said.append))["exit_code"] == 0
    assert any(f"the checkpoint {NAME} is none" in line for line in said)


SHALLOW = RepairRequest(engine="inline", settings=SETTINGS, checkpoint=True)
"""Of a bookie that lost its disk."""


@pytest.fixture
async def wiped(lab: RepairLab) -> RepairLab:
    await lab.crash(1, wipe=True)
    return lab


def is_whole(lab: RepairLab) -> bool:
    return all(lab.held(1, ledger_id) == list(range(10)) for ledger_id in lab.fleet[1].ledgers)


async def test_a_repair_that_was_cut_off_goes_on_and_ends_the_same(wiped: RepairLab) -> None:
    await cut_off(wiped, request=SHALLOW)
    result = await repair(wiped.cluster, SHALLOW)
    assert (result["ledgers"]["done_before"], result["ledgers"]["considered"]) == (DONE, 2)
    assert result["exit_code"] == 0 and result["ledgers"]["cleared"] == LEDGERS
    assert is_whole(wiped) and result["audit_after"]["ok"] == 10 * LEDGERS


async def test_what_was_copied_before_the_end_is_flushed_by_the_next_run(wiped: RepairLab) -> None:
    await cut_off(wiped, done=LEDGERS, request=SHALLOW)
    wiped.fleet[1].clear(next(iter(wiped.fleet[1].ledgers)))
    await repair(wiped.cluster, SHALLOW)
    assert ("flush", wiped.ids[1]) in wiped.control.asked
    await wiped.crash(1)
    assert is_whole(wiped), "nothing of it was in memory only"


async def test_a_bookie_that_lost_its_disk_since_is_filled_again(wiped: RepairLab) -> None:
    await cut_off(wiped, done=LEDGERS, request=SHALLOW)
    await wiped.crash(1, wipe=True)
    result = await repair(wiped.cluster, SHALLOW)
    assert result["ledgers"]["done_before"] == 0
    assert is_whole(wiped) and (result["exit_code"], result["audit_after"]["missing"]) == (0, 0)


async def test_indexes_that_agreed_do_not_stand_for_copies_that_were_read(
    wiped: RepairLab,
) -> None:
    await cut_off(wiped, done=LEDGERS, request=SHALLOW)
    assert (await run(wiped))["ledgers"]["done_before"] == 0


# The checkpoint alone


def checkpoint(
    store: MemoryStore, wanted: Sequence[LedgerId], *, instance_id: str = OURS, at: float = 0.0
) -> Checkpoint:
    made = Checkpoint(store, instance_id, digests=True, say=say_nothing, clock=lambda: at)
    made._wanted = wanted
    return made


def outcome(ledger_id: int, **facts: Any) -> Outcome:
    return Outcome(ledger_id, "CLOSED", **({"version": 3} | facts))


async def put(store: Any, made: Checkpoint, *ledger_ids: int) -> None:
    made.add([outcome(i) for i in ledger_ids])
    await store.write_value(made.name, made.encoded(), version=None)


def ids(*numbers: int) -> list[LedgerId]:
    return [LedgerId(number) for number in numbers]


async def claimed(store: MemoryStore, wanted: Sequence[LedgerId], *, at: float = 0.0) -> set[int]:
    """What holds of it while every ledger is at version 3."""
    later = checkpoint(store, wanted, at=at)
    groups = await later.claimed(wanted)
    return {i for group in groups for i in later.same(group, dict.fromkeys(group, 3))}


async def store_with(
    made: Sequence[Outcome], wanted: Sequence[LedgerId], *, at: float = 0.0
) -> MemoryStore:
    store = MemoryStore()
    await store.initialise()
    one = checkpoint(store, wanted, at=at)
    one.add(made)
    await store.write_value(one.name, one.encoded(), version=None)
    return store


async def test_a_new_ledger_among_others_makes_its_block_unsure() -> None:
    store = await store_with([outcome(1), outcome(3)], ids(1, 3))
    assert await claimed(store, ids(1, 3, 4)) == {1, 3}
    assert await claimed(store, ids(1, 2, 3)) == set()


async def test_what_is_blocked_or_was_not_read_whole_is_not_done() -> None:
    unread = outcome(3, before=AuditCounts(unknown=1))
    made = [outcome(1), outcome(2, reason="CorruptKept"), unread, outcome(4)]
    assert await claimed(await store_with(made, ids(1, 2, 3, 4)), ids(1, 2, 3, 4)) == {1, 4}


async def test_a_ledger_that_was_deleted_parts_nobody() -> None:
    made = [outcome(1), outcome(2, version=-1), outcome(3)]
    assert await claimed(await store_with(made, ids(1, 2, 3)), ids(1, 3)) == {1, 3}


async def test_what_is_old_does_not_count() -> None:
    store = await store_with([outcome(1)], ids(1))
    assert await claimed(store, ids(1), at=AGE_MAX_S) == {1}
    assert await claimed(store, ids(1), at=AGE_MAX_S + 1) == set()


async def test_what_was_done_in_the_future_does_not_count() -> None:
    store = await store_with([outcome(1)], ids(1), at=500.0)
    assert await claimed(store, ids(1), at=500.0) == {1}
    assert await claimed(store, ids(1), at=499.0) == set()


async def test_going_on_makes_nothing_younger() -> None:
    store = await store_with([outcome(1)], ids(1))
    later = checkpoint(store, ids(1), at=AGE_MAX_S)
    for group in await later.claimed(ids(1)):
        later.go_on(set(later.same(group, {LedgerId(1): 3})))
    found = await store.read_value(NAME)
    assert found is not None
    await store.write_value(NAME, later.encoded(), version=found.version)
    assert await claimed(store, ids(1), at=AGE_MAX_S + 1) == set()


@pytest.mark.parametrize("times", list(permutations((0.0, 50.0, 100.0))))
async def test_a_block_is_as_old_as_what_was_done_first(times: tuple[float, ...]) -> None:
    store, now, wanted = await store_with([], ids(1, 2, 3)), [0.0], ids(1, 2, 3)
    made = Checkpoint(store, OURS, digests=True, say=say_nothing, clock=lambda: now[0])
    made._wanted = wanted
    for number, at in enumerate(times, start=1):
        now[0] = at
        made.add([outcome(number)])
    found = await store.read_value(NAME)
    assert found is not None
    await store.write_value(NAME, made.encoded(), version=found.version)
    assert await claimed(store, wanted, at=AGE_MAX_S) == {1, 2, 3}
    assert await claimed(store, wanted, at=AGE_MAX_S + 1) == set()


async def test_who_was_written_to_before_the_cut_is_known() -> None:
    store = await store_with([outcome(1, touched=("bookie-2",))], ids(1))
    later = checkpoint(store, ids(1))
    await later.claimed(ids(1))
    assert set(later.touched) == {BookieId("bookie-2")}


def test_a_million_ledgers_are_some_tens_of_kilobytes() -> None:
    wanted = ids(*range(1_000_000, 2_000_000))
    made = checkpoint(MemoryStore(), wanted)
    made._blocks = [
        Block(block[0], block[-1], len(block), digest_of(block[:1], [at]), 1_700_000_000 + at)
        for at in range(0, len(wanted), BLOCK_LEDGERS)
        if (block := wanted[at : at + BLOCK_LEDGERS])
    ]
    assert len(made.encoded()) < 64 * 1024


def test_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "VALUE_BYTES_MAX", 400)
    wanted = ids(*range(100))
    made = checkpoint(MemoryStore(), wanted)
    made.add([outcome(i, reason="" if i % 3 else "CopyIncomplete") for i in wanted])
    assert len(made.encoded()) <= 400


class Writes(MemoryStore):
    """Counts writes of values; the first of them fails."""

    count = 0

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        self.count += 1
        if self.count == 1:
            raise UnavailableError("away")
        return await super().write_value(name, data, version=version)


@in_virtual_time
async def test_it_is_written_now_and_then_and_a_write_that_fails_is_made_up_for() -> None:
    store = Writes()
    await store.initialise()
    made = checkpoint(store, ids(*range(100)))
    async with made.kept():
        for number in range(100):
            made.add([outcome(number)])
            await asyncio.sleep(EVERY_S / 10)
        assert 8 <= store.count <= 10 and await store.read_value(NAME) is not None
    assert await claimed(store, ids(*range(100))) == set(range(100))


class CutOffWrite(MemoryStore):
    """The first write of a value lasts until its task is cancelled, and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        if not self.has_begun.is_set():
            self.has_begun.set()
            await asyncio.Event().wait()
        return await super().write_value(name, data, version=version)


@in_virtual_time
async def test_a_write_that_the_end_of_the_work_cuts_off_is_made_up_for() -> None:
    store = CutOffWrite()
    await store.initialise()
    made = checkpoint(store, ids(0, 1))
    async with made.kept():
        made.add([outcome(0)])
        await store.has_begun.wait()
    assert await claimed(store, ids(0, 1)) == {0}


class SlowWrites(MemoryStore):
    """A write takes half of the time between two."""

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        await asyncio.sleep(EVERY_S / 2)
        return await super().write_value(name, data, version=version)


@pytest.mark.parametrize("quarters", range(1, 13))
@in_virtual_time
async def test_what_is_done_before_during_or_after_a_write_is_written_by_the_end(
    quarters: int,
) -> None:
    store = SlowWrites()
    await store.initialise()
    made = checkpoint(store, ids(*range(quarters)))
    async with made.kept():
        for number in range(quarters):
            made.add([outcome(number)])
            await asyncio.sleep(EVERY_S / 4 + 0.01)
    assert await claimed(store, ids(*range(quarters))) == set(range(quarters))
