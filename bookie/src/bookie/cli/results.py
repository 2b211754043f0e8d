"""Prints the result of an audit, repair, drain or re-replication for people.

It prints the verdict, the numbers and the problems; `--output json` and `--result` give the whole
object (docs/repair-result.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from bookie.cli.output import fields_text, table_text
from bookie.exit_codes import Exit
from bookie.repair.reports.classes import OF_ENTRIES
from bookie.repair.reports.page import VERDICTS

Document = Mapping[str, Any]

ROWS_MAX: Final = 20
"""Rows of one kind of problem that are printed; the others are only counted."""
RANGES_MAX: Final = 5


def show_result(document: Document) -> None:
    """Print a result object on stdout."""
    counts = document.get("audit_after") or document["audit"]
    fields: dict[str, Any] = {"verdict": _verdict(document)}
    if document["kind"] == "repair":
        fields |= _repaired(document)
    if document["kind"] in ("drain", "rereplication"):
        fields |= _moved(document)
    if "marks" in document:
        marks = document["marks"]
        fields["marks"] = f"{marks['cleared']} of {marks['found']} cleared"
    fields |= {"ledgers": counts["ledgers"], "entries": counts["entries"], "ok": counts["ok"]}
    troubles = {name: counts[name] for name in counts if name not in fields}
    fields |= {name: number for name, number in troubles.items() if number} or {"missing": 0}
    fields["engine"] = " ".join(
        filter(None, (document["engine"], f"({document['engine_reason']})", _spark(document)))
    )
    fields |= {"seconds": document["seconds"], "run": document["run_id"]}
    click.echo(fields_text(fields), nl=False)
    for title, rows, columns, left_out in _troubles(document):
        _show_trouble(title, rows, columns, left_out=left_out)


def _verdict(document: Document) -> str:
    if document["kind"] == "drain" and document["exit_code"] == Exit.OK:
        return f"nothing names {document['bookie_id']} any more: it may be stopped and removed"
    if document["kind"] == "rereplication" and document["exit_code"] == Exit.OK:
        return "no ledger names a bookie that is gone, and what was marked is whole"
    return VERDICTS[document["exit_code"]]


def _moved(document: Document) -> dict[str, Any]:
    ledgers = document["ledgers"]
    return {
        "moved": f"{ledgers['moved']} ledgers, {ledgers['recovered']} closed for it",
        "copied": f"{document['entries_copied']} entries, {document['bytes_copied']} bytes",
        "left": f"{document['ledgers_left']} ledgers",
    }


def _spark(document: Document) -> str:
    return document["spark_app_id"] or ""


def _repaired(document: Document) -> dict[str, Any]:
    ledgers = document["ledgers"]
    fields = {
        "looked after": f"{ledgers['considered']} ledgers",
        "recovered": f"{ledgers['recovered']} ledgers, {document['entries_recovered']} entries",
        "copied": f"{document['entries_copied']} entries, {document['bytes_copied']} bytes",
        "cleared": f"{ledgers['cleared']} ledgers",
        "blocked": f"{ledgers['blocked']} ledgers",
    }
    if document["corrupt_found"]:
        found, replaced = document["corrupt_found"], document["corrupt_replaced"]
        fields["corrupt"] = f"{found} copies found, {replaced} replaced"
    return fields


class _Trouble(NamedTuple):
    """Rows of one kind of problem, and how many more had no place in the result."""

    title: str
    rows: Sequence[Document]
    columns: tuple[str, ...]
    left_out: int = 0


def _troubles(document: Document) -> Iterator[_Trouble]:
    columns: tuple[str, ...] = ("ledger_id", "state", "problem", "entries", "bookies")
    rows = [_finding(found) for found in document["findings"]]
    yield _Trouble("findings", rows, columns, _left_out(document, "findings"))
    columns = ("ledger_id", "bookie_id", "reason", "message")
    yield _listed(document, "blocked", columns)
    yield _listed(document, "accepted_losses", ("ledger_id", "record"), "accepted losses")
    ends = [{"ledger_id": ledger_id} for ledger_id in document.get("open_ended", ())]
    yield _Trouble(
        "open ledgers of which too few bookies answered",
        ends,
        ("ledger_id",),
        _left_out(document, "open_ended"),
    )
    title, columns = "metadata that cannot be read", ("ledger_id", "message")
    yield _listed(document, "unreadable_ledgers", columns, title)
    yield _listed(document, "misplaced", ("class", "ledger_id", "message"))
    columns = ("ack_quorum", "ledgers", "message")
    yield _listed(document, "low_ack_quorums", columns, "low ack quorums")
    title, columns = "under-replicated for too long", ("ledger_id", "age_s", "message")
    yield _listed(document, "underreplicated", columns, title)
    registered = [row["bookie_id"] for row in document.get("silent_bookies", ())]
    silent = [
        {"bookie_id": name, "registered": "yes" if name in registered else ""}
        for name in document["unreachable"]
    ]
    columns = ("bookie_id", "registered") if registered else ("bookie_id",)
    yield _Trouble("no answer from", silent, columns)


def _listed(document: Document, name: str, columns: tuple[str, ...], title: str = "") -> _Trouble:
    """The rows of a list of the result as they are."""
    rows = list(document.get(name, ()))
    return _Trouble(title or name, rows, columns, _left_out(document, name))


def _left_out(document: Document, name: str) -> int:
    return int(document.get(f"{name}_left_out", 0))


def _finding(found: Document) -> dict[str, Any]:
    problem = next(name for name in OF_ENTRIES if name in found)
    ranges = [str(a) if a == b else f"{a}-{b}" for a, b in found[problem]["ranges"]]
    more = ["…"] if len(ranges) > RANGES_MAX else []
    return {
        "ledger_id": found["ledger_id"],
        "state": found["state"],
        "problem": problem.replace("_", " "),
        "entries": " ".join(ranges[:RANGES_MAX] + more),
        "bookies": " ".join(found["bookies"]),
    }


def _show_trouble(
    title: str, rows: Sequence[Document], columns: tuple[str, ...], *, left_out: int
) -> None:
    if not rows:
        return
    click.echo(f"\n{title}:")
    click.echo(table_text(rows[:ROWS_MAX], columns=columns), nl=False)
    if more := len(rows) + left_out - len(rows[:ROWS_MAX]):
        click.echo(f"and {more} more: see --output json")
