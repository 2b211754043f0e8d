"""The status tree, compared with golden files; `UPDATE_GOLDEN=1 pytest` writes them anew."""

import io
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest
from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.kubectl.limbo import limbo_view
from bookie_operator.model.audit_status import AuditStatus, MendStatus, ScrubStatus
from bookie_operator.model.bookie_status import BookieState, BookieStatus, RepairState, RepairStatus
from bookie_operator.model.cluster import BookieCluster, bookie_name
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.drain_status import DrainPhase, DrainStatus, RereplicationStatus
from bookie_operator.model.incidents import IncidentOutcome
from bookie_operator.model.status import Blocked, ClusterStatus, LossBudgetStatus
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.observed import LeftOver
from bookie_operator.plan.planner import plan
from bookie_operator.status_tree.bookies import repair_text
from bookie_operator.status_tree.tree import (
    cluster_tree,
    condition_lines,
    incident_line,
    undecided_lines,
)
from kubectl_lab import cluster_of
from operator_scenes import cluster, observed
from rich.console import Console, RenderableType
from rich.segment import Segment

GOLDEN = Path(__file__).parent / "golden"
WIDTH = 100


def moment(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def plain(*views: RenderableType) -> str:
    """As a terminal of fixed width shows it, without colours."""
    screen = Console(file=io.StringIO(), width=WIDTH)
    for view in views:
        screen.print(view)
    assert isinstance(screen.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in screen.file.getvalue().splitlines())


def styled(view: RenderableType) -> str:
    """The same with the style of each piece: `<yellow:Limbo>`. The guides of the tree have none."""
    screen = Console(file=io.StringIO(), width=WIDTH)
    lines = screen.render_lines(view, pad=False)
    return "".join("".join(map(piece, line)).rstrip() + "\n" for line in lines)


def piece(part: Segment) -> str:
    style = str(part.style or "")
    return part.text if style.startswith("not ") or not style else f"<{style}:{part.text}>"


def golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def shown(cluster: BookieCluster, seconds: float, *, wide: bool = False) -> str:
    tree = cluster_tree(cluster, now=moment(seconds), wide=wide)
    return plain(tree, *hint_lines(hints(cluster, now=moment(seconds)), flags=()))


def with_status(cluster: BookieCluster, **changes: object) -> BookieCluster:
    status = cluster.status.model_copy(update=changes)
    return cluster.model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("name", "seconds"), [("healthy", 1500), ("limbo", 617), ("approval", 640), ("blocked", 1120)]
)
def test_a_cluster_is_shown_as_in_its_golden_file(name: str, seconds: float) -> None:
    golden(name, shown(cluster_of(name), seconds))


@pytest.mark.parametrize(("name", "seconds"), [("limbo", 617), ("blocked", 1120)])
def test_what_is_out_of_the_ordinary_is_seen_by_its_colour(name: str, seconds: float) -> None:
    tree = cluster_tree(cluster_of(name), now=moment(seconds), wide=True)
    golden(f"{name}-styles", styled(tree))


def test_wide_shows_every_disk_and_process() -> None:
    golden("healthy-wide", shown(cluster_of("healthy"), 1500, wide=True))


@pytest.mark.parametrize(("name", "seconds"), [("healthy", 1500), ("limbo", 617)])
def test_limbo_is_shown_bookie_by_bookie(name: str, seconds: float) -> None:
    golden(f"limbo-{name}", plain(limbo_view(cluster_of(name), now=moment(seconds))))


def test_a_cluster_that_no_operator_has_seen_says_so() -> None:
    text = shown(with_status(cluster_of("healthy"), conditions=(), bookies=()), 0)
    assert "no operator has reported on it" in text and "none reported yet" in text


@pytest.mark.parametrize(("seconds", "is_old"), [(1599, False), (1600, True)])
def test_a_status_that_no_operator_renews_says_so_first(seconds: int, is_old: bool) -> None:
    lines = shown(with_status(cluster_of("healthy"), looked_at=moment(1000)), seconds).splitlines()
    told = "! the operator has not looked at the cluster for 10m: this is the last known status"
    assert (told in lines[1]) is is_old
    assert any("get pods -A -l app.kubernetes.io/name=" in line for line in lines) is is_old


