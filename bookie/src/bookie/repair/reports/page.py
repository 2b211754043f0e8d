"""The page for people: what is wrong, where, since when, and what was repaired.

Made from a result object alone (docs/repair-result.md), of an audit, a repair or a drain. One file
without scripts, and none may run: whatever a cluster says is escaped, and the page forbids itself
to load anything. What a list left out is counted in the object.
"""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bookie.exit_codes import Exit
from bookie.repair.reports.classes import MEANINGS, OF_OTHERS
from bookie.repair.reports.page_style import STYLE
from bookie.repair.reports.plots import copies_plot
from bookie.times import time_text

VERDICTS: Final[Mapping[int, str]] = {
    Exit.OK: "everything that must be there is there",
    Exit.FINDINGS: "entries are missing or lost",
    Exit.UNDECIDED: "nothing is known to be missing, but not everything is known yet",
    Exit.REFUSED: "refused for safety: nothing more was changed",
}
"""What a run came to, by its exit code; the command line says the same. Others: it failed."""
TONES: Final[Mapping[int, str]] = {
    Exit.OK: "good",
    Exit.UNDECIDED: "unsure",
    Exit.REFUSED: "unsure",
}
"""How a verdict looks; all others are bad."""
RANGES_SHOWN: Final = 20
TIMES: Final = ("_at_ms", "_seen_ms")
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
SHOWN_ABOVE: Final = ("schema", "kind", "exit_code", "metadata", "run_id", "started_at_ms")
ORDER: Final = (
    "classes", "copies", "findings", "silent_bookies", "low_ack_quorums", "unreadable_ledgers",
    "underreplicated",
    "misplaced", "healed",
)  # fmt: skip
REPAIRED: Final = (
    "entries_recovered", "entries_copied", "entries_copied_closed", "bytes_copied",
    "corrupt_found", "corrupt_replaced", "corrupt_copies",
)  # fmt: skip

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """A self-contained page: the verdict first, then what is wrong, then every figure."""
    kind = str(document.get("kind", "run"))
    body = "\n".join((*_head(document, kind), *_sections(document), _rest(document)))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_text(kind)} {_text(document.get('run_id', ''))}</title>"
        f"<style>{STYLE}</style>\n<body>\n{body}\n</body></html>\n"
    )


def _head(document: Document, kind: str) -> list[str]:
    code = int(document.get("exit_code", 1))
    verdict = VERDICTS.get(code, "the run failed")
    began = document.get("started_at_ms")
    facts = [
        str(document.get("metadata") or ""),
        time_text(began) if isinstance(began, int) else "",
        f"run {document.get('run_id', '')}",
    ]
    line = " · ".join(_text(fact) for fact in facts if fact)
    return [
        f"<h1>{_text(kind.capitalize())} of ledgers</h1>",
        f'<p class="facts">{line}</p>',
        f'<p class="verdict {TONES.get(code, "bad")}">{verdict[0].upper()}{verdict[1:]}.</p>',
    ]


def _sections(document: Document) -> list[str]:
    """What people look for, in their order."""
    parts: list[str] = []
    for name in ORDER:
        value = document.get(name)
        if value:
            show: Callable[[Any], str] = _SECTIONS.get(name, _list)
            parts.append(f'<section id="{name}"><h2>{_title(name)}</h2>{show(value)}</section>')
    repaired = [(_words(n), document[n]) for n in REPAIRED if n in document]
    if repaired:
        shown = _table(("", ""), repaired)
        parts.append(f'<section id="repaired"><h2>What was repaired</h2>{shown}</section>')
    return parts


def _rest(document: Document) -> str:
    """Everything else that the object says."""
    shown = {*ORDER, *REPAIRED, *SHOWN_ABOVE}
    rest = {name: value for name, value in document.items() if name not in shown}
    parts = []
    for name, value in rest.items():
        if isinstance(value, dict) and value:
            parts.append(
                f"<h2>{_title(name)}</h2>"
                + _table(("", ""), ((_words(k), v) for k, v in value.items()))
            )
        elif isinstance(value, list) and value:
            parts.append(f"<h2>{_title(name)}</h2>" + _list(value))
    plain = [
        (_words(k), time_text(v) if k.endswith(TIMES) and isinstance(v, int) else v)
        for k, v in rest.items()
        if not isinstance(v, dict | list)
    ]
    return "\n".join((*parts, "<h2>This run</h2>", _table(("", ""), plain)))


def _classes(classes: Document) -> str:
    rows, words = [], MEANINGS | OF_OTHERS
    for name, count in classes.items():
        tone = "zero" if not count["findings"] else "hit"
        rows.append(
            f'<tr class="{tone}" data-class="{_text(name)}"><td>{_title(name)}</td>'
            f"{_cell(count['findings'])}{_cell(count['entries'])}"
            f"<td>{_text(words.get(name, ''))}</td></tr>"
        )
    head = "<tr><th>class</th><th>findings</th><th>entries</th><th>meaning</th></tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _findings(findings: Sequence[Document]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("ledger", "what", "where", "first seen", "last"))
    rows = "".join(map(_finding, findings))
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _finding(found: Document) -> str:
    what = [
        f'<span class="chip {_text(name)}">{_title(name)}</span> {_text(found[name])}'
        for name in MEANINGS
        if isinstance(found.get(name), Mapping)
    ]
    where = [
        f"{_text(bookie_id)}: " + ", ".join(f"{k} {_text(v)}" for k, v in lacks.items())
        for bookie_id, lacks in found.get("bookies", {}).items()
    ]
    state = f"{_text(found.get('state'))}, 0-{_text(found.get('through'))}"
    return (
        f'<tr data-ledger="{_text(found["ledger_id"])}">'
        f"<td>{_text(found['ledger_id'])}<br><small>{state}</small></td>"
        f"<td>{'<br>'.join(what)}</td><td>{'<br>'.join(where)}</td>"
        f"<td>{_time(found.get('first_seen_ms'))}</td><td>{_time(found.get('last_seen_ms'))}</td>"
        "</tr>"
    )


_SECTIONS: Final[Mapping[str, Callable[[Any], str]]] = {
    "classes": _classes,
    "copies": copies_plot,
    "findings": _findings,
}


def _list(rows: Sequence[Any]) -> str:
    if not isinstance(rows[0], Mapping):
        return f"<p>{', '.join(map(_text, rows))}</p>"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = ([_shown(name, row.get(name, "")) for name in columns] for row in rows)
    return _table([name.removesuffix("_ms") for name in columns], cells)


def _shown(name: str, value: Any) -> Any:
    return time_text(value) if name.endswith(TIMES) and isinstance(value, int) else value


def _table(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{_title(name)}</th>" for name in columns) if any(columns) else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table>{f"<tr>{head}</tr>" if head else ""}{body}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{_text(value)}</td>"
    return f'<td class="n">{value:,}</td>'


def _time(at_ms: Any) -> str:
    return f"<time>{time_text(at_ms)}</time>" if isinstance(at_ms, int) else "-"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _title(name: str) -> str:
    return _text(_words(name))


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "ranges" in value:
        shown = [f"{a}" if a == b else f"{a}-{b}" for a, b in value["ranges"][:RANGES_SHOWN]]
        is_cut = len(value["ranges"]) > RANGES_SHOWN or value.get("ranges_left_out")
        value = f"{value['entries']}: {', '.join(shown)}{' ...' if is_cut else ''}"
    elif isinstance(value, Mapping):
        return "<br>".join(f"{_text(k)}: {_text(v)}" for k, v in value.items())
    elif isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    elif value is None:
        value = "-"
    return html.escape(str(value))
