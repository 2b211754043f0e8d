"""The result of a run as one JSON object, and as a page for people. docs/repair-result.md lists it.

The object is complete without the page; lists in it are bounded, and what was cut is counted.
"""

import html
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bookie.protocol.availability import EntrySet
from bookie.repair.audit import COUNT_NAMES, Audit, AuditCounts
from bookie.repair.expect import Verdict

SCHEMA_VERSION: Final = 1
FINDINGS_MAX: Final = 1000
RANGES_MAX: Final = 100

EXIT_CLEAN: Final = 0
EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_FINDINGS: Final = 3
EXIT_UNKNOWN: Final = 4
EXIT_REFUSED: Final = 5

Document = dict[str, Any]


def counts_json(counts: AuditCounts) -> Document:
    """The classes by name; see `expect.Verdict` for what each means."""
    return dict(zip(COUNT_NAMES, counts.row(), strict=True))


def ranges_json(entries: EntrySet) -> Document:
    """`{"entries": n, "ranges": [[first, last], ...], "ranges_left_out": n}`."""
    ranges = entries.ranges()
    return {
        "entries": len(entries),
        "ranges": [list(span) for span in ranges[:RANGES_MAX]],
        "ranges_left_out": max(len(ranges) - RANGES_MAX, 0),
    }


def finding_json(verdict: Verdict) -> Document:
    """One ledger that is not wholly ok: its classes as ranges, and what each bookie lacks."""
    classes = ("missing", "corrupt", "unknown", "lost", "below_ack_quorum", "no_copy", "gone")
    found: Document = {
        "ledger_id": verdict.ledger_id,
        "state": verdict.state.value,
        "through": verdict.through,
    }
    for name in classes:
        if entries := getattr(verdict, name):
            found[name] = ranges_json(entries)
    found["bookies"] = {
        bookie_id: {
            kind: ranges_json(entries)
            for kind in ("missing", "corrupt", "unknown")
            if (entries := getattr(share, kind))
        }
        for bookie_id, share in verdict.shares.items()
        if share.missing or share.unknown
    }
    return found


def audit_json(audit: Audit) -> Document:
    """Counts and the first findings, worst first."""
    worst = sorted(audit.findings, key=_badness)
    return {
        "audit": counts_json(audit.counts),
        "marked_ledgers": audit.marked,
        "unreachable": sorted(audit.unreachable),
        "accepted_losses": accepted_json(audit),
        "findings": [finding_json(verdict) for verdict in worst[:FINDINGS_MAX]],
        "findings_left_out": max(len(worst) - FINDINGS_MAX, 0),
    }


def accepted_json(audit: Audit) -> list[Document]:
    """Ledgers that a person let close at a possible loss: who, when, why, from which entry."""
    return [
        {"ledger_id": ledger_id, "record": record.decode("utf-8", "replace")}
        for ledger_id, record in audit.accepted[:FINDINGS_MAX]
    ]


def _badness(verdict: Verdict) -> tuple[int, ...]:
    return (
        -len(verdict.no_copy),
        -len(verdict.below_ack_quorum),
        -len(verdict.missing),
        verdict.ledger_id,
    )


def exit_code(counts: AuditCounts, *, blocked: int = 0) -> int:
    """0 clean, 3 damage found, 4 nothing known to be wrong but not everything known."""
    if counts.missing or counts.lost:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if counts.unknown or blocked else EXIT_CLEAN


def write_result(document: Mapping[str, Any], path: Path) -> None:
    """Write the JSON object, and beside it the page `<name>.html`; each appears whole or not."""
    _write(path, json.dumps(document, indent=2) + "\n")
    _write(path.with_suffix(".html"), page(document))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;"
    "color:#222;background:#fff}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}"
    "table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;"
    "text-align:left;vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".good{color:#176b35}.bad{color:#a3201d}.unsure{color:#8a5a00}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}"
    ".good{color:#6fce8f}.bad{color:#ff8a80}.unsure{color:#ffcc66}}"
)
_WORDS: Final = {
    EXIT_CLEAN: ("good", "Everything that must be there is there."),
    EXIT_FINDINGS: ("bad", "Entries are missing or lost."),
    EXIT_UNKNOWN: ("unsure", "Nothing is known to be missing, but not everything is known yet."),
    EXIT_REFUSED: ("unsure", "Refused for safety: nothing more was changed."),
}


def page(document: Mapping[str, Any]) -> str:
    """A self-contained page: the verdict first, then numbers, then what is wrong."""
    kind = str(document.get("kind", "run"))
    tone, words = _WORDS.get(int(document.get("exit_code", 1)), ("bad", "The run failed."))
    plain = [(k, v) for k, v in document.items() if not isinstance(v, dict | list)]
    parts = [
        f"<h1>{_text(kind.capitalize())} of ledgers</h1>",
        f'<p class="{tone}"><strong>{words}</strong></p>',
        _table(("", ""), plain),
    ]
    for name, value in document.items():
        if isinstance(value, dict) and value:
            parts.append(f"<h2>{_title(name)}</h2>" + _table(("", ""), value.items()))
        elif isinstance(value, list) and value:
            parts.append(f"<h2>{_title(name)}</h2>" + _list(value))
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(kind)} {_text(document.get('run_id', ''))}</title>"
        f"<style>{_STYLE}</style>\n{body}\n</html>\n"
    )


def _list(rows: Sequence[Any]) -> str:
    if not isinstance(rows[0], Mapping):
        return f"<p>{', '.join(map(_text, rows))}</p>"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return _table(columns, ([row.get(name, "") for name in columns] for row in rows))


def _table(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{_title(name)}</th>" for name in columns) if any(columns) else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{_text(value)}</td>"
    return f'<td class="n">{value:,}</td>'


def _title(name: str) -> str:
    return _text(name.replace("_", " "))


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "ranges" in value:
        shown = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in value["ranges"][:20])
        more = " ..." if len(value["ranges"]) > 20 or value.get("ranges_left_out") else ""
        value = f"{value['entries']}: {shown}{more}"
    elif isinstance(value, Mapping):
        return "<br>".join(f"{_text(k)}: {_text(v)}" for k, v in value.items())
    elif isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    elif value is None:
        value = "-"
    return html.escape(str(value))