def test_a_spec_that_is_newer_than_the_status_is_told() -> None:
    cluster = cluster_of("healthy")
    newer = cluster.model_copy(
        update={"metadata": cluster.metadata.model_copy(update={"generation": 7})}
    )
    assert "(the operator has seen generation 1 of 7)" in shown(newer, 1500)


def test_a_bookie_that_leaves_is_shown_with_what_is_left() -> None:
    drain = DrainStatus(
        bookie="bookie-3",
        phase=DrainPhase.DRAINING,
        started_at=moment(0),
        ledgers_left=40,
        is_running=True,
        attempt=2,
        ledgers_moved=80,
        entries_copied=4096,
        engine="inline",
    )
    text = shown(with_status(cluster_of("healthy"), drain=drain), 30)
    assert "drain       bookie-3  draining  30s  40 ledgers left, 80 moved" in text


def test_a_drain_shows_what_becomes_of_racks() -> None:
    words = "once bookie-3 has left, copies of an entry are in 1 rack"
    held = {"phase": DrainPhase.HELD, "started_at": moment(0), "racks": words}
    drain = DrainStatus(bookie="bookie-3", **held)  # type: ignore[arg-type]
    assert words in shown(with_status(cluster_of("healthy"), drain=drain), 30)


def test_a_drain_that_is_held_can_be_taken_back() -> None:
    drain = DrainStatus(bookie="bookie-3", phase=DrainPhase.HELD, started_at=moment(0))
    text = shown(with_status(cluster_of("healthy"), drain=drain), 30)
    assert "kubectl scale bookiecluster demo --replicas 4" in text


def left_behind(*numbers: int) -> BookieCluster:
    spec = cluster().spec
    kept = {
        bookie_name(number): LeftOver(
            tuple(f"demo-bookie-{number}-{disk.name}" for disk in spec.storage.disks), True
        )
        for number in numbers
    }
    status = plan(cluster(), replace(observed(), left_over=kept), ClusterStatus()).status
    return with_status(cluster_of("healthy"), left_over=status.left_over)


def test_d9_what_is_left_over_is_shown_with_what_it_is() -> None:
    golden("left-over", shown(left_behind(4), 1500))


def test_d9_of_many_that_left_a_few_are_shown_and_all_when_wide() -> None:
    text, wide = (shown(left_behind(*range(4, 34)), 1500, wide=wide) for wide in (False, True))
    assert "and 25 more: -o wide" in text and "bookie-9 " not in text
    assert "bookie-33  cookie, 3 claims" in wide and "more:" not in wide


def test_d9_a_cluster_that_nobody_left_has_no_such_section() -> None:
    assert "left over" not in shown(cluster_of("healthy"), 1500)


def test_every_part_of_an_empty_bookie_may_be_absent() -> None:
    bookie = BookieStatus.model_validate({"id": "bookie-0", "state": "Pending"})
    text = shown(with_status(cluster_of("healthy"), bookies=(bookie,)), 0)
    assert "bookie-0  Pending  epoch -" in text and "kubectl describe pod demo-bookie-0-0" in text


def test_a_disk_that_a_boot_has_settled_is_no_trouble_any_more() -> None:
    cluster = cluster_of("approval")
    one = cluster.status.bookies[2].model_copy(update={"state": BookieState.SERVING})
    text = shown(with_status(cluster, bookies=(one,), blocked=()), 640)
    assert "bookie-2  Serving  epoch 1  CleanStop  ledger-1 was stale\n" in text


def test_a_status_with_nothing_but_bookies_is_shown() -> None:
    status = ClusterStatus(bookies=cluster_of("limbo").status.bookies)
    cluster = cluster_of("limbo").model_copy(update={"status": status})
    assert "bookie-1  Limbo" in shown(cluster, 617)


