"""A cluster of any size that exists only as columns: what the audit is measured on.

Behind `synthetic://?ledgers=..&entries=..`: closed ledgers, each with the same number of entries,
on BOOKIES bookies. `damaged` of them lack one entry on one bookie. `ensemble`, `quorum`: more
bookies than copies is a striped ledger. `runs`: groups that the answers come in, as of an encoder
that does not merge. It stands where ZooKeeper and the control planes stand, and gives what they
give: columns of metadata, BP-34 blobs. All after that is the product.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import (
    RACK_PROPERTY,
    BookieInfo,
    Cookie,
    Underreplication,
    Unreadable,
    Versioned,
)
from bookie.protocol.assignment import assigned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.judge.columns import Answer, AnswerColumns, Blobs, LedgerColumns
from bookie.repair.look.cluster import Cluster
from bookie.repair.spark.sources import AvailabilitySource

BOOKIES = tuple(BookieId(f"bookie-{number}") for number in range(30))
RACKS = 3


def rack_of(code: int) -> str:
    """Where this bookie is."""
    return f"/rack-{code % RACKS}"


@dataclass(frozen=True)
class Shape:
    """What the cluster looks like; `entries` are those of all ledgers together."""

    ledgers: int
    entries: int
    damaged: int = 0
    ensemble: int = 3
    quorum: int = 3
    runs: int = 1

    @classmethod
    def of(cls, url: str) -> "Shape":
        return cls(**{name: int(value) for name, value in parse_qsl(urlsplit(url).query)})

    @property
    def url(self) -> str:
        pairs = (f"{field.name}={getattr(self, field.name)}" for field in fields(self))
        return f"synthetic://?{'&'.join(pairs)}"

    @property
    def last(self) -> int:
        return self.entries // self.ledgers - 1

    def first_code(self, ledger_id: int) -> int:
        """The index of its first bookie; the others follow."""
        return ledger_id * 7 % len(BOOKIES)

    def is_damaged(self, ledger_id: int) -> bool:
        step = self.ledgers // self.damaged if self.damaged else 0
        return step > 0 and ledger_id % step == 0 and ledger_id // step < self.damaged

    def metadata(self, ledger_id: int) -> LedgerMetadata:
        codes = (self.first_code(ledger_id) + np.arange(self.ensemble)) % len(BOOKIES)
        return LedgerMetadata(
            ledger_id=LedgerId(ledger_id),
            ensemble_size=self.ensemble,
            write_quorum=self.quorum,
            ack_quorum=min(2, self.quorum),
            fragments=(Fragment(EntryId(0), tuple(BOOKIES[code] for code in codes)),),
            state=LedgerState.CLOSED,
            last_entry_id=EntryId(self.last),
        )

    def answer(self, ledger_id: int, position: int) -> bytes:
        """The blob of this member: its share, less one entry where it is damaged."""
        if position or not self.is_damaged(ledger_id):
            return self.whole[position]
        share = self.shares[0]
        gone = share.starts[ledger_id % len(share.starts)]
        return (share - EntrySet.from_ranges([(int(gone), int(gone))])).encode()

    @cached_property
    def shares(self) -> list[EntrySet]:
        metadata = self.metadata(0)
        ensemble = metadata.last_fragment.ensemble
        return [assigned(metadata, b, through=EntryId(self.last)) for b in ensemble]

    @cached_property
    def whole(self) -> list[bytes]:
        """The blob of each position of an ensemble."""
        return [in_runs(share, self.runs) for share in self.shares]


def in_runs(share: EntrySet, runs: int) -> bytes:
    """The blob in this many groups or the fewest there can be."""
    if runs == 1:
        return share.encode()
    (whole,) = share.ranges()
    cuts = np.linspace(whole[0], whole[1] + 1, runs + 1).astype(np.int64)
    groups = [(first, first, end - first, 0) for first, end in pairwise(cuts)]
    head = np.array([0, runs], ">i4").tobytes().ljust(64, b"\0")
    return head + np.array(groups, ">i8,>i8,>i4,>i4").tobytes()


@dataclass(frozen=True)
class SyntheticTables:
    """Columns as `survey.ClusterTables` makes them of a real cluster."""

    shape: Shape

    async def ledgers(self, ledger_ids: Sequence[LedgerId]) -> LedgerColumns:
        shape, ids = self.shape, np.array(ledger_ids, np.int64)
        every = np.ones(len(ids), np.int64)
        firsts = ids * 7 % len(BOOKIES)
        members = (firsts[:, None] + np.arange(shape.ensemble)) % len(BOOKIES)
        return LedgerColumns(
            ledger_id=ids,
            version=0 * every,
            is_closed=every > 0,
            is_accepted=every < 0,
            last_entry_id=shape.last * every,
            ensemble_size=shape.ensemble * every,
            write_quorum=shape.quorum * every,
            ack_quorum=min(2, shape.quorum) * every,
            fragments=np.arange(len(ids) + 1),
            first_entry_id=0 * every,
            members=members.ravel(),
            bookies=BOOKIES,
        )

    async def answers(self, ledgers: LedgerColumns) -> AnswerColumns:
        shape, count = self.shape, len(ledgers) * self.shape.ensemble
        blobs = shape.whole * len(ledgers)
        for row, ledger_id in enumerate(ledgers.ledger_id.tolist()):
            if shape.is_damaged(ledger_id):
                blobs[row * shape.ensemble] = shape.answer(ledger_id, 0)
        return AnswerColumns(
            ledgers=np.arange(0, count + 1, shape.ensemble),
            bookie=ledgers.members,
            status=np.full(count, Status.OK, np.int64),
            limbo=np.zeros(count, np.bool_),
            unchecked=np.zeros(count, np.bool_),
            lac=np.full(count, shape.last, np.int64),
            entries=Blobs.of(blobs),
            lost=Blobs(np.zeros(count + 1, np.int64), np.empty(0, np.uint8)),
        )


@dataclass(frozen=True)
class SyntheticStore:
    """The part of a metadata store that an audit asks. Neighbours are in different racks."""

    shape: Shape

    async def instance_id(self) -> str:
        return "synthetic"

    async def barrier(self) -> None:
        """Nothing lags behind it."""

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        return {}

    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        return {b: BookieInfo(b, (), {RACK_PROPERTY: rack_of(n)}) for n, b in enumerate(BOOKIES)}

    @property
    def underreplication(self) -> Underreplication:
        return MemoryStore().underreplication

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        for ledger_id in range(self.shape.ledgers):
            yield LedgerId(ledger_id)

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        return {i: Versioned(self.shape.metadata(i), 0) for i in ledger_ids}


@dataclass(frozen=True)
class SyntheticControl:
    """The part of the control planes that an audit asks."""

    shape: Shape

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> Mapping[LedgerId, Answer]:
        code = BOOKIES.index(bookie_id)
        return {i: self._answer(code, i) for i in ledger_ids}

    def _answer(self, code: int, ledger_id: LedgerId) -> Answer:
        position = (code - self.shape.first_code(ledger_id)) % len(BOOKIES)
        return Answer(Status.OK, self.shape.answer(ledger_id, position), lac=self.shape.last)


@asynccontextmanager
async def open_synthetic(url: str) -> AsyncIterator[Cluster]:
    """The cluster behind a synthetic:// URL."""
    shape = Shape.of(url)
    store: Any = SyntheticStore(shape)
    control: Any = SyntheticControl(shape)
    peers: Any = None
    yield Cluster(store, peers, control, tables=SyntheticTables(shape), metadata_url=url)


class SyntheticSource(AvailabilitySource):
    """The product's table of answers, over a synthetic cluster."""

    @staticmethod
    def opening(metadata_url: str) -> AbstractAsyncContextManager[Cluster]:
        return open_synthetic(metadata_url)
