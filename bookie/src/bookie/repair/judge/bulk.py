"""The judgement of many ledgers at once: which are wholly there. No Python per ledger or entry.

Pure numpy over columns. Per fragment and member, the entries owed are counted in closed form, and
so are those of them that the member's BP-34 groups hold; equal counts of an intersection are equal
sets. What is not wholly there, or cannot be decided by counting (odd groups, silent bookies), is
`doubtful`: the audit looks at it again, ledger by ledger, with `expect.judge`. Doubt is never an
error: it only costs time.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bookie.protocol.availability import GROUP, HEADER_BYTES, VERSION, Ids, wrong_groups
from bookie.protocol.status import Status
from bookie.repair.judge.columns import (
    AnswerColumns,
    Blobs,
    Bytes,
    Flags,
    LedgerColumns,
    bounds_of,
    rows_of,
    spread,
)

SHORT_SEQUENCES: Final = 4
"""Groups of no more sequences are taken apart."""
_VAST: Final = 1 << 62
"""Beyond it ids of many answers do not fit side by side into int64."""


@dataclass(frozen=True, slots=True)
class Judged:
    """For each ledger: the last entry that must exist, and whether anything is in doubt.

    `is_marked`: some member holds it in limbo or unchecked, though all entries may be there.
    `copies`: for each bookie, by index, its copies of ledgers that are not in doubt.
    """

    through: Ids
    is_doubtful: Flags
    is_marked: Flags
    copies: Ids


@dataclass(frozen=True, slots=True)
class _Groups:
    """The BP-34 groups of all answers: those of answer i are rows `bounds[i]`..`bounds[i+1]-1`.

    `end`: last entry id of the group. `is_wrong`: of the answer, a blob of no known form.
    """

    bounds: Ids
    first: Ids
    end: Ids
    size: Ids
    period: Ids
    is_wrong: Flags


@dataclass(frozen=True, slots=True)
class _Shares:
    """What members owe: one row per fragment and position that owes anything.

    Entries `first`..`last` whose place modulo `ensemble_size`, from `start` on, is below
    `write_quorum`. `member`: the bookie, by index; `answer`: the row of its answer, -1 = none.
    """

    ledger: Ids
    member: Ids
    answer: Ids
    first: Ids
    last: Ids
    start: Ids
    ensemble_size: Ids
    write_quorum: Ids


def judge_bulk(ledgers: LedgerColumns, answers: AnswerColumns) -> Judged:
    """Judge every ledger by these answers."""
    through = _through(ledgers, answers)
    is_doubtful = ledgers.is_accepted.copy()
    marked, of_answer = answers.limbo | answers.unchecked, rows_of(answers.ledgers)
    is_marked = np.zeros(len(ledgers), np.bool_)
    is_marked[of_answer[marked]] = True
    groups = _groups(answers.entries)
    # Nothing has to be said, too: an empty string is no blob.
    unsaid = (answers.status == Status.OK) & (np.diff(answers.entries.bounds) == 0)
    unsure = groups.is_wrong | unsaid | ~_has_searched(answers, marked)
    is_doubtful[of_answer[unsure]] = True
    id_max = _VAST // max(len(answers), 1)
    is_doubtful[through > id_max] = True
    shares = _shares(ledgers, answers, np.minimum(through, id_max))
    owed = _count(
        shares.first, shares.last, shares.start, shares.write_quorum, shares.ensemble_size
    )
    is_doubtful[shares.ledger[_held_of(shares, groups, id_max) != owed]] = True
    copies = np.zeros(len(ledgers.bookies), np.int64)
    fine = ~is_doubtful[shares.ledger]
    np.add.at(copies, shares.member[fine], owed[fine])
    return Judged(through, is_doubtful, is_marked, copies)


def _has_searched(answers: AnswerColumns, marked: Flags) -> Flags:
    definite = (answers.status == Status.OK) | (answers.status == Status.NO_SUCH_LEDGER)
    searched: Flags = definite | ((answers.status == Status.UNKNOWN) & marked)
    return searched


def _through(ledgers: LedgerColumns, answers: AnswerColumns) -> Ids:
    """`expect.must_exist_through` of each ledger."""
    known = np.full(len(ledgers), -1, np.int64)
    np.maximum.at(known, rows_of(answers.ledgers), answers.lac)
    certain = np.maximum(ledgers.first_entry_id[ledgers.fragments[1:] - 1] - 1, known)
    return np.where(ledgers.is_closed, ledgers.last_entry_id, certain)


# What is owed
def _shares(ledgers: LedgerColumns, answers: AnswerColumns, through: Ids) -> _Shares:
    of_fragment = rows_of(ledgers.fragments)
    first = ledgers.first_entry_id
    last = np.append(first[1:] - 1, 0)[: len(first)]
    last[ledgers.fragments[1:] - 1] = through
    last = np.minimum(last, through[of_fragment])
    sizes = ledgers.ensemble_size[of_fragment]
    ensembles = bounds_of(sizes, len(sizes))
    fragment = rows_of(ensembles)
    position = np.arange(len(fragment)) - ensembles[fragment]
    ledger = of_fragment[fragment]
    quorum = ledgers.write_quorum[ledger]
    owing = last[fragment] >= first[fragment]
    shares = _Shares(
        ledger=ledger,
        member=ledgers.members,
        answer=_answers_of(answers, ledger, ledgers.members, len(ledgers.bookies)),
        first=first[fragment],
        last=last[fragment],
        start=position - quorum + 1,
        ensemble_size=sizes[fragment],
        write_quorum=quorum,
    )
    return shares if owing.all() else _taken(shares, owing)


def _taken(shares: _Shares, rows: Flags | Ids) -> _Shares:
    return _Shares(*(getattr(shares, name)[rows] for name in _Shares.__dataclass_fields__))


def _answers_of(answers: AnswerColumns, ledger: Ids, member: Ids, bookies: int) -> Ids:
    """The row of each member's answer about the ledger, -1 where there is none."""
    if len(answers) == 0:
        return np.full(len(ledger), -1, np.int64)
    given = rows_of(answers.ledgers) * bookies + answers.bookie
    if np.array_equal(given, wanted := ledger * bookies + member):
        return np.arange(len(ledger))  # one fragment each, asked in order: nothing to look up
    order = np.argsort(given, kind="stable")
    at = np.minimum(np.searchsorted(given[order], wanted), len(given) - 1)
    return np.where(given[order][at] == wanted, order[at], -1)


