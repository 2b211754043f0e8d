"""One bookie in the status tree: each fact is shown when there is one, and only then."""

from datetime import UTC, datetime, timedelta

import pytest
from bookie_operator.model.bookie_status import (
    BookieState,
    BookieStatus,
    DiskStatus,
    RepairState,
    RepairStatus,
)
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.status_tree.bookies import bookie_branch, disk_text, last_stop, repair_text
from rich.text import Text
from rich.tree import Tree

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FINISHED = RepairStatus(episode="b-2", state=RepairState.FINISHED)


def one(**facts: object) -> BookieStatus:
    return BookieStatus.model_validate({"id": "b", "state": BookieState.SERVING} | facts)


def lines(*bookies: BookieStatus, wide: bool = False) -> list[str]:
    """The first bookie's branch, line by line."""
    parent = Tree("bookies")
    bookie_branch(parent, bookies[0], status=ClusterStatus(bookies=bookies), now=NOW, wide=wide)
    [branch] = parent.children
    labels = [branch.label, *(child.label for child in branch.children)]
    return [label.plain for label in labels if isinstance(label, Text)]


def first(*bookies: BookieStatus) -> str:
    return lines(*bookies)[0]


def disk(**facts: object) -> DiskStatus:
    return DiskStatus.model_validate({"name": "ledger-0", "role": "ledger"} | facts)


@pytest.mark.parametrize(
    ("limbo", "unchecked", "told"),
    [
        (0, 0, []),
        (1, 0, ["limbo   1 ledger, 0 unchecked"]),
        (2, 0, ["limbo   2 ledgers, 0 unchecked"]),
        (0, 5, ["limbo   0 ledgers, 5 unchecked"]),
    ],
)
def test_ledgers_in_doubt_are_counted(limbo: int, unchecked: int, told: list[str]) -> None:
    assert lines(one(limbo_ledgers=limbo, unchecked_ledgers=unchecked))[1:] == told


@pytest.mark.parametrize(("count", "told"), [(0, []), (1, ["1 record"]), (2, ["2 records"])])
def test_records_of_lost_entries_are_counted(count: int, told: list[str]) -> None:
    assert lines(one(losses_recorded=count))[1:] == [f"{words} of lost entries" for words in told]


@pytest.mark.parametrize("wide", [False, True])
def test_a_repair_that_is_over_is_shown_when_wide(wide: bool) -> None:
    assert ("repair  finished" in lines(one(repair=FINISHED), wide=wide)) is wide
    running = one(repair=FINISHED.model_copy(update={"state": RepairState.RUNNING}))
    assert "repair  running" in lines(running, wide=wide)


@pytest.mark.parametrize(("state", "shown"), [("Serving", False), ("AwaitingApproval", True)])
def test_an_odd_disk_has_a_line_until_a_boot_has_settled_it(state: str, shown: bool) -> None:
    bookie = one(state=state, disks=(disk(verdict="stale"),))
    assert lines(bookie)[1:] == (["disk    ledger-0  ledger  stale"] if shown else [])
    assert ("ledger-0 was stale" in first(bookie)) is not shown


def test_columns_are_as_wide_as_the_longest_of_all_bookies() -> None:
    longer = one(id="bookie-10", boot_epoch=100, last_shutdown={"clean": True})
    assert first(one(), longer) == "b          Serving  epoch -             "
    assert first(one(), one(id="c")) == "b  Serving  epoch -"


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        (None, ""),
        ({"clean": True}, "CleanStop"),
        ({"clean": False}, "UncleanShutdown"),
        ({"clean": False, "reason": "DiskReplaced"}, "DiskReplaced"),
    ],
)
def test_the_last_stop_has_its_reason_or_whether_it_was_clean(stop: object, told: str) -> None:
    assert last_stop(one(last_shutdown=stop)) == told


