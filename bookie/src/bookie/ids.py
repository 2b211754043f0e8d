"""Identifiers used everywhere: plain ints and strings with a type of their own."""

from typing import Final, NewType

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
BookieId = NewType("BookieId", str)

NO_ENTRY: Final = EntryId(-1)
"""No entry at all: the LAC of a ledger nothing was acknowledged in, the end of an empty ledger."""

LEDGER_ID_MAX: Final = 2**63 - 1
ENTRY_ID_MAX: Final = 2**63 - 2
"""The end behind a range of ids, which is this plus one, is a signed 64-bit number as well."""
