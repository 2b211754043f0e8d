"""Print rows for people: as a table if the screen has room for it, without cutting a word.

People copy ids, names and folders from these rows, so each stays in one piece. If the table is too
wide, the last column, which holds the sentences, moves below its row; if that is still too wide,
every column does. Only a word longer than the screen is broken. Control characters in text from
others are made visible, so that they cannot steer the terminal. Every command of the project prints
its rows here.
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
"""Blank screen columns between two columns of a table."""
Cell = str | Text


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows under headings; rich prints them. `numbers`: headings of the columns to align right."""

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
        """Make the table; a table whose headings are all empty gets no heading line."""
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
        """Print the last cell of each row on lines of its own, below the row."""
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
    """One object as `name value` lines; a value with no room beside its name stands below it."""

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
    """Print one object, one field a line."""
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
    """Share `room` among the columns. The last column gets what the others leave. If that is too
    little for its longest word, each column gets the width of its longest word and a share of the
    rest; the columns that need least come first.
    """
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
    """Return the width of the longest word, at least 1 if there is a word: the terminal uses one
    column even for a character without width.
    """
    return max((max(1, cell_len(word)) for word in cell.plain.split()), default=0)


def _longest_line(cell: Text) -> int:
    return max((max(1, cell_len(line)) for line in cell.plain.splitlines()), default=0)


def _text(cell: Cell) -> Text:
    """Make a cell printable. Text that looks like markup is printed literally. If a character had
    to be replaced, the text loses the colours of its parts.
    """
    style, plain = (cell.style, cell.plain) if isinstance(cell, Text) else ("", cell)
    shown = "\n".join(map(_line, plain.split("\n")))
    return cell if isinstance(cell, Text) and shown == plain else Text(shown, style)


def _line(line: str) -> str:
    """Replace each kind of blank by a space and strip both ends: rich counts blanks at an end as
    part of the word.
    """
    return printable("".join(" " if c.isspace() else c for c in line)).strip()
