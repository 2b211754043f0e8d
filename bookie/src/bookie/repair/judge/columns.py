"""Many ledgers and what bookies answered about them, as columns: numpy arrays, blobs end to end.

What the audit judges at once (`bulk`) and what goes through Spark's tables. Rows of
ledgers and of answers are in the same order; nothing in them is decoded yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bookie.errors import FrameError
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EMPTY, EntrySet, Ids
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding, no_answer

Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


class Answer(NamedTuple):
    """What one bookie said about one ledger, as it came: sets as blobs, empty = none."""

    status: int
    entries: bytes = b""
    limbo: bool = False
    unchecked: bool = False
    lac: int = NO_ENTRY
    lost: bytes = b""


NO_ANSWER = Answer(Status.UNREACHABLE)


def holding_of(bookie_id: BookieId, ledger_id: LedgerId, answer: Answer) -> Holding:
    """Decode an answer; one that cannot be decoded counts as no answer."""
    try:
        status = Status(answer.status)
        return Holding(
            bookie_id,
            ledger_id,
            status,
            entries=_entries(answer.entries, required=status is Status.OK),
            limbo=answer.limbo,
            unchecked=answer.unchecked,
            lac=EntryId(answer.lac),
            lost=_entries(answer.lost, required=False),
        )
    except (FrameError, ValueError):
        return no_answer(bookie_id, ledger_id, Status.IO_ERROR)


def _entries(blob: bytes, *, required: bool) -> EntrySet:
    return EntrySet.decode(blob) if blob or required else EMPTY


def answer_of(holding: Holding) -> Answer:
    """The inverse of decoding one: blobs are canonical."""
    return Answer(
        int(holding.status),
        holding.entries.encode(),
        holding.limbo,
        holding.unchecked,
        holding.lac,
        holding.lost.encode() if holding.lost else b"",
    )


NOBODY: Final = BookieId("unreadable-metadata")
"""No bookie has this id, so no answer to it is ever missing."""


def stand_ins(ledger_ids: Iterable[LedgerId]) -> dict[LedgerId, Versioned[LedgerMetadata]]:
    """What stands in a table for ledgers whose metadata nobody can read: one entry, on NOBODY.

    No answer ever comes from it, so the ledger is doubtful, looked at again and reported by name.
    """
    fragments = (Fragment(EntryId(0), (NOBODY,)),)
    return {
        i: Versioned(LedgerMetadata(i, 1, 1, 1, fragments).closed(EntryId(0), length=0), -1)
        for i in ledger_ids
    }


@dataclass(frozen=True, slots=True)
class Blobs:
    """Byte strings end to end: number i is `data[bounds[i]:bounds[i + 1]]`; `bounds` int64."""

    bounds: Ids
    data: Bytes

    @classmethod
    def of(cls, blobs: Sequence[bytes]) -> "Blobs":
        return cls(bounds_of(map(len, blobs), len(blobs)), np.frombuffer(b"".join(blobs), np.uint8))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.bounds[row] : self.bounds[row + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """One row per ledger, then one per fragment, then one per member of an ensemble.

    Fragments of ledger i: rows `fragments[i]` to `fragments[i + 1] - 1` of `first_entry_id`, each
    with `ensemble_size[i]` members, which are indexes into `bookies`. `is_accepted`: closed at an
    accepted loss (S33).
    """

    ledger_id: Ids
    version: Ids
    is_closed: Flags
    is_accepted: Flags
    last_entry_id: Ids
    ensemble_size: Ids
    write_quorum: Ids
    ack_quorum: Ids
    fragments: Ids
    first_entry_id: Ids
    members: Ids
    bookies: tuple[BookieId, ...]

    def __len__(self) -> int:
        return len(self.ledger_id)

    @classmethod
    def of(cls, found: Mapping[LedgerId, Versioned[LedgerMetadata]]) -> "LedgerColumns":
        """Columns of these ledgers, in the order of the mapping."""
        ledgers = [versioned.value for versioned in found.values()]
        parts = [fragment for ledger in ledgers for fragment in ledger.fragments]
        codes: dict[BookieId, int] = {}
        members = [codes.setdefault(b, len(codes)) for part in parts for b in part.ensemble]
        return cls(
            ledger_id=ids_of(found),
            version=ids_of(versioned.version for versioned in found.values()),
            is_closed=np.array([ledger.is_closed for ledger in ledgers], np.bool_),
            is_accepted=np.array([ACCEPTED_LOSS_KEY in x.custom for x in ledgers], np.bool_),
            last_entry_id=ids_of(ledger.last_entry_id for ledger in ledgers),
            ensemble_size=ids_of(ledger.ensemble_size for ledger in ledgers),
            write_quorum=ids_of(ledger.write_quorum for ledger in ledgers),
            ack_quorum=ids_of(ledger.ack_quorum for ledger in ledgers),
            fragments=bounds_of((len(ledger.fragments) for ledger in ledgers), len(ledgers)),
            first_entry_id=ids_of(part.first_entry_id for part in parts),
            members=ids_of(members),
            bookies=tuple(codes),
        )


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """One row per answer. Those about ledger i: rows `ledgers[i]` to `ledgers[i + 1] - 1`.

    `bookie`: indexes into `bookies`, which are those of the LedgerColumns beside it.
    """

    ledgers: Ids
    bookie: Ids
    status: Ids
    limbo: Flags
    unchecked: Flags
    lac: Ids
    entries: Blobs
    lost: Blobs

    def __len__(self) -> int:
        return len(self.bookie)

    @classmethod
    def of(cls, answers: Sequence[Sequence[tuple[int, Answer]]]) -> "AnswerColumns":
        """For each ledger its answers, each with the index of the bookie that gave it."""
        flat = [pair for of_ledger in answers for pair in of_ledger]
        said = [answer for _bookie, answer in flat]
        return cls(
            ledgers=bounds_of(map(len, answers), len(answers)),
            bookie=ids_of(bookie for bookie, _answer in flat),
            status=ids_of(answer.status for answer in said),
            limbo=np.array([answer.limbo for answer in said], np.bool_),
            unchecked=np.array([answer.unchecked for answer in said], np.bool_),
            lac=ids_of(answer.lac for answer in said),
            entries=Blobs.of([answer.entries for answer in said]),
            lost=Blobs.of([answer.lost for answer in said]),
        )


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sets of entries end to end: number i is the intervals `bounds[i]` to `bounds[i + 1] - 1`."""

    bounds: Ids
    first: Ids
    last: Ids

    @classmethod
    def of(cls, sets: Sequence[EntrySet]) -> "Intervals":
        every = sets or [EMPTY]
        return cls(
            bounds_of((len(found.starts) for found in sets), len(sets)),
            np.concatenate([found.starts for found in every]),
            np.concatenate([found.ends for found in every]),
        )


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """What became of copies that were read: one row per answer, as in the AnswerColumns beside it.

    The good ones are the answer's `entries`. Of `unread` ones nothing is known.
    """

    corrupt: Intervals
    unread: Intervals
    bytes_read: Ids


def ids_of(values: Iterable[int]) -> Ids:
    """A column of int64."""
    return np.array(list(values), np.int64)


def bounds_of(sizes: Iterable[int], count: int) -> Ids:
    """Where each of `count` parts of these sizes begins, and where the last one ends."""
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=bounds[1:])
    return bounds


def rows_of(bounds: Ids) -> Ids:
    """For each element of the parts that these bounds cut, the number of its part."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def spread(starts: Ids, counts: Ids) -> Ids:
    """`starts[i]`, `starts[i] + 1`, ... for each i, `counts[i]` of them."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)
