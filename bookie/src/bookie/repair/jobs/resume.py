"""A checkpoint in the metadata store, for jobs that have no folder which outlives them.

Compact: ledgers that are done stand there as blocks, each a digest over the ids and metadata
versions of all ledgers of a range, so that a million of them are some tens of kilobytes. A block
counts as a whole or not at all; `repair_job` also asks whether the indexes still list all copies
of its ledgers. Written every few seconds at most, and a write that fails is made up for by
the next one: it saves work and decides nothing (see `checkpoint`).
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
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bookie.errors import BookieError, MetadataConflictError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.repair.jobs.checkpoint import AGE_MAX_S, is_done
from bookie.repair.mend.outcome import LedgerOutcome

log = logging.getLogger(__name__)

SCHEMA: Final = 1
BLOCK_LEDGERS: Final = 500
VALUE_BYTES_MAX: Final = 900_000
"""ZooKeeper takes no value larger than 1 MiB. What does not fit is done again."""
EVERY_S: Final = 5.0
WRITES_MAX: Final = 3
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


def digest_of(ledger_ids: Sequence[LedgerId], versions: Sequence[int]) -> str:
    facts = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for ledger_id, version in zip(ledger_ids, versions, strict=True):
        facts.update(struct.pack(">qq", ledger_id, version))
    return facts.hexdigest()


@dataclass(slots=True)
class _Chunk:
    """A stretch of the tasks: what was told of each; None = it is not done, or stands elsewhere."""

    at: int
    told: dict[LedgerId, int | None] = field(default_factory=dict)

    def blocks(self, ledger_ids: Sequence[LedgerId]) -> list[Block]:
        """Of ledgers side by side. One that was deleted will not be asked for again."""
        blocks: list[Block] = []
        run: list[LedgerId] = []
        for ledger_id in ledger_ids:
            version = self.told.get(ledger_id)
            if version is None:
                blocks += self._block(run)
                run = []
            elif version >= 0:
                run.append(ledger_id)
        return blocks + self._block(run)

    def _block(self, run: Sequence[LedgerId]) -> list[Block]:
        if not run:
            return []
        versions = [version for i in run if (version := self.told[i]) is not None]
        return [Block(run[0], run[-1], len(run), digest_of(run, versions), self.at)]


class _Claim(NamedTuple):
    """A block of an earlier run that holds, with what it was held against."""

    block: Block
    ledger_ids: Sequence[LedgerId]
    versions: Sequence[int]


class StoredCheckpoint:
    """Of one kind of repair (deep or not) of one cluster; of two at once the last to write counts.

    See `checkpoint.Checkpoint`.
    """

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
        self._store = store
        self._instance_id = instance_id
        self._digests = digests
        self._say = say
        self._clock = clock
        self._version: int | None = None
        self._wanted: Sequence[LedgerId] = ()
        self._unread: deque[Block] = deque()
        self._claims: list[_Claim] = []
        self._blocks: list[Block] = []
        self._chunks: dict[int, _Chunk] = {}
        self._touched: set[BookieId] = set()
        self._is_dirty = False
        self._lock = threading.Lock()  # Spark tells of ledgers in a thread of its own

    @property
    def touched(self) -> Collection[BookieId]:
        return self._touched

    # What earlier runs had done
    async def claimed(self, wanted: Sequence[LedgerId]) -> list[Sequence[LedgerId]]:
        self._wanted = wanted
        found = await self._store.read_value(self.name)
        if found is None:
            return []
        self._version = found.version
        self._unread = deque(self._read(found.value))
        return [self._within(block) for block in self._unread]

    def _read(self, raw: bytes) -> list[Block]:
        """Blocks that may count; none of what is not ours, with a word about it."""
        try:
            tree = json.loads(zlib.decompress(raw))
            known, schema = tree["instance_id"], tree["schema"]
            if (known, schema) != (self._instance_id, SCHEMA):
                self._say(
                    f"the checkpoint {self.name} is of cluster {known} (schema {schema}), this one "
                    f"is {self._instance_id} (schema {SCHEMA}): it is left unread and written anew"
                )
                return []
            blocks = [Block(*row) for row in tree["blocks"]]
            young = [block for block in blocks if self._clock() - block.at <= AGE_MAX_S]
            self._touched = set(map(BookieId, tree["touched"]))
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            self._say(f"the checkpoint {self.name} is none ({error!r}): it is written anew")
            return []
        return young

    def _within(self, block: Block) -> Sequence[LedgerId]:
        first = bisect_left(self._wanted, block.first)
        return self._wanted[first : bisect_right(self._wanted, block.last)]

    def same(self, group: Sequence[LedgerId], versions: Mapping[LedgerId, int]) -> list[LedgerId]:
        """All of a block or nothing; groups come in the order of `claimed`."""
        block = self._unread.popleft()
        found = [versions.get(ledger_id, -1) for ledger_id in group]
        if len(group) != block.ledgers or digest_of(group, found) != block.digest:
            return []
        self._claims.append(_Claim(block, group, found))
        return list(group)

    def go_on(self, done: Set[LedgerId]) -> None:
        for block, ledger_ids, versions in self._claims:
            is_whole = all(ledger_id in done for ledger_id in ledger_ids)
            if is_whole:
                self._blocks.append(block)
            for ledger_id, version in zip(ledger_ids, versions, strict=True):
                if is_whole:
                    self._tell(ledger_id, None, block.at)
                elif ledger_id in done:
                    self._tell(ledger_id, version, block.at)
        self._claims = []

    # What this run does
    def add(self, outcomes: Sequence[LedgerOutcome]) -> None:
        now = int(self._clock())
        with self._lock:
            for outcome in outcomes:
                done = is_done(outcome, digests=self._digests)
                self._tell(LedgerId(outcome.ledger_id), outcome.version if done else None, now)
                self._touched.update(map(BookieId, outcome.touched))
            self._is_dirty = True

    def _tell(self, ledger_id: LedgerId, version: int | None, at: int) -> None:
        number = bisect_left(self._wanted, ledger_id) // BLOCK_LEDGERS
        chunk = self._chunks.setdefault(number, _Chunk(at))
        chunk.at = min(chunk.at, at)
        chunk.told[ledger_id] = version
        ledger_ids = self._stretch(number)
        if len(chunk.told) == len(ledger_ids):
            self._blocks += chunk.blocks(ledger_ids)
            del self._chunks[number]

    def _stretch(self, number: int) -> Sequence[LedgerId]:
        return self._wanted[number * BLOCK_LEDGERS : (number + 1) * BLOCK_LEDGERS]

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
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
        """If anything is new; what cannot be written now is written with what comes next."""
        if not self._is_dirty:
            return
        with self._lock:
            raw, self._is_dirty = self.encoded(), False
        try:
            await self._put(raw)
        except BookieError as error:
            self._is_dirty = True
            log.warning("the checkpoint %s cannot be written now: %s", self.name, error)

    async def _put(self, raw: bytes) -> None:
        for _attempt in range(WRITES_MAX):
            try:
                written = await self._store.write_value(self.name, raw, version=self._version)
            except MetadataConflictError:  # another run's, or a write whose answer was lost
                found = await self._store.read_value(self.name)
                self._version = found.version if found is not None else None
                continue
            self._version = written.version
            return
        raise MetadataConflictError(f"{self.name} changed {WRITES_MAX} times while it was written")

    def encoded(self) -> bytes:
        """Of more than fits, the blocks that stand for most."""
        open_chunks = (chunk.blocks(self._stretch(n)) for n, chunk in self._chunks.items())
        blocks = [*self._blocks, *(block for found in open_chunks for block in found)]
        blocks.sort(key=lambda block: -block.ledgers)
        while len(raw := self._packed(blocks)) > VALUE_BYTES_MAX:
            blocks = blocks[: len(blocks) // 2]
        return raw

    def _packed(self, blocks: Sequence[Block]) -> bytes:
        tree = {
            "schema": SCHEMA,
            "instance_id": self._instance_id,
            "touched": sorted(self._touched),
            "blocks": sorted(blocks),
        }
        return zlib.compress(json.dumps(tree, separators=(",", ":")).encode())

    async def end(self) -> None:
        try:
            found = await self._store.read_value(self.name)
            if found is not None:
                await self._store.delete_value(self.name, version=found.version)
        except BookieError as error:  # what it is left to say is true, and grows old
            log.warning("the checkpoint %s cannot be removed: %s", self.name, error)
