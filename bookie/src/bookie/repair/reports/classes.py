"""The classes of findings, worst first, and how many findings and entries are in each.

One list for the result object, the page, the command line, the tables of Parquet files, the
operator's figures and its alerts: docs/audit.md says what each means, in the words of MEANINGS.
A class that is part of another comes before it: corrupt copies count as missing ones, too.
"""

from collections.abc import Iterable
from typing import Any, Final

from bookie.protocol.availability import EntrySet
from bookie.repair.judge.expect import Verdict
from bookie.repair.judge.quorums import LOW

MEANINGS: Final = {
    "no_copy": "no copy at all is left",
    "lost": "no copy is left, and a durable loss record says so",
    "gone": "no copy can be read, and every bookie that should have one searched its disks",
    "below_ack_quorum": "fewer copies than the ack quorum",
    "corrupt": "a copy is there and cannot be read back, or its digest is wrong",
    "missing": "a copy is definitely not there",
    "below_write_quorum": "fewer copies than the write quorum",
    "unknown": "no copy is known to be missing, but one is not known to be there",
}
OF_ENTRIES: Final = tuple(MEANINGS)
SILENT: Final = "silent_bookie"
UNREADABLE: Final = "metadata_unreadable"
UNDERREPLICATED: Final = "underreplicated"
OF_OTHERS: Final = {
    SILENT: "a bookie is registered and gives no answer",
    UNREADABLE: "the metadata of a ledger cannot be read, so nothing is known of its entries",
    UNDERREPLICATED: "a ledger has been marked under-replicated for longer than is granted",
    LOW: "a ledger's ack quorum is lower than is asked for",
    "placement_soft": "one rack holds all copies of an entry, though there are more racks",
    "placement_strict": "copies of an entry span fewer racks than are asked for",
}
"""Of ledgers and bookies as a whole: no entries are counted. No reason to say that data is lost."""


def entries_by_class(verdict: Verdict) -> dict[str, EntrySet]:
    """What is wrong with one ledger; classes that hold nothing are left out."""
    found = {name: getattr(verdict, name) for name in OF_ENTRIES}
    return {name: entries for name, entries in found.items() if entries}


def classes_json(verdicts: Iterable[Verdict]) -> dict[str, dict[str, Any]]:
    """Of every class of entries, also of empty ones: ledgers as `findings`, and `entries`."""
    counts = {name: {"findings": 0, "entries": 0} for name in OF_ENTRIES}
    for verdict in verdicts:
        for name, entries in entries_by_class(verdict).items():
            counts[name]["findings"] += 1
            counts[name]["entries"] += len(entries)
    return counts
