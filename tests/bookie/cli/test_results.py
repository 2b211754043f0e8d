"""A job's result as people see it: its verdict, its numbers, and each kind of problem."""

from typing import Any

import pytest
from bookie.cli.results import RANGES_MAX, ROWS_MAX, show_result
from bookie.repair.judge.counts import COUNT_NAMES

COUNTS = dict.fromkeys(COUNT_NAMES, 0) | {"ledgers": 2, "entries": 20, "ok": 17}
LEDGERS = {"considered": 1, "recovered": 2, "cleared": 3, "blocked": 4, "moved": 5}
WORK = {"entries_recovered": 6, "entries_copied": 7, "bytes_copied": 8, "corrupt_found": 0}
MOVED = {"ledgers": LEDGERS, "ledgers_left": 9, "bookie_id": "b", **WORK}


def document(kind: str = "audit", **more: Any) -> dict[str, Any]:
    run = {"run_id": "r", "seconds": 1.5, "engine": "inline", "engine_reason": "why"}
    lists: dict[str, Any] = {name: [] for name in ("findings", "blocked", "unreachable")}
    facts = {"kind": kind, "exit_code": 0, "spark_app_id": None, "audit": COUNTS}
    return run | lists | facts | more


def shown(capsys: pytest.CaptureFixture[str], found: dict[str, Any]) -> list[str]:
    show_result(found)
    return capsys.readouterr().out.splitlines()


def fields(capsys: pytest.CaptureFixture[str], found: dict[str, Any]) -> dict[str, str]:
    """Of the part above the problems: what stands after each name."""
    lines = [line.split("  ", 1) for line in shown(capsys, found) if line]
    return {name: value.strip() for name, value in lines}


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        ("drain", 0, "nothing names b any more: it may be stopped and removed"),
        ("rereplication", 0, "no ledger names a bookie that is gone, and what was marked is whole"),
        ("audit", 0, "everything that must be there is there"),
        ("repair", 0, "everything that must be there is there"),
        ("drain", 3, "entries are missing or lost"),
        ("rereplication", 4, "nothing is known to be missing, but not everything is known yet"),
        ("drain", 5, "refused for safety: nothing more was changed"),
    ],
)
def test_a_verdict_says_what_may_be_done_now(
    capsys: pytest.CaptureFixture[str], kind: str, code: int, told: str
) -> None:
    found = document(kind, exit_code=code, **MOVED, corrupt_replaced=0)
    assert fields(capsys, found)["verdict"] == told


COUNTED = {"ledgers": "2", "entries": "20", "ok": "17", "missing": "0"}
ENDED = {"engine": "inline (why)", "seconds": "1.5", "run": "r"}
EVACUATED = {"moved": "5 ledgers, 2 closed for it", "copied": "7 entries, 8 bytes"}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (document(), {}),
        (document(audit=COUNTS | {"unknown": 3}), {"missing": None, "unknown": "3"}),
        (document(audit=COUNTS | {"missing": 2, "corrupt": 1}), {"missing": "2", "corrupt": "1"}),
        (document(audit_after=COUNTS | {"ok": 20}), {"ok": "20"}),
        (document(spark_app_id="app-1"), {"engine": "inline (why) app-1"}),
        (document(marks={"found": 3, "cleared": 2}), {"marks": "2 of 3 cleared"}),
        (document("drain", exit_code=4, **MOVED), EVACUATED | {"left": "9 ledgers"}),
        (document("rereplication", exit_code=4, **MOVED), EVACUATED | {"left": "9 ledgers"}),
    ],
)
def test_numbers_are_those_of_the_end_and_only_of_what_there_is(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any], told: dict[str, str | None]
) -> None:
    said = fields(capsys, found)
    said.pop("verdict")
    assert said == {name: text for name, text in (COUNTED | ENDED | told).items() if text}


@pytest.mark.parametrize(
    ("corrupt", "told"), [({}, None), ({"corrupt_found": 2}, "2 copies found, 1 replaced")]
)
def test_a_repair_says_what_it_did(
    capsys: pytest.CaptureFixture[str], corrupt: dict[str, int], told: str | None
) -> None:
    said = fields(capsys, document("repair", **MOVED | corrupt, corrupt_replaced=1))
    assert said.get("corrupt") == told
    assert [
        said[name] for name in ("looked after", "recovered", "copied", "cleared", "blocked")
    ] == ["1 ledgers", "2 ledgers, 6 entries", "7 entries, 8 bytes", "3 ledgers", "4 ledgers"]