@pytest.mark.parametrize(
    ("done", "told"),
    [
        ({"running": True, "progress": "7 ledgers"}, "none has finished; one runs: 7 ledgers"),
        (
            {"finished_at": moment(0), "clean": True, "bookie": "b", "ledgers_moved": 7},
            "60s ago  clean  b: 7 ledgers moved, 0 left, 0 of 0 marks cleared",
        ),
        (
            {"finished_at": moment(0), "message": "b is registered"},
            "60s ago  refused  marks: 0 ledgers moved, 0 left, 0 of 0 marks cleared: b",
        ),
    ],
)
def test_the_last_re_replication_is_shown(done: dict[str, object], told: str) -> None:
    status = RereplicationStatus.model_validate({"attempt": 1} | done)
    text = shown(with_status(cluster_of("healthy"), rereplication=status), 60)
    assert f"last re-replication  {told}" in text


def test_a_running_audit_is_not_as_old_as_the_one_before() -> None:
    before = AuditStatus(started_at=moment(1000), finished_at=moment(1010), clean=True)
    audit = before.model_copy(update={"running": True, "progress": "7 ledgers"})
    text = shown(with_status(cluster_of("healthy"), audit=audit), 1500)
    assert "entries; one runs: 7 ledgers" in text


@pytest.mark.parametrize(
    ("scrub", "told"),
    [
        (ScrubStatus(attempt=1, running=True), "none has finished; one runs"),
        (
            ScrubStatus(attempt=1, running=True, progress="7 ledgers looked at"),
            "none has finished; one runs: 7 ledgers looked at",
        ),
        (
            ScrubStatus(attempt=2, finished_at=moment(0), clean=True, ledgers=2, entries=30),
            "60s ago  clean  2 ledgers, 30 entries: 0 corrupt, 0 replaced",
        ),
        (
            ScrubStatus(attempt=3, failures=1, message="scrub 3 failed: killed"),
            "none has finished; 1 failed since: scrub 3 failed: killed",
        ),
    ],
)
def test_the_last_scrub_is_shown(scrub: ScrubStatus, told: str) -> None:
    assert f"last scrub  {told}\n" in shown(with_status(cluster_of("healthy"), scrub=scrub), 60)


def test_the_loss_budget_says_why_it_is_what_it_is_and_what_helps() -> None:
    told = "bookie-1 may hold the last known copies of 7 entries (ledgers 3, 5)"
    held = LossBudgetStatus(limit=0, reason="LastCopy", message=told, last_copies_on=("bookie-1",))
    blocked = Blocked(
        bookie="bookie-1",
        action="ReplaceDisk",
        predicate="LastCopy",
        since=moment(0),
        message=told,
    )
    cluster = with_status(cluster_of("healthy"), loss_budget=held, blocked=(blocked,))
    text = " ".join(shown(cluster, 1500).split())
    assert "budget 0 may be out at once, 1 may be evicted now: bookie-1 may hold" in text
    assert "kubectl bookie scrub --cluster demo" in text
    silent = shown(with_status(cluster_of("healthy"), loss_budget=None), 1500)
    assert "budget      not known yet" in silent


@pytest.mark.parametrize(("seconds", "told"), [(1, "next is due"), (0, "next in 1s")])
def test_a_repair_is_due_once_its_moment_has_come(seconds: float, told: str) -> None:
    wait = {"state": RepairState.FAILED, "next_attempt_at": moment(1)}
    repair = RepairStatus(episode="bookie-0-2", **wait)  # type: ignore[arg-type]
    assert repair_text(repair, moment(seconds)).plain == f"failed, {told}"


@pytest.mark.parametrize(
    ("mend", "told"),
    [
        ({"running": True, "progress": "7 ledgers"}, "none has finished; one runs: 7 ledgers"),
        (
            {
                "finished_at": moment(0),
                "clean": False,
                "ledgers": 7,
                "entries_copied": 5,
                "blocked": 2,
            },
            "60s ago  with findings  7 ledgers: 5 entries copied, 2 ledgers not mended",
        ),
    ],
)
def test_the_last_mend_is_shown(mend: dict[str, object], told: str) -> None:
    status = MendStatus.model_validate({"attempt": 1} | mend)
    assert f"last mend  {told}\n" in shown(with_status(cluster_of("healthy"), mend=status), 60)


