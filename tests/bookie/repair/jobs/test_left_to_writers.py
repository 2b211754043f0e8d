"""A repair leaves ledgers to writers that have replaced who may have forgotten; others it ends."""

import asyncio
from dataclasses import replace

import pytest
from bookie.ids import LedgerId
from bookie.protocol import clearing
from bookie.protocol.ledger import LedgerState
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.mend import ledger_repair
from bookie.repair.mend.ledger_repair import LEDGERS_IN_FLIGHT
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.repair.reports.result import Document
from repair_lab import SETTINGS, RepairLab

from bookie import points


class DiesError(Exception):
    """Of a process that is gone."""


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def run(lab: RepairLab, *, say: Say = say_nothing, **options: bool) -> Document:
    request = RepairRequest(engine="inline", settings=SETTINGS, **options)
    return await repair(lab.cluster, request, say=say)


async def state(lab: RepairLab, ledger_id: LedgerId) -> LedgerState:
    return (await lab.metadata(ledger_id)).state


async def test_a_ledger_in_limbo_whose_writer_moved_on_stays_open_and_leaves_limbo(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=8, flush=False)
    await lab.crash(1)
    await lab.moves_on(ledger.ledger_id, 8, 0, 3, 2)
    result = await run(lab)
    assert await state(lab, ledger.ledger_id) is LedgerState.OPEN
    assert lab.held(1, ledger.ledger_id) == [*range(8)] and await lab.marks() == 0
    assert result["exit_code"] == result["ledgers"]["recovered"] == 0


@pytest.mark.parametrize("batch", [1, 500])
async def test_a_writer_that_moves_on_within_the_grace_keeps_its_ledger(
    lab: RepairLab, batch: int
) -> None:
    ledgers = [await lab.ledger(entries=8, flush=False) for _ in range(3)]
    await lab.crash(1)
    await lab.moves_on(ledgers[0].ledger_id, 8, 0, 3, 2)
    moves: list[asyncio.Task[None]] = []

    def say(line: str) -> None:
        if "s for writers" in line:
            later = [lab.moves_on(one.ledger_id, 8, 0, 3, 2) for one in ledgers[1:]]
            moves.extend(map(asyncio.create_task, later))

    settings = replace(SETTINGS, ledgers_per_batch=batch)
    await repair(lab.cluster, RepairRequest(engine="inline", settings=settings), say=say)
    assert len(moves) == 2 and await lab.marks() == 0, "one grace for all"
    assert {await state(lab, one.ledger_id) for one in ledgers} == {LedgerState.OPEN}


async def test_a_grace_is_given_only_where_a_writer_may_have_to_move_on(lab: RepairLab) -> None:
    told: list[str] = []
    moved, left = await lab.ledger(entries=8, flush=False), await lab.ledger(entries=8)
    await lab.crash(1)
    await lab.moves_on(moved.ledger_id, 8, 0, 3, 2)
    found = await lab.store.read_ledger(left.ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)
    await run(lab, say=told.append)
    assert not [line for line in told if "for writers" in line]


