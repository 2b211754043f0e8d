"""Copies entries that a bookie lacks: read from peers, digest checked, sent as recovery adds.

Safe to run twice, at once and half-way: the bytes are those the writer made, a bookie keeps the
first copy of an id, and nothing here changes metadata or marks. The next read goes out while the
last ones are being verified and stored; what is read and not yet stored is bounded for the whole
process by one `ByteBudget`. A frame that is wanted in full goes on as it is, under a new header,
once each of its entries has verified; all else is cut into entries and built into new frames.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bookie.client.peers import Peers
from bookie.errors import FrameError
from bookie.frames.build import build_run, recovery_add
from bookie.frames.digests import verify_run
from bookie.frames.entry import Buffer, EntryCodec, master_key, parse_header
from bookie.frames.frame import (
    CONSECUTIVE,
    FLAG_RECOVERY,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
    RunFrame,
    parse_run,
)
from bookie.ids import BookieId, EntryId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding
from bookie.repair.look.digests import spans
from bookie.repair.look.pacing import Paces, Sleep
from bookie.wire.native import ReadReply, ReadRequest

WINDOWS_AHEAD_MAX: Final = 8
"""Windows of one copy that are read and being verified or stored."""
WHOLE_BYTES_MIN: Final = 64 * 1024
"""Smaller frames are joined with their neighbours rather than passed on."""

Entries = dict[int, Buffer]


@dataclass(frozen=True, slots=True)
class CopySettings:
    """Bounds of copying, in bytes. `bytes_per_second`: of each bookie, what is read from it and
    what is written to it together; None = as fast as the budget lets it.

    `frame_bytes`: of what is put together here; frames that go on whole keep their size.
    """

    read_bytes: int = 1024 * 1024
    frame_bytes: int = 1024 * 1024
    in_flight_bytes: int = 32 * 1024 * 1024
    bytes_per_second: int | None = None


class ByteBudget:
    """Bytes read and not yet stored, over all copies of a process."""

    def __init__(self, settings: CopySettings) -> None:
        assert 0 < settings.read_bytes <= settings.in_flight_bytes
        self._windows = asyncio.Semaphore(settings.in_flight_bytes // settings.read_bytes)

    async def enter(self) -> None:
        """Take room for one read and for storing what it returns; give it back with `leave`."""
        await self._windows.acquire()

    def leave(self) -> None:
        """All that was read is stored, or dropped."""
        self._windows.release()


@dataclass(frozen=True, slots=True)
class Copied:
    """What one bookie got back. `left`: wanted and not copied now; `why` says what came first."""

    entries: EntrySet = EMPTY
    bytes_copied: int = 0
    left: EntrySet = EMPTY
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()
    why: str = ""


@dataclass(slots=True)
class _Copy:
    """One ledger's copy to one bookie, `target`, while it runs."""

    metadata: LedgerMetadata
    target: BookieId
    key: bytes
    """The ledger's master key."""
    codec: EntryCodec
    done: list[tuple[int, int, Pattern]] = field(default_factory=list)
    """Runs that the target stored: first id, number of entries, pattern."""
    bytes_copied: int = 0
    """Bytes of the entries in `done`, without headers of frames."""
    corrupt: dict[tuple[BookieId, EntryId], None] = field(default_factory=dict)
    """Copies that were read and are wrong, each once, in the order in which they were found."""
    refused: Status | None = None
    """What the target answered to the first add that it did not take: no more are sent."""
    why: str = ""
    """The first obstacle, in words for people."""


