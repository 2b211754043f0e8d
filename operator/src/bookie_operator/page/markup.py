"""Text of the status as HTML: escaped, with the styles of the tree as classes."""

import html
from itertools import pairwise
from typing import Final

from rich.text import Text

CLASSES: Final = {
    "green": "good",
    "yellow": "unsure",
    "red": "bad",
    "cyan": "busy",
    "dim": "dim",
    "bold": "b",
}
"""Of each word of a style."""


def escaped(value: object) -> str:
    return html.escape(str(value))


def line_of(text: Text) -> str:
    """A line of the tree, its styled parts in spans."""
    plain = text.plain
    places = {0, len(plain), *(p for span in text.spans for p in (span.start, span.end))}
    parts = []
    for begin, end in pairwise(sorted(place for place in places if place <= len(plain))):
        styles = [str(text.style)]
        styles += [str(s.style) for s in text.spans if s.start <= begin and s.end >= end]
        names = [CLASSES[word] for style in styles for word in style.split() if word in CLASSES]
        part = escaped(plain[begin:end])
        parts.append(f'<span class="{" ".join(names)}">{part}</span>' if names else part)
    return "".join(parts)


def list_of(lines: list[Text]) -> str:
    return f"<ul>{''.join(f'<li>{line_of(line)}</li>' for line in lines)}</ul>"
