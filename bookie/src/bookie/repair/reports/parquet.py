"""A result object as two tables in Parquet files: findings, and copies by bookie.

For those who keep audits and ask them together (`read_parquet` of many files). The tables are made
of the object, so both engines give the same; docs/repair-result.md has their columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_TIME: Final = pa.timestamp("ms", tz="UTC")
_RANGE: Final = pa.struct([("first", pa.int64()), ("last", pa.int64())])
FINDINGS_SCHEMA: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("at", _TIME, nullable=False),
        pa.field("class", pa.string(), nullable=False),
        ("ledger_id", pa.int64()),
        ("bookie_id", pa.string()),
        ("state", pa.string()),
        ("through", pa.int64()),
        pa.field("entries", pa.int64(), nullable=False),
        pa.field("ranges", pa.list_(_RANGE), nullable=False),
        pa.field("ranges_left_out", pa.int64(), nullable=False),
        ("first_seen", _TIME),
        ("last_seen", _TIME),
        ("message", pa.string()),
    ]
)
COPIES_SCHEMA: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("at", _TIME, nullable=False),
        pa.field("bookie_id", pa.string(), nullable=False),
        ("rack", pa.string()),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("owed", "held", "missing", "corrupt", "unknown")
        ),
    ]
)
OF_OTHERS: Final = {
    "silent_bookies": "silent_bookie",
    "unreadable_ledgers": "metadata_unreadable",
    "underreplicated": "underreplicated",
    "misplaced": None,
    "low_ack_quorums": None,
}
"""Lists of findings that are no sets of entries, and their class; None = each row names its own."""

Row = dict[str, Any]


def write_parquet(document: Mapping[str, Any], path: Path) -> None:
    """Into a folder as `findings.parquet` and `copies.parquet`; into a file `NAME.parquet` the
    findings, with `NAME.copies.parquet` beside it. Each appears whole or not at all.
    """
    is_file = path.suffix == ".parquet"
    findings = path if is_file else path / "findings.parquet"
    copies = path.with_suffix(".copies.parquet") if is_file else path / "copies.parquet"
    findings.parent.mkdir(parents=True, exist_ok=True)
    tables = {findings: findings_table(document), copies: copies_table(document)}
    fresh = {final: final.with_name(f".{final.name}.new") for final in tables}
    try:
        for final, table in tables.items():
            pq.write_table(table, fresh[final])
        for final, written in fresh.items():
            written.replace(final)
    finally:
        for written in fresh.values():
            written.unlink(missing_ok=True)


def findings_table(document: Mapping[str, Any]) -> pa.Table:
    """One row for each class of each finding, and one more for each bookie it is about."""
    rows = [*_of_entries(document.get("findings", ())), *_of_others(document)]
    return _table(document, rows, FINDINGS_SCHEMA)


def copies_table(document: Mapping[str, Any]) -> pa.Table:
    """One row for each bookie."""
    return _table(document, document.get("copies", ()), COPIES_SCHEMA)


def _of_entries(findings: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for found in findings:
        about = {
            "ledger_id": found["ledger_id"],
            "state": found["state"],
            "through": found["through"],
            **_seen(found),
        }
        for name, entries in found.items():
            if isinstance(entries, Mapping) and "ranges" in entries:
                yield about | {"class": name} | _entry_set(entries)
        for bookie_id, lacks in found["bookies"].items():
            for name, entries in lacks.items():
                yield about | {"class": name, "bookie_id": bookie_id} | _entry_set(entries)


def _of_others(document: Mapping[str, Any]) -> Iterator[Row]:
    for name, kind in OF_OTHERS.items():
        for found in document.get(name, ()):
            yield {
                "class": kind or found["class"],
                "ledger_id": found.get("ledger_id"),
                "bookie_id": found.get("bookie_id"),
                "message": found.get("message"),
                **_seen(found),
                "entries": 0,
                "ranges": [],
                "ranges_left_out": 0,
            }


def _seen(found: Mapping[str, Any]) -> Row:
    return {name: found.get(f"{name}_ms") for name in ("first_seen", "last_seen")}


def _entry_set(entries: Mapping[str, Any]) -> Row:
    ranges = [{"first": first, "last": last} for first, last in entries["ranges"]]
    return {
        "entries": entries["entries"],
        "ranges": ranges,
        "ranges_left_out": entries["ranges_left_out"],
    }


def _table(
    document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], schema: pa.Schema
) -> pa.Table:
    run = {"run_id": document["run_id"], "at": document["started_at_ms"]}
    whole = [run | {k: v for k, v in row.items() if k in schema.names} for row in rows]
    return pa.Table.from_pylist(whole, schema=schema)
