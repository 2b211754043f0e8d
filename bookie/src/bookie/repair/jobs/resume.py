"""What a repair that was cut off had done, so that the next one need not do it again.

It saves work and decides nothing: a ledger counts as done only while its metadata is at the version
it was done at and the indexes list all its copies, every ledger is audited in the end whether or
not it was skipped, and the bookies judge each mark by themselves. A run that comes to its end takes
it away. Only the driver writes.

It lies in the metadata store, compact: ledgers that are done stand there as blocks, each a digest
over the ids and metadata versions of all ledgers of a range, so that a million of them are some
tens of kilobytes. A block counts as a whole or not at all. Written every few seconds at most; what
a failed write lacks, the next one has.
"""

import asyncio
import hashlib
import json
import logging
import struct
import threading
import time
import zlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from bookie.bounded import inflate, parse_json
from bookie.errors import BookieError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.rewriting import packed_to_fit, rewrite
from bookie.metadata.store import MetadataStore
from bookie.repair.mend.outcome import Outcome

log = logging.getLogger(__name__)

SCHEMA: Final = 1
AGE_MAX_S: Final = 7 * 24 * 3600.0
"""What was done earlier does not count, as disks rot; nor does what was done in the future, when
nobody knows."""
BLOCK_LEDGERS: Final = 500
EVERY_S: Final = 5.0
_DIGEST_BYTES: Final = 8


class Block(NamedTuple):
    """All `ledgers` that there were from `first` to `last` were done, the first of them at `at`
    (seconds of the Unix epoch), at the versions that `digest` stands for.
    """

    first: LedgerId
    last: LedgerId
    ledgers: int
    digest: str
    at: int


def is_done(outcome: Outcome, *, digests: bool) -> bool:
    """Whether the ledger is done: nothing blocks it, and a deep look left no copy unread."""
    return not (outcome.reason or (digests and outcome.before.unknown))


def digest_of(ledger_ids: Sequence[LedgerId], versions: Sequence[int]) -> str:
    facts = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for ledger_id, version in zip(ledger_ids, versions, strict=True):
        facts.update(struct.pack(">qq", ledger_id, version))
    return facts.hexdigest()


def _blocks(rows: object) -> list[Block]:
    """ValueError or TypeError when these are no blocks that follow one another."""
    if not isinstance(rows, list):
        raise ValueError("the blocks are no list")
    blocks = [Block(*row) for row in rows]
    for block in blocks:
        numbers = (block.first, block.last, block.ledgers, block.at)
        if not all(type(n) is int and n >= 0 for n in numbers) or type(block.digest) is not str:
            raise ValueError("a block has other types")
        if not 0 < block.ledgers <= block.last - block.first + 1:
            raise ValueError("a block has more ledgers than there is room for")
    if any(one.last >= other.first for one, other in pairwise(blocks)):
        raise ValueError("blocks overlap")
    return blocks


def _names(found: object) -> set[BookieId]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError("the bookies are no list of names")
    return set(map(BookieId, found))


@dataclass(slots=True)
class _Chunk:
    """A range of ledgers of which some are not done yet."""

    at: int
    """When the first ledger of the range was done, in seconds since 1970."""
    known: dict[LedgerId, int | None] = field(default_factory=dict)
    """Version of its metadata when it was done; None = it is not done, or in a block of its own."""

    def blocks(self, ledger_ids: Sequence[LedgerId]) -> list[Block]:
        """Blocks of adjacent ledgers that are done. A deleted ledger is not asked for again."""
        blocks: list[Block] = []
        run: list[LedgerId] = []
        for ledger_id in ledger_ids:
            version = self.known.get(ledger_id)
            if version is None:
                blocks += self._block(run)
                run = []
            elif version >= 0:
                run.append(ledger_id)
        return blocks + self._block(run)

    def _block(self, run: Sequence[LedgerId]) -> list[Block]:
        if not run:
            return []
        versions = [version for i in run if (version := self.known[i]) is not None]
        return [Block(run[0], run[-1], len(run), digest_of(run, versions), self.at)]


class _Claim(NamedTuple):
    """A block of an earlier run that holds, with what it was held against."""

    block: Block
    ledger_ids: Sequence[LedgerId]
    versions: Sequence[int]