class Copier:
    """Copies within one cluster; one budget and one rate of each bookie for all of its copies."""

    def __init__(
        self,
        peers: Peers,
        settings: CopySettings | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._peers = peers
        self._settings = settings or CopySettings()
        self._budget = ByteBudget(self._settings)
        """The budget of all copies together."""
        self._paces = Paces(self._settings.bytes_per_second, sleep=sleep)

    async def copy(
        self,
        metadata: LedgerMetadata,
        target: BookieId,
        wanted: EntrySet,
        *,
        holdings: Mapping[BookieId, Holding],
    ) -> Copied:
        """Bring `wanted` to `target` from whoever holds it. Never raises for a bad peer."""
        codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
        job = _Copy(metadata, target, master_key(metadata.password), codec)
        for source in self._sources(metadata, target, holdings):
            offered = (wanted - EntrySet.from_runs(job.done)) & holdings[source].entries
            if offered and job.refused is None:
                await self._copy_from(job, source, offered)
        copied = EntrySet.from_runs(job.done)
        left = wanted - copied
        why = job.why or ("no reachable bookie holds them" if left else "")
        return Copied(copied, job.bytes_copied, left, tuple(job.corrupt), why)

    def _sources(
        self, metadata: LedgerMetadata, target: BookieId, holdings: Mapping[BookieId, Holding]
    ) -> list[BookieId]:
        # Different ledgers start at different peers, so that one is not read from for all.
        others = [b for b, held in holdings.items() if b != target and held.entries]
        turn = metadata.ledger_id % max(len(others), 1)
        return others[turn:] + others[:turn]

    async def _copy_from(self, job: _Copy, source: BookieId, offered: EntrySet) -> None:
        storing: deque[asyncio.Task[None]] = deque()
        try:
            for first, last in spans(offered):
                if not await self._copy_span(job, source, offered.clip(first, last), storing):
                    break
            while storing:
                await storing[0]
                storing.popleft()
        finally:
            for task in storing:
                task.cancel()
            await asyncio.gather(*storing, return_exceptions=True)

    async def _copy_span(
        self, job: _Copy, source: BookieId, wanted: EntrySet, storing: "deque[asyncio.Task[None]]"
    ) -> bool:
        """Window by window; False when there is no use in asking this source for more."""
        at = wanted.first
        while at <= wanted.last and job.refused is None:
            while len(storing) >= WINDOWS_AHEAD_MAX:
                await storing[0]
                storing.popleft()
            await self._budget.enter()
            asked = wanted.clip(at, wanted.last)
            try:
                reply = await self._read(job, source, asked)
            except BaseException:
                self._budget.leave()
                raise
            # Without progress a defective peer is not asked again.
            if reply is None or reply.answered_through < at:
                self._budget.leave()
                return False
            store = asyncio.create_task(self._store(job, source, reply, asked))
            store.add_done_callback(lambda _task: self._budget.leave())
            storing.append(store)
            at = EntryId(reply.answered_through + 1)
        return job.refused is None

    async def _read(self, job: _Copy, source: BookieId, wanted: EntrySet) -> ReadReply | None:
        """Read entries from a source; None when the source cannot give any more."""
        request = ReadRequest(
            job.metadata.ledger_id, wanted.first, wanted.last, self._settings.read_bytes, job.key
        )
        status, reply = await self._peers.read(source, request)
        if status is not Status.OK or reply is None:
            job.why = job.why or f"{source} answered {status.name} to a read"
            return None
        await self._paces.spend(source, sum(map(len, reply.runs)))
        return reply

    # Storing
    async def _store(
        self, job: _Copy, source: BookieId, reply: ReadReply, wanted: EntrySet
    ) -> None:
        wanted = wanted.clip(0, reply.answered_through)
        rest: list[RunFrame] = []
        gone: RunFrame | None = None
        for run in _parsed(reply):
            # Taken away before the next frame is looked at: most replies are one frame.
            wanted, gone = _without(wanted, gone), None
            frame = whole(run, wanted, job.codec)
            if frame is None:
                rest.append(run)
                continue
            gone = run
            await self._send(job, frame, (run.first_entry_id, run.count, run.pattern))
        if rest:
            await self._store_rest(job, source, rest, _without(wanted, gone))

    async def _store_rest(
        self, job: _Copy, source: BookieId, rest: Iterable[RunFrame], wanted: EntrySet
    ) -> None:
        found, corrupt = verified(rest, wanted, job.codec)
        if corrupt:
            job.corrupt.update({(source, entry_id): None for entry_id in corrupt})
            job.why = job.why or f"{source} holds a corrupt copy of entry {corrupt[0]}"
        await self._store_found(job, found)

    async def _store_found(self, job: _Copy, found: Entries) -> None:
        for first, pattern, entry_ids in runs_of(found, frame_bytes=self._settings.frame_bytes):
            bodies = [found[entry_id] for entry_id in entry_ids]
            # The LAC of a copy never exceeds what its own entries carry (R16).
            lac = max(parse_header(body).lac for body in bodies)
            frame = build_run(
                job.metadata.ledger_id, first, bodies, lac=lac, pattern=pattern, flags=FLAG_RECOVERY
            )
            await self._send(job, frame, (first, len(entry_ids), pattern))

    async def _send(self, job: _Copy, frame: Buffer, run: tuple[int, int, Pattern]) -> None:
        await self._paces.spend(job.target, len(frame))
        if job.refused is not None:
            return
        status = await self._add(job, frame)
        if status is not Status.OK:
            job.refused = job.refused or status
            job.why = job.why or f"{job.target} answered {status.name} to a recovery add"
            return
        job.done.append(run)
        job.bytes_copied += len(frame) - FRAME_HEADER_BYTES - 4 * run[1]

    async def _add(self, job: _Copy, frame: Buffer) -> Status:
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

        def on_reply(status: Status) -> None:
            if not answer.done():  # the copy may have been cancelled
                answer.set_result(status)

        self._peers.add_run(job.target, master_key=job.key, frame=frame, on_reply=on_reply)
        return await answer


def _parsed(reply: ReadReply) -> Iterator[RunFrame]:
    for buffer in reply.runs:
        try:
            yield parse_run(buffer)
        except FrameError:
            continue  # cut or garbled on its way: its entries count as not sent


def whole(run: RunFrame, wanted: EntrySet, codec: EntryCodec) -> memoryview | None:
    """The recovery add of a frame, None unless all of it is wanted and each entry is right."""
    first, last = run.first_entry_id, run.last_entry_id
    if len(run.buffer) < WHOLE_BYTES_MIN or not _is_wanted(run, wanted):
        return None
    if verify_run(run, codec, first=first, last=last).corrupt:
        return None
    return recovery_add(run, lac=run.carried_lac())  # never more than its own entries carry (R16)


def verified(
    frames: Iterable[RunFrame], wanted: EntrySet, codec: EntryCodec
) -> tuple[Entries, list[EntryId]]:
    """The wanted entries of frames whose digests are right, and the ids of those that are not."""
    found: Entries = {}
    corrupt: list[EntryId] = []
    for run in frames:
        asked = _asked_of(run, wanted)
        if not asked:
            continue
        checked = verify_run(run, codec, first=min(asked), last=max(asked))
        right = zip(checked.ids, checked.entries(), strict=True)
        found |= {entry_id: entry for entry_id, entry in right if entry_id in asked}
        corrupt += [EntryId(entry_id) for entry_id in checked.corrupt if entry_id in asked]
    return found, [entry_id for entry_id in corrupt if entry_id not in found]


def _is_wanted(run: RunFrame, wanted: EntrySet) -> bool:
    if run.pattern.period:
        return _ids_of(run) <= wanted
    return wanted.covers(run.first_entry_id, run.last_entry_id)


def _ids_of(run: RunFrame) -> EntrySet:
    return EntrySet.from_runs([(run.first_entry_id, run.count, run.pattern)])


def _without(wanted: EntrySet, run: RunFrame | None) -> EntrySet:
    return wanted if run is None else wanted - _ids_of(run)


def _asked_of(run: RunFrame, wanted: EntrySet) -> set[int]:
    """The wanted ones among a run's ids, to be looked up one by one."""
    asked = _ids_of(run) & wanted
    return {entry_id for low, high in asked.ranges() for entry_id in range(low, high + 1)}


def runs_of(
    found: Entries, *, frame_bytes: int
) -> Iterator[tuple[EntryId, Pattern, list[EntryId]]]:
    """The entries as runs of at most about `frame_bytes`: first id, pattern, ids in order."""
    for first, count, pattern in EntrySet.from_ids(found).runs():
        ids_of_run = [EntryId(pattern.id_at(first, index)) for index in range(count)]
        yield from _pieces(found, ids_of_run, pattern, frame_bytes=frame_bytes)


def _pieces(
    found: Entries, ids: list[EntryId], pattern: Pattern, *, frame_bytes: int
) -> Iterator[tuple[EntryId, Pattern, list[EntryId]]]:
    # A piece of a pattern has to begin where a sequence begins, so whole sequences are taken.
    unit = max(pattern.size, 1)
    limit = min(frame_bytes, FRAME_BYTES_MAX - FRAME_HEADER_BYTES)
    piece: list[EntryId] = []
    size = 0
    for start in range(0, len(ids), unit):
        sequence = ids[start : start + unit]
        added = sum(4 + len(found[entry_id]) for entry_id in sequence)
        if piece and (size + added > limit or len(piece) + unit > RUN_ENTRIES_MAX):
            yield piece[0], pattern, piece
            piece, size = [], 0
        if added > FRAME_BYTES_MAX - FRAME_HEADER_BYTES:  # one sequence alone is too long
            yield from ((entry_id, CONSECUTIVE, [entry_id]) for entry_id in sequence)
            continue
        piece.extend(sequence)
        size += added
    if piece:
        yield piece[0], pattern, piece