async def test_who_moves_on_while_its_ledger_waits_for_its_turn_is_not_cut_off(
    lab: RepairLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = [await lab.ledger(entries=2, flush=False) for _ in range(LEDGERS_IN_FLIGHT + 1)]
    await lab.crash(1)
    recover, began = ledger_repair.recover, []

    async def slow(*asked: object, **settings: object) -> object:
        if not began:
            began.append(asked)
            await lab.moves_on(ledgers[-1].ledger_id, 2, 0, 3, 2)
        return await recover(*asked, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_repair, "recover", slow)
    await run(lab)
    states = [await state(lab, one.ledger_id) for one in ledgers]
    assert states == [LedgerState.CLOSED] * LEDGERS_IN_FLIGHT + [LedgerState.OPEN]


@pytest.mark.parametrize("left", [1, 2])
async def test_a_ledger_that_one_of_two_bookies_in_limbo_is_still_written_to_is_closed(
    lab: RepairLab, left: int
) -> None:
    ledger = await lab.ledger(entries=8)
    await lab.crash(1, 2)
    await lab.moves_on(ledger.ledger_id, 8, 0, 3, left)
    await run(lab)
    assert await state(lab, ledger.ledger_id) is LedgerState.CLOSED and await lab.marks() == 0


async def test_a_ledger_that_came_to_name_an_unchecked_bookie_is_not_recovered(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger((0, (0, 1, 2)), (4, (0, 3, 2)), entries=8)
    await lab.crash(1)
    await lab.moves_on(ledger.ledger_id, 8, 0, 1, 2)
    await run(lab)
    assert await state(lab, ledger.ledger_id) is LedgerState.OPEN and await lab.marks() == 0


@pytest.mark.parametrize("moves_first", [False, True], ids=["in limbo", "unchecked"])
async def test_an_open_ledger_with_entries_that_nobody_has_is_closed_and_they_are_lost(
    moves_first: bool,
) -> None:
    lab = await RepairLab(6).start()
    ledger = await lab.ledger(entries=8, flush=False)
    for step in (True, False):
        if step is moves_first:
            await lab.moves_on(ledger.ledger_id, 8, 3, 4, 5)
        else:
            await lab.crash(0, 1, 2, wipe=True)
    result = await run(lab)
    assert (await lab.metadata(ledger.ledger_id)).is_closed and await lab.marks() == 0
    assert [loss["entries"] for loss in result["losses"]] == [8]


async def test_an_open_ledger_is_left_open_if_only_others_owe_what_is_gone() -> None:
    lab = await RepairLab(6).start()
    ledger = await lab.ledger((0, (0, 1, 2)), (4, (3, 4, 5)), entries=4)
    lab.write(ledger, range(4, 8))
    lab.flush()
    for number in (0, 1, 2):
        lab.fleet[number].ledgers.clear()
    await lab.crash(3)
    await lab.moves_on(ledger.ledger_id, 8, 0, 1, 2)
    await run(lab)
    assert await state(lab, ledger.ledger_id) is LedgerState.OPEN and await lab.marks() == 0


async def test_only_what_was_not_synced_is_copied_after_a_crash(lab: RepairLab) -> None:
    moved, ended = await lab.ledger(entries=50), await lab.ledger(entries=50)
    for ledger in (moved, ended):
        lab.write(ledger, range(50, 60))
    await lab.crash(1)
    await lab.moves_on(moved.ledger_id, 60, 0, 3, 2)
    result = await run(lab)
    assert result["entries_copied"] + result["entries_recovered"] == 10 + 10
    assert lab.held(1, moved.ledger_id) == lab.held(1, ended.ledger_id) == [*range(60)]


async def test_bookies_of_0_1_0_which_wait_for_the_close_get_it(
    lab: RepairLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await lab.ledger(entries=8, flush=False)
    await lab.crash(1)
    await lab.moves_on(ledger.ledger_id, 8, 0, 3, 2)
    monkeypatch.setattr(clearing, "is_left_to_writer", lambda *_ledger: False)
    await run(lab)
    await run(lab)
    assert (await lab.metadata(ledger.ledger_id)).is_closed and await lab.marks() == 0


async def test_a_run_that_goes_on_looks_again_at_what_came_into_limbo_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = await RepairLab(5).start()
    ledger = await lab.ledger(entries=8, flush=False)
    await lab.crash(1)
    await lab.moves_on(ledger.ledger_id, 8, 0, 3, 2)

    def dies(point: str) -> None:
        if point == "repair: copied, not flushed":
            raise DiesError

    monkeypatch.setattr(points, "_observers", [dies])
    with pytest.raises(DiesError):
        await run(lab, checkpoint=True)
    monkeypatch.undo()
    lab.flush()
    await lab.crash(3)
    await run(lab, checkpoint=True)
    assert (await lab.metadata(ledger.ledger_id)).is_closed and await lab.marks() == 0
