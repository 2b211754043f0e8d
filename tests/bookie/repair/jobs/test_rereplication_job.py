"""Bookies that are gone for good, and marks in BookKeeper's format: done, and not done."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import BadRequestError, InconsistentError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import Cookie, StoredBoot
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerState
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.mend.losses import LOSS_REASON
from bookie.testing.metadata import FaultyStore
from repair_lab import AUDIT, SETTINGS, RepairLab

LOST = 0


class LostLab(RepairLab):
    """A lab with a bookie that is gone, and marks."""

    def __init__(self, bookies: int = 5) -> None:
        self.shared = MemoryCluster()
        super().__init__(bookies, store=MemoryStore(self.shared))

    async def lose(self, number: int = LOST) -> None:
        self.fleet[number].down = True
        await self.store.unregister(self.ids[number])
        await self.store.write_boot(self.ids[number], StoredBoot(1), version=None)

    async def return_at_a_move(self, number: int, *, lost: tuple[int, ...]) -> None:
        """These are gone, and one of them comes back when the first ledger is moved."""
        back, moved = (await self.store.bookies())[self.ids[number]], self.store.write_ledger
        for one in lost:
            await self.lose(one)

        async def move(*asked: Any, **more: Any) -> Any:
            self.fleet[number].down = False
            await self.store.register(back)
            return await moved(*asked, **more)

        self.store.write_ledger = move  # type: ignore[method-assign]

    async def mark(self, ledger_id: LedgerId, *numbers: int) -> None:
        missing = [self.ids[number] for number in numbers]
        await self.store.underreplication.mark(ledger_id, missing, now_ms=1)

    async def marked(self) -> list[LedgerId]:
        return [mark.ledger_id async for mark in self.store.underreplication.marks()]

    async def run(self, *numbers: int, **options: Any) -> dict[str, Any]:
        settings = EvacuationSettings(grace_s=0.0, ledgers_per_batch=3, repair=SETTINGS)
        bookies = tuple(self.ids[number] for number in numbers)
        request = RereplicateRequest(bookies, settings=settings, **options)
        return await rereplicate(self.cluster, request, say=lambda _line: None)

    async def audit(self) -> dict[str, Any]:
        return await audit(self.cluster, AuditRequest(settings=AUDIT))


@pytest.fixture
async def lab() -> LostLab:
    lab = LostLab()
    await lab.start()
    return lab


def reasons(result: dict[str, Any]) -> list[str]:
    return [row["reason"] for row in result["blocked"]]


# ---- a bookie that is gone ----------------------------------------------------------------------


@pytest.mark.parametrize("state", LedgerState, ids=lambda state: state.value)
async def test_no_ledger_that_may_come_to_name_it_makes_a_wrong_id_right(
    lab: LostLab, state: LedgerState
) -> None:
    metadata = await lab.ledger(entries=3, last=2 if state is LedgerState.CLOSED else None)
    if state is LedgerState.IN_RECOVERY:
        await lab.store.write_ledger(metadata.in_recovery(), version=0)
    request = RereplicateRequest((BookieId("nope"),))
    with pytest.raises(BadRequestError, match="there is no bookie nope"):
        await rereplicate(lab.cluster, request, say=lambda _line: None)


async def test_every_entry_of_a_lost_bookie_gets_a_new_home(lab: LostLab) -> None:
    for _ in range(7):
        await lab.ledger(entries=20, last=19)
    await lab.lose()
    result = await lab.run(LOST)
    assert (result["ledgers"]["moved"], result["ledgers_left"], result["exit_code"]) == (7, 0, 0)
    assert result["entries_copied"] == 140
    after = await lab.audit()
    assert (after["audit"]["ok"], after["exit_code"]) == (140, 0)


async def test_nothing_is_moved_where_a_bookie_belongs_to_another_cluster(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    await lab.store.create_cookie(Cookie(lab.ids[1], ("/j",), ("/l",), "other"))
    await lab.lose()
    with pytest.raises(InconsistentError, match="other"):
        await lab.run(LOST)
    assert lab.ids[LOST] in (await lab.metadata(ledger.ledger_id)).fragments[0].ensemble


async def test_a_corrupt_copy_is_not_spread_to_the_new_member(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[1].corrupt(ledger.ledger_id, 2)
    await lab.lose()
    assert (await lab.run(LOST))["exit_code"] == 0
    fragments = (await lab.metadata(ledger.ledger_id)).fragments
    (new,) = set(fragments[0].ensemble) - set(lab.ids[:3])
    good = lab.fleet[2].ledgers[ledger.ledger_id].entries
    assert lab.fleet[new].ledgers[ledger.ledger_id].entries == good


async def test_a_ledger_still_written_to_it_is_closed_and_moved(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=8)
    await lab.lose()
    result = await lab.run(LOST)
    after = await lab.metadata(ledger.ledger_id)
    assert (after.state, after.last_entry_id) == (LedgerState.CLOSED, 7)
    assert not after.names(lab.ids[LOST]) and result["ledgers"]["recovered"] == 1


async def test_two_lost_bookies_leave_a_ledger_with_one_copy_whole(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.lose(0)
    await lab.lose(1)
    result = await lab.run(0, 1)
    after = await lab.metadata(ledger.ledger_id)
    assert result["exit_code"] == 0 and not after.names(lab.ids[0]) and not after.names(lab.ids[1])
    assert (await lab.audit())["audit"]["ok"] == 10


async def test_a_ledger_counts_once_however_many_bookies_it_lost(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in (0, 1):
        await lab.lose(number)
    await lab.mark(ledger.ledger_id, 0, 1)
    counts = (await lab.run(0, 1))["ledgers"]
    assert counts == {"considered": 1, "moved": 1, "recovered": 0, "blocked": 0, "deleted": 0}


async def test_what_only_the_lost_bookie_had_is_named_and_not_made_up(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in (1, 2):
        lab.fleet[number].lose(ledger.ledger_id, [4])
    await lab.lose()
    result = await lab.run(LOST)
    assert reasons(result) == ["CopyIncomplete"] and result["ledgers_left"] == 1
    assert (await lab.metadata(ledger.ledger_id)).names(lab.ids[LOST])


async def test_a_loss_on_record_is_taken_over_from_a_bookie_that_is_gone(
    lab: LostLab,
) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [4])
    for number in range(3):
        await lab.control.record_loss(
            lab.ids[number], ledger.ledger_id, EntrySet.from_ranges([(4, 4)]),
            reason=LOSS_REASON, by_person=False, answered_by=lab.ids[:3],
        )  # fmt: skip
    await lab.lose()
    result = await lab.run(LOST)
    assert result["ledgers_left"] == 0
    assert (await lab.audit())["audit"]["lost"] == 1


async def test_running_it_again_changes_nothing(lab: LostLab) -> None:
    await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.run(LOST)
    again = await lab.run(LOST)
    assert (again["ledgers"]["considered"], again["exit_code"]) == (0, 0)


async def test_how_far_it_came_counts_each_move_and_each_mark(lab: LostLab) -> None:
    ledgers = [await lab.ledger(entries=10, last=9) for _ in range(4)]
    await lab.lose()
    for ledger in ledgers[:2]:
        await lab.mark(ledger.ledger_id, LOST)
    told = (await lab.run(LOST))["progress"]
    assert (told["ledgers"], told["of"], told["entries"]) == (6, 6, 40)


async def test_what_only_marks_name_is_counted_when_it_is_found(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.mark(ledger.ledger_id, LOST)
    result = await lab.run()
    assert (result["progress"]["ledgers"], result["progress"]["of"]) == (2, 2)
    assert result["engine_reason"] == "1 ledgers, fewer than 100000"


# ---- refused ------------------------------------------------------------------------------------


async def test_a_bookie_that_is_registered_is_not_gone(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    result = await lab.run(LOST)
    assert (result["exit_code"], reasons(result)) == (5, ["StillRegistered"])
    assert "bookie drain" in result["refused"]
    assert (await lab.metadata(ledger.ledger_id)).names(lab.ids[LOST])


async def test_nothing_is_done_while_it_is_switched_off_unless_forced(lab: LostLab) -> None:
    await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.store.underreplication.set_enabled(False)
    result = await lab.run(LOST)
    assert (result["exit_code"], reasons(result)) == (5, ["SwitchedOff"])
    assert (await lab.run(LOST, force=True))["ledgers"]["moved"] == 1


async def test_too_few_bookies_block_and_say_so() -> None:
    lab = LostLab(3)
    await lab.start()
    await lab.ledger(entries=5, last=4)
    await lab.lose()
    assert reasons(await lab.run(LOST)) == ["NotEnoughBookies"]


# ---- marks --------------------------------------------------------------------------------------


async def test_a_mark_is_mended_and_cleared(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.mark(ledger.ledger_id, LOST)
    result = await lab.run()
    assert (result["marks"], result["ledgers"]["moved"]) == ({"found": 1, "cleared": 1}, 1)
    assert await lab.marked() == [] and result["exit_code"] == 0


async def test_a_marked_bookie_that_came_back_gets_what_it_lacks(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(5))
    await lab.mark(ledger.ledger_id, 1)
    result = await lab.run()
    assert (result["marks"]["cleared"], result["ledgers"]["moved"]) == (1, 0)
    assert lab.held(1, ledger.ledger_id) == list(range(10))


async def test_the_mark_of_a_lost_bookies_ledger_goes_with_it(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.mark(ledger.ledger_id, LOST)
    result = await lab.run(LOST)
    assert result["marks"] == {"found": 1, "cleared": 1} and await lab.marked() == []


@pytest.mark.parametrize("entries", [0, 3])
async def test_a_mark_stays_while_its_ledger_names_who_is_gone(entries: int) -> None:
    """Nothing is missing of an empty ledger, but what somebody writes to it would be."""
    lab = LostLab(3)
    await lab.start()
    ledger = await lab.ledger(entries=entries, last=entries - 1)
    await lab.lose()
    await lab.mark(ledger.ledger_id, LOST)
    assert (await lab.run())["marks"]["cleared"] == 0
    assert await lab.marked() == [ledger.ledger_id]


async def test_a_mark_stays_while_its_ledger_lacks_a_copy(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [4])
    await lab.mark(ledger.ledger_id, 1)
    result = await lab.run()
    assert await lab.marked() == [ledger.ledger_id]
    assert result["exit_code"] != 0 and result["marks"]["cleared"] == 0


async def test_a_mark_stays_whose_ledger_cannot_be_read_and_says_why(lab: LostLab) -> None:
    ledgers = [await lab.ledger(entries=10, last=9) for _ in range(2)]
    for ledger in ledgers:
        await lab.mark(ledger.ledger_id, 1)
    lab.garble(ledgers[0].ledger_id)
    result = await lab.run()
    (blocked,) = result["blocked"]
    assert await lab.marked() == [ledgers[0].ledger_id] and result["progress"]["ledgers"] == 2
    assert blocked["reason"] == "MetadataUnreadable" and "metadata" in blocked["message"]


async def test_a_mark_stays_while_unsynced_copies_could_be_lost(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(5))
    lab.control.refuse_flush.add(lab.ids[1])
    await lab.mark(ledger.ledger_id, 1)
    for _run in range(2):  # the second one finds the copies of the first
        assert reasons(await lab.run()) == ["NotFlushed"]
    assert await lab.marked() == [ledger.ledger_id]


async def test_a_mark_stays_over_unsynced_copies_of_one_whose_session_has_ended(
    lab: LostLab,
) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    lab.fleet[1].lose(ledger.ledger_id, range(5))
    lab.control.refuse_flush.add(lab.ids[1])
    await lab.mark(ledger.ledger_id, 2)
    await lab.store.unregister(lab.ids[1])
    assert reasons(await lab.run()) == ["NotFlushed"]
    assert await lab.marked() == [ledger.ledger_id]


async def test_a_bookie_that_came_back_while_it_was_replaced_keeps_its_writers(
    lab: LostLab,
) -> None:
    closed = await lab.ledger((0, (1, 2, 3)), entries=4, last=3)
    written = await lab.ledger((0, (1, 2, 3)), entries=8)
    await lab.return_at_a_move(1, lost=(1,))
    for ledger in (closed, written):
        await lab.mark(ledger.ledger_id, 1)
    result = await lab.run()
    assert (await lab.metadata(written.ledger_id)).state is LedgerState.OPEN
    assert (result["ledgers"]["moved"], reasons(result)) == (1, ["StillUnderReplicated"])
    assert result["progress"]["ledgers"] == result["progress"]["of"]


async def test_a_mark_of_an_open_ledger_stays_while_its_writer_may_need_the_bookie(
    lab: LostLab,
) -> None:
    ledger = await lab.ledger(entries=8)
    await lab.mark(ledger.ledger_id, 1)
    assert reasons(await lab.run()) == ["StillUnderReplicated"]
    assert (await lab.metadata(ledger.ledger_id)).state is LedgerState.OPEN


async def test_a_bookie_that_came_back_while_others_were_replaced_keeps_its_writers(
    lab: LostLab,
) -> None:
    closed, written = (
        await lab.ledger(entries=4, last=3),
        await lab.ledger((0, (1, 2, 3)), entries=8),
    )
    await lab.return_at_a_move(1, lost=(0, 1))
    for number, ledger in ((0, closed), (1, written)):
        await lab.mark(ledger.ledger_id, number)
    result = await lab.run()
    assert (await lab.metadata(written.ledger_id)).state is LedgerState.OPEN
    assert (result["ledgers"]["moved"], reasons(result)) == (1, ["StillUnderReplicated"])


async def test_the_mark_of_a_deleted_ledger_goes(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=3, last=2)
    await lab.mark(ledger.ledger_id, 1)
    await lab.store.delete_ledger(ledger.ledger_id)
    assert (await lab.run())["marks"]["cleared"] == 1 and await lab.marked() == []


async def test_a_mark_set_anew_while_we_look_stays(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.mark(ledger.ledger_id, 1)
    looking = lab.control.answers

    async def mark_meanwhile(bookie_id: BookieId, ids: Any) -> Any:
        await lab.mark(ledger.ledger_id, 2)
        return await looking(bookie_id, ids)

    lab.control.answers = mark_meanwhile  # type: ignore[method-assign]
    assert reasons(await lab.run()) == ["MarkChanged"]
    assert await lab.marked() == [ledger.ledger_id]


# ---- Apache's workers beside us -----------------------------------------------------------------


async def test_a_ledger_that_another_worker_reserved_is_left_to_it(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.lose()
    await lab.mark(ledger.ledger_id, LOST)
    other = MemoryStore(lab.shared)
    assert await other.underreplication.lock(ledger.ledger_id, holder="apache")
    result = await lab.run(LOST)
    assert set(reasons(result)) == {"Reserved"} and result["ledgers"]["moved"] == 0
    assert await lab.marked() == [ledger.ledger_id]


async def test_a_run_that_breaks_off_gives_its_locks_back(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    await lab.mark(ledger.ledger_id, 1)
    faulty = FaultyStore(lab.store)
    lab.cluster = replace(lab.cluster, store=faulty)

    async def refuse(name: str) -> None:
        if name == "clear":
            raise UnavailableError("the store is away")

    faulty.before = refuse
    with pytest.raises(UnavailableError):
        await lab.run()
    other = MemoryStore(lab.shared).underreplication
    assert await other.lock(ledger.ledger_id, holder="another worker")


async def test_our_lock_is_held_while_a_ledger_is_moved_and_given_back(lab: LostLab) -> None:
    ledger = await lab.ledger(entries=10, last=9)
    await lab.lose()
    other, flush = MemoryStore(lab.shared), lab.control.flush
    taken: list[bool] = []

    async def look_at_the_lock(bookie_id: BookieId) -> Any:
        taken.append(await other.underreplication.lock(ledger.ledger_id, holder="apache"))
        return await flush(bookie_id)

    lab.control.flush = look_at_the_lock  # type: ignore[method-assign]
    await lab.run(LOST)
    assert taken and not any(taken)
    assert await other.underreplication.lock(ledger.ledger_id, holder="apache")
