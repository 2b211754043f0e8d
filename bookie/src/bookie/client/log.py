"""A replicated log: a list of ledgers with one owner at a time, changed by compare-and-set.

Opening takes the log over: fence and recover the last two ledgers (the old owner may have been
adding the last one while writing to the one before), create a new ledger, put it on the list by
compare-and-set. Whoever loses that starts again; no write is served before it is won.

Ownership ends silently until it is noticed: an append then fails with LedgerFencedError, outcome
unknown, and so does every later one. To go on, make sure that you are still meant to be the owner
and call `reopen`; re-append what you must, after reading what the log holds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bookie.client.log_list import LedgerList, ListStore
from bookie.client.reader import LedgerReader
from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import (
    BadRequestError,
    BookieError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.protocol.ids import EntryId, LedgerId

TAKEN_OVER_MAX: Final = 16
"""Lost compare-and-sets of one opening, after which another owner is clearly at work."""
RECOVERED_ON_OPEN: Final = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """Where an entry lies in a log; later entries compare greater, as ledger ids rise."""

    ledger_id: LedgerId
    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class LogEntry:
    position: LogPosition
    payload: bytes


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Shape of the log's ledgers, and when a new one is begun.

    `waiting_max`: appends kept while a ledger is being changed for the next one; see `room`.
    """

    ensemble_size: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    password: bytes = b""
    roll_entries: int = 1_000_000
    roll_bytes: int = 512 * 1024 * 1024
    waiting_max: int = 10_000


class LogWriter(Protocol):
    """What a log needs of `client.writer.LedgerWriter`."""

    @property
    def ledger_id(self) -> LedgerId: ...
    def append(self, payload: bytes) -> "asyncio.Future[EntryId]": ...
    def append_many(self, payloads: Sequence[bytes]) -> EntryId: ...
    async def wait_acked(self, entry_id: EntryId) -> EntryId: ...
    async def room(self) -> None: ...
    async def close(self) -> EntryId:
        """Waits for what was appended first."""
        ...

    def abandon(self) -> None: ...


class Ledgers(Protocol):
    """What a log needs of `client.ledgers.Client`."""

    async def create_ledger(
        self, *, ensemble_size: int, write_quorum: int, ack_quorum: int, password: bytes = b""
    ) -> LogWriter: ...
    async def open_ledger(self, ledger_id: LedgerId, *, password: bytes = b"") -> LedgerReader: ...
    async def recover_ledger(
        self, ledger_id: LedgerId, *, password: bytes = b""
    ) -> LedgerReader: ...
    async def delete_ledger(self, ledger_id: LedgerId) -> None: ...


