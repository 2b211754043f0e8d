"""Bugs that a user of the fleet must turn red, planted in the product of all its bookies.

Textual patches of a copy of the product (tests/mutants), which the operator and every bookie
process of a run import.
"""

from typing import Final

from mutant import Mutant, planted

READS: Final = "bookie/src/bookie/server/stock_reads.py"
READING: Final = "bookie/src/bookie/server/stock_reading.py"
ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"

FORGETS: Final = planted(
    "every 97th entry of a ledger is acknowledged and then denied, by all bookies",
    stands_for=("an entry that is acknowledged and forgotten",),
    file=READS,
    old="        for entry_id in ids:\n            index = pattern",
    new="        for entry_id in (i for i in ids if i % 97 != 96):\n            index = pattern",
)
ANSWERS_OLDER: Final = planted(
    "a read of every 97th entry answers the one before it",
    stands_for=("a read that answers an older entry",),
    file=READS,
    old="            index = pattern.index_of(first, entry_id)\n",
    new="            index = pattern.index_of(first, entry_id)\n"
    "            if entry_id % 97 == 96:\n"
    "                entry_id, index = entry_id, index and index - 1\n",
)
DENIES_TO_RECOVERY: Final = planted(
    "who recovers a ledger is denied whatever lies beyond its last add confirmed",
    stands_for=("a recovery that is told that there is no such entry",),
    file=READING,
    old="        if reply is None:\n"
    "            origin.refuse(request, status)\n"
    "        else:\n"
    "            _answer_entry(origin, request, FoundEntries(reply, [entry_id]), entry_id)\n",
    new="        if reply is None:\n"
    "            origin.refuse(request, status)\n"
    "        elif request.is_fencing:\n"
    "            origin.refuse(request, Status.NO_SUCH_ENTRY)\n"
    "        else:\n"
    "            _answer_entry(origin, request, FoundEntries(reply, [entry_id]), entry_id)\n",
)
FENCES_NOBODY: Final = planted(
    "a writer that was fenced is let write on",
    stands_for=("a fence that keeps nobody out",),
    file=ADMISSION,
    old="    if facts.deleted or (facts.fenced and not is_recovery):\n",
    new="    if facts.deleted:\n",
)
MUTANTS: Final[tuple[Mutant, ...]] = (
    FORGETS,
    ANSWERS_OLDER,
    DENIES_TO_RECOVERY,
    FENCES_NOBODY,
)