@pytest.mark.parametrize("later", [{"running": True}, {"failures": 1}])
def test_why_a_re_replication_was_refused_is_not_said_of_the_one_after(
    later: dict[str, object],
) -> None:
    status = RereplicationStatus.model_validate(
        {"attempt": 2, "message": "b is registered"} | later
    )
    text = shown(with_status(cluster_of("healthy"), rereplication=status), 60)
    assert text.count("b is registered") == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"is_running": True, "next_attempt_at": moment(90)}, "attempt 2 runs\n"),
        ({"next_attempt_at": moment(90)}, "attempt 2, next in 60s\n"),
        ({"next_attempt_at": moment(30)}, "attempt 2\n"),
        ({"next_attempt_at": moment(0)}, "attempt 2\n"),
    ],
)
def test_a_drain_says_when_its_next_attempt_is_unless_one_runs(
    change: dict[str, object], told: str
) -> None:
    rest = {"bookie": "bookie-3", "phase": "Draining", "started_at": moment(0), "attempt": 2}
    drain = DrainStatus.model_validate(rest | change)
    assert told in shown(with_status(cluster_of("healthy"), drain=drain), 30)


@pytest.mark.parametrize(("phase", "style"), [("Held", "yellow"), ("Draining", "cyan")])
def test_a_drain_that_is_held_is_seen_by_its_colour(phase: str, style: str) -> None:
    drain = DrainStatus(bookie="bookie-3", phase=DrainPhase(phase), started_at=moment(0))
    tree = cluster_tree(with_status(cluster_of("healthy"), drain=drain), now=moment(30))
    assert f"<{style}:{phase.lower()}>" in styled(tree)


def test_open_incidents_are_shown_and_the_last_three_that_are_over() -> None:
    [one] = cluster_of("limbo").status.incidents
    over = [IncidentOutcome.CLEARED, IncidentOutcome.SUPERSEDED] * 2
    outcomes = [IncidentOutcome.OPEN, *over, IncidentOutcome.OPEN]
    incidents = tuple(
        one.model_copy(update={"bookie": f"b{n}", "outcome": outcome})
        for n, outcome in enumerate(outcomes)
    )
    text = shown(with_status(cluster_of("limbo"), incidents=incidents), 617)
    _head, _title, below = text.partition("incidents")
    assert re.findall(r"\b(b\d)  Unclean", below) == ["b0", "b2", "b3", "b4", "b5"]


def test_reasons_of_an_end_and_of_an_engine_are_shown_while_an_incident_is_open() -> None:
    [one] = cluster_of("limbo").status.incidents
    known = {
        "cause": "OOMKilled",
        "cause_message": "137",
        "engine": "inline",
        "engine_reason": "few",
    }
    is_open, over = (
        incident_line(one.model_copy(update=known | {"outcome": outcome}), moment(617)).plain
        for outcome in (IncidentOutcome.OPEN, IncidentOutcome.CLEARED)
    )
    assert "(OOMKilled: 137)" in is_open and "engine inline (few)" in is_open
    assert "(OOMKilled)" in over and over.endswith("engine inline")


SUMMARY: Final = "its copies: bookie-1 waits"


@pytest.mark.parametrize("kind", ["Degraded", "RepairStalled"])
@pytest.mark.parametrize(
    "by", ["nobody", "another condition", "the bookie", "its repair", "blocked"]
)
def test_a_summary_is_spelled_out_unless_what_it_says_is_shown_below(kind: str, by: str) -> None:
    healthy = cluster_of("healthy")
    said = {by: "bookie-1 waits"}
    repair = RepairStatus(episode="x-2", state="Failed", message=said.get("its repair", ""))
    one = healthy.status.bookies[0].model_copy(
        update={"message": said.get("the bookie", ""), "repair": repair}
    )
    limbo = said_by("LimboPresent", said.get("another condition", ""))
    refused = Blocked(
        action="Restart", predicate="Paused", since=moment(0), message=said.get("blocked", "")
    )
    status = ClusterStatus(
        bookies=(one,), conditions=(said_by(kind, SUMMARY), limbo), blocked=(refused,)
    )
    lines = map(str, condition_lines(status, moment(60)))
    assert any(SUMMARY in line for line in lines) is (by == "nobody")


