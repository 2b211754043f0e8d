"""Takes loss records back that the bookie itself knows to be wrong: the entry is here, within the
closed end.

A record is made when no copy can be found, or when a person gives one up. A disk, or a bookie, that
comes back later may have one all the same, and a repair copies it to those that owe it. Nobody has
to decide anything about such a record then.
"""

import asyncio
import logging
from typing import Final

from bookie.errors import (
    MetadataFormatError,
    NoSuchLedgerError,
    StorageError,
    UnavailableError,
)
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.clearing import found_losses
from bookie.storage.storage import Storage

log = logging.getLogger(__name__)

_SKIPS: Final = (MetadataFormatError, NoSuchLedgerError, StorageError)
"""Why a record stays until the next look: nothing is known of its ledger now."""


async def take_back_losses(storage: Storage, store: MetadataStore) -> None:
    """Take back, durably, what is recorded as lost and is here. The caller has made durable what
    was here before the call; an entry that came since is of a ledger with a note.
    """
    for ledger_id in storage.lossy_ledgers():
        try:
            await _take_back(storage, store, ledger_id)
        except UnavailableError as error:
            log.warning("loss records: not looked at: %s", error)
            break
        except _SKIPS as error:
            log.warning("loss record of ledger %d: not looked at: %s", ledger_id, error)


async def _take_back(storage: Storage, store: MetadataStore, ledger_id: LedgerId) -> None:
    held = await asyncio.to_thread(storage.held, ledger_id)
    if not held & storage.loss(ledger_id):
        return
    metadata = (await store.read_ledger(ledger_id)).value
    found = found_losses(metadata, storage.loss(ledger_id), held=held)
    if not found:
        return
    gone = await asyncio.to_thread(storage.maintenance.retract_loss, ledger_id, found)
    if not gone:
        return  # somebody else was first
    log.warning(
        "ledger %d: %d entries that were recorded as lost are here, the first is %d: the record is "
        "taken back",
        ledger_id,
        len(gone),
        gone.first,
    )
