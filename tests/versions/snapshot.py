"""The formats of a release as they were recorded: one file of JSON for each table."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bookie_operator.observed import JobKind
from bookie_operator.reports import report_of
from format_tables import Table

HERE: Final = Path(__file__).parent
DOCUMENTS: Final = "documents.json"
"""Result objects as the jobs of that release wrote them, and as its operator understood them."""


def folder_of(version: str) -> Path:
    return HERE / version


def recorded_versions() -> list[str]:
    return sorted(path.name for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())


def recorded(version: str) -> dict[str, Table]:
    """All tables, by name."""
    files = [path for path in folder_of(version).glob("*.json") if path.name != DOCUMENTS]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def recorded_documents(version: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((folder_of(version) / DOCUMENTS).read_text())
    return found


def understood(kind: JobKind, document: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's report of a result object, as JSON; its message is for people alone."""
    report = report_of(kind, document)
    assert report is not None, kind
    return report.model_dump(mode="json", exclude={"message"})


def record(
    version: str, tables: Mapping[str, Table], documents: Mapping[JobKind, Mapping[str, Any]]
) -> None:
    """Write the snapshot of a release; one line for each path, so that a diff can be read."""
    folder = folder_of(version)
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        lines = [
            f"{json.dumps(path)}: {json.dumps(facts, sort_keys=True)}"
            for path, facts in sorted(table.items())
        ]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    told = {
        kind.value: {"document": one, "report": understood(kind, one)}
        for kind, one in documents.items()
    }
    lines = [f"{json.dumps(kind)}: {json.dumps(both)}" for kind, both in told.items()]
    (folder / DOCUMENTS).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
