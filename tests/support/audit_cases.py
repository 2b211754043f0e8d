"""Random ledgers with random answers, and the verdict on them by counting every copy in plain sets.

The oracle shares no arithmetic with the product: no intervals, no closed forms, no columns.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.repair.judge.columns import Answer, AnswerColumns, LedgerColumns, answer_of
from bookie.repair.judge.expect import (
    Holding,
    Verdict,
    judge,
    known_lac,
    must_exist_through,
    no_answer,
)
from bookie.repair.judge.last_copies import Holders

BOOKIES: Final = tuple(BookieId(f"b{number}") for number in range(9))
CLASSES: Final = (
    "ok", "missing", "unknown", "lost", "below_write_quorum", "below_ack_quorum", "no_copy", "gone",
)  # fmt: skip
LEDGER_OF_THREE: Final = LedgerMetadata(
    ledger_id=LedgerId(7),
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(EntryId(0), BOOKIES[:3]),),
    state=LedgerState.CLOSED,
    last_entry_id=EntryId(9),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One ledger and the answers of its members, in the order of `members`; None = no answer."""

    metadata: LedgerMetadata
    holdings: Mapping[BookieId, Holding]
    answers: tuple[Answer | None, ...]

    @classmethod
    def of(
        cls, metadata: LedgerMetadata, holdings: Iterable[Holding], rng: random.Random | None = None
    ) -> "Case":
        """Blobs as other encoders write them too, when there is an `rng` to choose."""
        found = {holding.bookie_id: holding for holding in holdings}
        said = [found.get(bookie_id) for bookie_id in named(metadata)]
        return cls(metadata, found, tuple(None if h is None else encoded(h, rng) for h in said))

    @property
    def through(self) -> EntryId:
        said = [h for b, h in self.holdings.items() if b in named(self.metadata)]
        return must_exist_through(self.metadata, lac=known_lac(said))

    @property
    def verdict(self) -> Verdict:
        return judge(self.metadata, self.holdings, through=self.through)

    @property
    def is_answered(self) -> bool:
        """Every answer that came is one of a bookie that searched its disks."""
        return all(holding.has_searched for holding in self.holdings.values())


def named(metadata: LedgerMetadata) -> list[BookieId]:
    """Every bookie of every ensemble, in order of appearance."""
    return list(dict.fromkeys(b for part in metadata.fragments for b in part.ensemble))


# The oracle
def oracle(case: Case) -> dict[str, set[int]]:
    """Each class as a set of entry ids, found by looking at every copy of every entry."""
    found: dict[str, set[int]] = {name: set() for name in CLASSES}
    held = {b: plain(holding.entries) for b, holding in case.holdings.items()}
    lost = {b: plain(holding.lost) for b, holding in case.holdings.items()}
    for entry in range(case.through + 1):
        for name in classes_of(case, EntryId(entry), held, lost):
            found[name].add(entry)
    return found


def classes_of(
    case: Case,
    entry: EntryId,
    held: Mapping[BookieId, set[int]],
    lost: Mapping[BookieId, set[int]],
) -> list[str]:
    metadata = case.metadata
    ensemble = metadata.fragment_of(entry).ensemble
    owing = write_set(entry, ensemble=ensemble, write_quorum=metadata.write_quorum)
    present = [b for b in owing if entry in held.get(b, ())]
    absent = [b for b in owing if b not in present]
    denied = [b for b in absent if b in case.holdings and case.holdings[b].denies_absent]
    searched = [b for b in absent if b in case.holdings and case.holdings[b].has_searched]
    possible = len(owing) - len(denied)
    is_anywhere = any(entry in entries for entries in held.values())  # whoever owes it
    gone = ["gone"] if not is_anywhere and len(searched) == len(owing) else []
    if not absent:
        return ["ok"]
    # A record that the members hold; a copy that turned up outweighs it.
    if not present and any(entry in lost.get(b, ()) for b in owing):
        return ["lost", *gone]
    if not denied:
        return ["unknown", *gone]
    shortages = ["below_ack_quorum"] if possible < metadata.ack_quorum else []
    shortages += ["no_copy"] if possible == 0 and not is_anywhere else []
    return ["missing", "below_write_quorum", *shortages, *gone]


