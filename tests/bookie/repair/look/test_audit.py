"""Looking twice, asking again, and what an audit counts."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Unreadable, Versioned
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.repair.judge.columns import Answer
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.judge.last_copies import NOTHING
from bookie.repair.look.audit import Audit, Auditor, AuditSettings
from bookie.testing.control import FakeControl
from repair_lab import RepairLab

QUICK = AuditSettings(ledgers_per_batch=2, grace_s=0.0, recheck_s=0.0)


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


def auditor(lab: RepairLab) -> Auditor:
    return Auditor(lab.store, lab.control, QUICK)


async def test_ledgers_of_all_batches_are_counted(lab: RepairLab) -> None:
    for entries in (3, 0, 5, 2, 1):
        await lab.ledger(entries=entries, last=entries - 1)
    found = await auditor(lab).audit(lab.store.ledger_ids())
    assert found.counts == AuditCounts(ledgers=5, entries=11, ok=11)
    assert found.findings == () and found.counts.is_clean


async def test_a_ledger_deleted_meanwhile_is_no_finding(lab: RepairLab) -> None:
    found = await auditor(lab).audit([LedgerId(77)])
    assert found.counts == AuditCounts()


async def test_an_open_ledger_is_judged_up_to_its_known_lac(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=10)
    lab.fleet[2].lose(ledger.ledger_id, [8, 9])
    found = await auditor(lab).audit([ledger.ledger_id])
    assert (found.counts.entries, found.counts.missing) == (9, 1)


class LateCopies:
    """A control plane whose second answer shows what was on its way at the first."""

    def __init__(self, lab: RepairLab, arrive: dict[int, list[int]]) -> None:
        self._lab, self._arrive, self._asked = lab, arrive, 0

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        answer = await self._lab.control.answers(bookie_id, ledger_ids)
        if bookie_id == self._lab.ids[2]:
            metadata = await self._lab.metadata(ledger_ids[0])
            for number, entry_ids in self._arrive.items():
                self._lab.write(metadata, entry_ids, on=(number,))
        return answer


async def test_adds_on_their_way_are_no_findings(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5)
    lab.write(ledger, [5, 6], on=(0, 1))
    late = LateCopies(lab, {2: [5, 6], 0: [7, 8, 9], 1: [7, 8, 9]})
    found = await Auditor(lab.store, late, QUICK).audit([ledger.ledger_id])  # type: ignore[arg-type]
    assert found.findings == ()


class ClosedMeanwhile:
    """A control plane at whose first answer the ledger is closed, as far down as a person said who
    accepted the loss of what is behind."""

    def __init__(self, lab: RepairLab, end: EntryId) -> None:
        self._lab, self._end = lab, end

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        read = await self._lab.store.read_ledger(ledger_ids[0])
        if not read.value.is_closed:
            closed = read.value.closed(self._end, length=1)
            await self._lab.store.write_ledger(closed, version=read.version)
        return await self._lab.control.answers(bookie_id, ledger_ids)


@pytest.mark.parametrize(("end", "missing"), [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (9, 2)])
async def test_a_ledger_closed_between_two_looks_is_judged_up_to_its_end(
    lab: RepairLab, end: int, missing: int
) -> None:
    ledger = await lab.ledger(entries=10)
    lab.fleet[2].lose(ledger.ledger_id, [4, 8])
    control = ClosedMeanwhile(lab, EntryId(end))
    found = await Auditor(lab.store, control, QUICK).audit([ledger.ledger_id])  # type: ignore[arg-type]
    assert (found.counts.entries, found.counts.missing) == (end + 1, missing)


class MovingMetadata:
    """A store that shows another version, and another last fragment, at each read."""

    def __init__(self, lab: RepairLab) -> None:
        self._lab, self.reads = lab, 0

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        found = await self._lab.store.read_ledgers(ledger_ids, unreadable=unreadable)
        self.reads += 1
        return {i: Versioned(one.value, one.version + self.reads) for i, one in found.items()}


async def test_a_ledger_that_never_holds_still_is_unknown_not_missing(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [0])
    store = MovingMetadata(lab)
    found = await Auditor(store, lab.control, QUICK).audit([ledger.ledger_id])  # type: ignore[arg-type]
    assert (found.counts.missing, found.counts.unknown) == (0, 4)


async def test_a_suspect_is_judged_by_fresh_metadata(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.write(ledger, range(4))
    lab.fleet[1].lose(ledger.ledger_id, range(4))
    looks = await auditor(lab).look([ledger.ledger_id])
    assert looks[ledger.ledger_id].verdict.is_suspect
    read = await lab.store.read_ledger(ledger.ledger_id)
    moved = read.value.with_fragments([Fragment(EntryId(0), (lab.ids[0], lab.ids[3], lab.ids[2]))])
    await lab.store.write_ledger(moved, version=read.version)
    lab.write(moved, range(4))
    assert (await auditor(lab).audit([ledger.ledger_id])).findings == ()


async def test_an_unreachable_bookie_is_asked_again_later(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.control.unreachable.add(lab.ids[1])
    found = await auditor(lab).audit([ledger.ledger_id])
    assert found.unreachable == {lab.ids[1]} and found.counts.unknown == 4
    asked = [b for call, b in lab.control.asked if call == "availability" and b == lab.ids[1]]
    assert len(asked) == 2


async def test_every_ledger_of_a_silent_bookie_is_judged_whatever_the_batches(
    lab: RepairLab,
) -> None:
    for _ in range(5):
        await lab.ledger(entries=4, last=3)
    lab.control.unreachable.add(lab.ids[1])
    found = await auditor(lab).audit(lab.store.ledger_ids())
    assert found.counts == AuditCounts(ledgers=5, entries=20, unknown=20)


async def test_a_ledger_that_can_be_read_again_is_judged_and_no_longer_unreadable(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.garble(ledger.ledger_id)
    looking = auditor(lab)
    assert [ledger_id for ledger_id, _ in (await looking.audit([ledger.ledger_id])).unreadable]
    assert isinstance(lab.store, MemoryStore)
    lab.store.cluster.garbled.clear()
    found = await looking.audit([ledger.ledger_id])
    assert (found.unreadable, found.counts.ok) == ((), 4)


async def test_a_ledger_that_is_deleted_meanwhile_is_no_longer_unreadable(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.garble(ledger.ledger_id)
    looking = auditor(lab)
    assert (await looking.audit([ledger.ledger_id])).unreadable
    assert isinstance(lab.store, MemoryStore)
    lab.store.cluster.garbled.clear()
    await lab.store.delete_ledger(ledger.ledger_id)
    assert not (await looking.audit([ledger.ledger_id])).unreadable


async def test_what_is_excused_still_says_who_has_the_last_copies(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    for number in (1, 2):
        lab.fleet[number].lose(ledger.ledger_id, list(map(EntryId, range(4))))
    looking = auditor(lab)

    async def everything(ledger_ids: Collection[LedgerId]) -> set[LedgerId]:
        return set(ledger_ids)

    looking.excuse = everything
    found = await looking.audit([ledger.ledger_id])
    assert found.skipped == {ledger.ledger_id} and found.findings == ()
    assert found.last_copies != NOTHING


async def test_a_store_that_is_away_is_an_error_not_a_finding(lab: RepairLab) -> None:
    await lab.store.close()
    with pytest.raises(UnavailableError):
        await auditor(lab).audit([LedgerId(0)])


async def changed_between(
    lab: RepairLab, ledger_id: LedgerId, change: Callable[[], Awaitable[None]]
) -> Audit:
    """An audit of a ledger that is doubted at first, and changed after the second look has read its
    metadata and before it has its answers."""
    looks = 0

    class Late(FakeControl):
        async def answers(
            self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
        ) -> Mapping[LedgerId, Answer]:
            nonlocal looks
            looks += bookie_id == lab.ids[0]
            if looks == 2 and bookie_id == lab.ids[0]:
                await change()
            return await super().answers(bookie_id, ledger_ids)

    return await Auditor(lab.store, Late(lab.fleet, lab.store), QUICK).audit([ledger_id])


async def test_a_ledger_deleted_during_the_second_look_is_no_finding(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[2].lose(ledger.ledger_id, [3])

    async def delete() -> None:
        await lab.store.delete_ledger(ledger.ledger_id)
        for number in range(3):
            lab.fleet[number].delete(ledger.ledger_id)

    assert await changed_between(lab, ledger.ledger_id, delete) == Audit()


async def test_a_ledger_moved_during_the_second_look_is_no_finding(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[2].lose(ledger.ledger_id, [3])

    async def move() -> None:
        read = await lab.store.read_ledger(ledger.ledger_id)
        ensemble = (lab.ids[0], lab.ids[1], lab.ids[3])
        moved = read.value.with_fragments([Fragment(EntryId(0), ensemble)])
        lab.write(moved, range(4))
        await lab.store.write_ledger(moved, version=read.version)
        lab.fleet[2].lose(ledger.ledger_id, list(map(EntryId, range(4))))

    found = await changed_between(lab, ledger.ledger_id, move)
    assert found.findings == () and found.counts.ok == 4
