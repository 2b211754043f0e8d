"""Incidents on a time line: a row for each bookie, a bar from detection to the end of limbo."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.page.markup import escaped
from bookie_operator.status_tree.ages import ago, count, span

WIDTH: Final = 1000
NAMES: Final = 130
"""Left of the bars."""
ROW: Final = 26
BAR: Final = 14
BAR_LEAST: Final = 6
"""Minimum width of a bar, so that a second is visible beside a day."""
MARGIN: Final = 0.03
"""Share of the time span before the first incident."""
TICKS: Final = 4


def timeline(incidents: Sequence[Incident], *, now: datetime) -> str:
    """A figure; empty without incidents. Its words are those of the list below it."""
    if not incidents:
        return ""
    bookies = sorted({one.bookie for one in incidents}, key=lambda name: (len(name), name))
    first = min(one.detected_at for one in incidents)
    begin = first - max((now - first) * MARGIN, timedelta(seconds=1))
    height = ROW * (len(bookies) + 1)
    parts = [_tick(number, begin, now, height) for number in range(TICKS + 1)]
    for place, bookie in enumerate(bookies):
        parts.append(f'<text x="0" y="{place * ROW + ROW - 8}">{escaped(bookie)}</text>')
        for one in incidents:
            if one.bookie == bookie:
                parts.append(_bar(one, place, begin, now))
    words = f"{count(len(incidents), 'incident')} in the last {span(now - first)}"
    return (
        '<figure><div class="wide" tabindex="0">'  # so that arrow keys move it where it is too wide
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{words}">'
        f"{''.join(parts)}</svg></div><figcaption>{words}</figcaption></figure>"
    )


def _x(moment: datetime, begin: datetime, now: datetime) -> float:
    share = (moment - begin) / (now - begin) if now > begin else 1.0
    return NAMES + (WIDTH - NAMES) * min(max(share, 0.0), 1.0)


def _tick(number: int, begin: datetime, now: datetime, height: int) -> str:
    moment = begin + (now - begin) * number / TICKS
    x, word = _x(moment, begin, now), "now" if number == TICKS else ago(moment, now)
    anchor = "end" if number == TICKS else "start" if number == 0 else "middle"
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - ROW + 4}"/>'
        f'<text class="when" x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{word}</text>'
    )


def _bar(one: Incident, place: int, begin: datetime, now: datetime) -> str:
    end = one.cleared_at or now
    left, right = _x(one.detected_at, begin, now), _x(end, begin, now)
    width = max(right - left, BAR_LEAST)
    left = min(left, WIDTH - width)
    took = f"cleared in {span(end - one.detected_at)}" if one.cleared_at else "not cleared yet"
    if one.outcome is IncidentOutcome.SUPERSEDED:
        took = "superseded"
    words = f"{one.bookie} {one.kind}, {ago(one.detected_at, now)}, {took}"
    return (
        f'<rect class="{one.outcome.value.lower()}" x="{left:.1f}" y="{place * ROW + 6}" '
        f'width="{width:.1f}" height="{BAR}" rx="2"><title>{escaped(words)}</title></rect>'
    )
