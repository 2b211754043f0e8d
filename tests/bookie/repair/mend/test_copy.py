"""Cutting copies into spans and runs; bounds and bad peers."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import FrameError
from bookie.frames.build import build_run, recovery_add
from bookie.frames.entry import Buffer, DigestType, EntryCodec, parse_header
from bookie.frames.frame import CONSECUTIVE, FRAME_BYTES_MAX, Pattern, RunFrame, parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.repair.look.audit import Auditor
from bookie.repair.look.digests import spans
from bookie.repair.mend.copy import (
    WINDOWS_AHEAD_MAX,
    ByteBudget,
    Copied,
    Copier,
    CopySettings,
    Entries,
    runs_of,
    verified,
    whole,
)
from bookie.wire.native import Op, ReadRequest
from repair_lab import AUDIT, PASSWORD, RepairLab

CODEC = EntryCodec(LedgerId(1), DigestType.CRC32C, PASSWORD)


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def copy(
    lab: RepairLab,
    ledger_id: LedgerId,
    settings: CopySettings | None = None,
    *,
    by: Copier | None = None,
) -> Copied:
    """Bring bookie 1 everything it lacks of a ledger."""
    metadata = await lab.metadata(ledger_id)
    holdings = {b: (await lab.control.availability(b, [ledger_id]))[ledger_id] for b in lab.ids}
    wanted = EntrySet.from_ranges([(0, metadata.last_entry_id)]) - holdings[lab.ids[1]].entries
    copier = by or Copier(lab.fleet, settings)
    return await copier.copy(metadata, lab.ids[1], wanted, holdings=holdings)


def entries_of(ids: list[int], *, size: int = 10) -> Entries:
    return {
        entry_id: CODEC.encode(entry_id, b"x" * size, lac=EntryId(-1), length=1)
        for entry_id in map(EntryId, ids)
    }


async def test_ledgers_side_by_side_are_read_from_one_peer_after_the_other(lab: RepairLab) -> None:
    """Whoever copies many is not to read all of them from the same bookie."""
    ledgers = [await lab.ledger((0, (0, 1, 2, 3)), write=4, entries=2, last=1) for _ in range(6)]
    for ledger in ledgers:
        lab.fleet[1].lose(ledger.ledger_id, [0, 1])
        await copy(lab, ledger.ledger_id)
    reads = [call.bookie_id for call in lab.fleet.calls if call.op is Op.READ]
    assert sorted(reads) == sorted(2 * [lab.ids[n] for n in (0, 2, 3)])


def test_near_ranges_are_read_together() -> None:
    wanted = EntrySet.from_ranges([(0, 2), (5, 7), (100, 101), (110, 110), (500, 500)])
    assert spans(wanted) == [(0, 7), (100, 110), (500, 500)]


@pytest.mark.parametrize("seed", range(20))
def test_runs_carry_each_entry_once_under_its_own_id(seed: int) -> None:
    rng = random.Random(seed)
    ids = sorted(rng.sample(range(300), rng.randint(1, 200)))
    found = entries_of(ids)
    carried: list[int] = []
    for first, pattern, run_ids in runs_of(found, frame_bytes=rng.choice((100, 700, 10**6))):
        bodies = [found[i] for i in run_ids]
        run = parse_run(build_run(LedgerId(1), first, bodies, lac=EntryId(-1), pattern=pattern))
        carried += run.entry_ids()
    assert sorted(carried) == ids


def test_a_sequence_longer_than_a_frame_goes_entry_by_entry() -> None:
    found = entries_of([0, 1, 2, 5, 6, 7], size=2 * 1024 * 1024)
    runs = list(runs_of(found, frame_bytes=FRAME_BYTES_MAX))
    assert [len(ids) for _first, _pattern, ids in runs] == [1] * 6


async def test_windows_are_read_one_after_another(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=100, last=99)
    lab.fleet[1].lose(ledger.ledger_id, range(100))
    small = CopySettings(read_bytes=500, frame_bytes=500, in_flight_bytes=500)
    copied = await copy(lab, ledger.ledger_id, small)
    assert lab.held(1, ledger.ledger_id) == list(range(100)) and not copied.left
    assert sum(call.op is Op.READ for call in lab.fleet.calls) > 5


async def test_only_what_is_wanted_is_sent(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=50, last=49)
    lab.fleet[1].lose(ledger.ledger_id, [3, 9])
    copied = await copy(lab, ledger.ledger_id)
    assert copied.entries.ranges() == [(3, 3), (9, 9)]


async def test_the_next_peer_is_asked_when_one_fails(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(10))
    lab.fleet.lose_requests(0, only=lambda call: call.op is Op.READ)
    lab.fleet[2].fail_reads(ledger.ledger_id, [4])
    copied = await copy(lab, ledger.ledger_id)
    assert copied.left.ranges() == [(4, 4)] and copied.why
    assert len(copied.entries) == 9


async def test_a_corrupt_copy_is_named_and_another_taken(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[1].lose(ledger.ledger_id, range(5))
    lab.fleet[0].corrupt(ledger.ledger_id, EntryId(2))
    lab.fleet[2].lose(ledger.ledger_id, [4])
    copied = await copy(lab, ledger.ledger_id)
    assert set(copied.corrupt) <= {(lab.ids[0], 2)} and not copied.left


async def test_a_rate_holds_for_what_is_read_and_for_what_is_written(lab: RepairLab) -> None:
    ledger, waits = await lab.ledger(entries=40, last=39), list[float]()
    lab.fleet[1].lose(ledger.ledger_id, range(40))

    async def note(seconds: float) -> None:
        waits.append(seconds)

    settings = CopySettings(read_bytes=500, frame_bytes=500, bytes_per_second=1000)
    copier = Copier(lab.fleet, settings, sleep=note)
    looks = await Auditor(lab.store, lab.control, AUDIT).look([ledger.ledger_id])
    holdings = looks[ledger.ledger_id].holdings
    wanted = EntrySet.from_ranges([(0, 39)])
    copied = await copier.copy(ledger, lab.ids[1], wanted, holdings=holdings)
    assert not copied.left
    assert len(waits) > 6 and max(waits) > copied.bytes_copied / 1000, "both ways, bookie by bookie"


async def test_what_is_in_flight_is_bounded() -> None:
    budget = ByteBudget(CopySettings(read_bytes=10, in_flight_bytes=25))
    await budget.enter()
    await budget.enter()
    third = asyncio.ensure_future(budget.enter())
    await asyncio.sleep(0)
    assert not third.done()
    budget.leave()
    await third


# Whole frames
def frame_of(
    count: int, *, size: int = 1024, lacs: int = -1, pattern: Pattern = CONSECUTIVE
) -> RunFrame:
    bodies = [
        CODEC.encode(EntryId(pattern.id_at(0, i)), b"x" * size, lac=EntryId(lacs), length=1)
        for i in range(count)
    ]
    return parse_run(build_run(LedgerId(1), EntryId(0), bodies, lac=EntryId(99), pattern=pattern))


ALL = EntrySet.from_ranges([(0, 10**6)])


@pytest.mark.parametrize("pattern", [CONSECUTIVE, Pattern(2, 3)])
def test_a_frame_that_is_wanted_in_full_goes_on_as_a_recovery_add(pattern: Pattern) -> None:
    run = frame_of(100, lacs=7, pattern=pattern)
    frame = whole(run, ALL, CODEC)
    assert frame is not None
    sent = parse_run(frame)
    assert list(sent.entries()) == list(run.entries()) and sent.pattern == pattern
    assert sent.is_recovery and sent.lac == 7, "never a LAC beyond what its entries carry"


def test_what_spoils_a_frame_after_its_check_is_found_by_whoever_gets_it() -> None:
    run = frame_of(100)
    run.buffer[-1] ^= 1
    with pytest.raises(FrameError, match="checksum"):
        parse_run(recovery_add(run, lac=EntryId(7)))


def test_a_frame_is_cut_when_one_entry_is_not_wanted_or_it_is_small() -> None:
    assert whole(frame_of(100), ALL - EntrySet.from_ranges([(50, 50)]), CODEC) is None
    assert whole(frame_of(100), EntrySet.from_ranges([(0, 98)]), CODEC) is None
    assert whole(frame_of(10), ALL, CODEC) is None


def test_a_frame_with_one_entry_that_is_not_right_goes_on_in_parts() -> None:
    bodies = list(map(bytearray, frame_of(100).entries()))
    bodies[40][-1] ^= 1
    run = parse_run(build_run(LedgerId(1), EntryId(0), bodies, lac=EntryId(-1)))
    found, corrupt = verified([run], ALL, CODEC)
    assert whole(run, ALL, CODEC) is None and corrupt == [40] and len(found) == 99


# Windows in flight
def tiny(ahead: int) -> CopySettings:
    return CopySettings(read_bytes=100, frame_bytes=100, in_flight_bytes=100 * ahead)


def reads(lab: RepairLab) -> int:
    return sum(call.op is Op.READ for call in lab.fleet.calls)


async def to_copy(lab: RepairLab) -> LedgerId:
    """A ledger of which bookie 1 lacks everything, and bookie 2 has nothing to offer."""
    ledger = await lab.ledger(entries=100, last=99)
    for number in (1, 2):
        lab.fleet[number].lose(ledger.ledger_id, range(100))
    lab.fleet.calls.clear()
    return ledger.ledger_id


@pytest.mark.parametrize(("ahead", "most"), [(3, 3), (50, WINDOWS_AHEAD_MAX)])
async def test_reads_go_on_while_stores_wait_up_to_the_budget(
    lab: RepairLab, ahead: int, most: int
) -> None:
    ledger_id = await to_copy(lab)
    lab.fleet.hold(1, only=lambda call: call.op is Op.ADD_RUN)
    copying = asyncio.ensure_future(copy(lab, ledger_id, tiny(ahead)))
    await lab.fleet.settle()
    assert reads(lab) == most
    lab.fleet.heal(1)
    lab.fleet.release(1)
    assert not (await copying).left


async def test_a_refusal_stops_the_windows_in_flight_as_well(lab: RepairLab) -> None:
    ledger_id = await to_copy(lab)
    lab.fleet[1].refuse_adds = Status.READ_ONLY
    copied = await copy(lab, ledger_id, tiny(4))
    assert not copied.entries and len(copied.left) == 100 and "READ_ONLY" in copied.why
    assert reads(lab) <= WINDOWS_AHEAD_MAX


async def test_a_cancelled_copy_leaves_nothing_behind(lab: RepairLab) -> None:
    ledger_id = await to_copy(lab)
    lab.fleet.hold(1, only=lambda call: call.op is Op.ADD_RUN)
    before = len(asyncio.all_tasks())
    copying = asyncio.ensure_future(copy(lab, ledger_id, tiny(4)))
    await lab.fleet.settle()
    copying.cancel()
    await asyncio.gather(copying, return_exceptions=True)
    assert len(asyncio.all_tasks()) == before


@pytest.mark.parametrize("turns", range(30))
async def test_a_copy_that_is_cancelled_in_any_turn_keeps_no_room_from_others(
    lab: RepairLab, turns: int
) -> None:
    ledger_id, copier = await to_copy(lab), Copier(lab.fleet, tiny(1))
    copying = asyncio.ensure_future(copy(lab, ledger_id, by=copier))
    for _ in range(turns):
        await asyncio.sleep(0)
    copying.cancel()
    await asyncio.gather(copying, return_exceptions=True)
    async with asyncio.timeout(5):
        assert not (await copy(lab, ledger_id, by=copier)).left


# ---- one rule on every way ----------------------------------------------------------------------


@pytest.mark.parametrize("lost", [[3], [3, 9], range(0, 50, 3), range(50)])
async def test_no_copy_says_a_lac_beyond_what_its_own_entries_carry(
    lab: RepairLab, lost: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its frame is passed on or made of the entries that are wanted."""
    ledger, sent = await lab.ledger(entries=50, last=49), list[RunFrame]()
    lab.fleet[1].lose(ledger.ledger_id, lost)
    add = lab.fleet.add_run

    def noted(*target: Any, frame: Buffer, **more: Any) -> None:
        sent.append(parse_run(bytes(frame)))
        add(*target, frame=frame, **more)

    monkeypatch.setattr(lab.fleet, "add_run", noted)
    copied = await copy(lab, ledger.ledger_id)
    assert len(copied.entries) == len(lost) and sent
    for run in sent:
        assert run.lac == max(parse_header(entry).lac for entry in run.entries())


