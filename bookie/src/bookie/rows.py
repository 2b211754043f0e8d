"""Rows for people: a table where the screen has room for one, and no word in it is ever cut.

Ids, names and folders are there to be copied. What does not fit beside the rest goes below: first
the last column, which has the sentences, then all of them. Asked by every command line.
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
            yield Text(self.title, "italic")
        columns = list(zip(self.headings, *self.rows, strict=True))
        room = options.max_width - GAP * (len(columns) - 1)
        words = [max(map(_longest_word, column)) for column in columns]
        lines = [max(map(_longest_line, column)) for column in columns]
        if sum(words) <= room:
            yield self._table(_widths(words, lines, room=room), self.headings, self.rows)
        elif sum(words[:-1]) <= room + GAP and words[-1] <= options.max_width - GAP:
            yield from self._last_below(_widths(words[:-1], lines[:-1], room=room + GAP))
        else:
            yield from self._records()

    def _table(
        self,
        widths: Sequence[int],
        headings: Sequence[str],
        rows: Iterable[Sequence[Cell]],
    ) -> Table:
        """Empty headings are not shown."""
        has_headings = any(headings)
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=has_headings)
        for name, heading, width in zip(self.headings, headings, widths, strict=False):
            is_number = name in self.numbers
            table.add_column(heading, justify="right" if is_number else "left", width=width)
        for row in rows:
            table.add_row(*map(_text, row))
        return table

    def _last_below(self, widths: Sequence[int]) -> Iterator[RenderableType]:
        """Each row's last cell on lines of its own."""
        yield self._table(widths, self.headings[:-1], ())
        yield Padding(Text(self.headings[-1], "bold"), (0, 0, 0, GAP))
        for *cells, last in self.rows:
            yield self._table(widths, [""] * len(cells), [cells])
            if last:
                yield Padding(_text(last), (0, 0, 0, GAP))

    def _records(self) -> Iterator[Table | Text]:
        for place, row in enumerate(self.rows):
            if place:
                yield Text()
            yield record(zip(self.headings, row, strict=True))


def record(fields: Iterable[tuple[str, Cell]]) -> Table:
    """`name  value` lines."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(Text(name), _text(value))
    return table


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


def _longest_word(cell: Cell) -> int:
    return max((cell_len(word) for word in str(cell).split()), default=0)


def _longest_line(cell: Cell) -> int:
    return max((cell_len(line) for line in str(cell).splitlines()), default=0)


def _text(cell: Cell) -> Text:
    """What looks like markup is shown as it is."""
    return cell if isinstance(cell, Text) else Text(cell)
