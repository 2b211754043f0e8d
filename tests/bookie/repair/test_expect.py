"""The verdict against counting every copy of every entry by hand."""

import os
import random

from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.repair.expect import (
    Holding,
    Verdict,
    at_least,
    judge,
    known_lac,
    must_exist_through,
    no_answer,
)

CASES = int(os.environ.get("EXPECT_CASES", "2000"))
BOOKIES = tuple(BookieId(f"b{number}") for number in range(9))
LEDGER = LedgerId(7)


def entries(ids: set[int]) -> EntrySet:
    return EntrySet.from_ranges((i, i) for i in ids)


def plain(found: EntrySet) -> set[int]:
    return {i for first, last in found.ranges() for i in range(first, last + 1)}


def random_ledger(rng: random.Random) -> LedgerMetadata:
    size = rng.randint(1, 7)
    write_quorum = rng.randint(1, size)
    starts = [0, *sorted(rng.sample(range(1, 30), rng.choice((0, 0, 1, 2))))]
    fragments = tuple(Fragment(EntryId(s), tuple(rng.sample(BOOKIES, size))) for s in starts)
    closed = rng.random() < 0.7
    return LedgerMetadata(
        ledger_id=LEDGER,
        ensemble_size=size,
        write_quorum=write_quorum,
        ack_quorum=rng.randint(1, write_quorum),
        fragments=fragments,
        state=LedgerState.CLOSED if closed else LedgerState.OPEN,
        last_entry_id=EntryId(rng.randint(starts[-1] - 1, 45)) if closed else NO_ENTRY,
    )


def random_holding(rng: random.Random, bookie_id: BookieId, through: int) -> Holding:
    status = rng.choice((Status.OK,) * 6 + (Status.UNKNOWN, Status.NO_SUCH_LEDGER))
    if rng.random() < 0.1:
        return no_answer(bookie_id, LEDGER, rng.choice((Status.UNREACHABLE, Status.IO_ERROR)))
    keep = rng.choice((1.0, 0.98, 0.7, 0.0))
    held = {i for i in range(through + 6) if rng.random() < keep}
    return Holding(
        bookie_id,
        LEDGER,
        status,
        entries=EMPTY if status is Status.NO_SUCH_LEDGER else entries(held),
        limbo=rng.random() < 0.15,
        unchecked=rng.random() < 0.1,
        lost=entries({i for i in range(through + 1) if rng.random() < 0.05}),
    )


def check_entry(
    entry: EntryId,
    metadata: LedgerMetadata,
    holdings: dict[BookieId, Holding],
    found: dict[str, set[int]],
) -> None:
    ensemble = metadata.fragment_of(entry).ensemble
    group = write_set(entry, ensemble=ensemble, write_quorum=metadata.write_quorum)
    answers = [holdings.get(b) for b in group]
    present = sum(h is not None and entry in h.entries for h in answers)
    missing = sum(h is not None and h.denies_absent and entry not in h.entries for h in answers)
    lost = not present and any(h is not None and entry in h.lost for h in answers)
    possible = len(group) - missing
    searched = all(h is not None and h.has_searched for h in answers)
    assert (entry in found["ok"]) == (present == len(group))
    assert (entry in found["lost"]) == lost
    assert (entry in found["missing"]) == (missing > 0 and not lost)
    assert (entry in found["unknown"]) == (not missing and present < len(group) and not lost)
    assert (entry in found["below_write_quorum"]) == (missing > 0 and not lost)
    assert (entry in found["below_ack_quorum"]) == (possible < metadata.ack_quorum and not lost)
    assert (entry in found["no_copy"]) == (possible == 0 and not lost)
    assert (entry in found["gone"]) == (searched and not present)


CLASSES = (
    "ok", "missing", "unknown", "lost", "below_write_quorum", "below_ack_quorum", "no_copy", "gone",
)  # fmt: skip


def check_case(seed: int) -> None:
    rng = random.Random(seed)
    metadata = random_ledger(rng)
    lac = EntryId(rng.randint(-1, 40))
    through = must_exist_through(metadata, lac=lac)
    holdings = {b: random_holding(rng, b, through) for b in BOOKIES if rng.random() < 0.95}
    verdict = judge(metadata, holdings, through=through)
    found = {name: plain(getattr(verdict, name)) for name in CLASSES}
    for entry in map(EntryId, range(through + 1)):
        check_entry(entry, metadata, holdings, found)
    assert set().union(*found.values()) <= set(range(through + 1))
    assert sum(len(found[n]) for n in ("ok", "missing", "unknown", "lost")) == verdict.entries


