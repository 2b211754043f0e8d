"""The ledgers of an owned log: takes them over, begins the next one, deletes the old ones.

Every change of the list is a compare-and-set, and the outcome of one is looked up before anything
is concluded from it. Two rules follow from what a lost reply may hide:

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
"""Lost compare-and-sets of one opening or change, after which another owner is clearly at work."""
RECOVERED_ON_OPEN: Final = 2
"""Last ledgers of a list that may be open, see above."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Shape of the log's ledgers, and when a new one is begun."""

    ensemble_size: int = 3
    """E >= Qw >= Qa >= 1."""
    write_quorum: int = 3
    ack_quorum: int = 2
    password: bytes = b""
    roll_entries: int = 1_000_000
    """Entries of a ledger after which the next one is begun."""
    roll_bytes: int = 512 * 1024 * 1024
    """Payload bytes after which it is."""
    waiting_max: int = 10_000
    """Appends kept while one ledger is changed for the next; see `ReplicatedLog.room`."""


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


class LedgerClient(Protocol):
    """What a log needs of `client.bookkeeper_client.Client`."""

    async def create_ledger(
        self, *, ensemble_size: int, write_quorum: int, ack_quorum: int, password: bytes = b""
    ) -> LogWriter: ...
    async def open_ledger(self, ledger_id: LedgerId, *, password: bytes = b"") -> LedgerReader: ...
    async def recover_ledger(
        self, ledger_id: LedgerId, *, password: bytes = b""
    ) -> LedgerReader: ...
    async def delete_ledger(self, ledger_id: LedgerId) -> None: ...


class ListChange(Protocol):
    """Makes the wanted list of the one that is stored; equal = nothing to write."""

    def __call__(self, current: LedgerList, /) -> LedgerList: ...


class LedgerChain:
    """The ledgers of one log, as its owner, or who is to become it, changes them.

    `owned` in its methods is the ledger that the owner appends to. Not for two tasks at once.
    """

    def __init__(
        self, name: str, *, ledgers: LedgerClient, store: MetadataStore, settings: LogSettings
    ) -> None:
        self.name = name
        """Of the log, part of the list's key in the store."""
        self.ledgers = ledgers
        """Creates, recovers and deletes ledgers."""
        self.store = store
        self.settings = settings
        self._listed = ListStore(store, name)
        """The list as last seen or written."""
        self._next: LogWriter | None = None
        """Begun by the last `extend`; on the list, or it may be, or it may still come onto it.
        It gets no entry before `owned` is closed."""

    @property
    def ids(self) -> tuple[LedgerId, ...]:
        """The listed ledgers as last seen, oldest first."""
        return self._listed.current.ledgers

    # Taking over
    async def take_over(self) -> LogWriter:
        """Fence out whoever owns the log; the writer of a new, last ledger. See `log.open`."""
        for _ in range(CHANGES_LOST_MAX):
            current = await self._listed.read()
            missing = await self._missing(current.ledgers)
            left = current.without(missing)
            try:
                for ledger_id in left.ledgers[-RECOVERED_ON_OPEN:]:
                    await self.ledgers.recover_ledger(ledger_id, password=self.settings.password)
            except NoSuchLedgerError:
                continue  # deleted this moment: look again
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
        """Write the list; False when somebody else's came first: the new ledger is given up."""
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
        """Which of them do not exist. Each did when it was listed, so it was deleted since.

        Taking one off the list that is there would lose what it holds. The barrier before the
        second look ends what a server that lags behind may have hidden in the first one, and
        NoSuchLedgerError is the word of a store that has found itself to be this cluster's.
        """
        unreadable: dict[LedgerId, MetadataFormatError] = {}
        found = await self.store.read_ledgers(ledger_ids, unreadable=unreadable)
        for error in unreadable.values():  # there all the same
            _log.warning("log %s: a listed ledger cannot be read: %s", self.name, error)
        absent = set(ledger_ids) - found.keys() - unreadable.keys()
        if absent:
            await self.store.barrier()
        return frozenset([one for one in sorted(absent) if not await self._exists(one)])

    async def _exists(self, ledger_id: LedgerId) -> bool:
        try:
            with suppress(MetadataFormatError):  # it is there all the same
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
        the list or still come onto it. It is kept: call again and it is looked up, or put there.
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
        """True when an `extend` was cut off, or what should have followed it was."""
        return self._next is not None and self._next.ledger_id != owned

    async def _change(self, owned: LedgerId, change: ListChange) -> None:
        """Compare-and-set by the owner; a list that ends in another's ledger has another owner."""
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
        """Take the ledgers before this one off the list, then delete them; their ids."""
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
        """Delete ledgers that the list names as truncated: they never come back onto it."""
        for ledger_id in ledger_ids:
            try:
                await self.ledgers.delete_ledger(ledger_id)
            except NoSuchLedgerError:
                continue  # an earlier attempt got this far

    async def _give_up(self, writer: LogWriter) -> None:
        """Close and delete a new ledger whose compare-and-set has lost, unless it is listed.

        Losing does not mean that it is not: an earlier write of ours may have happened unheard,
        and others gone on from there. `write` looked after the version that it named was gone, so
        no write of ours that names the ledger can happen any more, and what it saw stands.
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
        """Keep a new ledger that may come onto the list, and name it where a person will look."""
        writer.abandon()
        if writer.ledger_id not in self.ids:
            _log.warning(
                "ledger %d is left over, empty: whether it comes onto the list of log %s is not "
                "known; once the list has changed without it, it may be deleted",
                writer.ledger_id,
                self.name,
            )

    def abandon(self) -> None:
        """Stop; a next ledger that was begun belongs to whoever finds it listed."""
        if self._next is not None:
            self._leave_over(self._next)

    def _check(self) -> None:
        """What holds after each change that has succeeded."""
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
