"""The writer of a ledger as its user sees it: futures or a watermark over `protocol.writer`.

Appends of one loop turn are pushed together; the core decides what goes out as one run. The shell
carries out the core's effects in order: sends, metadata writes, choices of replacements; and gives
up only where waiting longer is pointless or the bounds of `WriterSettings` are reached.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bookie.client.peers import Peers
from bookie.client.placement import Placement
from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.batches import WriterLimits
from bookie.protocol.entry import master_key
from bookie.protocol.errors import (
    BookieError,
    LedgerClosedError,
    MetadataConflictError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnavailableError,
)
from bookie.protocol.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.protocol.writer import Writer
from bookie.protocol.writer_effects import (
    Acked,
    Closed,
    Effect,
    Failed,
    NeedReplacement,
    SendRun,
    WriteMetadata,
)
from bookie.wire.native import LacRequest

log = logging.getLogger(__name__)

LacFuture = asyncio.Future[EntryId]


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Bounds of one writer; times in seconds.

    `unacked_bytes_max`: beyond it `room` waits. `stall_s`: how long an ensemble below its ack
    quorum or a silent metadata store is waited for before pending adds fail. `explicit_lac_s`: an
    idle writer tells the bookies its LAC after so long, so that readers see the last entries too.
    """

    limits: WriterLimits = field(default_factory=WriterLimits)
    unacked_bytes_max: int = 32 * 1024 * 1024
    stall_s: float = 120.0
    retry_s: float = 0.5
    explicit_lac_s: float = 0.5


