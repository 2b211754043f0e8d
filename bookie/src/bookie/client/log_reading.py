"""Reading a log of ledgers without owning it.

What is listed and does not exist is skipped, and said: see `read_log` for why that is right.
"""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from bookie.client.log_chain import Ledgers
from bookie.client.log_list import ListStore
from bookie.client.reader import LedgerReader
from bookie.errors import MetadataConflictError, NoSuchLedgerError
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore

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


async def read_log(
    name: str,
    *,
    ledgers: Ledgers,
    store: MetadataStore,
    password: bytes = b"",
    start: LogPosition | None = None,
    on_missing: Callable[[LedgerId], None] | None = None,
) -> AsyncIterator[LogEntry]:
    """Entries of a log in order: closed ledgers whole, then what of the first open one is known to
    be acknowledged. Never past an open ledger: its end is not decided.

    A listed ledger that does not exist is skipped with a warning. Older versions of this program
    deleted listed ledgers that never had an entry, and anybody may delete one by hand: neither is
    a loss that waiting or asking again could mend, and what comes after it is as good as before.
    Whether it had entries cannot be told any more, so a reader that cannot do with a hole gives
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
    listed: ListStore, ledgers: Ledgers, ledger_id: LedgerId, password: bytes
) -> LedgerReader | None:
    """None when it does not exist; the list was then read anew, to tell whether it names it still.

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