# What is there
def _groups(blobs: Blobs) -> _Groups:
    of_blob, found, is_wrong = _parsed(blobs)
    first, last, size, period = (found[name].astype(np.int64) for name in GROUP.names or ())
    bad = wrong_groups(first, last, size, period)
    short = ~bad & (size < period) & (last - first < SHORT_SEQUENCES * period)
    if short.any():
        # One group for each sequence: at the edges of fragments their period is that of no stripe.
        sequences = np.where(short, (last - first) // np.maximum(period, 1) + 1, 1)
        row, turn = np.repeat(np.arange(len(first)), sequences), spread(0 * first, sequences)
        first, last = first[row] + turn * period[row], last[row]
        last, period = np.where(short[row], first, last), np.where(short, 0, period)[row]
        size, bad, of_blob = size[row], bad[row], of_blob[row]
    # Counting takes groups for disjoint: an overlap would count an entry twice and hide a hole.
    end = np.where(bad, 0, last) + np.where(bad, 0, size) - 1
    bad[1:] |= (of_blob[1:] == of_blob[:-1]) & (first[1:] <= end[:-1])
    is_wrong[of_blob[bad]] = True
    bounds = bounds_of(np.bincount(of_blob, minlength=len(blobs)), len(blobs))
    return _Groups(bounds, first, end, size, period, is_wrong)


def _parsed(blobs: Blobs) -> tuple[Ids, NDArray[np.void], Flags]:
    """All groups, each with the number of its blob; and whether a blob is of no known form."""
    counts, cut = np.divmod(np.diff(blobs.bounds) - HEADER_BYTES, GROUP.itemsize)
    is_empty = np.diff(blobs.bounds) == 0
    is_wrong = ~is_empty & ((counts < 0) | (cut > 0))
    counts = np.where(is_wrong | is_empty, 0, counts)
    filled = np.flatnonzero(~is_wrong & ~is_empty)
    heads = _gather(blobs.data, blobs.bounds[filled], 8).view(">i4")
    is_wrong[filled] = (heads[:, 0] != VERSION) | (heads[:, 1] != counts[filled])
    of_blob = np.repeat(np.arange(len(blobs)), counts)
    at = GROUP.itemsize * spread(0 * counts, counts) + blobs.bounds[of_blob] + HEADER_BYTES
    return of_blob, _gather(blobs.data, at, GROUP.itemsize).view(GROUP)[:, 0], is_wrong


def _gather(data: Bytes, at: Ids, width: int) -> Bytes:
    """The `width` bytes at each place, one row each."""
    if len(at) == 0:
        return np.empty((0, width), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, width)[at]


def _held_of(shares: _Shares, groups: _Groups, id_max: int) -> Ids:
    """How many entries of each share its member holds; -1 where counting cannot decide."""
    low, meetings = _meetings(shares, groups, id_max)
    share = np.repeat(np.arange(len(low)), meetings)
    group = spread(low, meetings)
    held, is_odd = _held(shares, groups, share, group)
    sums = np.concatenate(([0], np.cumsum(held)))
    upper = np.cumsum(meetings)
    counted: Ids = sums[upper] - sums[upper - meetings]
    counted[share[is_odd]] = -1
    return counted


def _meetings(shares: _Shares, groups: _Groups, id_max: int) -> tuple[Ids, Ids]:
    """Of each share the first group that reaches it, and how many do: their number is linear.

    Ids of answer i are looked up between `i * (id_max + 2)` and the next: one sorted column.
    """
    of_answer, stride = rows_of(groups.bounds), id_max + 2
    ends = of_answer * stride + np.clip(groups.end, 0, id_max + 1)
    firsts = of_answer * stride + np.clip(groups.first, 0, id_max + 1)
    base = np.maximum(shares.answer, 0) * stride
    # Groups out of order are doubtful as a whole; here they only must not break the arithmetic.
    low = np.searchsorted(ends, base + shares.first, "left")
    high = np.searchsorted(firsts, base + shares.last, "right")
    return low, np.where(shares.answer < 0, 0, np.maximum(high - low, 0))


def _held(shares: _Shares, groups: _Groups, share: Ids, group: Ids) -> tuple[Ids, Flags]:
    """Entries that each group holds of the share it meets; True where counting cannot decide."""
    low = np.maximum(shares.first[share], groups.first[group])
    high = np.minimum(shares.last[share], groups.end[group])
    start, quorum, ensemble = (
        shares.start[share], shares.write_quorum[share], shares.ensemble_size[share],
    )  # fmt: skip
    size, period = groups.size[group], groups.period[group]
    held = _count(low, high, start, quorum, ensemble)
    gaps = (period > 0) & (size < period)
    whole = quorum == ensemble
    if (rows := np.flatnonzero(gaps & whole)).size:
        origin = groups.first[group[rows]]
        held[rows] = _count(low[rows], high[rows], origin, size[rows], period[rows])
    if (rows := np.flatnonzero(gaps & ~whole & (period == ensemble))).size:
        origin = groups.first[group[rows]]
        held[rows] = _count_both(
            low[rows], high[rows], origin, size[rows], start[rows], quorum[rows], period[rows]
        )
    return held, gaps & ~whole & (period != ensemble)


def _count(low: Ids, high: Ids, start: Ids, size: Ids, period: Ids) -> Ids:
    """How many of `low`..`high` are among the first `size` of each `period` from `start` on."""
    return _below(high + 1 - start, size, period) - _below(low - start, size, period)


def _below(end: Ids, size: Ids, period: Ids) -> Ids:
    turns, rest = np.divmod(end, period)
    return turns * size + np.minimum(size, rest)


def _count_both(
    low: Ids, high: Ids, origin: Ids, size: Ids, start: Ids, quorum: Ids, period: Ids
) -> Ids:
    """How many of `low`..`high` are in both of two stripes of one period.

    Two arcs of a circle meet in at most two pieces: from where the second one begins within the
    first, and where its end comes round to the first one's beginning.
    """
    shift = (start - origin) % period
    piece = np.clip(np.minimum(shift + quorum, size) - shift, 0, None)
    round_it = np.clip(np.minimum(shift + quorum - period, size), 0, None)
    return _count(low, high, origin + shift, piece, period) + _count(
        low, high, origin, round_it, period
    )