def test_verdict_agrees_with_counting_every_copy_by_hand() -> None:
    for seed in range(CASES):
        try:
            check_case(seed)
        except AssertionError as error:
            raise AssertionError(f"seed={seed}") from error


def ledger_of_three(*, last: int = 9, state: LedgerState = LedgerState.CLOSED) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=LEDGER,
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), BOOKIES[:3]),),
        state=state,
        last_entry_id=EntryId(last),
    )


def judged(metadata: LedgerMetadata, *holdings: Holding) -> Verdict:
    by_bookie = {holding.bookie_id: holding for holding in holdings}
    through = must_exist_through(metadata, lac=known_lac(holdings))
    return judge(metadata, by_bookie, through=through)


def held(number: int, *ranges: tuple[int, int], limbo: bool = False, lac: int = -1) -> Holding:
    found = EntrySet.from_ranges(ranges)
    return Holding(BOOKIES[number], LEDGER, Status.OK, found, limbo=limbo, lac=EntryId(lac))


def test_s42_absence_in_limbo_is_unknown_never_missing() -> None:
    verdict = judged(ledger_of_three(), held(0, (0, 9)), held(1, (0, 9)), held(2, limbo=True))
    assert not verdict.missing and len(verdict.unknown) == 10
    assert len(verdict.shares[BOOKIES[2]].lacking) == 10


def test_an_unreachable_bookie_lacks_nothing_and_denies_nothing() -> None:
    silent = no_answer(BOOKIES[2], LEDGER, Status.UNREACHABLE)
    verdict = judged(ledger_of_three(), held(0, (0, 9)), held(1, (0, 9)), silent)
    assert not verdict.missing and len(verdict.unknown) == 10
    assert not verdict.shares[BOOKIES[2]].lacking


def test_entries_too_many_elsewhere_do_not_hide_a_hole() -> None:
    verdict = judged(ledger_of_three(), held(0, (0, 99)), held(1, (0, 99)), held(2, (0, 4), (6, 9)))
    assert verdict.missing == EntrySet.from_ranges([(5, 5)])


def test_s35_an_entry_within_the_end_that_nobody_has_is_gone() -> None:
    verdict = judged(
        ledger_of_three(), held(0, (0, 8)), held(1, (0, 8), limbo=True), held(2, (0, 8))
    )
    assert verdict.gone == EntrySet.from_ranges([(9, 9)])
    assert not verdict.no_copy, "a bookie in limbo denies nothing"


def test_an_open_ledger_owes_what_its_known_lac_covers() -> None:
    metadata = ledger_of_three(last=-1, state=LedgerState.OPEN)
    verdict = judged(metadata, held(0, (0, 9), lac=5), held(1, (0, 5)), held(2, (0, 3)))
    assert verdict.entries == 6
    assert verdict.missing == EntrySet.from_ranges([(4, 5)])


def test_an_open_ledger_without_a_known_lac_owes_nothing() -> None:
    metadata = ledger_of_three(last=-1, state=LedgerState.OPEN)
    assert judged(metadata, held(0), held(1), held(2)).entries == 0


def test_an_empty_last_fragment_owes_nothing() -> None:
    verdict = judged(ledger_of_three(last=-1), held(0), held(1), held(2))
    assert verdict.is_ok and verdict.entries == 0


def test_a_recorded_loss_is_lost_until_a_copy_turns_up() -> None:
    lost = Holding(BOOKIES[0], LEDGER, Status.OK, lost=EntrySet.from_ranges([(0, 0)]))
    empty = ledger_of_three(last=0)
    assert len(judged(empty, lost, held(1), held(2)).lost) == 1
    found = judged(empty, lost, held(1, (0, 0)), held(2))
    assert not found.lost and len(found.missing) == 1


def test_at_least_counts_sets() -> None:
    sets = [EntrySet.from_ranges([r]) for r in ((0, 9), (5, 14), (9, 9))]
    assert at_least(2, sets).ranges() == [(5, 9)]
    assert at_least(3, sets).ranges() == [(9, 9)]
    assert at_least(4, sets).is_empty
