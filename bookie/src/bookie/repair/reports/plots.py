"""Bars of copies by bookie as inline SVG: no script, no image, nothing from outside.

Widths are percentages of what the browser gives, so that a plot fits any window. Two bars to a
bookie: what it owes, and below it what is definitely missing on a scale of its own, since one
missing copy of a billion would be no pixel on the first. Both scales are common to all bookies.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

BOOKIES_MAX: Final = 100
"""Bookies plotted, worst first; the rest is in the result object."""
PARTS: Final = ("held", "missing", "corrupt", "unknown")
"""Of a bar, from left to right. `missing` is drawn without `corrupt`, which is a part of it."""
BAR: Final = 16
THIN: Final = 6
GAP: Final = 3
"""Heights in pixels."""
DEFINITIONS: Final = (
    '<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs>'
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-back"/>'
    '<rect width="3" height="6" class="hatch-line"/></pattern></defs></svg>'
)


def copies_plot(rows: Sequence[Row]) -> str:
    """A figure with a row for each bookie; rows as in `copies[]` of the result object."""
    shown = sorted(rows, key=_worst_first)[:BOOKIES_MAX]
    owed_max = max((row["owed"] for row in rows), default=0)
    missing_max = max((row["missing"] for row in rows), default=0)
    parts = [_row(row, owed_max=owed_max, missing_max=missing_max) for row in shown]
    if len(rows) > len(shown):
        parts.append(f"<p>and {len(rows) - len(shown):,} more bookies, which lack no more</p>")
    second = _scale(missing_max, "thin bar: what is missing, full width") if missing_max else ""
    legend = "".join(f'<span><i class="key {part}"></i>{part}</span>' for part in PARTS)
    return (
        f'{DEFINITIONS}<figure class="copies"><figcaption>{legend}'
        f"<span>{_scale(owed_max, 'thick bar: what is owed, full width')}</span>"
        f"<span>{second}</span></figcaption>{''.join(parts)}</figure>"
    )


def _scale(most: int, text: str) -> str:
    return f"{text} = {most:,} copies"


def _worst_first(row: Row) -> tuple[int, int, str]:
    return (-row["missing"], -row["unknown"], row["bookie_id"])


def _row(row: Row, *, owed_max: int, missing_max: int) -> str:
    height = BAR + (GAP + THIN if missing_max else 0)
    bars = _bar(row, PARTS, most=owed_max, top=0, height=BAR)
    if missing_max:
        bars += _bar(row, PARTS[1:3], most=missing_max, top=BAR + GAP, height=THIN)
    label = "; ".join(f"{name} {row[name]:,}" for name in ("owed", *PARTS))
    bookie = html.escape(str(row["bookie_id"]))
    place = html.escape(str(row.get("rack") or ""))
    return (
        f'<div class="row" data-bookie="{bookie}"><div class="name">{bookie} <small>{place}</small>'
        f'</div><svg role="img" width="100%" height="{height}" aria-label="{bookie}: {label}">'
        f'<rect class="track" width="{_percent(row["owed"], owed_max)}" height="{BAR}"/>{bars}'
        f'</svg><div class="figures">{_figures(row)}</div></div>'
    )


def _bar(row: Row, parts: Iterable[str], *, most: int, top: int, height: int) -> str:
    drawn, at = "", 0
    for part in parts:
        size = row["missing"] - row["corrupt"] if part == "missing" else row[part]
        if size:
            drawn += (
                f'<rect class="{part}" x="{_percent(at, most)}" y="{top}" '
                f'width="{_percent(size, most)}" height="{height}" data-copies="{size}"/>'
            )
        at += size
    return drawn


def _percent(part: int, most: int) -> str:
    return f"{100 * part / most if most else 0:.6f}%"


def _figures(row: Row) -> str:
    names = ["owed", "held", *(name for name in PARTS[1:] if row[name])]
    return " · ".join(f'<span class="of {name}">{name} {row[name]:,}</span>' for name in names)
