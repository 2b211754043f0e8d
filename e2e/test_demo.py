"""The demo as a newcomer runs it: one process, plain lines, an honest exit code, a summary.

Run by `make e2e`; takes about two minutes. Starts ZooKeeper, bookies and Spark on this machine.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from bookie_operator.platform.folders import LocalFolders, operator_pid

DEMO: Final = Path(__file__).parents[1] / "examples" / "demo"
LIMIT_S: Final = 420
FIELDS: Final = {
    "acked_entries",
    "acked_bytes",
    "lost_entries",
    "wrong_bytes",
    "incidents",
    "audit",
    "engine",
    "spark_app_id",
    "seconds",
}
INCIDENT_FIELDS: Final = {
    "kind",
    "bookie",
    "boot_epoch_before",
    "boot_epoch_after",
    "ledgers_fenced",
    "ledgers_in_limbo",
    "entries_copied",
    "seconds_to_detect",
    "seconds_to_clear",
}
AUDIT_FIELDS: Final = {"ledgers", "entries", "ok", "missing", "unknown"}

pytestmark = [pytest.mark.process, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    """One run; its folder is the last of its arguments."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(DEMO), "--dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.fixture(scope="module")
def folder(demo: "subprocess.CompletedProcess[str]") -> Path:
    return Path(demo.args[-1])


@pytest.fixture(scope="module")
def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


def incident(summary: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (row for row in summary["incidents"] if row["kind"] == kind)
    return dict(found)


def test_all_is_well(demo: "subprocess.CompletedProcess[str]") -> None:
    assert demo.returncode == 0, demo.stdout[-4000:] + demo.stderr[-4000:]
    assert "nothing acknowledged was lost" in demo.stdout


def test_without_a_terminal_it_writes_plain_lines(
    demo: "subprocess.CompletedProcess[str]",
) -> None:
    assert "\x1b" not in demo.stdout
    assert demo.stderr == ""


def test_the_summary_has_its_fields(summary: dict[str, Any]) -> None:
    assert set(summary) >= FIELDS
    assert set(summary["audit"]) >= AUDIT_FIELDS
    assert len(summary["incidents"]) == 2
    for row in summary["incidents"]:
        assert set(row) >= INCIDENT_FIELDS


def test_nothing_acknowledged_was_lost(summary: dict[str, Any]) -> None:
    assert summary["acked_entries"] > 0 and summary["acked_bytes"] > 0
    assert (summary["lost_entries"], summary["wrong_bytes"]) == (0, 0)


def test_the_audit_knows_every_entry(summary: dict[str, Any]) -> None:
    audit = summary["audit"]
    assert (audit["missing"], audit["unknown"]) == (0, 0)
    assert audit["ok"] == audit["entries"] >= summary["acked_entries"]


def test_the_kill_proved_something(summary: dict[str, Any]) -> None:
    kill = incident(summary, "kill")
    assert kill["boot_epoch_after"] > kill["boot_epoch_before"]
    assert min(kill[name] for name in ("ledgers_in_limbo", "entries_copied")) > 0


def test_the_new_disk_got_entries_of_closed_ledgers(summary: dict[str, Any]) -> None:
    disk = incident(summary, "disk")
    assert disk["entries_copied_closed"] > 0
    assert disk["bookie"] != incident(summary, "kill")["bookie"]


def test_spark_did_it(summary: dict[str, Any]) -> None:
    assert summary["engine"].startswith("spark")
    assert summary["spark_app_id"]


def test_no_process_is_left_behind(folder: Path, summary: dict[str, Any]) -> None:
    assert operator_pid(LocalFolders(folder / "fleet")) is None
