"""Reads a log of ledgers without owning it.

It skips a listed ledger that does not exist, with a warning; `read_log` says why that is right.
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
    """The position of an entry in a log; positions of later entries compare greater, since ids
    rise.
    """

    ledger_id: LedgerId
    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log, and its position."""

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
    """Yield the entries of a log in order, up to the last one known to be acknowledged.

    It reads closed ledgers completely and the first open one up to its LAC. It reads nothing behind
    an open ledger, whose end is not decided.

    It skips a listed ledger that does not exist, with a warning. Older versions of this program
    deleted listed ledgers that never had an entry, and anybody may delete one by hand: waiting or
    asking again cannot bring either back, and the entries behind it are as good as before. Whether
    it had entries is unknown. So a reader that cannot accept a gap passes in `on_missing`, which is
    called with the ledger's id at that place in the order, and raises from it.

    A log that is truncated during the read is another case: before its first entry the reader
    begins where the log begins now; after it, it raises MetadataConflictError: read again.
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
        is_whole = reader.is_closed  # of this look: it may close while it is read up to `last`
        at_start = start is not None and ledger_id == start.ledger_id
        first = start.entry_id if start is not None and at_start else EntryId(0)
        async for entry in reader.stream(first, last):
            has_read = True
            yield LogEntry(LogPosition(ledger_id, entry.entry_id), entry.payload)
        if not is_whole:
            return


async def _open_listed(
    listed: ListStore, ledgers: LedgerClient, ledger_id: LedgerId, password: bytes
) -> LedgerReader | None:
    """Open a listed ledger; None when it does not exist. Then the list was read again, as it may no
    longer name the ledger.

    The first NoSuchLedgerError may come from a lagging server. After the barrier of `look` it
    cannot, as every ledger is created before it comes onto a list.
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
