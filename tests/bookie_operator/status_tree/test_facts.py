"""The rows of the status tree above and below the bookies, fact by fact."""

from datetime import UTC, datetime, timedelta

import pytest
from bookie_operator.model.audit_status import AuditStatus
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.drain_status import DrainStatus
from bookie_operator.model.incidents import Incident
from bookie_operator.model.status import Blocked, ClusterStatus, LossBudgetStatus, MetadataStatus
from bookie_operator.status_tree.tree import (
    blocked_lines,
    condition_lines,
    facts,
    incident_line,
    work,
)
from operator_scenes import cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = NOW + timedelta(seconds=60)


def of(kind: str, status: str, message: str = "") -> Condition:
    return Condition.model_validate(
        {"type": kind, "status": status, "reason": "Why", "message": message}
        | {"last_transition_time": NOW}
    )


def row(title: str, status: ClusterStatus, **spec: object) -> str:
    """The text behind this title, of what a fleet promises and of its work."""
    whole = cluster(**spec).model_copy(update={"status": status})  # type: ignore[arg-type]
    [text] = [
        line.plain for line in (*facts(whole), *work(status, AFTER)) if line.plain.startswith(title)
    ]
    return text.removeprefix(title).strip()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"journalWriteData": True}, "entries in the journal, acks once it is synced"),
        (
            {"journalWriteData": False, "ack": "sync"},
            "no journal for entries, acks once the log is synced",
        ),
        (
            {"journalWriteData": False, "flushIntervalSeconds": 2.5},
            "no journal for entries, acks from memory, flushed every 2.5s",
        ),
    ],
)
def test_the_durability_is_that_of_the_spec(spec: dict[str, object], told: str) -> None:
    assert row("durability", ClusterStatus(), **spec) == told


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, "not asked yet"),
        ({"url": "zk://h/l"}, "zk://h/l  does not answer"),
        ({"url": "zk://h/l", "reachable": True}, "zk://h/l"),
    ],
)
def test_a_metadata_store_answers_or_not_or_was_not_asked(
    found: dict[str, object], told: str
) -> None:
    status = ClusterStatus(metadata=MetadataStatus.model_validate(found))
    assert row("metadata", status) == told


@pytest.mark.parametrize(("reason", "style"), [("AckQuorum", ""), ("LastCopy", "yellow")])
def test_a_budget_that_is_less_than_the_spec_says_is_seen_by_its_colour(
    reason: str, style: str
) -> None:
    status = ClusterStatus(loss_budget=LossBudgetStatus(limit=0, reason=reason, message="why"))
    whole = cluster().model_copy(update={"status": status})
    [line] = [line for line in facts(whole) if line.plain.startswith("budget")]
    assert str(line.spans[-1].style) == (style or "dim")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, ""),
        ({"missing": 2}, ": 2 missing"),
        ({"no_copy": 3, "lost": 4}, ": 7 with no copy left"),
        ({"unknown": 1, "below_ack_quorum": 5}, ": 1 unknown, 5 below ack quorum"),
        ({"accepted_losses": 6}, ": 6 losses accepted"),
    ],
)
def test_what_an_audit_found_is_counted_by_class(found: dict[str, int], told: str) -> None:
    known = {"finished_at": NOW, "clean": not found, "ledgers": 7, "entries": 9}
    status = ClusterStatus(audit=AuditStatus.model_validate(known | found))
    word = "with findings" if found else "clean"
    assert row("last audit", status) == f"60s ago  {word}  7 ledgers, 9 entries{told}"