def holders_of(case: Case, copies_min: int) -> dict[Holders, int]:
    """Entries with too few known copies, by who has them and who may: copy by copy."""
    metadata, found = case.metadata, Counter[Holders]()
    lost = oracle(case)["lost"]
    held = {b: plain(holding.entries) for b, holding in case.holdings.items()}
    for entry in map(EntryId, range(case.through + 1)):
        ensemble = metadata.fragment_of(entry).ensemble
        owing = write_set(entry, ensemble=ensemble, write_quorum=metadata.write_quorum)
        known = [b for b in owing if entry in held.get(b, ())]
        perhaps = [
            b
            for b in owing
            if b not in known and not (b in case.holdings and case.holdings[b].denies_absent)
        ]
        enough = metadata.ack_quorum
        if metadata.is_closed:
            enough = max(enough, min(copies_min, len(owing)))
        if len(known) < enough and entry not in lost and (known or perhaps):
            found[Holders(tuple(sorted(known)), tuple(sorted(perhaps)))] += 1
    return dict(found)


def is_misplaced(metadata: LedgerMetadata, racks: Mapping[BookieId, str]) -> bool:
    """True when the copies of some entry, or of the next ones, are in one rack of several."""
    for number, part in enumerate(metadata.fragments):
        is_last = number == len(metadata.fragments) - 1
        if is_last and metadata.is_closed and metadata.last_entry_id < part.first_entry_id:
            continue
        for entry in range(metadata.ensemble_size):
            copies = write_set(
                EntryId(entry), ensemble=part.ensemble, write_quorum=metadata.write_quorum
            )
            if len(copies) > 1 and len({racks.get(b, b) for b in copies}) == 1:
                return True
    return False


def plain(found: EntrySet) -> set[int]:
    return {i for first, last in found.ranges() for i in range(first, last + 1)}


# Chance
def random_case(rng: random.Random, ledger_id: LedgerId) -> Case:
    metadata = random_ledger(rng, ledger_id)
    lac = EntryId(rng.randint(-1, 40))
    through = must_exist_through(metadata, lac=lac)
    # Half of all ledgers are wholly there: otherwise nearly all would be damaged somewhere.
    keeps = (1.0,) if rng.random() < 0.5 else (1.0, 0.98, 0.7, 0.0)
    silence = 0.0 if keeps == (1.0,) and rng.random() < 0.7 else 0.07
    owed = shares(metadata, through + 6)
    holdings = [
        random_holding(
            rng, ledger_id, b, owed[b], through, keep=rng.choice(keeps), silence=silence, lac=lac
        )
        for b in named(metadata)
        if rng.random() >= silence
    ]
    return Case.of(metadata, holdings, rng)


def random_ledger(rng: random.Random, ledger_id: LedgerId) -> LedgerMetadata:
    """Striped or not, of one to four fragments, the last one may be empty; open or closed."""
    size = rng.randint(1, 7)
    write_quorum = rng.choice((size, rng.randint(1, size)))
    starts = [0, *sorted(rng.sample(range(1, 30), rng.choice((0, 0, 1, 2, 3))))]
    fragments = tuple(Fragment(EntryId(s), tuple(rng.sample(BOOKIES, size))) for s in starts)
    closed = rng.random() < 0.7
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=size,
        write_quorum=write_quorum,
        ack_quorum=rng.randint(1, write_quorum),
        fragments=fragments,
        state=LedgerState.CLOSED if closed else LedgerState.OPEN,
        last_entry_id=EntryId(rng.randint(starts[-1] - 1, 45)) if closed else NO_ENTRY,
    )