def said_by(kind: str, message: str) -> Condition:
    return Condition(
        type=kind, status="True", reason="Why", message=message, last_transition_time=moment(0)
    )


@pytest.mark.parametrize("since", list(permutations((10, 40, 70))))
def test_what_is_refused_to_several_is_shown_once_since_the_first(since: tuple[int, ...]) -> None:
    blocked = tuple(
        Blocked(action="Restart", predicate="Paused", bookie=bookie_name(n), since=moment(at))
        for n, at in enumerate(since)
    )
    text = shown(with_status(cluster_of("healthy"), blocked=blocked), 100)
    [line] = [line for line in text.splitlines() if "refused by" in line]
    assert "bookie-0, bookie-1, bookie-2  refused by Paused  90s" in line


@pytest.mark.parametrize("recovered", [0, 3])
@pytest.mark.parametrize("copied", [0, 40])
def test_an_incident_says_how_many_entries_came_back_by_recovery_or_by_copies(
    recovered: int, copied: int
) -> None:
    limbo = cluster_of("limbo")
    done = {"entries_recovered": recovered, "entries_copied": copied}
    incidents = tuple(one.model_copy(update=done) for one in limbo.status.incidents)
    text = " ".join(shown(with_status(limbo, incidents=incidents), 617).split())
    assert (f"; {recovered + copied} entries brought" in text) is bool(recovered + copied)


def test_a_rollout_is_seen_at_each_bookie() -> None:
    healthy = cluster_of("healthy")
    facts = ({"is_updated": True}, {"is_updated": False}, {"version": "0.2.0", "rack": "/eu-1a"})
    bookies = tuple(
        one.model_copy(update=more)
        for one, more in zip(healthy.status.bookies, facts, strict=False)
    )
    status = healthy.status.model_copy(update={"bookies": bookies})
    rolling = healthy.model_copy(update={"status": status})
    text, wide = (shown(rolling, 1500, wide=wide) for wide in (False, True))
    lines = [line for line in text.splitlines() if "has its former settings" in line]
    assert len(lines) == 1 and "bookie-1" in lines[0]
    assert "version 0.2.0  rack /eu-1a" in wide and "version" not in text


def with_undecided(ledgers: int) -> BookieCluster:
    """A repair names six of them at the most."""
    rows = tuple(UndecidedLedger(ledger=n, entry=1) for n in range(min(ledgers, 6)))
    found = UndecidedStatus(ledgers=ledgers, through=ledgers, first=rows)
    repair = RepairStatus(episode="bookie-0-2", state=RepairState.FAILED, undecided=found)
    one = cluster_of("healthy").status.bookies[0].model_copy(update={"repair": repair})
    return with_status(cluster_of("healthy"), bookies=(one,))


@pytest.mark.parametrize("ledgers", [1, 5, 6, 7, 30])
@pytest.mark.parametrize("wide", [True, False])
def test_every_ledger_that_waits_for_a_person_is_shown_or_counted(ledgers: int, wide: bool) -> None:
    lines = list(map(str, undecided_lines(with_undecided(ledgers).status, wide=wide)))
    more = re.match(r"and (\d+) more ledgers?$", lines[-1])
    rows = lines[:-1] if more else lines
    assert len(rows) == min(ledgers, 6 if wide else 5)
    assert len(rows) + (int(more[1]) if more else 0) == ledgers


def test_ledgers_that_wait_for_a_person_are_fewer_unless_it_is_wide() -> None:
    brief, wide = (shown(with_undecided(6), 1500, wide=wide) for wide in (False, True))
    assert "and 1 more ledger\n" in brief and "1 more ledger" not in wide
    assert [str(line) for line in undecided_lines(with_undecided(6).status)][-1] in brief
    assert plain(cluster_tree(with_undecided(6), now=moment(1500))) in brief
