"""A replicated log: a list of ledgers that has one owner at a time and changes by compare-and-set.

Opening takes the log over: fence and recover the last two ledgers (the old owner may have put the
last one on the list while it still wrote to the one before), create a new ledger, put it on the
list by compare-and-set. A client that loses the compare-and-set starts again; it takes no append
before it has won. Only truncation deletes a ledger that is on the list or may come onto it
(`log_chain`).

`read_log` returns every entry that was acknowledged and not truncated, in the order of the list,
each once; an append without an answer appears once or not at all. There is a gap only if somebody
deletes a listed ledger without the log; reading reports it and goes on (`log_reading`).

An owner notices that it has lost the log only at its next append, which fails with
LedgerFencedError, outcome unknown, as does every append after it. To go on, make sure that this
process should still be the owner, call `reopen`, read what the log holds, and append again what is
missing.

Appends go to one ledger until `roll` begins the next one:

open -> [appending] -> roll: extend the list -> [switching: appends wait] -> close the old ledger,
appends that waited go into the new one -> [appending] -> ... -> close, or a failure: [lost] for
good
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bookie.client.log_chain import LedgerChain, LedgerClient, LogSettings, LogWriter
from bookie.client.log_reading import LogEntry, LogPosition, read_log
from bookie.errors import (
    BadRequestError,
    BookieError,
    LedgerClosedError,
    LedgerFencedError,
    UnavailableError,
)
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore

_log = logging.getLogger(__name__)


class ReplicatedLog:
    """An owned log. Use `open`; one task may append, others may read."""

    def __init__(self, chain: LedgerChain, writer: LogWriter) -> None:
        self.name = chain.name
        self._chain = chain
        """The log's list of ledgers; it makes every change of the list."""
        self._settings = chain.settings
        self._writer = writer
        """The writer of the ledger that gets the appends: the last one on the list, or the one
        before while `roll` has not closed it."""
        self._entries = self._bytes = 0
        """Entries and payload bytes appended to that ledger; both are reset to 0 after a failed
        roll. Not ideal: the next roll then comes as late as if the ledger were new."""
        self._lost: BookieError | None = None
        """Why this object cannot append any more; once set it stays. None while it owns the log."""
        self._list_lock = asyncio.Lock()
        """Held during a change of the list: one roll, truncate or close at a time."""
        self._switching = False
        """True from the time a new ledger is on the list until the old one is closed: appends
        wait."""
        self._switched = asyncio.Event()
        """Set when a switch has ended or the log is lost; clear during a switch."""
        self._waiting: deque[tuple[bytes, asyncio.Future[LogPosition]]] = deque()
        """Appends that wait for a switch, in order, at most `waiting_max`; empty otherwise."""
        self._roll_task: asyncio.Task[None] | None = None
        """The roll that a full ledger has started; None when there is none."""
        self._switch: asyncio.Task[None] | None = None
        """The last switch to another ledger, which goes on when its roll is cancelled."""

    @classmethod
    async def open(
        cls,
        name: str,
        *,
        ledgers: LedgerClient,
        store: MetadataStore,
        settings: LogSettings | None = None,
    ) -> "ReplicatedLog":
        """Take the log over, or create it; the old owner is fenced out when this returns.

        It removes listed ledgers that do not exist from the list, with a warning.

        Raises what recovery raises (UndecidableError, ...), NotEnoughBookiesError, and
        MetadataConflictError when another owner keeps winning. After UnavailableError a new, empty
        ledger may be on the list, or come onto it; the next owner goes on behind it.
        """
        chain = LedgerChain(name, ledgers=ledgers, store=store, settings=settings or LogSettings())
        return cls(chain, await chain.take_over())

    async def reopen(self) -> "ReplicatedLog":
        """Take the log over again, after LedgerFencedError. Returns a new object; this one stays
        lost.
        """
        self._lose(LedgerFencedError(self.ledger_id))
        chain = self._chain
        return await ReplicatedLog.open(
            self.name, ledgers=chain.ledgers, store=chain.store, settings=chain.settings
        )

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger that gets the appends now."""
        return self._writer.ledger_id

    @property
    def is_owned(self) -> bool:
        """False once this object has noticed that the log has another owner, or has closed it."""
        return self._lost is None

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        """The log's ledgers as last seen, oldest first."""
        return self._chain.ids

    # Append
    def append(self, payload: bytes) -> "asyncio.Future[LogPosition]":
        """Append one entry; the future gets its position once it and everything before it is
        acknowledged.

        Hot, so it does not call `_check`. The future fails with LedgerFencedError (outcome unknown)
        once the log has another owner, and with UnavailableError when too many appends wait for a
        switch of ledgers: await `room` before.
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
        """Append entries in order, all to one ledger; returns the last one's position once all are
        acked.

        It raises the errors of `append`, and waits for `room` itself.
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
            raise self._noted(error) from error
        return LogPosition(writer.ledger_id, last)

    async def room(self) -> None:
        """Wait until there is room for an append; returns at once when the log is lost."""
        writer = None
        while self._lost is None and (self._switching or writer is not self._writer):
            if self._switching:
                await self._switched.wait()
            else:  # the log may switch to another ledger while this one has no room
                writer = self._writer
                await writer.room()

    def _send(self, payload: bytes, future: "asyncio.Future[LogPosition]") -> None:
        ledger_id = self._writer.ledger_id
        try:
            stored = self._writer.append(payload)
        except BookieError as error:
            future.set_exception(self._noted(error))
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
                    self._noted(error) if isinstance(error, BookieError) else error
                )

        stored.add_done_callback(settle)
        self._count(1, len(payload))

    def _noted(self, error: BookieError) -> BookieError:
        """Mark the log as lost after an error of its writer; returns the error for the appender.

        A writer that has failed once cannot go on, nor can the log. Only a refused payload, or an
        append during a close, leaves the log as it is: losing the log then would break off the
        close. A bookie may refuse an add as a bad request, too, which ends the writer.
        """
        is_closing = self._lost is None and isinstance(error, LedgerClosedError)
        is_refused = isinstance(error, BadRequestError) and self._writer.error is None
        if is_closing or is_refused:
            return error
        self._lose(error)
        return self._lost or error

    def _lose(self, error: BookieError) -> None:
        """Mark the log as lost: waiting and later appends fail with this error."""
        if self._lost is None:
            self._lost = error
            self._writer.abandon()
            self._chain.abandon()
        self._switched.set()
        while self._waiting:
            _payload, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(self._lost)
        self._check()

    def _check(self) -> None:
        """Assert the invariants between two events; `append` does not call it, as it is hot."""
        assert not self._waiting or (self._switching and self._lost is None)
        assert len(self._waiting) <= self._settings.waiting_max
        assert self._lost is not None or not (self._switching and self._switched.is_set())
        assert self._entries >= 0 and self._bytes >= 0

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
            # The present ledger is still good; it grows until the next attempt succeeds.
            self._entries = self._bytes = 0
            _log.warning("log %s: cannot begin another ledger now: %s", self.name, error)
        finally:
            self._roll_task = None

    async def roll(self) -> LedgerId:
        """Begin a new ledger and close the one before; returns the new ledger's id.

        Appends go to the old ledger until the new one is on the list. The new one gets its first
        entry only when the old one is closed, so that a reader never sees a gap between them.

        After UnavailableError it is unknown whether the new one is on the list. Appends still go to
        the old one; the next `roll` or `close` looks, and goes on with the same new ledger.

        A roll that is cancelled once the new one is on the list goes on: appends wait for its end.
        """
        async with self._changing():
            self._check_owned()
            return await self._roll()

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """One change of the list at a time, none beside the end of a roll that was cancelled."""
        async with self._list_lock:
            if self._switch is not None:
                await asyncio.wait([self._switch])
            yield

    async def _roll(self) -> LedgerId:
        try:
            new = await self._chain.extend(self.ledger_id)
        except LedgerFencedError as error:
            self._lose(error)
            raise
        self._switch = asyncio.get_running_loop().create_task(self._switch_to(new))
        await asyncio.shield(self._switch)
        return new.ledger_id

    async def _switch_to(self, new: LogWriter) -> None:
        self._switching = True
        self._switched.clear()
        try:
            await self._writer.close()
            self._writer = new
            self._entries = self._bytes = 0
        except BookieError as error:
            self._lose(error)  # the list names a newer ledger: only `reopen` helps
            raise
        except asyncio.CancelledError:
            self._lose(
                UnavailableError(f"log {self.name}: it was ended during a switch of ledgers")
            )
            raise
        finally:
            self._switching = False
            self._switched.set()
        while self._waiting and self._lost is None:
            self._send(*self._waiting.popleft())
        self._check()

    def _check_owned(self) -> None:
        if self._lost is not None:
            raise self._lost

    # Truncate, close
    async def truncate(self, before: LogPosition) -> tuple[LedgerId, ...]:
        """Delete the ledgers without an entry at or after this position; returns their ids.

        It removes them from the list first, so that no later reader meets a gap; a reader under way
        gets an error. Ledgers that a crash leaves undeleted are deleted by the next truncate or
        open.
        """
        async with self._changing():
            self._check_owned()
            try:
                return await self._chain.truncate(self.ledger_id, before.ledger_id)
            except LedgerFencedError as error:
                self._lose(error)
                raise

    async def close(self) -> None:
        """Wait for the appended entries, close the ledger, and give the log up.

        It finishes an interrupted roll first, as the list may name that roll's ledger.
        """
        if self._roll_task is not None:
            await asyncio.gather(self._roll_task, return_exceptions=True)
        async with self._changing():
            if self._lost is not None:
                return
            if self._chain.is_extending(self.ledger_id):
                await self._roll()
            await self._writer.close()
            self._lose(LedgerClosedError(self.ledger_id))

    def read_all(self, start: LogPosition | None = None) -> AsyncIterator[LogEntry]:
        """Read the present entries of the log, from `start` (included) or its beginning; see
        `read_log`.
        """
        return read_log(
            self.name,
            ledgers=self._chain.ledgers,
            store=self._chain.store,
            password=self._settings.password,
            start=start,
        )
