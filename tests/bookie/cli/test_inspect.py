"""What `bookie inspect` says of directories; it changes none of them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bookie.boot.marker import MARKER_NAME, Marker
from bookie.boot.stamps import Stamp, write_stamp
from bookie.cli.main import main
from bookie.errors import CorruptError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.decisions import DecisionKind, PersonDecision
from bookie.storage.disk import RealDisk
from bookie.storage.facts import Boundary, DirectoryFacts, Suspicion
from bookie.storage.index import INDEX_NAME, Batch, Index, Loss
from bookie.storage.journal import JOURNAL_DIRECTORY
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from click.testing import CliRunner

STAMP = Stamp("cluster", "b", "ledger", 1, 2, 1, "disk", boot_epoch=7)
FIELDS = {"bookie": "b", "disk": "ledger 1", "boot_epoch": 7, "disk_id": "disk"}
NO_MARKER = "no marker (unclean, unless a version before 0.1 stopped it)"


def inspected(*directories: Path) -> tuple[int, list[dict[str, Any]], str]:
    told = CliRunner().invoke(main, ["inspect", *map(str, directories), "--output", "json"])
    return told.exit_code, json.loads(told.stdout), told.stderr


def stamped(folder: Path) -> Path:
    write_stamp(RealDisk(), folder, STAMP)
    return folder


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        (None, NO_MARKER),
        (b"none", "unclean (marker unreadable)"),
        (Marker(7, DurabilityMode.MEMORY).encode(), "unclean (memory)"),
        (Marker(7, DurabilityMode.JOURNAL).encode(), "unclean (journal)"),
        (Marker(7, DurabilityMode.MEMORY, is_clean=True).encode(), "clean"),
    ],
)
def test_the_last_stop_is_clean_only_if_the_marker_says_so(
    tmp_path: Path, marker: bytes | None, told: str
) -> None:
    if marker is not None:
        (tmp_path / MARKER_NAME).write_bytes(marker)
    code, [row], complaints = inspected(stamped(tmp_path))
    assert (code, complaints, row["last_stop"]) == (0, "", told)
    assert {name: row[name] for name in FIELDS} == FIELDS


def test_a_directory_without_stamp_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_bytes(b"none")
    code, [row], complaints = inspected(tmp_path)
    assert code == 1 and complaints == f"error: {tmp_path}: {row['problem']}\n"
    assert row["problem"].startswith("has no stamp: ") and row["last_stop"].startswith("unclean")


@pytest.mark.parametrize(
    ("inside", "told"), [((), ""), (("b", "a"), "; it contains a, b: name those")]
)
def test_what_is_no_bookie_s_directory_hides_no_other(
    tmp_path: Path, inside: tuple[str, ...], told: str
) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other, *(other / name for name in inside)):
        folder.mkdir()
    code, rows, complaints = inspected(stamped(ours), other)
    assert code == 1 and complaints == f"error: {other}: is no directory of a bookie{told}\n"
    assert [row.get("bookie") for row in rows] == ["b", None]


@pytest.mark.parametrize(
    ("name", "sizes", "told"),
    [
        (LOG_DIRECTORY, (), ("0 files, 0.0 MiB", 0, 0)),
        (LOG_DIRECTORY, (2**20, 2**19), ("2 files, 1.5 MiB", 2, 2**20 + 2**19)),
        (JOURNAL_DIRECTORY, (5,), ("1 files, 0.0 MiB", 1, 5)),
    ],
)
def test_the_files_of_log_or_journal_are_counted(
    tmp_path: Path, name: str, sizes: tuple[int, ...], told: tuple[object, ...]
) -> None:
    (tmp_path / name).mkdir()
    for number, size in enumerate(sizes):
        (tmp_path / name / str(number)).write_bytes(bytes(size))
    _code, [row], _complaints = inspected(stamped(tmp_path))
    assert (row["log"], row["log_files"], row["log_bytes"]) == told


def test_an_index_tells_its_ledgers_marks_losses_and_decisions(tmp_path: Path) -> None:
    records = [
        LedgerRecord(LedgerId(1), fenced=True, limbo=True),
        LedgerRecord(LedgerId(2), fenced=True),
        LedgerRecord(LedgerId(3)),
        LedgerRecord(LedgerId(4), fenced=True, deleted=True),
    ]
    lost = Loss(LedgerId(2), "why", EntrySet.from_ranges([(EntryId(3), EntryId(5))]))
    decided = PersonDecision(0, DecisionKind.LOSS, "ann", "ledger 2")
    index = Index.open(tmp_path / INDEX_NAME, disk=RealDisk())
    facts = DirectoryFacts(fence=Boundary(1, LedgerId(9)), suspicions=frozenset(Suspicion))
    batch = Batch(records=records, losses=[lost], decisions=[decided], facts=facts.encode())
    index.commit(batch, is_readable=lambda *_: True)
    index.close()
    code, [row], _complaints = inspected(stamped(tmp_path))
    told = {
        "ledgers": 3, "limbo": 1, "fenced": 2, "losses": 1,
        "loss_records": [{"ledger_id": 2, "entries": [[3, 5]], "reason": "why"}],
        "decisions": [
            {"at": "1970-01-01T00:00:00+00:00", "kind": "LossAccepted", "by": "ann",
             "about": "ledger 2"}
        ],
        "fence_boundary": 9, "unchecked_boundary": None,
        "suspicions": ["index_rebuilt", "journal_lost", "torn"],
    }  # fmt: skip
    assert code == 0 and {name: row[name] for name in told} == told


def test_an_index_that_lost_its_tables_gets_none_by_being_looked_at(tmp_path: Path) -> None:
    """With tables, and without rows, the next boot would take it for whole."""
    path = stamped(tmp_path) / INDEX_NAME
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as every index of ours
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA user_version = 0")
    before = path.read_bytes()
    code, [row], _complaints = inspected(tmp_path)
    assert code == 1 and "it has no tables" in row["problem"]
    assert path.read_bytes() == before
    with pytest.raises(CorruptError):
        Index.open(path, disk=RealDisk(), may_create=False)


@pytest.mark.parametrize("words", [(), (".", "--config", "bookie.yaml"), (".", ".")])
@pytest.mark.parametrize("command", [("inspect",), ("index", "rebuild", "--yes")])
def test_directories_are_named_once_and_in_one_way(
    command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    told = CliRunner().invoke(main, [*command, *words])
    assert (told.exit_code, told.stdout) == (2, "")