class ReplicatedLog:
    """An owned log. Make one with `open`; one task may append, others may read."""

    def __init__(
        self,
        name: str,
        *,
        ledgers: Ledgers,
        store: MetadataStore,
        settings: LogSettings,
        listed: ListStore,
        writer: LogWriter,
    ) -> None:
        self.name = name
        self._ledgers = ledgers
        self._store = store
        self._settings = settings
        self._listed = listed
        self._writer = writer
        self._entries = self._bytes = 0
        self._lost: BookieError | None = None
        self._list_lock = asyncio.Lock()
        self._switching = False
        self._switched = asyncio.Event()
        self._waiting: deque[tuple[bytes, asyncio.Future[LogPosition]]] = deque()
        self._roll_task: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        name: str,
        *,
        ledgers: Ledgers,
        store: MetadataStore,
        settings: LogSettings | None = None,
    ) -> "ReplicatedLog":
        """Take the log over, or begin it; the old owner is fenced out when this returns.

        Raises what recovery raises (UndecidableError, ...), NotEnoughBookiesError, and
        MetadataConflictError when another owner keeps winning.
        """
        settings = settings or LogSettings()
        listed = ListStore(store, name)
        for _ in range(TAKEN_OVER_MAX):
            current = await listed.read()
            for ledger_id in current.ledgers[-RECOVERED_ON_OPEN:]:
                await ledgers.recover_ledger(ledger_id, password=settings.password)
            await _delete_all(ledgers, current.deleting)
            writer = await _create(ledgers, settings)
            try:
                await listed.write(LedgerList(current.ledgers).appended(writer.ledger_id))
            except MetadataConflictError:
                await _give_up(ledgers, writer)  # nobody knows of it
                continue
            return cls(
                name,
                ledgers=ledgers,
                store=store,
                settings=settings,
                listed=listed,
                writer=writer,
            )
        raise MetadataConflictError(
            f"log {name}: another owner won {TAKEN_OVER_MAX} times; find out who should own it"
        )

    async def reopen(self) -> "ReplicatedLog":
        """Take the log over again, after LedgerFencedError: a new object, this one is done."""
        self._lose(LedgerFencedError(self.ledger_id))
        return await ReplicatedLog.open(
            self.name, ledgers=self._ledgers, store=self._store, settings=self._settings
        )

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger appended to now."""
        return self._writer.ledger_id

    @property
    def is_owned(self) -> bool:
        """False once this owner has noticed that it is none any more."""
        return self._lost is None

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        """The log's ledgers as last seen, oldest first."""
        return self._listed.current.ledgers

    # Append
    def append(self, payload: bytes) -> "asyncio.Future[LogPosition]":
        """Add one entry; its position when it is acknowledged, and everything before it is.

        Fails with LedgerFencedError (outcome unknown) once the log has another owner, and with
        UnavailableError when too many appends wait for a change of ledger: await `room` first.
        """
        future: asyncio.Future[LogPosition] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            future.set_exception(self._lost)
        elif not self._switching:
            self._send(payload, future)
        elif len(self._waiting) < self._settings.waiting_max:
            self._waiting.append((payload, future))
        else:
            future.set_exception(
                UnavailableError(
                    f"log {self.name}: {len(self._waiting)} appends wait; await room()"
                )
            )
        return future

    async def append_many(self, payloads: Sequence[bytes]) -> LogPosition:
        """Add entries in order, all to one ledger; the last one's position when all are acked.

        Errors as of `append`; waits for `room` itself.
        """
        if not payloads:
            raise BadRequestError("append_many needs at least one payload")
        await self.room()
        self._check_owned()
        writer = self._writer
        try:
            last = writer.append_many(payloads)
            self._count(len(payloads), sum(map(len, payloads)))
            await writer.wait_acked(last)
        except BookieError as error:
            raise self._verdict(error) from error
        return LogPosition(writer.ledger_id, last)

    async def room(self) -> None:
        """Wait until an append will be taken; returns at once when the log is lost."""
        while self._switching and self._lost is None:
            await self._switched.wait()
        if self._lost is None:
            await self._writer.room()

    def _send(self, payload: bytes, future: "asyncio.Future[LogPosition]") -> None:
        ledger_id = self._writer.ledger_id
        try:
            stored = self._writer.append(payload)
        except BookieError as error:
            future.set_exception(self._verdict(error))
            return

        def settle(done: "asyncio.Future[EntryId]") -> None:
            error = None if done.cancelled() else done.exception()
            if future.done():
                return
            if done.cancelled():
                future.cancel()
            elif error is None:
                future.set_result(LogPosition(ledger_id, done.result()))
            else:
                future.set_exception(
                    self._verdict(error) if isinstance(error, BookieError) else error
                )

        stored.add_done_callback(settle)
        self._count(1, len(payload))

    def _verdict(self, error: BookieError) -> BookieError:
        """What an appender is told; a writer that has failed once is over, and the log with it.

        Only a payload that was refused, or one that came while the log is closed, leaves it as it
        was: to lose the log then would end the close that is under way.
        """
        is_closing = self._lost is None and isinstance(error, LedgerClosedError)
        if is_closing or isinstance(error, BadRequestError):
            return error
        self._lose(error)
        return self._lost or error

    def _lose(self, error: BookieError) -> None:
        """Nothing can be appended here any more; whoever waits is told."""
        if self._lost is None:
            self._lost = error
            self._writer.abandon()
        self._switched.set()
        while self._waiting:
            _payload, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(self._lost)

    # Roll
    def _count(self, entries: int, payload_bytes: int) -> None:
        self._entries += entries
        self._bytes += payload_bytes
        full = (
            self._entries >= self._settings.roll_entries or self._bytes >= self._settings.roll_bytes
        )
        if full and self._roll_task is None:
            self._roll_task = asyncio.get_running_loop().create_task(self._roll_quietly())

    async def _roll_quietly(self) -> None:
        try:
            await self.roll()
        except BookieError as error:
            # The ledger in use is still good; it grows until the next attempt succeeds.
            self._entries = self._bytes = 0
            _log.warning("log %s: cannot begin another ledger now: %s", self.name, error)
        finally:
            self._roll_task = None

    async def roll(self) -> LedgerId:
        """Begin a new ledger and close the one before; the new ledger's id.

        Appends go on into the old ledger until the new one is on the list. The new one gets its
        first entry only when the old one is closed, so that a reader never sees a gap between them.
        """
        async with self._list_lock:
            self._check_owned()
            new = await _create(self._ledgers, self._settings)
            try:
                await self._change_list(lambda current: current.appended(new.ledger_id))
            except (MetadataConflictError, LedgerFencedError):
                await _give_up(self._ledgers, new)
                raise
            await self._switch_to(new)
            return new.ledger_id

    async def _switch_to(self, new: LogWriter) -> None:
        self._switching = True
        self._switched.clear()
        try:
            await self._writer.close()
            self._writer = new
            self._entries = self._bytes = 0
        except BookieError as error:
            self._lose(error)  # the list names a newer ledger: only reopening can go on from here
            raise
        finally:
            self._switching = False
            self._switched.set()
        while self._waiting and self._lost is None:
            self._send(*self._waiting.popleft())

    def _check_owned(self) -> None:
        if self._lost is not None:
            raise self._lost

    async def _change_list(self, change: "ListChange") -> None:
        """Compare-and-set by the owner; a list that ends in another ledger has another owner."""
        for _ in range(TAKEN_OVER_MAX):
            try:
                await self._listed.write(change(self._listed.current))
                return
            except MetadataConflictError:
                if self._listed.current.ledgers[-1:] != (self.ledger_id,):
                    self._lose(LedgerFencedError(self.ledger_id))
                    raise self._lost or LedgerFencedError(self.ledger_id) from None
        raise MetadataConflictError(f"log {self.name}: its list changes all the time; try again")

    # Truncate, close
    async def truncate(self, before: LogPosition) -> tuple[LedgerId, ...]:
        """Delete the ledgers that hold nothing at or after this position; their ids.

        The list forgets them first, so that no reader meets a hole. What a crash leaves undeleted
        is deleted by the next truncate or open.
        """
        async with self._list_lock:
            self._check_owned()
            if before.ledger_id not in self._listed.current.ledgers:
                raise BadRequestError(
                    f"log {self.name} has no ledger {before.ledger_id}: it has "
                    f"{list(self._listed.current.ledgers)}"
                )
            await self._change_list(lambda current: current.truncated(before.ledger_id))
            gone = self._listed.current.deleting
            await _delete_all(self._ledgers, gone)
            if gone:
                await self._change_list(lambda current: current.deleted(gone))
            return gone

    async def close(self) -> None:
        """Wait for what was appended, close the ledger, and give the log up."""
        if self._roll_task is not None:
            await asyncio.gather(self._roll_task, return_exceptions=True)
        async with self._list_lock:
            if self._lost is not None:
                return
            await self._writer.close()
            self._lose(LedgerClosedError(self.ledger_id))

    def read_all(self, start: LogPosition | None = None) -> AsyncIterator[LogEntry]:
        """What the log holds now, from `start` (included) or its beginning; see `read_log`."""
        return read_log(
            self.name,
            ledgers=self._ledgers,
            store=self._store,
            password=self._settings.password,
            start=start,
        )