def test_a_bookie_without_disks_has_none_in_order() -> None:
    assert "disk" not in first(one())
    assert first(one(disks=(disk(verdict="ok"),))).endswith("1 disk ok")


@pytest.mark.parametrize(
    ("nodes", "shown"), [(("n", "m"), True), (("n", "n"), False), (("", "m"), False)]
)
def test_nodes_are_shown_if_there_are_several(nodes: tuple[str, str], shown: bool) -> None:
    text = first(*(one(id=f"b{n}", node=node) for n, node in enumerate(nodes)))
    assert (" on " in text) is shown


def test_a_disk_that_nobody_has_looked_at_is_no_more_than_named() -> None:
    assert disk_text(disk()).plain == "ledger-0  ledger  not looked at yet"
    assert disk_text(disk(name="ledger")).plain == "ledger  not looked at yet"


def test_a_disk_s_id_is_shown_unless_it_must_be_brief() -> None:
    known = disk(verdict="ok", volume_uid="v", disk_id="d", total_bytes=1024)
    assert disk_text(known).plain == "ledger-0  ledger  ok  1 KiB  volume v  id d"
    assert disk_text(known, wide=False).plain == "ledger-0  ledger  ok  1 KiB  volume v"
    assert "id" not in disk_text(disk(verdict="ok")).plain


@pytest.mark.parametrize(
    ("total_bytes", "told"),
    [
        (999, "999 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1.5 * 2**20, "1.5 MiB"),
        (99.96 * 2**30, "100 GiB"),
        (999.6 * 2**30, "1000 GiB"),
        (1006.85 * 2**30, "1007 GiB"),
        (1023.4 * 2**30, "1023 GiB"),
        (1023.5 * 2**30, "1 TiB"),
        (5000 * 2**50, "5000 PiB"),
    ],
)
def test_a_disk_s_size_is_written_without_an_exponent(total_bytes: float, told: str) -> None:
    known = disk(verdict="ok", total_bytes=int(total_bytes))
    assert disk_text(known).plain == f"ledger-0  ledger  ok  {told}"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"state": "Running"}, "running"),
        ({"state": "Running", "started_at": NOW}, "running for 0s"),
        ({"state": "Waiting", "started_at": NOW}, "waiting"),
        ({"state": "Failed"}, "failed"),
        ({"state": "Failed", "next_attempt_at": NOW}, "failed, next is due"),
        ({"state": "Failed", "next_attempt_at": NOW + timedelta(seconds=1)}, "failed, next in 1s"),
        ({"state": "Running", "next_attempt_at": NOW}, "running"),
    ],
)
def test_a_repair_has_the_moments_that_matter_in_its_state(
    facts: dict[str, object], told: str
) -> None:
    assert repair_text(RepairStatus.model_validate({"episode": "b-2"} | facts), NOW).plain == told


@pytest.mark.parametrize(
    ("state", "ledgers", "told"),
    [
        ("Failed", 2, "failed: 2 ledgers undecided"),
        ("Failed", 0, "failed: why"),
        ("Running", 2, "running: why"),
    ],
)
def test_what_a_person_can_decide_is_not_spelled_out_at_each_bookie(
    state: str, ledgers: int, told: str
) -> None:
    row = (UndecidedLedger(ledger=5, entry=1),) if ledgers else ()
    found = UndecidedStatus(ledgers=ledgers, through=5, first=row)
    repair = RepairStatus.model_validate(
        {"episode": "b-2", "state": state, "message": "why", "undecided": found}
    )
    assert repair_text(repair, NOW).plain == told


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "none"),
        ({"instance": "u/1"}, "u/1"),
        ({"control": "h:1"}, "none  control h:1"),
        ({"mode": "memory"}, "none  mode memory"),
        ({"advertised": "h:2"}, "none  advertised h:2"),
    ],
)
def test_of_a_process_all_is_shown_that_is_known(facts: dict[str, object], told: str) -> None:
    assert lines(one(**facts), wide=True)[1] == f"process {told}"
