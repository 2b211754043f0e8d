"""Manages the ledgers of an owned log: takes them over, begins the next one, deletes the old ones.

Every change of the list is a compare-and-set, and its outcome is looked up before anything is
concluded from it. As a reply may be lost, two rules hold:

- A ledger that may be on a list is not deleted. A new ledger is given up only when a look that is
  younger than every write of ours that named it shows that it is not there: the version which they
  named is gone for good then. Otherwise it stays, and is named in the log where nobody else will
  find it.
- At most the last two listed ledgers are open. A new one goes behind ledgers that are closed or
  recovered, or behind the owner's, which gets nothing more once the new one gets its first entry.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from bookie.client.log_list import LedgerList, ListStore
from bookie.client.reader import LedgerReader
from bookie.errors import (
    BadRequestError,
    BookieError,
    LedgerFencedError,
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
)
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore

CHANGES_LOST_MAX: Final = 16
"""After so many lost compare-and-sets of one opening or change, another owner is clearly at
work."""
RECOVERED_ON_OPEN: Final = 2
"""How many of the last ledgers on a list may be open, see above."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The quorums of the log's ledgers, and when a new one is begun."""

    ensemble_size: int = 3
    """E >= Qw >= Qa >= 1."""
    write_quorum: int = 3
    ack_quorum: int = 2
    password: bytes = b""
    roll_entries: int = 1_000_000
    """After so many entries of a ledger the next one is begun."""
    roll_bytes: int = 512 * 1024 * 1024
    """After so many payload bytes of a ledger the next one is begun."""
    waiting_max: int = 10_000
    """How many appends may wait during a switch of ledgers; see `ReplicatedLog.room`."""


class LogWriter(Protocol):
    """The methods of `client.writer.LedgerWriter` that a log uses."""

    @property
    def ledger_id(self) -> LedgerId: ...
    @property
    def error(self) -> BookieError | None:
        """What has ended it; None = nothing has."""

    def append(self, payload: bytes) -> "asyncio.Future[EntryId]": ...
    def append_many(self, payloads: Sequence[bytes]) -> EntryId: ...
    async def wait_acked(self, entry_id: EntryId) -> EntryId: ...
    async def room(self) -> None: ...
    async def close(self) -> EntryId:
        """Wait for the appended entries, then close the ledger."""
        ...

    def abandon(self) -> None: ...


class LedgerClient(Protocol):
    """The methods of `client.bookkeeper_client.Client` that a log uses."""

    async def create_ledger(
        self, *, ensemble_size: int, write_quorum: int, ack_quorum: int, password: bytes = b""
    ) -> LogWriter: ...
    async def open_ledger(self, ledger_id: LedgerId, *, password: bytes = b"") -> LedgerReader: ...
    async def recover_ledger(
        self, ledger_id: LedgerId, *, password: bytes = b""
    ) -> LedgerReader: ...
    async def delete_ledger(self, ledger_id: LedgerId) -> None: ...


class ListChange(Protocol):
    """Returns the wanted list, given the stored one; if they are equal there is
    nothing to write.
    """

    def __call__(self, current: LedgerList, /) -> LedgerList: ...