def table(capsys: pytest.CaptureFixture[str], **lists: Any) -> list[str]:
    """The problems, without the spaces that align them."""
    lines = shown(capsys, document(**lists))
    return [" ".join(line.split()) for line in lines[lines.index("") + 1 :]] if "" in lines else []


BLOCKED = {"ledger_id": 4, "bookie_id": None, "reason": "Why", "message": "it is"}
UNREADABLE = {"ledger_id": 5, "message": "bad"}
MISPLACED = {"class": "placement_soft", "ledger_id": 6, "message": "one rack"}
LOW = {"ack_quorum": 1, "ledgers": 3, "message": "low"}
OLD = {"ledger_id": 7, "age_s": 60, "message": "old"}


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ({}, []),
        (
            {"blocked": [BLOCKED]},
            ["blocked:", "LEDGER ID BOOKIE ID REASON MESSAGE", "4 - Why it is"],
        ),
        (
            {"accepted_losses": [{"ledger_id": 8, "record": "who"}]},
            ["accepted losses:", "LEDGER ID RECORD", "8 who"],
        ),
        (
            {"unreadable_ledgers": [UNREADABLE]},
            ["metadata that cannot be read:", "LEDGER ID MESSAGE", "5 bad"],
        ),
        (
            {"misplaced": [MISPLACED]},
            ["misplaced:", "CLASS LEDGER ID MESSAGE", "placement_soft 6 one rack"],
        ),
        (
            {"low_ack_quorums": [LOW]},
            ["low ack quorums:", "ACK QUORUM LEDGERS MESSAGE", "1 3 low"],
        ),
        (
            {"underreplicated": [OLD]},
            ["under-replicated for too long:", "LEDGER ID AGE S MESSAGE", "7 60 old"],
        ),
        ({"unreachable": ["a", "b"]}, ["no answer from:", "BOOKIE ID", "a", "b"]),
        (
            {"unreachable": ["a", "b"], "silent_bookies": [{"bookie_id": "b"}]},
            ["no answer from:", "BOOKIE ID REGISTERED", "a", "b yes"],
        ),
    ],
)
def test_each_kind_of_problem_has_a_table(
    capsys: pytest.CaptureFixture[str], lists: dict[str, Any], told: list[str]
) -> None:
    assert table(capsys, **lists) == told


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ({"missing": [[4, 4]]}, "missing 4"),
        ({"missing": [[1, 9]], "below_ack_quorum": [[2, 3]]}, "below ack quorum 2-3"),
        ({"missing": [[2 * n, 2 * n] for n in range(RANGES_MAX)]}, "missing 0 2 4 6 8"),
        ({"missing": [[2 * n, 2 * n] for n in range(RANGES_MAX + 1)]}, "missing 0 2 4 6 8 …"),
    ],
)
def test_a_finding_names_its_worst_class_and_the_first_entries(
    capsys: pytest.CaptureFixture[str], classes: dict[str, list[list[int]]], told: str
) -> None:
    found: dict[str, Any] = {"ledger_id": 3, "state": "OPEN", "bookies": {"a": {}, "b": {}}}
    found |= {name: {"ranges": ranges} for name, ranges in classes.items()}
    assert table(capsys, findings=[found]) == [
        "findings:",
        "LEDGER ID STATE PROBLEM ENTRIES BOOKIES",
        f"3 OPEN {told} a b",
    ]


@pytest.mark.parametrize(
    ("rows", "left_out", "more"),
    [(0, 0, 0), (1, 0, 0), (1, 2, 2), (20, 0, 0), (23, 0, 3), (23, 4, 7)],
)
@pytest.mark.parametrize("name", ["blocked", "accepted_losses", "misplaced", "underreplicated"])
def test_rows_that_are_not_shown_are_counted(
    capsys: pytest.CaptureFixture[str], name: str, rows: int, left_out: int, more: int
) -> None:
    lists = {name: [BLOCKED] * rows, f"{name}_left_out": left_out}
    lines = table(capsys, **lists)
    assert len(lines) == (2 + min(rows, ROWS_MAX) + bool(more) if rows else 0)
    assert lines[-1:] == [f"and {more} more: see --output json"] or not more


def test_problems_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, document(blocked=[BLOCKED], unreachable=["a"]))
    assert [lines[at + 1] for at, line in enumerate(lines) if not line] == [
        "blocked:", "no answer from:",
    ]  # fmt: skip
