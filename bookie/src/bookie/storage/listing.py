"""One linearizable look at every ledger: what existed, what names a bookie, what is undecided."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from bookie.metadata.store import MetadataStore
from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.ledger import LedgerMetadata, LedgerState

READS_AT_ONCE_MAX: Final = 1024


@dataclass(slots=True)
class Listing:
    """Ledger ids. `named`: some fragment names the bookie. `undecided`: not CLOSED, and the last
    fragment does (R25). `recovering`: IN_RECOVERY, whomever they name: their recoverer may be about
    to put any bookie into the fragments it closes with (S37)."""

    existing: list[LedgerId] = field(default_factory=list)
    named: list[LedgerId] = field(default_factory=list)
    undecided: list[LedgerId] = field(default_factory=list)
    recovering: list[LedgerId] = field(default_factory=list)

    def take(self, metadata: LedgerMetadata, bookie_id: BookieId) -> None:
        if metadata.state is LedgerState.IN_RECOVERY:
            self.recovering.append(metadata.ledger_id)
        if not metadata.names(bookie_id):
            return
        self.named.append(metadata.ledger_id)
        if not metadata.is_closed and bookie_id in metadata.last_fragment.ensemble:
            self.undecided.append(metadata.ledger_id)


async def list_ledgers(store: MetadataStore, bookie_id: BookieId) -> Listing:
    """Read all ledgers; any error but a deletion in between fails the whole look (R23)."""
    listing = Listing()
    async for batch in _batches(store):
        listing.existing.extend(batch)
        for found in (await store.read_ledgers(batch)).values():
            listing.take(found.value, bookie_id)
    return listing


async def _batches(store: MetadataStore) -> AsyncIterator[list[LedgerId]]:
    batch: list[LedgerId] = []
    async for ledger_id in store.ledger_ids():
        batch.append(ledger_id)
        if len(batch) == READS_AT_ONCE_MAX:
            yield batch
            batch = []
    yield batch