class LedgerChain:
    """The ledgers of one log, for its owner or a client that is about to become the owner.

    `owned` in its methods is the ledger that the owner appends to. Only one task may use it at a
    time.
    """

    def __init__(
        self, name: str, *, ledgers: LedgerClient, store: MetadataStore, settings: LogSettings
    ) -> None:
        self.name = name
        """The name of the log, part of the list's key in the store."""
        self.ledgers = ledgers
        """Creates, recovers and deletes ledgers."""
        self.store = store
        self.settings = settings
        self._listed = ListStore(store, name)
        """The list as it was last read or written."""
        self._next: LogWriter | None = None
        """The ledger that the last `extend` began. It is on the list, or may be, or may still come
        onto it. It gets no entry before `owned` is closed."""

    @property
    def ids(self) -> tuple[LedgerId, ...]:
        """The listed ledgers as last seen, oldest first."""
        return self._listed.current.ledgers

    # Taking over
    async def take_over(self) -> LogWriter:
        """Fence out the owner of the log and return the writer of a new last ledger. See
        `log.open`.
        """
        for _ in range(CHANGES_LOST_MAX):
            current = await self._listed.read()
            missing = await self._missing(current.ledgers)
            left = current.without(missing)
            try:
                for ledger_id in left.ledgers[-RECOVERED_ON_OPEN:]:
                    await self.ledgers.recover_ledger(ledger_id, password=self.settings.password)
            except NoSuchLedgerError:
                continue  # deleted just now: look again
            await self._delete(current.deleting)
            writer = await self._create()
            if await self._put(writer, LedgerList(left.ledgers).appended(writer.ledger_id)):
                self._warn_missing(missing)
                self._check()
                return writer
        raise MetadataConflictError(
            f"log {self.name}: others changed it {CHANGES_LOST_MAX} times while it was opened; "
            "find out who should own it"
        )

    async def _put(self, writer: LogWriter, changed: LedgerList) -> bool:
        """Write the list; False when another client's write came first: then the new ledger is
        given up.
        """
        try:
            await self._listed.write(changed)
        except MetadataConflictError:
            await self._give_up(writer)
            return False
        except BookieError:
            self._leave_over(writer)
            raise
        return True

    async def _missing(self, ledger_ids: Sequence[LedgerId]) -> frozenset[LedgerId]:
        """Find the listed ledgers that do not exist. Each existed when it was listed, so it was
        deleted since.

        Removing an existing ledger from the list would lose its entries. So there is a second look
        behind a barrier, in case a lagging server answered the first one. And the store raises
        NoSuchLedgerError only after it has checked that it is this cluster's store.
        """
        unreadable: dict[LedgerId, MetadataFormatError] = {}
        found = await self.store.read_ledgers(ledger_ids, unreadable=unreadable)
        for error in unreadable.values():  # it exists all the same
            _log.warning("log %s: a listed ledger cannot be read: %s", self.name, error)
        absent = set(ledger_ids) - found.keys() - unreadable.keys()
        if absent:
            await self.store.barrier()
        return frozenset([one for one in sorted(absent) if not await self._exists(one)])

    async def _exists(self, ledger_id: LedgerId) -> bool:
        try:
            with suppress(MetadataFormatError):  # it exists all the same
                await self.store.read_ledger(ledger_id)
        except NoSuchLedgerError:
            return False
        return True

    def _warn_missing(self, missing: frozenset[LedgerId]) -> None:
        for ledger_id in sorted(missing):
            _log.warning(
                "log %s: ledger %d was on its list and does not exist: taken off; it never had "
                "entries, or somebody has deleted it with them",
                self.name,
                ledger_id,
            )

    # The next ledger
    async def extend(self, owned: LedgerId) -> LogWriter:
        """Create a ledger, put it on the list behind `owned`, and return its writer.

        The caller closes `owned` before the new ledger gets an entry. LedgerFencedError: the log
        has another owner. MetadataConflictError: try again. UnavailableError: the ledger may be on
        the list or still come onto it; it is kept, and the next call looks it up or puts it there.
        """
        if self._next is None or self._next.ledger_id == owned:
            self._next = await self._create()
        new = self._next
        try:
            await self._change(owned, lambda current: current.appended(new.ledger_id))
        except (LedgerFencedError, MetadataConflictError):
            self._next = None
            await self._give_up(new)
            raise
        self._check()
        assert new.ledger_id in self.ids
        return new

    def is_extending(self, owned: LedgerId) -> bool:
        """True when an `extend`, or the switch after it, was interrupted."""
        return self._next is not None and self._next.ledger_id != owned

    async def _change(self, owned: LedgerId, change: ListChange) -> None:
        """Change the list as its owner. LedgerFencedError when it ends in another
        client's ledger.
        """
        for _ in range(CHANGES_LOST_MAX):
            changed = change(self._listed.current)
            if changed == self._listed.current:
                return
            try:
                await self._listed.write(changed)
                return
            except MetadataConflictError:
                ours = (owned, self._next.ledger_id if self._next is not None else owned)
                if not self.ids or self.ids[-1] not in ours:
                    raise LedgerFencedError(owned) from None
        raise MetadataConflictError(f"log {self.name}: its list changes all the time; try again")

    # Deleting
    async def truncate(self, owned: LedgerId, before: LedgerId) -> tuple[LedgerId, ...]:
        """Remove the ledgers before `before` from the list, then delete them; returns their ids."""
        if before not in self.ids:
            raise BadRequestError(
                f"log {self.name} has no ledger {before}: it has {list(self.ids)}"
            )
        await self._change(owned, lambda current: current.truncated(before))
        gone = self._listed.current.deleting
        await self._delete(gone)
        await self._change(owned, lambda current: current.deleted(gone))
        self._check()
        return gone

    async def _delete(self, ledger_ids: tuple[LedgerId, ...]) -> None:
        """Delete ledgers that the list names as truncated; they never come back onto it."""
        for ledger_id in ledger_ids:
            try:
                await self.ledgers.delete_ledger(ledger_id)
            except NoSuchLedgerError:
                continue  # an earlier attempt got this far

    async def _give_up(self, writer: LogWriter) -> None:
        """Close and delete a new ledger after a lost compare-and-set, unless it is listed.

        It may be listed: an earlier write of ours may have succeeded without an answer, and another
        client may have gone on from there. `write` has read the list after the version that it
        expected was gone. So no write of ours that names the ledger can succeed any more, and what
        it read decides.
        """
        stored = self._listed.current
        if writer.ledger_id in (*stored.ledgers, *stored.deleting):
            writer.abandon()
            return
        try:
            await writer.close()
            await self.ledgers.delete_ledger(writer.ledger_id)
        except NoSuchLedgerError:
            return  # listed, and truncated by others since
        except BookieError as error:
            _log.warning("ledger %d is left over, empty: %s", writer.ledger_id, error)

    def _leave_over(self, writer: LogWriter) -> None:
        """Keep a new ledger that may come onto the list, and name it in the log for a person."""
        writer.abandon()
        if writer.ledger_id not in self.ids:
            _log.warning(
                "ledger %d is left over, empty: whether it comes onto the list of log %s is not "
                "known; once the list has changed without it, it may be deleted",
                writer.ledger_id,
                self.name,
            )

    def abandon(self) -> None:
        """Stop. A next ledger that was begun belongs to the client that finds it on the list."""
        if self._next is not None:
            self._leave_over(self._next)

    def _check(self) -> None:
        """Assert the invariants after each successful change."""
        current = self._listed.current
        assert current.ledgers, "a change leaves the owner's ledger on the list"
        assert self._next is None or self._next.ledger_id not in current.deleting

    async def _create(self) -> LogWriter:
        settings = self.settings
        return await self.ledgers.create_ledger(
            ensemble_size=settings.ensemble_size,
            write_quorum=settings.write_quorum,
            ack_quorum=settings.ack_quorum,
            password=settings.password,
        )
