"""The summary of a result: small, whole JSON, and with the counts that the operator reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.jobs import Answer, outcome
from bookie.cli.main import main
from bookie.cli.summary import (
    SUMMARY_BYTES_MAX,
    failure_of,
    summary_bytes,
    summary_of,
    write_summary,
)
from bookie.repair.reports.result import Document
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)
BLOCK = {"ledger_id": 7, "reason": "NotClosed", "message": "it is open"}


def document(**more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("ledgers", "entries", "ok"), 10**12)
    return {"kind": "repair", "exit_code": 4, "entries_copied": 5, "audit_after": counts, **more}


@given(st.dictionaries(st.text(), JSON), st.integers(min_value=2, max_value=200))
def test_any_object_becomes_whole_json_within_the_limit(tree: dict[str, Any], limit: int) -> None:
    encoded = summary_bytes(tree, bytes_max=limit)
    assert len(encoded) <= limit
    assert json.loads(encoded).keys() <= tree.keys()


@given(st.text(min_size=1500), st.lists(st.text(min_size=50), max_size=300))
def test_long_texts_and_lists_never_cost_a_count(message: str, names: list[str]) -> None:
    wordy = {"ledger_id": 1, "reason": "RecoveryFailed", "message": message}
    whole = document(blocked=[wordy] * 3, executor_names=names, unreachable=names)
    read = json.loads(summary_bytes(summary_of(whole)))
    assert (read["entries_copied"], read["exit_code"], read["blocked_count"]) == (5, 4, 3)
    assert read["audit_after"] == whole["audit_after"]


AT_BOOKIE = {"bookie_id": "b", "reason": "Unreachable", "message": "it is away"}


@pytest.mark.parametrize(
    ("facts", "message", "count", "first"),
    [
        ({}, "", 0, None),
        ({"blocked": []}, "", 0, None),
        ({"blocked": [BLOCK]}, "1 blocked; 7 NotClosed: it is open", 1, BLOCK),
        ({"blocked": [AT_BOOKIE, BLOCK]}, "2 blocked; b Unreachable: it is away", 2, AT_BOOKIE),
        (
            {"blocked": [BLOCK, BLOCK], "blocked_left_out": 40},
            "42 blocked; 7 NotClosed: it is open", 42, BLOCK,
        ),
        ({"refused": "limbo on b"}, "limbo on b", 0, None),
        ({"refused": "no", "blocked": [BLOCK]}, "1 blocked; 7 NotClosed: it is open", 1, BLOCK),
    ],
)  # fmt: skip
def test_what_blocks_is_counted_and_the_first_is_told(
    facts: dict[str, Any], message: str, count: int, first: object
) -> None:
    told = summary_of(document(**facts))
    assert (told["message"], told["blocked_count"], told["first_block"]) == (message, count, first)


LOSS = {"ledger_id": 3, "record": "x"}


@pytest.mark.parametrize(
    ("facts", "losses", "accepted"),
    [
        ({}, 0, 0),
        ({"losses": [{}] * 1000, "losses_left_out": 234}, 1234, 0),
        ({"losses": [{}], "accepted_losses": [LOSS, LOSS]}, 1, 2),
        ({"accepted_losses": [LOSS], "accepted_losses_left_out": 5}, 0, 6),
        ({"losses": None, "accepted_losses": None, "losses_left_out": None}, 0, 0),
    ],
)
def test_losses_are_counted_also_those_without_a_place_in_the_result(
    facts: dict[str, Any], losses: int, accepted: int
) -> None:
    told = summary_of(document(**facts))
    assert (told["losses"], told["accepted_loss_count"]) == (losses, accepted)
    assert told["accepted_losses"] == [3] * len(facts.get("accepted_losses") or ())


@pytest.mark.parametrize("name", ["executor_names", "unreachable"])
@pytest.mark.parametrize(("given", "kept"), [(None, 0), (0, 0), (16, 16), (17, 16)])
def test_the_first_names_are_kept(name: str, given: int | None, kept: int) -> None:
    names = None if given is None else [f"n{number}" for number in range(given)]
    assert summary_of(document(**{name: names}))[name] == (names or [])[:kept]


@pytest.mark.parametrize(("length", "kept"), [(1024, 1024), (1025, 1024)])
def test_a_text_is_cut_where_all_else_is_small(length: int, kept: int) -> None:
    assert json.loads(summary_bytes({"message": "x" * length})) == {"message": "x" * kept}


@pytest.mark.parametrize(
    ("tree", "limit", "kept"),
    [
        ({"a": 1}, 7, {"a": 1}),
        ({"a": 1}, 6, {}),
        ({"a": 1, "b": "xxxx"}, 20, {"a": 1, "b": "xxxx"}),
        ({"a": 1, "b": "xxxx"}, 16, {"a": 1, "b": "xx"}),
        ({"a": 1, "b": "x" * 8, "c": [1, 2]}, 28, {"a": 1, "b": "xxxx", "c": [1, 2]}),
        ({"a": [1, 2, 3, 4], "b": 5}, 20, {"a": [1, 2], "b": 5}),
        ({"a": {"b": "xxxx", "c": 1}}, 22, {"a": {"b": "xx", "c": 1}}),
        ({"a": {"b": "x", "c": 1}}, 14, {"a": {"c": 1}}),
    ],
)
def test_the_longest_part_is_halved_until_all_has_room(
    tree: dict[str, Any], limit: int, kept: dict[str, Any]
) -> None:
    before = json.dumps(tree)
    assert json.loads(summary_bytes(tree, bytes_max=limit)) == kept
    assert json.dumps(tree) == before, "what is given stays as it is"


def test_accepted_losses_are_named_by_their_ledgers() -> None:
    losses = [{"ledger_id": 3, "record": "x" * 9000}, {"ledger_id": 9, "record": "y"}]
    assert summary_of(document(accepted_losses=losses))["accepted_losses"] == [3, 9]


def test_a_failure_keeps_its_exit_code_however_long_its_message(tmp_path: Path) -> None:
    write_summary(failure_of("audit", exit_code=1, message="\u00e9\0" * 9000), tmp_path / "s")
    assert (tmp_path / "s").stat().st_size <= SUMMARY_BYTES_MAX
    assert json.loads((tmp_path / "s").read_bytes())["exit_code"] == 1


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("repair", "repair"),
        ("audit", "audit"),
        ("drain b", "drain"),
        ("rereplicate b --yes", "rereplication"),
        ("ledger accept-loss 7 --reason x --yes", "accept-loss"),
        ("ledger accept-loss 7,8 --reason x --yes", "accept-loss"),
        ("ledger accept-loss 7 --dry-run", "accept-loss"),
        ("ledger retract-loss 7 --reason x --yes", "retract-loss"),
    ],
)
def test_work_that_cannot_begin_leaves_a_summary(command: str, kind: str, tmp_path: Path) -> None:
    words = [*command.split(), "--metadata", "nowhere", "--summary", str(tmp_path / "s")]
    assert CliRunner().invoke(main, words).exit_code == 2
    told = json.loads((tmp_path / "s").read_bytes())
    assert (told["kind"], told["exit_code"]) == (kind, 2) and "expected zk://" in told["message"]


def test_a_defect_leaves_a_summary_as_well(tmp_path: Path) -> None:
    async def broken() -> Document:
        raise ZeroDivisionError("nobody expected that")

    with pytest.raises(ZeroDivisionError):
        outcome("audit", broken, Answer(output="json", summary=tmp_path / "s"))
    assert json.loads((tmp_path / "s").read_text())["message"] == "nobody expected that"
