"""Identifiers used everywhere: plain ints and strings with a type of their own."""

from typing import Final, NewType

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
BookieId = NewType("BookieId", str)

NO_ENTRY: Final = EntryId(-1)
"""No entry at all: the LAC of a ledger without an acknowledged entry, the end of an empty
ledger."""

LEDGER_ID_MAX: Final = 2**63 - 1
ENTRY_ID_MAX: Final = 2**63 - 2
"""One less than `LEDGER_ID_MAX`, so that the exclusive end of a range of ids also fits a signed
64-bit number."""
