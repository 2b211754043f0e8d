"""Collects ledgers that were deleted from the metadata store: their entries go, a fence stays.

The order makes it safe: first the list of ledgers held here, then a linearizable listing. A ledger
is created in the metadata store before its first entry reaches a bookie, so one that is held before
the listing and missing from it was deleted. Each is read once more before its entries go.
"""

import asyncio
import logging

from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import NoSuchLedgerError
from bookie.protocol.ids import LedgerId
from bookie.storage.engine import Storage

log = logging.getLogger(__name__)

DELETIONS_PER_PASS_MAX = 10_000


async def deleted_ledgers(store: MetadataStore, held: list[LedgerId]) -> list[LedgerId]:
    """Those of `held` that no longer exist; `held` was taken before this call."""
    existing = {ledger_id async for ledger_id in store.ledger_ids()}
    missing = [ledger_id for ledger_id in held if ledger_id not in existing]
    return [
        ledger_id
        for ledger_id in missing[:DELETIONS_PER_PASS_MAX]
        if await _is_deleted(store, ledger_id)
    ]


async def _is_deleted(store: MetadataStore, ledger_id: LedgerId) -> bool:
    try:
        await store.read_ledger(ledger_id)
    except NoSuchLedgerError:
        return True
    return False


async def collect_deleted(store: MetadataStore, storage: Storage) -> int:
    """One pass; the number of ledgers whose entries were given up."""
    held = [ledger_id for ledger_id in storage.ledger_ids() if not is_collected(storage, ledger_id)]
    gone = await deleted_ledgers(store, held)
    if gone:
        await asyncio.to_thread(storage.delete_ledgers, gone)
        log.info("collect %d deleted ledgers, the first is %d", len(gone), gone[0])
    return len(gone)


def is_collected(storage: Storage, ledger_id: LedgerId) -> bool:
    """Only the fenced tombstone of this ledger is left."""
    record = storage.record(ledger_id)
    return record is not None and record.deleted