class ListChange(Protocol):
    def __call__(self, current: LedgerList, /) -> LedgerList: ...


async def read_log(
    name: str,
    *,
    ledgers: Ledgers,
    store: MetadataStore,
    password: bytes = b"",
    start: LogPosition | None = None,
) -> AsyncIterator[LogEntry]:
    """Entries of a log in order, without owning it: closed ledgers whole, then what of the first
    open one is known to be acknowledged. Never past an open ledger: its end is not decided.
    """
    listed = await ListStore(store, name).read()
    for ledger_id in listed.ledgers:
        if start is not None and ledger_id < start.ledger_id:
            continue
        reader = await ledgers.open_ledger(ledger_id, password=password)
        last = await reader.read_lac()
        at_start = start is not None and ledger_id == start.ledger_id
        first = start.entry_id if start is not None and at_start else EntryId(0)
        async for entry in reader.stream(first, last):
            yield LogEntry(LogPosition(ledger_id, entry.entry_id), entry.payload)
        if not reader.is_closed:
            return


async def _create(ledgers: Ledgers, settings: LogSettings) -> LogWriter:
    return await ledgers.create_ledger(
        ensemble_size=settings.ensemble_size,
        write_quorum=settings.write_quorum,
        ack_quorum=settings.ack_quorum,
        password=settings.password,
    )


async def _delete_all(ledgers: Ledgers, ledger_ids: tuple[LedgerId, ...]) -> None:
    for ledger_id in ledger_ids:
        try:
            await ledgers.delete_ledger(ledger_id)
        except NoSuchLedgerError:
            continue  # an earlier attempt got this far


async def _give_up(ledgers: Ledgers, writer: LogWriter) -> None:
    """Close and delete a ledger that never came onto a list; an empty leftover harms nobody."""
    try:
        await writer.close()
        await ledgers.delete_ledger(writer.ledger_id)
    except BookieError as error:
        _log.warning("ledger %d is left over: %s", writer.ledger_id, error)
