"""The parts of a soak that decide something: plan, loss budget, and what counts as a finding."""

import errno
import os
import random
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from bookie.frames.frame import RunFrame
from bookie.ids import NO_ENTRY, LedgerId
from bookie.wire.admin import bookie_admin_pb2 as pb
from fault_plan import LOSSES, MODES, NUISANCES, Fault, Kind, losses, nuisances
from loss_budget import LossBudget
from payload_rule import PayloadRule
from promises import Findings, Promises
from small_disks import fill
from soak_bookies import halt
from soak_probe import unacknowledged_run
from soak_readers import Readers
from soak_report import Load, Tally, last_line
from soak_run import Options, modes_of
from soak_twins import ASKED_MAX, Twins, must_be_older

LEDGER = 7
ALL = frozenset(LOSSES)


def drawn(seed: int, *, kinds: frozenset[Kind] = ALL, count: int = 200) -> list[Fault]:
    return list(islice(losses(seed, bookies=5, kinds=kinds), count))


@pytest.fixture
def rule() -> PayloadRule:
    return PayloadRule(1)


@pytest.fixture
def promises(rule: PayloadRule) -> Promises:
    return Promises(rule)


def test_the_plan_is_a_function_of_the_seed() -> None:
    others = list(islice(nuisances(7, bookies=5, clients=2), 50))
    assert drawn(7) == drawn(7)
    assert others == list(islice(nuisances(7, bookies=5, clients=2), 50))
    assert drawn(7) != drawn(8)


def test_every_kind_of_fault_comes_and_meets_every_bookie() -> None:
    others = list(islice(nuisances(7, bookies=5, clients=2), 200))
    assert {fault.kind for fault in drawn(7)} == ALL
    assert {fault.kind for fault in others} == set(NUISANCES)
    assert {fault.victim for fault in drawn(7)} == set(range(5))
    assert {f.victim for f in others if f.kind is Kind.CLIENT_KILL} == {0, 1}


def test_a_ledger_that_is_to_go_is_not_followed_though_its_writer_does_not_know(
    promises: Promises,
) -> None:
    asleep = [LedgerId(LEDGER), LedgerId(LEDGER + 1)]
    readers = Readers(promises, rng=random.Random(1), open_ledgers=lambda: asleep)
    assert {readers._open() for _ in range(50)} == {LEDGER, LEDGER + 1}
    promises.note_end(LEDGER, 4)
    promises.note_doomed(LEDGER)
    assert {readers._open() for _ in range(50)} == {LEDGER + 1}


def test_a_disk_is_filled_although_its_bookie_writes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, asked = iter([9, 5, 4]), list[int]()  # the bookie takes 4 before the file has them

    def allocate(_descriptor: int, _offset: int, length: int) -> None:
        asked.append(length)
        if len(asked) == 1:
            raise OSError(errno.ENOSPC, "full")

    left = SimpleNamespace(f_frsize=1)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    monkeypatch.setattr(os, "statvfs", lambda _: setattr(left, "f_bavail", next(free)) or left)
    fill(tmp_path / "filler", free_bytes=4)
    assert asked == [5, 1]


def test_a_machine_that_cannot_mount_is_not_asked_to_fill_a_disk() -> None:
    options = Options(1, 7, Path("work"), has_small_disks=False)
    kinds = {fault.kind for fault in drawn(7, kinds=options.loss_kinds)}
    assert kinds == ALL - {Kind.DISK_FULL}


def test_most_bookies_acknowledge_from_memory_and_some_change_their_mode() -> None:
    modes = [mode for seed in range(100) for mode in modes_of(seed)]
    assert modes.count("memory") > len(modes) * 0.7
    assert set(modes) == set(MODES) == {fault.mode for fault in drawn(7)} - {None}


def test_a_second_bookie_must_not_forget_before_the_first_is_repaired() -> None:
    budget = LossBudget(ack_quorum=2)
    assert budget.take("b0")
    assert not budget.take("b1")
    assert budget.take("b0"), "the same one may be struck again"


@pytest.mark.parametrize("marks", [1, None])
def test_the_budget_stays_spent_while_marks_are_there_or_unknown(marks: int | None) -> None:
    budget = LossBudget(ack_quorum=2)
    budget.take("b0")
    assert not budget.give_back("b0", marks=marks)
    assert not budget.take("b1")
    assert budget.give_back("b0", marks=0)
    assert budget.take("b1")


def test_with_an_ack_quorum_of_one_nobody_may_forget() -> None:
    assert not LossBudget(ack_quorum=1).take("b0")


def test_payloads_differ_by_seed_ledger_and_entry(rule: PayloadRule) -> None:
    payloads = {rule.payload(ledger, entry) for ledger in range(20) for entry in range(20)}
    assert len(payloads) == 400
    assert rule.payload(1, 2) == PayloadRule(1).payload(1, 2) != PayloadRule(2).payload(1, 2)
    assert max(map(len, payloads)) > 1000 > 24 <= min(map(len, payloads))


def test_what_one_bookie_alone_is_given_is_not_claimed_to_be_acknowledged() -> None:
    run = RunFrame.trusted(unacknowledged_run(LedgerId(LEDGER), 3, [b"a", b"b"]))
    assert (run.first_entry_id, run.count, run.lac) == (3, 2, NO_ENTRY)


