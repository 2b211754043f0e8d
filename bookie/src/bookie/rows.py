"""Rows for people: a table where the screen has room for one; no word is cut that fits the screen.

Ids, names and folders are there to be copied. What does not fit beside the rest goes below: first
the last column, which has the sentences, then all of them. A word longer than the screen goes on
in the next line. What others wrote cannot steer the terminal. Asked by every command line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP: Final = 2
"""Columns of a screen between two of a table."""
Cell = str | Text


@dataclass(frozen=True, slots=True)
class Rows:
    """`numbers`: headings of the columns that stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Iterable[str] = ()
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(printable(self.title), "italic")
        if self.headings:
            headings = [_text(heading) for heading in self.headings]
            rows = [[_text(cell) for cell in row] for row in self.rows]
            yield from self._drawn(headings, rows, columns=options.max_width)

    def _drawn(
        self, headings: Sequence[Text], rows: Sequence[Sequence[Text]], *, columns: int
    ) -> Iterator[RenderableType]:
        room = columns - GAP * (len(headings) - 1)
        cells = list(zip(headings, *rows, strict=True))
        words = [max(map(_longest_word, column)) for column in cells]
        lines = [max(map(_longest_line, column)) for column in cells]
        if sum(words) <= room:
            yield self._table(_widths(words, lines, room=room), headings, rows)
        elif sum(words[:-1]) <= room + GAP and words[-1] <= columns - GAP:
            widths = _widths(words[:-1], lines[:-1], room=room + GAP)
            yield from self._last_below(widths, headings, rows)
        else:
            yield from self._records(rows)

    def _table(
        self, widths: Sequence[int], headings: Sequence[Text], rows: Iterable[Sequence[Text]]
    ) -> Table:
        """Empty headings are not shown."""
        has_headings = any(headings)
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=has_headings)
        for name, heading, width in zip(self.headings, headings, widths, strict=False):
            is_number = name in self.numbers
            table.add_column(
                heading,
                justify="right" if is_number else "left",
                width=width,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*row)
        return table

    def _last_below(
        self, widths: Sequence[int], headings: Sequence[Text], rows: Iterable[Sequence[Text]]
    ) -> Iterator[RenderableType]:
        """Each row's last cell on lines of its own."""
        yield self._table(widths, headings[:-1], ())
        yield Padding(Text(headings[-1].plain, "bold"), (0, 0, 0, GAP))
        for *cells, last in rows:
            yield self._table(widths, [Text()] * len(cells), [cells])
            if last:
                yield Padding(last, (0, 0, 0, GAP))

    def _records(self, rows: Iterable[Sequence[Text]]) -> Iterator[RenderableType]:
        for place, row in enumerate(rows):
            if place:
                yield Text()
            yield record(zip(self.headings, row, strict=True))


@dataclass(frozen=True, slots=True)
class Record:
    """`name  value` lines; a value that has no room beside its name stands below it."""

    fields: Sequence[tuple[str, Cell]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fields = [(_text(name), _text(value)) for name, value in self.fields]
        names = max((_longest_line(name) for name, _ in fields), default=0)
        room = options.max_width - names - GAP
        for name, value in fields:
            word = _longest_word(value)
            if word <= room:
                yield _side_by_side(name, value, names=names, room=room)
                continue
            yield Text(name.plain, "bold")
            if value:
                yield Padding(value, (0, 0, 0, max(0, min(GAP, options.max_width - word))))


def record(fields: Iterable[tuple[str, Cell]]) -> Record:
    """One object, a field a line."""
    return Record(tuple(fields))


def _side_by_side(name: Text, value: Text, *, names: int, room: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", width=names)
    table.add_column(width=min(room, _longest_line(value)), overflow="fold")
    table.add_row(name, value)
    return table


def printable(text: str) -> str:
    """What does not print as its number: neither control codes nor marks that turn the direction
    of writing reach the terminal, and rich miscounts what it joins at a U+200D."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _widths(words: Sequence[int], lines: Sequence[int], *, room: int) -> list[int]:
    """The last column what the others leave, or, where that is too little for its longest word,
    each its longest word and of the rest its share, with those that need least first."""
    others = sum(lines[:-1])
    if others + words[-1] <= room:
        return [*lines[:-1], min(lines[-1], room - others)]
    widths = list(words)
    left = room - sum(words)
    by_need = sorted(range(len(words)), key=lambda place: lines[place] - words[place])
    for number, place in enumerate(by_need):
        share = min(lines[place] - words[place], left // (len(by_need) - number))
        widths[place] += share
        left -= share
    return widths


def _longest_word(cell: Text) -> int:
    """At least 1 if there is a word: a mark without width is drawn in a column all the same."""
    return max((max(1, cell_len(word)) for word in cell.plain.split()), default=0)


def _longest_line(cell: Text) -> int:
    return max((max(1, cell_len(line)) for line in cell.plain.splitlines()), default=0)


def _text(cell: Cell) -> Text:
    """What looks like markup is shown as it is; what must not be shown costs a text the colours
    of its parts."""
    style, plain = (cell.style, cell.plain) if isinstance(cell, Text) else ("", cell)
    shown = "\n".join(map(_line, plain.split("\n")))
    return cell if isinstance(cell, Text) and shown == plain else Text(shown, style)


def _line(line: str) -> str:
    """Blank space of any kind is a space, and none is at the ends: rich counts it to a word."""
    return printable("".join(" " if c.isspace() else c for c in line)).strip()