async def test_a_peer_whose_answers_bring_nothing_is_left_for_another(
    lab: RepairLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(10))
    read, asked = lab.fleet.read, list[BookieId]()

    async def stuck(bookie: BookieId, request: ReadRequest, **more: Any) -> Any:
        asked.append(bookie)
        assert asked.count(bookie) < 10, "asked again and again"
        status, reply = await read(bookie, request, **more)
        is_stuck = bookie == asked[0] and reply is not None
        if not is_stuck:
            return status, reply
        return status, replace(reply, answered_through=EntryId(request.first - 1), runs=())

    monkeypatch.setattr(lab.fleet, "read", stuck)
    copied = await copy(lab, ledger.ledger_id)
    assert len(copied.entries) == 10 and asked.count(asked[0]) == 1


@pytest.mark.parametrize("good", [0, 2, 3])
@pytest.mark.parametrize("way", ["silent", "down", "unreadable"])
async def test_sources_that_give_nothing_leave_their_room_to_the_one_that_does(
    lab: RepairLab, good: int, way: str
) -> None:
    ledger = await lab.ledger((0, (0, 1, 2, 3)), write=4, entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(10))
    for number in {0, 2, 3} - {good}:
        if way == "silent":
            lab.fleet.lose_requests(number, only=lambda call: call.op is Op.READ)
        elif way == "unreadable":
            lab.fleet[number].fail_reads(ledger.ledger_id, range(10))
    holdings = {b: (await lab.control.availability(b, [ledger.ledger_id])) for b in lab.ids}
    for number in {0, 2, 3} - {good}:
        lab.fleet[number].down = way == "down"
    copier = Copier(lab.fleet, tiny(1))
    for _ in range(2):
        lab.fleet[1].lose(ledger.ledger_id, range(10))
        async with asyncio.timeout(20):
            copied = await copier.copy(
                ledger, lab.ids[1], EntrySet.from_ranges([(0, 9)]),
                holdings={b: found[ledger.ledger_id] for b, found in holdings.items()},
            )  # fmt: skip
        assert not copied.left
