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


def test_it_tells_how_many_blocks_there_are_and_the_first() -> None:
    told = summary_of(document(blocked=[BLOCK, BLOCK], blocked_left_out=40))
    assert told["message"] == "42 blocked; 7 NotClosed: it is open"
    assert (told["blocked_count"], told["first_block"]) == (42, BLOCK)


def test_losses_are_counted_that_had_no_place_in_the_result() -> None:
    assert summary_of(document(losses=[{}] * 1000, losses_left_out=234))["losses"] == 1234


def test_a_refused_drain_says_why() -> None:
    assert summary_of({"kind": "drain", "refused": "limbo on b"})["message"] == "limbo on b"


def test_accepted_losses_are_named_by_their_ledgers() -> None:
    losses = [{"ledger_id": 3, "record": "x" * 9000}, {"ledger_id": 9, "record": "y"}]
    assert summary_of(document(accepted_losses=losses))["accepted_losses"] == [3, 9]


def test_a_failure_keeps_its_exit_code_however_long_its_message(tmp_path: Path) -> None:
    write_summary(failure_of("audit", exit_code=1, message="\u00e9\0" * 9000), tmp_path / "s")
    assert (tmp_path / "s").stat().st_size <= SUMMARY_BYTES_MAX
    assert json.loads((tmp_path / "s").read_bytes())["exit_code"] == 1


@pytest.mark.parametrize(
    "command",
    ["repair", "audit", "drain b", "rereplicate b --yes", "ledger accept-loss 7 --reason x --yes"],
)
def test_work_that_cannot_begin_leaves_a_summary(command: str, tmp_path: Path) -> None:
    words = [*command.split(), "--metadata", "nowhere", "--summary", str(tmp_path / "s")]
    assert CliRunner().invoke(main, words).exit_code == 2
    told = json.loads((tmp_path / "s").read_bytes())
    assert told["exit_code"] == 2 and "expected zk://" in told["message"]


def test_a_defect_leaves_a_summary_as_well(tmp_path: Path) -> None:
    async def broken() -> Document:
        raise ZeroDivisionError("nobody expected that")

    with pytest.raises(ZeroDivisionError):
        outcome("audit", broken, Answer(output="json", summary=tmp_path / "s"))
    assert json.loads((tmp_path / "s").read_text())["message"] == "nobody expected that"
