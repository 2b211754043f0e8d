"""A whole job on the cluster at a URL: where an audit keeps what it found."""

from pathlib import Path

import pytest
from bookie.metadata.opening import open_store
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.reports.finding_history import METADATA, VALUE_NAME
from bookie.repair.runs import audit_cluster


def quiet(_line: str) -> None:
    """Lines of progress that nobody reads."""


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("history", [None, METADATA, "findings.json"])
async def test_an_audit_keeps_its_history_where_it_is_told_and_nowhere_else(
    history: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"memory://history-in-{history}"
    store = await open_store(url)
    await store.initialise()
    told = await audit_cluster(url, AuditRequest(), history=history, say=quiet)
    assert (told["exit_code"], told["metadata"]) == (0, url)
    assert names_in(tmp_path) == ([history] if history == "findings.json" else [])
    assert (await store.read_value(VALUE_NAME) is not None) is (history == METADATA)
