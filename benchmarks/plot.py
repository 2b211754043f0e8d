"""A bar chart as SVG, for documents that are read in a browser or on a forge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 900
NAMES: Final = 360
"""Width of the column of names."""
STEP: Final = 22
TOP: Final = 48
FONT: Final = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    low: float
    high: float


def bars(title: str, shown: Sequence[Bar]) -> str:
    """Horizontal bars from 0, each with a whisker from low to high; a line at 1."""
    top = max([1.0, *(bar.high for bar in shown)])
    scale = (WIDTH - NAMES - 60) / top
    height = TOP + STEP * len(shown) + 16
    one = NAMES + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *(_bar(bar, TOP + STEP * number, scale) for number, bar in enumerate(shown)),
        f'<line x1="{one:.1f}" y1="{TOP - 8}" x2="{one:.1f}" y2="{height - 12}" '
        'stroke="#999" stroke-dasharray="4 3"/>',
        f'<text x="{one:.1f}" y="{TOP - 12}" text-anchor="middle" fill="#666">1.0</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def _bar(bar: Bar, y: float, scale: float) -> str:
    middle = y + 8
    low, high = NAMES + bar.low * scale, NAMES + bar.high * scale
    return (
        f'<text x="{NAMES - 8}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>'
        f'<rect x="{NAMES}" y="{y}" width="{bar.value * scale:.1f}" height="15" fill="#4878a8"/>'
        f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="#222"/>'
        f'<text x="{high + 6:.1f}" y="{y + 12}">{bar.value:.2f}</text>'
    )