def random_holding(
    rng: random.Random,
    ledger_id: LedgerId,
    bookie_id: BookieId,
    owed: set[int],
    through: int,
    *,
    keep: float,
    silence: float,
    lac: int,
) -> Holding:
    """Its share with holes, or all sorts of entries besides; perhaps marked, perhaps silent."""
    if rng.random() < silence:
        return no_answer(bookie_id, ledger_id, rng.choice((Status.UNREACHABLE, Status.IO_ERROR)))
    # Only what it owes, or too much: over-replication.
    share = owed if rng.random() < 0.6 else set(range(through + 6))
    held = share if keep == 1 else {e for e in share if rng.random() < keep}
    limbo, unchecked = rng.random() < 0.08, rng.random() < 0.08
    status = Status.UNKNOWN if limbo or unchecked else Status.OK
    if not held and rng.random() < 0.5:
        status = Status.NO_SUCH_LEDGER
    lost = entries(e for e in range(through + 1) if keep < 1 and rng.random() < 0.05)
    known = EntryId(rng.randint(-1, lac)) if rng.random() < 0.5 else EntryId(lac)
    return Holding(bookie_id, ledger_id, status, entries(held), limbo, unchecked, known, lost)


def shares(metadata: LedgerMetadata, end: int) -> dict[BookieId, set[int]]:
    """Which entries below `end` belong to whom."""
    found: dict[BookieId, set[int]] = {bookie_id: set() for bookie_id in named(metadata)}
    for entry in map(EntryId, range(end)):
        ensemble = metadata.fragment_of(entry).ensemble
        for bookie_id in write_set(entry, ensemble=ensemble, write_quorum=metadata.write_quorum):
            found[bookie_id].add(entry)
    return found


def entries(ids: Iterable[int]) -> EntrySet:
    found = list(ids)
    return EntrySet.from_ranges((i, i) for i in found) if found else EMPTY


# Encodings
def encoded(holding: Holding, rng: random.Random | None) -> Answer:
    if rng is None or rng.random() < 0.6:
        return answer_of(holding)
    plainly = answer_of(replace(holding, entries=EMPTY))
    return plainly._replace(entries=unmerged(holding.entries, rng))


def unmerged(found: EntrySet, rng: random.Random) -> bytes:
    """A group for each run, as Apache's encoder writes it, or for pieces of runs."""
    groups: list[tuple[int, int, int, int]] = []
    for first, last in found.ranges():
        cut = rng.randint(first, last) if rng.random() < 0.3 else last
        groups.append((first, first, cut - first + 1, 0))
        if cut < last:
            groups.append((cut + 1, last, 1, 1))
    head = np.array([0, len(groups)], ">i4").tobytes().ljust(64, b"\0")
    return head + np.array(groups, ">i8,>i8,>i4,>i4").tobytes() if groups else head


# Columns
def ledger_columns(ledgers: Sequence[LedgerMetadata]) -> LedgerColumns:
    """Rows in this order; ids may repeat."""
    columns = LedgerColumns.of({LedgerId(n): Versioned(m, 0) for n, m in enumerate(ledgers)})
    ledger_id = np.array([metadata.ledger_id for metadata in ledgers], np.int64)
    return replace(columns, ledger_id=ledger_id)


def answer_columns(
    ledgers: LedgerColumns, answers: Sequence[Sequence[Answer | None]]
) -> AnswerColumns:
    """For each ledger the answers of its members in order of appearance; None is left out."""
    bounds = np.append(0, np.cumsum(np.repeat(ledgers.ensemble_size, np.diff(ledgers.fragments))))
    of_ledger: list[list[tuple[int, Answer]]] = []
    for row, said in enumerate(answers):
        first, last = bounds[ledgers.fragments[row]], bounds[ledgers.fragments[row + 1]]
        codes = list(dict.fromkeys(ledgers.members[first:last].tolist()))
        pairs = zip(codes, said, strict=True)
        of_ledger.append([(code, answer) for code, answer in pairs if answer is not None])
    return AnswerColumns.of(of_ledger)
