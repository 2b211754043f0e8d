"""Bit rot: found with its bookie and entries, replaced from a good copy, never copied."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from bookie.frames.entry import DigestType, EntryCodec
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.judge.expect import Holding
from bookie.repair.look.digests import DigestReader, DigestSettings
from bookie.testing.control import FakeControl
from bookie.wire.native import ReadReply, ReadRequest
from repair_lab import AUDIT, PASSWORD, SETTINGS, RepairLab

DEEP = DigestSettings(read_bytes=200)
REPAIR = RepairRequest(engine="inline", settings=replace(SETTINGS, digests=DEEP))


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab().start()


async def deep_audit(lab: RepairLab, digests: DigestSettings | None = DEEP) -> dict[str, Any]:
    return await audit(lab.cluster, AuditRequest(engine="inline", settings=AUDIT, digests=digests))


def corrupt_of(document: Mapping[str, Any]) -> dict[tuple[int, str], list[list[int]]]:
    """Ledger and bookie -> ranges of corrupt copies."""
    return {
        (found["ledger_id"], bookie_id): kinds["corrupt"]["ranges"]
        for found in document["findings"]
        for bookie_id, kinds in found["bookies"].items()
        if "corrupt" in kinds
    }


async def rotten(lab: RepairLab, *entry_ids: int, number: int = 1) -> LedgerMetadata:
    """A ledger of 30 entries, of which a bookie cannot read these back."""
    ledger = await lab.ledger(entries=30, last=29)
    lab.fleet[number].fail_reads(ledger.ledger_id, list(map(EntryId, entry_ids)))
    return ledger


async def test_all_copies_behind_the_one_that_no_answer_covers_are_unread(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=60, last=59)
    lab.fleet[1].down = True
    wanted = EntrySet.from_ranges([(0, 2), (40, 42)])  # too far apart for one read
    read = await DigestReader(lab.fleet, DEEP).read(ledger, lab.ids[1], wanted)
    assert (read.unread, read.good) == (wanted, EMPTY)


async def test_where_no_digest_type_is_stored_a_wrong_digest_tells_nothing(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    old = replace(ledger, password=b"", digest_type=DigestType.HMAC, password_is_stored=False)
    lab.fleet[1].fail_reads(ledger.ledger_id, [EntryId(29)])
    wanted = EntrySet.from_ranges([(0, 29)])
    read = await DigestReader(lab.fleet, DEEP).read(old, lab.ids[1], wanted)
    assert read.unread == EntrySet.from_ranges([(0, 28)])
    assert read.corrupt == EntrySet.from_ranges([(29, 29)])


# Finding
async def test_a_clean_cluster_is_read_and_found_clean(lab: RepairLab) -> None:
    await lab.ledger(entries=30, last=29)
    told = await deep_audit(lab)
    assert (told["exit_code"], told["findings"], told["digests_verified"]) == (0, [], True)
    assert told["bytes_read"] > 3 * 30 * 40


async def test_a_wrong_digest_is_found_only_by_reading(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    lab.fleet[1].corrupt(ledger.ledger_id, EntryId(7))
    assert (await deep_audit(lab, None))["exit_code"] == 0
    told = await deep_audit(lab)
    assert told["exit_code"] == 3 and told["audit"]["corrupt"] == 1
    assert corrupt_of(told) == {(ledger.ledger_id, lab.ids[1]): [[7, 7]]}


async def test_what_a_bookie_cannot_read_back_is_corrupt(lab: RepairLab) -> None:
    ledger = await rotten(lab, 3, 4, 5, 20)
    assert corrupt_of(await deep_audit(lab)) == {(ledger.ledger_id, lab.ids[1]): [[3, 5], [20, 20]]}


async def test_corrupt_copies_do_not_count_as_copies(lab: RepairLab) -> None:
    ledger = await rotten(lab, 3)
    lab.fleet[0].corrupt(ledger.ledger_id, EntryId(3))
    told = await deep_audit(lab)
    assert (told["audit"]["below_ack_quorum"], told["audit"]["no_copy"]) == (1, 0)
    lab.fleet[2].corrupt(ledger.ledger_id, EntryId(3))
    assert (await deep_audit(lab))["audit"]["no_copy"] == 1


async def test_every_planted_corruption_is_found_and_no_other(lab: RepairLab) -> None:
    rng, planted = random.Random(8), set[tuple[int, str, int]]()
    for _ in range(40):
        ledger = await lab.ledger((0, (0, 1, 2, 3)), write=3, entries=34, last=33)
        for _ in range(25):
            number, entry = rng.randrange(4), EntryId(rng.randrange(34))
            if entry in lab.held(number, ledger.ledger_id):
                spoil(lab, rng, number, ledger.ledger_id, entry, planted)
    found = {
        (ledger_id, bookie_id, entry)
        for (ledger_id, bookie_id), ranges in corrupt_of(await deep_audit(lab)).items()
        for first, last in ranges
        for entry in range(first, last + 1)
    }
    assert found == planted and len(planted) > 600


def spoil(
    lab: RepairLab,
    rng: random.Random,
    number: int,
    ledger_id: LedgerId,
    entry: EntryId,
    planted: set[tuple[int, str, int]],
) -> None:
    """A wrong digest or a damaged frame, once for each copy."""
    if (ledger_id, lab.ids[number], entry) in planted:
        return
    planted.add((ledger_id, lab.ids[number], entry))
    if rng.random() < 0.5:
        lab.fleet[number].corrupt(ledger_id, entry)
    else:
        lab.fleet[number].fail_reads(ledger_id, [entry])


# No false findings
class Between:
    """Peers of a lab; something happens after the first read."""

    def __init__(self, lab: RepairLab, act: Any) -> None:
        self._lab, self._act = lab, act

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        answer = await self._lab.fleet.read(bookie_id, request)
        act, self._act = self._act, None
        if act is not None:
            await act()
        return answer


async def change_metadata(store: MetadataStore) -> None:
    """Of every ledger, as a writer that never rests would."""
    async for ledger_id in store.ledger_ids():
        found = await store.read_ledger(ledger_id)
        turn = {"turn": str(found.version).encode()}
        await store.write_ledger(replace(found.value, custom=turn), version=found.version)


class RestlessControl(FakeControl):
    """Metadata change before each answer."""

    async def availability(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Holding]:
        await change_metadata(self.store)
        return await super().availability(bookie_id, ledger_ids)


class Restless:
    """Peers of a lab; metadata change after each read."""

    def __init__(self, lab: RepairLab) -> None:
        self._lab = lab

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        answer = await self._lab.fleet.read(bookie_id, request)
        await change_metadata(self._lab.store)
        return answer


class Once:
    """Peers of a lab; a bookie is back after the first read, and cannot read some copies once."""

    def __init__(self, lab: RepairLab, number: int) -> None:
        self._lab, self._bookie = lab, lab.fleet[number]

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        status, reply = await self._lab.fleet.read(bookie_id, request)
        self._lab.control.unreachable.clear()
        if bookie_id == self._bookie.bookie_id and reply is not None and reply.unknown:
            self._bookie.ledgers[request.ledger_id].unreadable.clear()
        return status, reply


async def audit_while(lab: RepairLab, act: Any) -> dict[str, Any]:
    return await audit_with(lab, Between(lab, act))


async def audit_with(
    lab: RepairLab, peers: Any, digests: DigestSettings = DEEP, control: Any = None
) -> dict[str, Any]:
    cluster = replace(lab.cluster, peers=peers, control=control or lab.control)
    return await audit(cluster, AuditRequest(engine="inline", settings=AUDIT, digests=digests))


async def test_a_ledger_deleted_while_it_is_read_is_no_finding(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, last=29)

    async def delete() -> None:
        await lab.store.delete_ledger(ledger.ledger_id)
        for number in range(3):
            lab.fleet[number].delete(ledger.ledger_id)

    told = await audit_while(lab, delete)
    assert (told["exit_code"], told["findings"]) == (0, [])


async def test_what_reads_well_the_second_time_is_no_finding(lab: RepairLab) -> None:
    ledger = await rotten(lab, 1)

    async def recover() -> None:
        lab.fleet[1].ledgers[ledger.ledger_id].unreadable.clear()

    assert (await audit_while(lab, recover))["findings"] == []


async def test_copies_of_a_bookie_that_comes_back_between_two_looks_are_read_and_twice(
    lab: RepairLab,
) -> None:
    ledger = await rotten(lab, 7)
    lab.fleet[2].corrupt(ledger.ledger_id, EntryId(9))
    lab.control.unreachable.add(lab.ids[2])

    async def answer() -> None:
        lab.control.unreachable.clear()

    told = await audit_while(lab, answer)
    ranges = corrupt_of(told)
    assert ranges == {(ledger.ledger_id, lab.ids[n]): [[e, e]] for n, e in ((1, 7), (2, 9))}


async def test_a_copy_that_was_read_but_once_is_not_called_corrupt(lab: RepairLab) -> None:
    """A bookie comes back, and cannot read a copy the first time that it is asked for it."""
    ledger = await rotten(lab, 7)
    lab.fleet[2].fail_reads(ledger.ledger_id, [EntryId(9)])
    lab.control.unreachable.add(lab.ids[2])
    peers: Any = Once(lab, 2)
    told = await audit_with(lab, peers)
    assert corrupt_of(told) == {(ledger.ledger_id, lab.ids[1]): [[7, 7]]}


@pytest.mark.parametrize("digests", [DEEP, DigestSettings()])
async def test_nothing_is_called_corrupt_whose_metadata_changed_at_every_look(
    lab: RepairLab, digests: DigestSettings
) -> None:
    await rotten(lab, 7)
    peers: Any = Restless(lab)
    told = await audit_with(lab, peers, digests)
    assert (told["audit"]["corrupt"], told["audit"]["unknown"], told["exit_code"]) == (0, 30, 4)
    request = replace(REPAIR, settings=replace(REPAIR.settings, digests=digests))
    mended = await repair(replace(lab.cluster, peers=peers), request)
    assert {row.get("reason") for row in mended["blocked"]} == {"CopiesUnread"}


async def test_what_the_indexes_could_not_decide_about_is_not_missing_by_a_deep_look(
    lab: RepairLab,
) -> None:
    """One member never lists entry 3, and each look at it finds other metadata."""
    ledger = (await lab.ledger(entries=30, last=29)).ledger_id
    lab.fleet[1].lose(ledger, [3])
    told = await audit_with(lab, lab.fleet, control=RestlessControl(lab.fleet, lab.store))
    assert (told["audit"]["missing"], told["exit_code"]) == (0, 4)


async def test_a_bookie_that_goes_away_leaves_its_copies_unknown(lab: RepairLab) -> None:
    await lab.ledger(entries=30, last=29)

    async def leave() -> None:
        lab.fleet[2].down = True

    told = await audit_while(lab, leave)
    assert (told["exit_code"], told["audit"]["corrupt"]) == (4, 0)
    assert told["audit"]["unknown"] > 0 == told["audit"]["missing"]


# Repair
async def test_a_damaged_copy_is_replaced_by_a_good_one(lab: RepairLab) -> None:
    ledger = await rotten(lab, 3, 4, 20)
    told = await repair(lab.cluster, replace(REPAIR, every_ledger=True))
    assert (told["corrupt_found"], told["corrupt_replaced"], told["exit_code"]) == (3, 3, 0)
    assert not lab.fleet[1].ledgers[ledger.ledger_id].unreadable
    assert (await deep_audit(lab))["exit_code"] == 0


async def test_a_wrong_digest_is_never_copied(lab: RepairLab) -> None:
    ledger = await rotten(lab, 3)
    lab.fleet[0].corrupt(ledger.ledger_id, EntryId(3))
    await repair(lab.cluster, REPAIR)
    codec = EntryCodec(ledger.ledger_id, ledger.digest_type, PASSWORD)
    entry = lab.fleet[1].ledgers[ledger.ledger_id].entries[EntryId(3)]
    assert codec.decode(entry, entry_id=EntryId(3))[1] == b"entry 3"


async def test_without_a_good_copy_nothing_is_copied(lab: RepairLab) -> None:
    ledger = await rotten(lab, 3)
    for number in (0, 2):
        lab.fleet[number].corrupt(ledger.ledger_id, EntryId(3))
    told = await repair(lab.cluster, REPAIR)
    assert (told["entries_copied"], told["losses"]) == (0, [])
    assert told["audit_after"]["no_copy"] == 1 and told["exit_code"] == 3


async def test_a_copy_stored_whole_with_a_wrong_digest_is_rejected_and_replaced(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    lab.fleet[1].corrupt(ledger.ledger_id, EntryId(7))
    told = await repair(lab.cluster, REPAIR)
    assert (told["corrupt_found"], told["corrupt_replaced"], told["exit_code"]) == (1, 1, 0)
    assert (await deep_audit(lab))["audit"]["corrupt"] == 0


async def test_the_last_copy_is_not_rejected_however_wrong(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    for number in range(2):
        lab.fleet[number].corrupt(ledger.ledger_id, EntryId(7))
    lab.fleet[2].down = True  # it may have a good one, and cannot give it
    await repair(lab.cluster, REPAIR)
    assert "recheck" not in {call for call, _bookie in lab.control.asked}


async def test_a_bookie_that_cannot_look_at_its_copies_keeps_them_and_is_told(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    lab.control.never_recheck.add(lab.ids[1])
    lab.fleet[1].corrupt(ledger.ledger_id, EntryId(7))
    told = await repair(lab.cluster, REPAIR)
    (block,) = told["blocked"]
    assert block["reason"] == "CorruptKept" and lab.ids[1] in block["message"]
    assert (told["corrupt_found"], told["corrupt_replaced"], told["exit_code"]) == (1, 0, 3)


class Deaf:
    """Peers of a lab; one bookie answers no read, though its control plane does."""

    def __init__(self, lab: RepairLab, number: int) -> None:
        self._lab, self._deaf = lab, lab.ids[number]

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        if bookie_id == self._deaf:
            return Status.UNREACHABLE, None
        return await self._lab.fleet.read(bookie_id, request)


async def test_a_scrub_that_could_not_read_a_bookie_does_not_end_as_whole(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=30, last=29)
    peers: Any = Deaf(lab, 1)
    told = await repair(replace(lab.cluster, peers=peers), REPAIR)
    assert (told["exit_code"], told["ledgers"]["blocked"]) == (4, 1)
    (block,) = told["blocked"]
    assert (block["ledger_id"], block["reason"]) == (ledger.ledger_id, "CopiesUnread")
    assert block["message"] == f"30 copies on {lab.ids[1]} could not be read, the first of 0"


async def test_a_scrub_does_not_end_as_whole_though_a_silent_bookie_came_back_for_its_audit(
    lab: RepairLab,
) -> None:
    await lab.ledger(entries=30, last=29)
    lab.control.unreachable.add(lab.ids[1])

    async def answer() -> None:
        lab.control.unreachable.clear()

    peers: Any = Between(lab, answer)
    told = await repair(replace(lab.cluster, peers=peers), REPAIR)
    assert told["audit_after"]["ok"] == 30 and told["exit_code"] == 4
    assert "CopiesUnread" in {block.get("reason") for block in told["blocked"]}


async def test_a_repair_that_trusts_the_indexes_reads_nothing_of_whole_ledgers(
    lab: RepairLab,
) -> None:
    await rotten(lab, 3)
    told = await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))
    assert (told["exit_code"], told["corrupt_found"]) == (0, 0)


# Bounds
async def test_reads_of_a_bookie_keep_to_a_rate_and_a_number(lab: RepairLab) -> None:
    ledger, waits = await lab.ledger(entries=30, last=29), list[float]()

    async def note(seconds: float) -> None:
        waits.append(seconds)

    settings = DigestSettings(read_bytes=500, reads_per_bookie=1, bytes_per_second=1000)
    reader = DigestReader(lab.fleet, settings, sleep=note)
    found = await reader.read(ledger, lab.ids[0], EntrySet.from_ranges([(0, 29)]))
    assert len(found.good) == 30 and len(waits) == 3
    assert waits == sorted(waits) and waits[-1] > 1.0, "the debt of all reads so far"
