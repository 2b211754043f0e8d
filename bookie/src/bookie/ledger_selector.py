"""Which ledgers a person means: ids, ranges, and the entry that each is expected to end before.

One decision may be about hundreds of ledgers. The text is that of the command line, of a task and
of what the status proposes to copy: `4,9-12,40@7`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bookie.errors import BadRequestError
from bookie.ids import ENTRY_ID_MAX, LEDGER_ID_MAX, EntryId, LedgerId

TEXT_MAX: Final = 4096
"""Characters; about 400 ledgers with their entries, or any number in ranges."""
PATTERN: Final = r"[0-9]+(-[0-9]+|@[0-9]+)?(,[0-9]+(-[0-9]+|@[0-9]+)?)*"
"""Of the whole text, as Kubernetes checks it."""
_PART: Final = re.compile(r"([0-9]+)(?:-([0-9]+)|@([0-9]+))?")


@dataclass(frozen=True, slots=True)
class SelectedLedgers:
    """The ledgers `first` to `last`, both included."""

    first: LedgerId
    last: LedgerId
    entry: EntryId | None = None
    """Of a single ledger: the entry that is expected to be undecided; None: nobody named one."""

    @property
    def is_range(self) -> bool:
        return self.first != self.last

    def __str__(self) -> str:
        if self.is_range:
            return f"{self.first}-{self.last}"
        return str(self.first) if self.entry is None else f"{self.first}@{self.entry}"


@dataclass(frozen=True, slots=True)
class LedgerSelector:
    """Parts in rising order that do not overlap."""

    parts: tuple[SelectedLedgers, ...]

    @classmethod
    def of(cls, ends: Iterable[tuple[int, int]]) -> "LedgerSelector":
        """Single ledgers, each with the entry in question."""
        single = {LedgerId(ledger): EntryId(entry) for ledger, entry in ends}
        return cls(tuple(SelectedLedgers(one, one, single[one]) for one in sorted(single)))

    @property
    def single(self) -> SelectedLedgers | None:
        """The only ledger; None: they are several, or a range."""
        return self.parts[0] if len(self.parts) == 1 and not self.parts[0].is_range else None

    def __str__(self) -> str:
        return ",".join(map(str, self.parts))


def parse_selector(text: str, *, entry: int | None = None) -> LedgerSelector:
    """`entry` with one ledger is another way to write LEDGER@ENTRY. BadRequestError says which part
    is wrong, and what one looks like."""
    if len(text) > TEXT_MAX:
        raise BadRequestError(
            f"found a selector of {len(text)} characters, expected at most {TEXT_MAX}: name ranges"
        )
    parts = sorted(map(_parsed, text.split(",")), key=lambda part: part.first)
    for one, following in pairwise(parts):
        if following.first <= one.last:
            raise BadRequestError(f"found ledger {following.first} twice in {text}, expected once")
    selector = LedgerSelector(tuple(parts))
    if entry is None:
        return selector
    if selector.single is None or selector.single.entry is not None:
        raise BadRequestError(f"found ledgers {text}, expected one, without an entry, for --entry")
    return parse_selector(f"{text}@{entry}")


def _parsed(text: str) -> SelectedLedgers:
    found = _PART.fullmatch(text)
    first = int(found[1]) if found else -1
    last = int(found[2]) if found and found[2] else first
    entry = EntryId(int(found[3])) if found and found[3] else None
    if not 0 <= first <= last <= LEDGER_ID_MAX or (entry or 0) > ENTRY_ID_MAX:
        raise BadRequestError(
            f"found {text!r}, expected ledgers such as 4, 9-12 or 40@7 (ledger 40, of which entry "
            "7 is in question), with commas between them"
        )
    return SelectedLedgers(LedgerId(first), LedgerId(last), entry)