class LedgerWriter:
    """One open ledger being written. Use within one event loop; `close` or abandon it."""

    def __init__(
        self,
        metadata: Versioned[LedgerMetadata],
        *,
        store: MetadataStore,
        peers: Peers,
        placement: Placement,
        settings: WriterSettings | None = None,
    ) -> None:
        self._settings = settings or WriterSettings()
        self._core = Writer(metadata.value, version=metadata.version, limits=self._settings.limits)
        self._store = store
        self._peers = peers
        self._placement = placement
        self._key = master_key(metadata.value.password)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[EntryId, LacFuture]] = deque()
        self._rooms: list[asyncio.Future[None]] = []
        self._closing: LacFuture | None = None
        self._pump_due = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told_lac = NO_ENTRY

    @property
    def ledger_id(self) -> LedgerId:
        return self._core.metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """What the store holds, as this writer last saw it."""
        return self._core.metadata

    @property
    def lac(self) -> EntryId:
        """The last entry that is acknowledged, and everything before it; -1 = none."""
        return self._core.lac

    # Appending
    def append(self, payload: bytes) -> LacFuture:
        """Add one entry; its id when it and everything before it is acknowledged.

        The future fails with LedgerFencedError (outcome unknown) and the like; BadRequestError and
        a writer that has ended are raised at once.
        """
        future: LacFuture = self._loop.create_future()
        self._waiting.append((self.append_many((payload,)), future))
        return future

    def append_many(self, payloads: Sequence[bytes]) -> EntryId:
        """Add entries without a future each; the id of the last, for `wait_acked`."""
        last = self._core.append(payloads)
        if not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)
        return last

    async def wait_acked(self, entry_id: EntryId) -> EntryId:
        """Until the LAC reaches this id; the LAC then."""
        if entry_id > self._core.last_appended:
            raise ValueError(
                f"entry {entry_id} was not appended: {self._core.last_appended} is last"
            )
        if self._core.lac < entry_id:
            if self._core.error is not None:
                raise self._core.error
            future: LacFuture = self._loop.create_future()
            self._insert(entry_id, future)
            await future
        return self._core.lac

    def _insert(self, entry_id: EntryId, future: LacFuture) -> None:
        # Waiters are kept in the order of their ids; a late one for an early id is rare.
        at = len(self._waiting)
        while at and self._waiting[at - 1][0] > entry_id:
            at -= 1
        self._waiting.insert(at, (entry_id, future))

    async def room(self) -> None:
        """Until another append keeps the unacknowledged bytes in bounds; at once after the end."""
        while (
            self._core.error is None
            and self._core.unacked_bytes >= self._settings.unacked_bytes_max
        ):
            room: asyncio.Future[None] = self._loop.create_future()
            self._rooms.append(room)
            await room

    def _pump(self) -> None:
        self._pump_due = False
        self._perform(self._core.pump())

    # The end
    async def close(self) -> EntryId:
        """Wait for what was appended, close the ledger there; its last entry id.

        Raises what ended the writer, LedgerFencedError above all; closing twice is fine.
        """
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
                    self._start(self._replace(effect))
                case WriteMetadata():
                    self._start(self._write(effect))
                case Failed(error):
                    self._fail(error)
                case Closed(last):
                    self._closed(last)

    def _send(self, effect: SendRun) -> None:
        self._peers.add_run(
            effect.bookie_id,
            master_key=self._key,
            frame=effect.frame,
            on_reply=partial(self._replied, effect),
        )

    def _replied(self, sent: SendRun, status: Status) -> None:
        if status not in (Status.OK, Status.FENCED):
            self._placement.note_failure(sent.bookie_id)
        self._perform(self._core.replied(sent, status))

    def _acked(self) -> None:
        lac = self._core.lac
        while self._waiting and self._waiting[0][0] <= lac:
            entry_id, future = self._waiting.popleft()
            if not future.done():
                future.set_result(entry_id)
        self._make_room()
        if self._timer is None:
            self._timer = self._loop.call_later(self._settings.explicit_lac_s, self._tell_lac)

    def _make_room(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)

    def _fail(self, error: BookieError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _entry_id, future in waiting:
            _reject(future, error)
        if self._closing is not None:
            _reject(self._closing, error)
        self._make_room()
        self._stop_timer()

    def _closed(self, last: EntryId) -> None:
        assert self._closing is not None
        self._stop_timer()
        if not self._closing.done():
            self._closing.set_result(last)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Ensemble change
    async def _replace(self, effect: NeedReplacement) -> None:
        for bookie_id in effect.failed:
            self._placement.note_failure(bookie_id)
        log.info("ledger %d: replace %s", self.ledger_id, ", ".join(effect.failed))
        chosen = await self._choose(effect)
        if chosen:
            self._perform(self._core.replace(chosen))
            return
        self._perform(self._core.no_replacement())
        await self._wait_for_bookies()

    async def _choose(self, effect: NeedReplacement) -> dict[int, Any]:
        try:
            return await self._placement.replace(effect.ensemble, effect.positions)
        except UnavailableError as error:
            log.warning("ledger %d: cannot look for bookies: %s", self.ledger_id, error)
            return {}

    async def _wait_for_bookies(self) -> None:
        """Ask again while a member is missing; too long below the ack quorum ends the writer."""
        deadline = self._loop.time() + self._settings.stall_s
        await asyncio.sleep(self._settings.retry_s)
        while self._core.error is None and self._core.is_degraded and not self._core.is_changing:
            if not self._core.is_stalled:
                deadline = self._loop.time() + self._settings.stall_s
            elif self._loop.time() > deadline:
                self._perform(self._core.fail(self._too_few()))
                return
            found = await self._retry_change()
            if found:
                return
            await asyncio.sleep(self._settings.retry_s)

    async def _retry_change(self) -> bool:
        """One more try to fill the failed positions; True when the core took it over."""
        for effect in self._core.retry_change():
            assert isinstance(effect, NeedReplacement)
            chosen = await self._choose(effect)
            self._perform(self._core.replace(chosen) if chosen else self._core.no_replacement())
            return bool(chosen)
        return True

    def _too_few(self) -> NotEnoughBookiesError:
        metadata = self._core.metadata
        return NotEnoughBookiesError(
            f"ledger {self.ledger_id}: fewer than {metadata.ack_quorum} members of its ensemble "
            f"({', '.join(metadata.last_fragment.ensemble)}) answer and no other bookie was found "
            f"for {self._settings.stall_s:.0f} s; adds that are pending are of unknown outcome"
        )

    # Metadata
    async def _write(self, effect: WriteMetadata) -> None:
        """Compare-and-set; after a conflict or an unknown outcome, what the store holds now."""
        deadline = self._loop.time() + self._settings.stall_s
        attempt = self._store.write_ledger(effect.metadata, version=effect.version)
        while True:
            try:
                stored = await attempt
            except MetadataConflictError:
                pass
            except NoSuchLedgerError as error:
                self._perform(self._core.fail(error))
                return
            except UnavailableError as error:
                log.warning("ledger %d: %s", self.ledger_id, error)
                if self._loop.time() > deadline:
                    self._perform(self._core.fail(error))
                    return
                await asyncio.sleep(self._settings.retry_s)
            else:
                self._perform(self._core.store_answered(stored.value, stored.version))
                return
            attempt = self._store.read_ledger(self.ledger_id)

    # Explicit LAC
    def _tell_lac(self) -> None:
        self._timer = None
        lac = self._core.lac
        if lac <= self._told_lac or self._core.error is not None or self._closing is not None:
            return
        if self._core.last_appended > lac:
            # Entries under way will carry it; look again when they are acknowledged.
            return
        self._told_lac = lac
        request = LacRequest(self.ledger_id, self._key, lac=lac)
        for bookie_id in self._core.metadata.last_fragment.ensemble:
            self._start(self._write_lac(bookie_id, request))

    async def _write_lac(self, bookie_id: Any, request: LacRequest) -> None:
        await self._peers.write_lac(bookie_id, request)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reject(future: LacFuture, error: BookieError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # looked at: whoever awaits it still gets it
