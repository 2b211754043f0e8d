"""The page of some clusters: a document to open, and the content that it fetches again.

Whatever a cluster says is escaped, and the page forbids itself to load anything or to run any
other script than its own.
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.bookies import bookies_table
from bookie_operator.page.markup import escaped, line_of, list_of
from bookie_operator.page.script import SCRIPT
from bookie_operator.page.shown import Shown, Unreadable
from bookie_operator.page.style import STYLE
from bookie_operator.page.timeline import timeline
from bookie_operator.status_tree.tree import (
    blocked_lines,
    condition_lines,
    facts,
    headline,
    incident_line,
    left_over_rows,
    undecided_lines,
    work,
)


def _digest(text: str) -> str:
    whole = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(whole).decode()}'"


POLICY: Final = (
    f"default-src 'none'; script-src {_digest(SCRIPT)}; style-src {_digest(STYLE)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the document."""
NO_CLUSTER: Final = "<p>There is no BookieCluster yet.</p>"
STATE: Final = (
    '<p id="state"><span id="current" role="status">current</span>'
    '<span class="dim">read-only; the status of the operator</span></p>'
)


def document(clusters: Sequence[Shown], *, now: datetime) -> str:
    """A whole page, that keeps itself current."""
    names = ", ".join(_name_of(one)[1] for one in clusters) or "no cluster"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(names)}: bookies</title><style>{STYLE}</style>\n"
        f"<body>{STATE}<main>{content(clusters, now=now)}</main>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def content(clusters: Sequence[Shown], *, now: datetime) -> str:
    """What changes of it."""
    if not clusters:
        return NO_CLUSTER
    parts = [_contents_table(clusters)] if len(clusters) > 1 else []
    return "\n".join([*parts, *(_article(one, now) for one in clusters)])


def _name_of(one: Shown) -> tuple[str, str]:
    """Namespace, which the local platform may have none of, and name."""
    about = one if isinstance(one, Unreadable) else one.metadata
    return about.namespace, about.name


def _id_of(one: Shown) -> str:
    return escaped("/".join(filter(None, _name_of(one))))


def _head(one: Shown) -> str:
    if isinstance(one, Unreadable):
        return f'BookieCluster {escaped(one.name)} <span class="bad">not readable</span>'
    return line_of(headline(one))


def _contents_table(clusters: Sequence[Shown]) -> str:
    """Links to each of many clusters."""
    links = "".join(
        f'<li><a id="to-{_id_of(one)}" href="#{_id_of(one)}">{_head(one)}</a> '
        f'<span class="dim">{escaped(_name_of(one)[0])}</span></li>'
        for one in clusters
    )
    return f'<nav aria-label="clusters"><ul>{links}</ul></nav>'


def _article(one: Shown, now: datetime) -> str:
    namespace = escaped(_name_of(one)[0])
    where = f'<p class="dim">namespace {namespace}</p>' if namespace else ""
    why = f"<p>{escaped(one.why)}</p>" if isinstance(one, Unreadable) else _cluster(one, now)
    return f'<article id="{_id_of(one)}"><h1>{_head(one)}</h1>{where}{why}</article>'


def _cluster(cluster: BookieCluster, now: datetime) -> str:
    status = cluster.status
    bookies = bookies_table(status, id_of=_id_of(cluster), now=now)
    parts = [
        _section("Conditions", list_of(condition_lines(status, now))),
        _section("Bookies", bookies if status.bookies else "<p>none reported yet</p>"),
    ]
    if waiting := undecided_lines(status, wide=True):
        parts.append(_section("Undecided", list_of(waiting)))
    if status.blocked:
        parts.append(_section("Blocked", list_of(blocked_lines(status, now))))
    if rows := left_over_rows(status):
        parts.append(_section("Left over", list_of([what + "  " + why for what, why in rows])))
    if status.incidents:
        newest = [incident_line(one, now) for one in reversed(status.incidents)]
        figure = timeline(status.incidents, now=now)
        parts.append(_section("Incidents", figure + list_of(newest)))
    parts.append(_section("Audits and repairs", list_of(work(status, now))))
    parts.append(_section("Promises", list_of(facts(cluster))))
    return "".join(parts)


def _section(title: str, inner: str) -> str:
    return f"<section><h2>{title}</h2>{inner}</section>"
