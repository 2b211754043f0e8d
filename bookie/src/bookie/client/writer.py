"""The writer of a ledger for applications: the shell of `protocol.writer`, with futures or a
watermark.

Appends of one turn of the loop are pushed together; the core decides which entries form a run. The
shell carries out the core's effects in order: sends, metadata writes, choices of replacements. It
gives up only if waiting longer is pointless or a limit of `WriterSettings` is reached. Every
unexpected error in a task or a callback ends the writer with an error, so that no future stays
without an answer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bookie.client.peers import Peers
from bookie.client.placement import Placement
from bookie.client.refusals import Refusals
from bookie.errors import (
    BookieError,
    LedgerClosedError,
    MetadataConflictError,
    NotEnoughBookiesError,
    UnavailableError,
)
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Versioned
from bookie.points import passing
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.protocol.writer import Phase, Writer
from bookie.protocol.writer_effects import (
    Acked,
    Closed,
    Effect,
    Failed,
    NeedReplacement,
    Recipient,
    SendRun,
    WriteMetadata,
)
from bookie.wire.native import LacRequest

log = logging.getLogger(__name__)

LacFuture = asyncio.Future[EntryId]

_OK: Final = Status.OK
NOT_THE_BOOKIES_FAULT: Final = (Status.FENCED, Status.UNAUTHORIZED, Status.BAD_REQUEST)
"""Refusals that do not count as a failure of the bookie."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Limits of one writer; times in seconds.

    `unacked_bytes_max` and `unacked_entries_max`: beyond either, `room` waits. `stall_s`: after so
    long without progress, while members fail or the metadata store refuses writes, pending adds
    fail. `search_s`: how long acks wait for the search for a replacement. After that the search
    goes on but acks do too, since an unreachable metadata store must not delay reachable bookies.
    `retry_s`: the time until the next search; it doubles up to `retry_max_s` while acks do not need
    the missing member. `explicit_lac_s`: an idle writer sends its LAC to the bookies after this
    time, so that readers see the last entries too.
    """

    limits: WriterLimits = field(default_factory=WriterLimits)
    unacked_bytes_max: int = 32 * 1024 * 1024
    unacked_entries_max: int = 1024 * 1024
    stall_s: float = 120.0
    search_s: float = 1.0
    retry_s: float = 0.5
    retry_max_s: float = 5.0
    explicit_lac_s: float = 0.5


class LedgerWriter:
    """The writer of one open ledger. Use it within one event loop, and `close` or `abandon` it."""

    def __init__(
        self,
        metadata: Versioned[LedgerMetadata],
        *,
        store: MetadataStore,
        peers: Peers,
        placement: Placement,
        settings: WriterSettings | None = None,
        buffers: FrameBuffers | None = None,
    ) -> None:
        """`buffers`: memory for frames, which the writers of a client share."""
        self._settings = settings or WriterSettings()
        self._core = Writer(
            metadata.value,
            version=metadata.version,
            limits=self._settings.limits,
            buffers=buffers,
        )
        self._store = store
        self._peers = peers
        self._placement = placement
        self._key = master_key(metadata.value.password)
        """The master key that is sent with every run."""
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[EntryId, LacFuture]] = deque()
        """Entry ids above the LAC, rising, with the futures that wait until the LAC reaches
        them."""
        self._refusals = Refusals(self._loop.time)
        """The bookies that answered READ_ONLY."""
        self._rooms: list[asyncio.Future[None]] = []
        """The futures of callers that wait in `room`."""
        self._is_closing = False
        """True once `close` was called: no further append is taken."""
        self._closing: LacFuture | None = None
        """The future of the close, once the core has begun it."""
        self._pump_due = False
        """True when `_pump` will be called in the next turn of the loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Metadata writes and other requests under way; an error of one ends the writer."""
        self._lac_timer: asyncio.TimerHandle | None = None
        """The timer that sends the LAC to the bookies; None if no ack has arrived since it was
        sent."""
        self._sent_lac = NO_ENTRY
        """The LAC that an ack quorum last took so; at most the core's."""
        self._is_searching = False
        """True while a task looks for bookies; there is one at a time."""
        self._retry_timer: asyncio.TimerHandle | None = None
        """The timer of the next search for bookies, while a member is missing and no task looks."""
        self._retry_s = self._settings.retry_s
        """How many seconds to wait before the next search: between retry_s and retry_max_s of the
        settings."""
        self._stuck: tuple[EntryId, float] | None = None
        """The LAC that does not advance though adds are pending, and since when, by the loop's
        clock."""
        self._store_refuses_since: float | None = None
        """Since when the metadata store takes no write, by the loop's clock; None when it took the
        last one."""

    @property
    def ledger_id(self) -> LedgerId:
        return self._core.metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata as this writer last saw it in the store."""
        return self._core.metadata

    @property
    def lac(self) -> EntryId:
        """The last entry that is acknowledged together with everything before it; -1 = none."""
        return self._core.lac

    @property
    def error(self) -> BookieError | None:
        """What has ended this writer; None = nothing has, or it was closed in order."""
        return self._core.error

    # Appending
    def append(self, payload: bytes) -> LacFuture:
        """Append one entry; the future gets its id once it and everything before it is
        acknowledged.

        The future may fail, for instance with LedgerFencedError (outcome unknown). BadRequestError,
        and the error of a writer that has ended or is closing, are raised at once: then nothing was
        sent.
        """
        if self._is_closing:
            self._check_open()
        core = self._core
        future: LacFuture = self._loop.create_future()
        self._waiting.append((core.append_one(payload), future))
        if not self._pump_due:
            if core.goes_at_once:
                self._pump()
            else:
                self._pump_soon()
        return future

    def append_many(self, payloads: Sequence[bytes]) -> EntryId:
        """Append entries without a future for each; returns the id of the last, for
        `wait_acked`.
        """
        self._check_open()
        last = self._core.append(payloads)
        self._pump_soon()
        return last

    def _check_open(self) -> None:
        if self._is_closing and self._core.error is None:
            raise LedgerClosedError(self.ledger_id)

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    async def wait_acked(self, entry_id: EntryId) -> EntryId:
        """Wait until the LAC reaches this id; returns the LAC. Raises the error that ended the
        writer before.
        """
        if self._core.lac < entry_id and self._core.error is not None:
            raise self._core.error
        if entry_id > (last := self._core.last_appended):
            raise ValueError(f"entry {entry_id} was not appended: {last} is last")
        if self._core.lac < entry_id:
            future: LacFuture = self._loop.create_future()
            self._insert(entry_id, future)
            try:
                await future
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._waiting.remove((entry_id, future))
                raise
        return self._core.lac

    def _insert(self, entry_id: EntryId, future: LacFuture) -> None:
        # Waiters are sorted by id; a late waiter for an early id is rare.
        at = len(self._waiting)
        while at and self._waiting[at - 1][0] > entry_id:
            at -= 1
        self._waiting.insert(at, (entry_id, future))

    async def room(self) -> None:
        """Wait until the unacknowledged entries are within their limits; returns at once after the
        end.
        """
        while self._core.error is None and self._is_full:
            room: asyncio.Future[None] = self._loop.create_future()
            self._rooms.append(room)
            try:
                await room
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._rooms.remove(room)
                raise

    @property
    def _is_full(self) -> bool:
        core, settings = self._core, self._settings
        return (
            core.unacked_bytes >= settings.unacked_bytes_max
            or core.last_appended - core.lac >= settings.unacked_entries_max
        )

    def _pump(self) -> None:
        self._pump_due = False
        try:
            self._perform(self._core.pump())
        except Exception as error:
            self._broke(error)

    # The end
    async def close(self) -> EntryId:
        """Wait for the appended entries, then close the ledger; returns its last entry id.

        No append is taken after the call. Raises the error that ended the writer, such as
        LedgerFencedError. It may be called again, also after a cancelled close.
        """
        self._is_closing = True
        if self._closing is None:
            await self.wait_acked(self._core.last_appended)
            if self._core.error is not None:
                raise self._core.error
        if self._closing is None:
            self._closing = self._loop.create_future()
            self._perform(self._core.close())
        return await asyncio.shield(self._closing)

    def abandon(self) -> None:
        """Stop without closing, as a crash would: the ledger stays OPEN for a recovery."""
        self._perform(self._core.fail(LedgerClosedError(self.ledger_id)))

    # Effects
    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendRun():
                    self._send(effect)
                case Acked():
                    self._acked()
                case NeedReplacement():
                    self._need_replacement()
                case WriteMetadata():
                    self._start(self._write(effect))
                case Failed(error):
                    self._fail(error)
                case Closed(last):
                    self._closed(last)

    def _send(self, run: SendRun) -> None:
        self._peers.add_run_to(
            run.recipients,
            master_key=self._key,
            frame=run.frame,
            on_reply=partial(self._replied, run.run_id),
        )

    def _replied(self, run_id: int, sender: Recipient, status: Status) -> None:
        if status is not _OK and status not in NOT_THE_BOOKIES_FAULT:
            self._placement.note_failure(sender.bookie_id)
        if status is Status.READ_ONLY:
            self._refusals.note(sender.bookie_id)
        try:
            if effects := self._core.replied(run_id, sender, status):
                self._perform(effects)
        except Exception as error:
            self._broke(error)

    def _acked(self) -> None:
        lac = self._core.lac
        while self._waiting and self._waiting[0][0] <= lac:
            entry_id, future = self._waiting.popleft()
            if not future.done():
                future.set_result(entry_id)
        if self._rooms:
            self._make_room()
        if self._lac_timer is None:
            self._lac_timer = self._loop.call_later(self._settings.explicit_lac_s, self._send_lac)

    def _make_room(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)

    def _fail(self, error: BookieError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _entry_id, future in waiting:
            _reject(future, error)
        # If the core has no error, only the adds have failed and the close goes on.
        if self._core.error is not None:
            if self._closing is not None:
                _reject(self._closing, error)
            self._stop_timers()
        self._make_room()

    def _closed(self, last: EntryId) -> None:
        assert self._closing is not None
        self._stop_timers()
        if not self._closing.done():
            self._closing.set_result(last)

    def _broke(self, error: BaseException) -> None:
        """End the writer after an unexpected error, so that no future waits endlessly."""
        if self._core.error is not None:
            return
        if not isinstance(error, BookieError):
            log.error("ledger %d: the writer stops", self.ledger_id, exc_info=error)
            error = BookieError(
                f"ledger {self.ledger_id}: the writer stopped on {error!r}, see the log; adds that "
                "are pending are of unknown outcome: recover the ledger and go on in a new one"
            )
        self._perform(self._core.fail(error))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broke(error)

    def _stop_timers(self) -> None:
        for timer in (self._lac_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._lac_timer = self._retry_timer = None

    # Ensemble change
    def _need_replacement(self) -> None:
        """Start the search for replacements; the core, and acks, wait for it."""
        if self._is_searching:
            # The search under way will also replace this member; until then acks go on without it.
            self._perform(self._core.no_replacement())
            return
        self._is_searching = True
        self._start(self._replace(is_awaited=True))

    async def _replace(self, *, is_awaited: bool) -> None:
        """Look for bookies and begin the ensemble change; `is_awaited`: the core has begun it
        already.
        """
        try:
            if self._gives_up():
                return
            core = self._core
            looking = self._loop.create_task(self._choose())
            if is_awaited:
                await asyncio.wait([looking], timeout=self._settings.search_s)
                if not looking.done():
                    is_awaited = False
                    self._perform(core.no_replacement())
            chosen = await looking
        finally:
            self._is_searching = False
        if is_awaited:
            self._perform(core.replace(chosen) if chosen else core.no_replacement())
        elif chosen and core.retry_change():
            self._perform(core.replace(chosen))
        if chosen:
            self._retry_s = self._settings.retry_s
        else:
            self._schedule_retry()

    async def _choose(self) -> dict[int, BookieId]:
        """Choose bookies for the missing positions; empty when there are none, or the store is not
        reachable.
        """
        metadata, missing = self._core.metadata, self._core.missing
        ensemble = metadata.last_fragment.ensemble
        try:
            chosen = await self._placement.replace(
                ensemble,
                missing,
                write_quorum=metadata.write_quorum,
                refusing=self._refusing(),
            )
        except UnavailableError as error:
            log.warning("ledger %d: cannot look for bookies: %s", self.ledger_id, error)
            return {}
        for position, bookie_id in chosen.items():
            log.info("ledger %d: %s for %s", self.ledger_id, bookie_id, ensemble[position])
        return chosen

    def _refusing(self) -> frozenset[BookieId]:
        """Bookies that are no replacement: asked again, they would only refuse again, and cost an
        ensemble change each time. A writer that is stalled has no choice.
        """
        if self._core.is_stalled:
            return frozenset()
        return self._refusals.now()

    def _schedule_retry(self) -> None:
        """Start the one timer of the next search, however many members fail, so that a dead cluster
        is asked at a bounded rate.
        """
        core, settings = self._core, self._settings
        if self._retry_timer is None and core.phase is Phase.OPEN and core.is_degraded:
            delay = settings.retry_s if core.is_stalled else self._retry_s
            self._retry_s = min(self._retry_s * 2, settings.retry_max_s)
            self._retry_timer = self._loop.call_later(delay, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        core = self._core
        if core.is_degraded and not core.is_changing and not self._is_searching:
            self._is_searching = True
            self._start(self._replace(is_awaited=False))

    def _gives_up(self) -> bool:
        """End the writer when members fail and pending adds have made no progress for too long.

        Called whenever a member must be replaced: a member that is taken back again and again, and
        fails each time, must not keep the adds waiting endlessly.
        """
        lac, now = self._core.lac, self._loop.time()
        if lac == self._core.last_appended:
            self._stuck = None
        elif self._stuck is None or self._stuck[0] != lac:
            self._stuck = (lac, now)
        elif now - self._stuck[1] > self._settings.stall_s:
            self._perform(self._core.fail(self._too_few()))
            return True
        return False

    def _too_few(self) -> NotEnoughBookiesError:
        metadata = self._core.metadata
        return NotEnoughBookiesError(
            f"ledger {self.ledger_id}: nothing could be acknowledged for "
            f"{self._settings.stall_s:.0f} s: fewer than {metadata.ack_quorum} of "
            f"{', '.join(metadata.last_fragment.ensemble)} take adds and no other bookie was "
            "found; adds that are pending are of unknown outcome"
        )

    # Metadata
    async def _write(self, effect: WriteMetadata) -> None:
        """Do a compare-and-set, and pass what the store then holds to the core."""
        passing("writer: metadata not written yet")
        stored = await self._outcome(effect)
        if stored is None:
            return
        if stored.version != effect.version:
            self._store_refuses_since = None
        else:
            await self._bear(
                UnavailableError(
                    f"ledger {self.ledger_id}: the metadata store answers, but takes "
                    "no write: see whether it has a quorum and is not read-only"
                )
            )
        self._perform(self._core.store_answered(stored.value, stored.version))

    async def _outcome(self, effect: WriteMetadata) -> Versioned[LedgerMetadata] | None:
        """Write, and return what is stored, by a re-read after a conflict or an unknown outcome;
        None when the writer has ended.
        """
        ask = partial(self._store.write_ledger, effect.metadata, version=effect.version)
        while self._core.error is None:
            try:
                return await ask()
            except MetadataConflictError:
                pass
            except UnavailableError as error:
                await self._bear(error)
            ask = partial(self._store.read_ledger, self.ledger_id)
        return None

    async def _bear(self, error: UnavailableError) -> None:
        """Pause before the store is asked again; raises `error` once it has refused too long."""
        now = self._loop.time()
        if self._store_refuses_since is None:
            self._store_refuses_since = now
            log.warning("ledger %d: %s", self.ledger_id, error)
        if now - self._store_refuses_since > self._settings.stall_s:
            raise error
        await asyncio.sleep(self._settings.retry_s)

    # Explicit LAC
    def _send_lac(self) -> None:
        self._lac_timer = None
        lac = self._core.lac
        if lac <= self._sent_lac or self._core.error is not None or self._closing is not None:
            return
        if self._core.last_appended > lac:
            # Entries under way will carry the LAC; the next ack starts the timer again.
            return
        self._start(self._write_lac(lac))

    async def _write_lac(self, lac: EntryId) -> None:
        """Send it to all members; again after a pause if fewer than an ack quorum took it, since no
        other ack of an idle writer starts the timer."""
        metadata = self._core.metadata
        request = LacRequest(self.ledger_id, self._key, lac=lac)
        members = metadata.last_fragment.ensemble
        said = await asyncio.gather(*(self._peers.write_lac(one, request) for one in members))
        if said.count(Status.OK) >= metadata.ack_quorum:
            self._sent_lac = max(self._sent_lac, lac)
            return
        is_refused = any(status in NOT_THE_BOOKIES_FAULT for status in said)
        is_over = self._closing is not None or self._core.error is not None
        if self._lac_timer is None and not (is_refused or is_over):
            pause_s = self._settings.retry_max_s
            self._lac_timer = self._loop.call_later(pause_s, self._send_lac)


def _reject(future: LacFuture, error: BookieError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen; a caller that awaits it still gets it