class Checkpoint:
    """What one kind of repair (deep or not) of a cluster has done. Of two repairs at once the last
    to write counts."""

    def __init__(
        self,
        store: MetadataStore,
        instance_id: str,
        *,
        digests: bool,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = f"repair/checkpoint{'-deep' if digests else ''}"
        """Name of the value in the metadata store; a deep repair has another one."""
        self._store = store
        self._instance_id = instance_id
        self._digests = digests
        self._say = say
        self._clock = clock
        self.touched: set[BookieId] = set()
        """Bookies that this run or an earlier one wrote to, and must sync."""
        self._wanted: Sequence[LedgerId] = ()
        """All ledgers of this run, in rising order."""
        self._unread: deque[Block] = deque()
        """Blocks of earlier runs that `same` has not compared yet, in the order of `claimed`."""
        self._claims: list[_Claim] = []
        """Blocks of earlier runs that hold, until `go_on` takes them over."""
        self._blocks: list[Block] = []
        """Blocks that are complete; no ledger is in two of them, nor in a chunk as well."""
        self._chunks: dict[int, _Chunk] = {}
        """Incomplete ranges of BLOCK_LEDGERS ledgers of `_wanted`, by their number."""
        self._additions = 0
        """How often something was added."""
        self._written = 0
        """How many additions the last write had that succeeded: what came since is not written."""
        self._lock = threading.Lock()  # Spark adds ledgers from a thread of its own

    # What earlier runs had done
    async def claimed(self, wanted: Sequence[LedgerId]) -> list[Sequence[LedgerId]]:
        """The ledgers of `wanted` (in rising order) that the checkpoint says are done, in
        groups."""
        self._wanted = wanted
        found = await self._store.read_value(self.name)
        if found is None:
            return []
        self._unread = deque(self._read(found.value))
        return [self._within(block) for block in self._unread]

    def _read(self, raw: bytes) -> list[Block]:
        """Blocks that may count; none of what is not ours, with a word about it."""
        try:
            tree = parse_json(inflate(raw))
            known, schema = tree["instance_id"], tree["schema"]
            if (known, schema) != (self._instance_id, SCHEMA):
                self._say(
                    f"the checkpoint {self.name} is of cluster {known} (schema {schema}), this one "
                    f"is {self._instance_id} (schema {SCHEMA}): it is left unread and replaced"
                )
                return []
            blocks, now = _blocks(tree["blocks"]), self._clock()
            young = [block for block in blocks if 0 <= now - block.at <= AGE_MAX_S]
            self.touched |= _names(tree["touched"])
        except (ValueError, KeyError, TypeError) as error:
            self._say(f"the checkpoint {self.name} is none ({error!r}): it is replaced")
            return []
        return young

    def _within(self, block: Block) -> Sequence[LedgerId]:
        first = bisect_left(self._wanted, block.first)
        return self._wanted[first : bisect_right(self._wanted, block.last)]

    def same(self, group: Sequence[LedgerId], versions: Mapping[LedgerId, int]) -> list[LedgerId]:
        """Returns the ledgers of a group if all are at the version they were done at, else none.

        Groups come in the order of `claimed`; `versions`: of their metadata now.
        """
        block = self._unread.popleft()
        found = [versions.get(ledger_id, -1) for ledger_id in group]
        if len(group) != block.ledgers or digest_of(group, found) != block.digest:
            return []
        self._claims.append(_Claim(block, group, found))
        return list(group)

    def go_on(self, done: Set[LedgerId]) -> None:
        """Keep these on record: they need not be done again by this run."""
        for block, ledger_ids, versions in self._claims:
            is_whole = all(ledger_id in done for ledger_id in ledger_ids)
            if is_whole:
                self._blocks.append(block)
            for ledger_id, version in zip(ledger_ids, versions, strict=True):
                if is_whole:
                    self._note(ledger_id, None, block.at)
                elif ledger_id in done:
                    self._note(ledger_id, version, block.at)
        self._claims = []

    # What this run does
    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Note what was looked after; what something is in the way of is not done."""
        now = int(self._clock())
        with self._lock:
            for outcome in outcomes:
                done = is_done(outcome, digests=self._digests)
                self._note(LedgerId(outcome.ledger_id), outcome.version if done else None, now)
                self.touched.update(map(BookieId, outcome.touched))
            self._additions += 1

    def _note(self, ledger_id: LedgerId, version: int | None, at: int) -> None:
        number = bisect_left(self._wanted, ledger_id) // BLOCK_LEDGERS
        chunk = self._chunks.setdefault(number, _Chunk(at))
        chunk.at = min(chunk.at, at)
        chunk.known[ledger_id] = version
        ledger_ids = self._stretch(number)
        if len(chunk.known) == len(ledger_ids):
            self._blocks += chunk.blocks(ledger_ids)
            del self._chunks[number]

    def _stretch(self, number: int) -> Sequence[LedgerId]:
        return self._wanted[number * BLOCK_LEDGERS : (number + 1) * BLOCK_LEDGERS]

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Around the work: what is added is written, at the latest some seconds later."""
        writing = asyncio.create_task(self._write_on())
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await self._write()

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self._write()

    async def _write(self) -> None:
        """If anything is new; what cannot be written now, or is cut off, is written next time."""
        if self._written == self._additions:
            return
        with self._lock:
            raw, additions = self.encoded(), self._additions
        try:
            await rewrite(self._store, self.name, lambda _found: raw, bytes)
            self._written = additions
        except BookieError as error:
            log.warning("the checkpoint %s cannot be written now: %s", self.name, error)

    def encoded(self) -> bytes:
        """Encodes the blocks; of more than fits, those that stand for most ledgers."""
        open_chunks = (chunk.blocks(self._stretch(n)) for n, chunk in self._chunks.items())
        blocks = [*self._blocks, *(block for found in open_chunks for block in found)]
        self._check(blocks)
        blocks.sort(key=lambda block: -block.ledgers)
        return packed_to_fit(blocks, self._packed)

    def _check(self, blocks: Sequence[Block]) -> None:
        assert all(0 < one.ledgers <= one.last - one.first + 1 for one in blocks)
        in_order = sorted(blocks)
        assert all(a.last < b.first for a, b in pairwise(in_order)), "no ledger is in two blocks"
        assert all(len(c.known) < len(self._stretch(n)) for n, c in self._chunks.items())

    def _packed(self, blocks: Sequence[Block]) -> bytes:
        tree = {
            "schema": SCHEMA,
            "instance_id": self._instance_id,
            "touched": sorted(self.touched),
            "blocks": sorted(blocks),
        }
        return zlib.compress(json.dumps(tree, separators=(",", ":")).encode())

    async def end(self) -> None:
        """Take it away: the next run begins from marks and metadata alone."""
        try:
            found = await self._store.read_value(self.name)
            if found is not None:
                await self._store.delete_value(self.name, version=found.version)
        except BookieError as error:  # what it is left to say is true, and grows old
            log.warning("the checkpoint %s cannot be removed: %s", self.name, error)
