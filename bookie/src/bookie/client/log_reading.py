"""Reads a log of ledgers without owning it.

A listed ledger that does not exist is skipped with a warning: see `read_log` for why that is right.
"""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from bookie.client.log_chain import LedgerClient
from bookie.client.log_list import ListStore
from bookie.client.reader import LedgerReader
from bookie.errors import MetadataConflictError, NoSuchLedgerError
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """Where an entry lies in a log; entries that come after it compare greater, since ids rise."""

    ledger_id: LedgerId
    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log, and where it lies."""

    position: LogPosition
    payload: bytes


async def read_log(
    name: str,
    *,
    ledgers: LedgerClient,
    store: MetadataStore,
    password: bytes = b"",
    start: LogPosition | None = None,
    on_missing: Callable[[LedgerId], None] | None = None,
) -> AsyncIterator[LogEntry]:
    """Read the entries of a log in order, up to what is known to be acknowledged.

    Closed ledgers are read whole, the first open one up to its LAC. Nothing past an open ledger is
    read: its end is not decided.

    A listed ledger that does not exist is skipped with a warning. Older versions of this program
    deleted listed ledgers that never had an entry, and anybody may delete one by hand: neither is
    a loss that waiting or asking again could mend, and what comes after it is as good as before.
    Nobody can say any more whether it had entries, so a reader that cannot do with a hole gives
    `on_missing`, which is called with the id in its place in the order, and raises from it.

    A log that is truncated under its reader does not count as that. Before the first entry the
    reader begins where the log now begins; after it, MetadataConflictError: read again.
    """
    listed = ListStore(store, name)
    has_read = False
    for ledger_id in (await listed.read()).ledgers:
        if start is not None and ledger_id < start.ledger_id:
            continue
        reader = await _open_listed(listed, ledgers, ledger_id, password)
        if reader is None:
            if ledger_id not in listed.current.ledgers:
                _check_nothing_read(listed, ledger_id, has_read)
            else:
                _log.warning("log %s: ledger %d is on its list and does not exist", name, ledger_id)
                if on_missing is not None:
                    on_missing(ledger_id)
            continue
        last = await reader.read_lac()
        at_start = start is not None and ledger_id == start.ledger_id
        first = start.entry_id if start is not None and at_start else EntryId(0)
        async for entry in reader.stream(first, last):
            has_read = True
            yield LogEntry(LogPosition(ledger_id, entry.entry_id), entry.payload)
        if not reader.is_closed:
            return


async def _open_listed(
    listed: ListStore, ledgers: LedgerClient, ledger_id: LedgerId, password: bytes
) -> LedgerReader | None:
    """Open the ledger; None when it does not exist: then the list was read again, since it may not
    name it any more.

    The first denial may come from a server that lags behind: after the barrier of `look` it may
    not, as every ledger was created before it came onto a list.
    """
    try:
        return await ledgers.open_ledger(ledger_id, password=password)
    except NoSuchLedgerError:
        await listed.look()
    try:
        return await ledgers.open_ledger(ledger_id, password=password)
    except NoSuchLedgerError:
        return None


def _check_nothing_read(listed: ListStore, ledger_id: LedgerId, has_read: bool) -> None:
    if has_read:
        raise MetadataConflictError(
            f"{listed.key}: ledger {ledger_id} was truncated while the log was read, and what came "
            f"before it with it: it now has {list(listed.current.ledgers)}; read again"
        )
