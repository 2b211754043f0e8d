"""The result object and the page made from it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.results import ROWS_MAX, show_result
from bookie.protocol.availability import EntrySet
from bookie.repair.engine.choice import SPARK_LEDGERS_MIN, choose_engine
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.look.audit import Audit
from bookie.repair.reports.page import page
from bookie.repair.reports.result import exit_code, ranges_json, write_result
from repair_lab import AUDIT, SETTINGS, RepairLab

DOCS = Path(__file__).parents[4] / "docs/repair-result.md"


async def results() -> list[dict[str, Any]]:
    """A repair with something of everything, and an audit."""
    lab = await RepairLab().start()
    await lab.ledger(entries=5, last=5)
    lab.write(await lab.ledger(entries=5), [5], on=(0, 1))
    await lab.crash(0, 1)
    request = RepairRequest(engine="inline", settings=SETTINGS)
    return [
        await repair(lab.cluster, request),
        await audit(lab.cluster, AuditRequest(settings=AUDIT)),
    ]


async def test_every_field_is_documented() -> None:
    told = set(re.findall(r"`(\w+)(?:\[\]|\{\})?`", DOCS.read_text(encoding="utf-8")))
    for document in await results():
        assert set(document) <= told
        assert set(document.get("ledgers", ())) <= told


LISTS = ("findings", "blocked", "accepted_losses", "unreadable_ledgers", "misplaced")


@pytest.mark.parametrize("name", [*LISTS, "low_ack_quorums", "underreplicated"])
async def test_people_are_told_how_much_had_no_place_in_the_result(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for document in await results():
        rows = document["findings"] if name == "findings" else [{"ledger_id": 7}]
        assert 0 < len(rows) < ROWS_MAX
        show_result(document | {name: rows, f"{name}_left_out": 1234})
        assert "\nand 1234 more: see --output json\n" in capsys.readouterr().out


async def test_a_result_without_trouble_says_that_nothing_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = await RepairLab().start()
    await lab.ledger(entries=5, last=4)
    show_result(await audit(lab.cluster, AuditRequest(settings=AUDIT)))
    assert re.search(r"^missing\W+0$", capsys.readouterr().out, re.MULTILINE)


async def test_the_page_says_what_the_object_says() -> None:
    for document in await results():
        text = page(document)
        assert document["run_id"] in text and "Entries are missing or lost" in text
        assert "src=" not in text and "href=" not in text, "self-contained"


def test_the_page_escapes_what_bookies_say() -> None:
    text = page({"kind": "repair", "blocked": [{"message": "<script>alert(1)</script>"}]})
    assert "<script>" not in text


def test_the_result_appears_whole_beside_its_page(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "result.json"
    write_result({"kind": "audit", "exit_code": 0}, path)
    assert json.loads(path.read_text())["kind"] == "audit"
    assert sorted(p.name for p in path.parent.iterdir()) == ["result.html", "result.json"]
    assert path.stat().st_mode & 0o777 == 0o644  # the operator, another user, reads it


def test_long_sets_are_cut_and_counted() -> None:
    found = ranges_json(EntrySet.from_ranges((i * 2, i * 2) for i in range(150)))
    assert (found["entries"], len(found["ranges"]), found["ranges_left_out"]) == (150, 100, 50)


@pytest.mark.parametrize(
    ("counts", "blocked", "code"),
    [
        (AuditCounts(entries=3, ok=3), 0, 0),
        (AuditCounts(entries=3, ok=2, missing=1), 0, 3),
        (AuditCounts(entries=3, ok=2, lost=1), 0, 3),
        (AuditCounts(entries=3, ok=2, unknown=1), 0, 4),
        (AuditCounts(entries=3, ok=3), 1, 4),
    ],
)
def test_exit_code_tells_damage_from_ignorance(
    counts: AuditCounts, blocked: int, code: int
) -> None:
    assert exit_code(Audit(counts), blocked=blocked) == code


def test_small_clusters_are_repaired_in_process() -> None:
    assert choose_engine("auto", ledgers=SPARK_LEDGERS_MIN - 1).name == "inline"
    assert choose_engine("auto", ledgers=SPARK_LEDGERS_MIN).name == "spark-local"
    assert str(SPARK_LEDGERS_MIN) in choose_engine("auto", ledgers=1).reason