@pytest.mark.parametrize(
    ("kind", "is_late", "mode", "wanted"),
    [
        (Kind.COPY_CUT_OFF, True, "memory", False),
        (Kind.COPY_CUT_OFF, True, "journal", True),
        (Kind.COPY_ASLEEP, False, "sync", True),
        (Kind.COPY_AFTER_KILL, False, "journal", True),
        (Kind.COPY_AFTER_KILL, True, "journal", False),
    ],
)
def test_a_copy_that_would_pass_for_a_crash_is_used_only_where_a_crash_makes_doubtful(
    kind: Kind, is_late: bool, mode: str, wanted: bool
) -> None:
    assert must_be_older(Fault(0, kind, 0, 0.0, 0.0, is_late=is_late), mode) is wanted


class Former:
    """The first of two processes of a bookie."""

    name, runs = "b0", True
    succeeded_by: "Asking | None" = None

    def kill(self) -> None:
        self.runs = False

    def succeed(self, other: "Asking") -> None:
        self.succeeded_by = other


class Asking:
    """The second one. It asks another question for as long as the first runs."""

    runs = True
    approvals = 0

    def __init__(self, former: Former) -> None:
        self._former = former

    async def health(self) -> pb.Health:
        return pb.Health(phase=pb.AWAITING_APPROVAL if self._former.runs else pb.SERVING)

    async def approve(self) -> None:
        self.approvals += 1


async def test_who_approves_more_slowly_than_the_question_changes_stops_the_former(
    rule: PayloadRule,
) -> None:
    former: Any = Former()
    asking: Any = Asking(former)
    twins = Twins(cast(Any, None), rule=rule, tally=Tally(), findings=Findings())
    stays = await twins._settle(former, asking, None, has_served=True)
    assert stays == "second, once a person stopped the first,"
    assert asking.approvals == ASKED_MAX + 1
    assert former.succeeded_by is asking


def test_a_process_stands_still_before_its_folders_are_copied() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        for _ in range(2):
            halt(child.pid)
            assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
        child.kill()


def test_right_entries_are_no_finding(promises: Promises, rule: PayloadRule) -> None:
    promises.note_acked(LEDGER, 1)
    for entry_id in range(2):
        promises.note_read(LEDGER, entry_id, rule.payload(LEDGER, entry_id))
    promises.note_end(LEDGER, 1)
    assert (promises.findings.total, promises.acked, promises.checked) == (0, 2, 2)


def test_an_entry_that_holds_something_else_is_wrong(promises: Promises, rule: PayloadRule) -> None:
    promises.note_read(LEDGER, 0, rule.payload(LEDGER, 1))
    assert (promises.findings.lost, promises.findings.wrong) == (0, 1)


def test_an_end_below_what_was_acknowledged_is_a_loss(promises: Promises) -> None:
    promises.note_acked(LEDGER, 9)
    promises.note_end(LEDGER, 7)
    assert promises.findings.lost == 2


def test_an_acknowledgement_beyond_the_end_is_a_loss_however_late(promises: Promises) -> None:
    promises.note_end(LEDGER, 7)
    for last in (7, 8, 8, 9):
        promises.note_acked(LEDGER, last)
    assert promises.findings.lost == 2, "each entry counts once"


def test_an_entry_that_was_read_must_stay(promises: Promises, rule: PayloadRule) -> None:
    promises.note_read(LEDGER, 3, rule.payload(LEDGER, 3))
    promises.note_end(LEDGER, 2)
    assert promises.findings.lost == 1


def test_a_closed_ledger_keeps_its_end(promises: Promises) -> None:
    promises.note_end(LEDGER, 7)
    promises.note_end(LEDGER, 8)
    assert promises.findings.wrong == 1


def test_a_missing_entry_is_told_with_its_name(promises: Promises) -> None:
    promises.note_missing(LEDGER, 5, "nobody has it")
    assert promises.findings.lost == 1
    assert promises.findings.words == ["ledger 7 entry 5: nobody has it"]


def test_a_ledger_that_is_gone_is_lost_with_all_its_entries(promises: Promises) -> None:
    promises.note_acked(LEDGER, 4)
    promises.note_gone(LEDGER, "there is no such ledger")
    assert promises.findings.lost == 5


def test_a_ledger_that_somebody_deletes_may_be_gone(promises: Promises) -> None:
    promises.note_acked(LEDGER, 4)
    promises.note_doomed(LEDGER)
    promises.note_gone(LEDGER, "there is no such ledger")
    assert promises.findings.total == 0


def test_promises_reach_another_process_once(promises: Promises, rule: PayloadRule) -> None:
    promises.note_acked(LEDGER, 4)
    promises.note_end(LEDGER, 4)
    promises.note_doomed(LEDGER)
    other = Promises(rule)
    for row in promises.changes():
        other.merge(row)
    assert (other.acked, other.ledgers[LEDGER].end, other.ledgers[LEDGER].doomed) == (5, 4, True)
    assert list(promises.changes()) == []


def test_the_last_line_says_that_an_audit_was_not_reached() -> None:
    line = last_line(
        Tally(), Load(0, 0, 0, 0, 0, 0, 0.0), Promises(PayloadRule(1)).findings, minutes=2, seed=7
    )
    assert "audit NOT ok (not reached)" in line and line.endswith("seed 7")
