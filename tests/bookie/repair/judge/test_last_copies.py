"""Last copies: who holds what is known of entries with too few of them."""

import json
from itertools import product
from typing import Any

import pytest
from bookie.cli.summary import summary_bytes, summary_of
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.judge import last_copies as last_copies_module
from bookie.repair.judge.expect import Holding, Verdict, judge
from bookie.repair.judge.last_copies import (
    GROUPS_MAX,
    LEDGERS_NAMED,
    ROWS_MAX,
    Held,
    Holders,
    LastCopies,
    last_copies,
    sum_of,
)
from repair_lab import AUDIT, SETTINGS, RepairLab


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab(6).start()


async def look(lab: RepairLab, ack_quorum: int = 2, **checks: Any) -> dict[str, Any]:
    made = Checks(ack_quorum=ack_quorum, **checks)
    document = await audit(lab.cluster, AuditRequest(settings=AUDIT, checks=made))
    found: dict[str, Any] = document["last_copies"]
    return found


def held(lab: RepairLab, found: dict[str, Any]) -> list[tuple[list[int], list[int], int]]:
    """Known holders, perhaps holders, entries."""
    numbers = {bookie_id: number for number, bookie_id in enumerate(lab.ids)}
    return [
        ([numbers[b] for b in row["known"]], [numbers[b] for b in row["perhaps"]], row["entries"])
        for row in found["held_by"]
    ]


async def test_a_whole_cluster_has_no_last_copies(lab: RepairLab) -> None:
    await lab.ledger(entries=5, last=4)
    assert await look(lab) == {"entries": 0, "groups": 0, "entries_left_out": 0, "held_by": []}