@pytest.mark.parametrize(
    ("facts_of_it", "told"),
    [
        ({}, "none yet"),
        ({"engine": "inline"}, "none yet"),
        ({"next_at": AFTER}, "none yet"),
        ({"next_at": AFTER + timedelta(seconds=9)}, "none yet; next in 9s"),
        ({"next_at": AFTER + timedelta(seconds=9), "running": True}, "none yet; one runs"),
    ],
)
def test_the_next_audit_is_shown_unless_it_is_due_or_runs(
    facts_of_it: dict[str, object], told: str
) -> None:
    status = ClusterStatus(audit=AuditStatus.model_validate(facts_of_it))
    assert row("last audit", status) == told


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"engine": "inline"}, ", engine inline"),
        ({"message": "why", "progress": "3/7"}, ": why"),
        ({"progress": "3/7"}, ": 3/7"),
        ({"progress": "3/7", "racks": "in 1 rack"}, ": 3/7; in 1 rack"),
    ],
)
def test_a_drain_says_how_far_it_is_or_why_it_is_not(found: dict[str, object], told: str) -> None:
    leaving = {"bookie": "b", "phase": "Draining", "started_at": NOW}
    status = ClusterStatus(drain=DrainStatus.model_validate(leaving | found))
    assert row("drain", status) == f"b  draining  60s{told}"


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([of("Ready", "True")], []),
        ([of("Ready", "False", "m")], ["! not Ready  60s  Why: m"]),
        ([of("Ready", "Unknown")], ["? Ready unknown  60s  Why"]),
        ([of("Available", "True", "m")], ["✓ Available  60s  Why"]),
        ([of("Paused", "False", "m")], []),
        ([of("Paused", "True", "m")], ["! Paused  60s  Why: m"]),
    ],
)
def test_a_condition_is_shown_if_it_is_not_at_rest(
    conditions: list[Condition], told: list[str]
) -> None:
    status = ClusterStatus(conditions=tuple(conditions))
    assert [line.plain for line in condition_lines(status, AFTER)] == told


def refused(predicate: str, **facts_of_it: object) -> Blocked:
    return Blocked.model_validate(
        {"action": "Restart", "predicate": predicate, "since": NOW} | facts_of_it
    )


@pytest.mark.parametrize(
    ("blocked", "told"),
    [
        ([refused("P")], ["Restart  refused by P  60s"]),
        ([refused("P", bookie="b", message="m")], ["Restart  b  refused by P  60s  m"]),
        ([refused("P"), refused("P", bookie="b")], ["Restart  b  refused by P  60s"]),
        (
            [refused("P", message="m"), refused("P", message="n")],
            ["Restart  refused by P  60s  m", "Restart  refused by P  60s  n"],
        ),
        (
            [refused("P"), refused("Q")],
            ["Restart  refused by P  60s", "Restart  refused by Q  60s"],
        ),
    ],
)
def test_what_is_refused_is_shown_once_for_each_reason(
    blocked: list[Blocked], told: list[str]
) -> None:
    lines = blocked_lines(ClusterStatus(blocked=tuple(blocked)), AFTER)
    assert [line.plain for line in lines] == told


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, "open"),
        ({"seconds_to_clear": 7.0}, "open"),
        ({"outcome": "Cleared"}, "cleared"),
        ({"outcome": "Cleared", "seconds_to_clear": 7.0}, "cleared in 7s"),
        ({"outcome": "Superseded", "seconds_to_clear": 7.0}, "superseded"),
    ],
)
def test_an_incident_says_what_became_of_it(found: dict[str, object], told: str) -> None:
    incident = Incident.model_validate(
        {"kind": "UncleanShutdown", "bookie": "b", "detected_at": NOW} | found
    )
    assert incident_line(incident, AFTER).plain.startswith(
        f"b  UncleanShutdown  60s ago  {told}  epoch"
    )


@pytest.mark.parametrize(("attempts", "told"), [(0, False), (1, False), (2, True)])
def test_attempts_of_a_repair_are_counted_from_the_second_on(attempts: int, told: bool) -> None:
    incident = Incident(kind="UncleanShutdown", bookie="b", detected_at=NOW, attempts=attempts)
    assert incident_line(incident, AFTER).plain.endswith(f", {attempts} attempts") is told