async def test_two_copies_of_three_are_enough(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[1].lose(ledger.ledger_id, [0, 1, 2])
    assert (await look(lab))["entries"] == 0


async def test_who_holds_the_last_copies_is_told(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[1].lose(ledger.ledger_id, [0, 1, 2])
    lab.fleet[2].lose(ledger.ledger_id, [1, 2, 3])
    found = await look(lab)
    assert held(lab, found) == [([0], [], 2)] and found["entries"] == 2
    assert found["held_by"][0]["first_ledgers"] == [ledger.ledger_id]


async def test_a_copy_of_a_silent_bookie_is_no_known_one(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=5, last=4)
    lab.fleet[1].lose(ledger.ledger_id, [0])
    lab.fleet[2].down = True
    assert held(lab, await look(lab)) == [([0], [2], 1)]


async def test_what_nobody_was_heard_about_may_be_with_any_of_them(lab: RepairLab) -> None:
    await lab.ledger(entries=2, last=1)
    for number in range(3):
        lab.fleet[number].down = True
    assert held(lab, await look(lab)) == [([], [0, 1, 2], 2)]


async def test_what_nobody_has_cannot_be_kept(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=2, last=1)
    for number in range(3):
        lab.fleet[number].lose(ledger.ledger_id, [0, 1])
    assert (await look(lab))["entries"] == 0


async def test_an_open_ledger_owes_its_ack_quorum_only(lab: RepairLab) -> None:
    ledger = await lab.ledger(ack=1, entries=0)
    lab.write(ledger, range(4), on=[0])
    lab.write(ledger, [4], on=[0], lac=4)
    assert (await look(lab))["entries"] == 0


async def test_a_closed_one_has_too_few_below_the_clusters_ack_quorum(lab: RepairLab) -> None:
    ledger = await lab.ledger(ack=1, entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    assert held(lab, await look(lab, ack_quorum=3)) == [([0, 2], [], 1)]
    assert held(lab, await look(lab, ack_quorum=2)) == []
    lab.fleet[2].lose(ledger.ledger_id, [2])
    assert held(lab, await look(lab, ack_quorum=1)) == [([0], [], 1)]


async def test_a_single_copy_that_should_be_one_is_whole(lab: RepairLab) -> None:
    await lab.ledger((0, (0, 1, 2)), write=1, ack=1, entries=4, last=3)
    assert (await look(lab))["entries"] == 0


async def test_striped_entries_are_told_by_their_own_holders(lab: RepairLab) -> None:
    ledger = await lab.ledger((0, (0, 1, 2, 3)), write=2, entries=8, last=7)
    lab.fleet[1].lose(ledger.ledger_id, [0, 1, 4, 5])
    assert sorted(held(lab, await look(lab))) == [([0], [], 2), ([2], [], 2)]


async def test_a_young_mark_excuses_no_last_copy(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=1, last=0)
    now_ms = (await audit(lab.cluster, AuditRequest(settings=AUDIT)))["started_at_ms"]
    for number in (1, 2):
        lab.fleet[number].lose(ledger.ledger_id, [0])
    await lab.store.underreplication.mark(ledger.ledger_id, [lab.ids[1]], now_ms=now_ms)
    assert held(lab, await look(lab, grace_s=1000)) == [([0], [], 1)]


async def test_a_repair_says_what_it_leaves(lab: RepairLab) -> None:
    await lab.ledger(entries=2, last=1)
    lab.fleet[1].down = lab.fleet[2].down = True
    request = RepairRequest(settings=SETTINGS, every_ledger=True)
    assert held(lab, (await repair(lab.cluster, request))["last_copies"]) == [([0], [1, 2], 2)]


# Bounds
def test_what_is_recorded_as_lost_is_no_last_copy_of_who_is_silent() -> None:
    members = tuple(BookieId(f"b{number}") for number in range(3))
    parts = (Fragment(EntryId(0), members),)
    metadata = LedgerMetadata(LedgerId(7), 3, 3, 2, parts).closed(EntryId(0), length=1)
    for lost, entries in ((EntrySet.from_ranges([]), 1), (EntrySet.from_ranges([(0, 0)]), 0)):
        holdings = {b: Holding(b, LedgerId(7), Status.OK, lost=lost) for b in members[:2]}
        found = last_copies(metadata, judge(metadata, holdings, through=EntryId(0)))
        assert sum(held.entries for held in found.groups.values()) == entries


def group(number: int, entries: int = 1) -> LastCopies:
    holders = Holders((BookieId(f"bookie-{number}"),), ())
    return LastCopies({holders: Held(entries, 1, (LedgerId(number),))})


def test_groups_beyond_the_bound_are_counted_as_left_out() -> None:
    found = sum_of(group(number, 2) for number in range(GROUPS_MAX + 3)).json()
    assert found["entries"] == 2 * GROUPS_MAX + 6 and found["entries_left_out"] == 6
    assert found["groups"] == GROUPS_MAX and len(found["held_by"]) == ROWS_MAX


HERE, MISSING, UNKNOWN = "here", "missing", "unknown"


def in_every_way() -> tuple[LedgerMetadata, Verdict]:
    """A ledger on three bookies of which each entry lies in another way, and what is judged."""
    bookies = [BookieId(f"bookie-{n}") for n in range(3)]
    ways = list(product((HERE, MISSING, UNKNOWN), repeat=len(bookies)))
    metadata = LedgerMetadata(
        LedgerId(7), 3, 3, 3, (Fragment(EntryId(0), tuple(bookies)),),
        state=LedgerState.CLOSED, last_entry_id=EntryId(len(ways) - 1),
    )  # fmt: skip
    holdings = {
        name: Holding(
            name, LedgerId(7), Status.OK,
            entries=EntrySet.from_ids(i for i, way in enumerate(ways) if way[number] == HERE),
            unread=EntrySet.from_ids(i for i, way in enumerate(ways) if way[number] == UNKNOWN),
        )
        for number, name in enumerate(bookies)
    }  # fmt: skip
    return metadata, judge(metadata, holdings, through=metadata.last_entry_id)


@pytest.mark.parametrize("groups_max", [1, 2, 3, 5, 8, 13, 24, 25, 26])
def test_entries_of_one_ledger_in_groups_beyond_the_bound_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch, groups_max: int
) -> None:
    """Of 27 entries one is wholly there and one nowhere; a cut may count that one as well."""
    monkeypatch.setattr(last_copies_module, "GROUPS_MAX", groups_max)
    found = last_copies_module.last_copies(*in_every_way())
    held = sum(group.entries for group in found.groups.values())
    assert held == len(found.groups) <= groups_max
    assert 25 <= held + found.left_out <= 26
    assert (found.left_out == 0) is (groups_max >= 26)


def test_ledgers_of_a_group_are_counted_and_the_first_named() -> None:
    holders = Holders((BookieId("bookie-0"),), ())
    parts = (LastCopies({holders: Held(2, 1, (LedgerId(n),))}) for n in reversed(range(9)))
    [row] = sum_of(parts).json()["held_by"]
    assert (row["entries"], row["ledgers"]) == (18, 9)
    assert row["first_ledgers"] == list(range(LEDGERS_NAMED))


def test_a_summary_that_had_to_cut_shows_that_rows_are_missing() -> None:
    names = [BookieId(f"bookie-of-a-very-long-name-{n}") for n in range(40)]
    parts = (
        LastCopies({Holders((name,), tuple(names[:9])): Held(1, 1, (LedgerId(7),))})
        for name in names
    )
    document = {"kind": "audit", "exit_code": 3, "last_copies": sum_of(parts).json()}
    told = json.loads(summary_bytes(summary_of(document)))["last_copies"]
    assert told["groups"] == 40 > len(told["held_by"]) > 0
