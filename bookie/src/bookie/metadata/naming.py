"""One linearizable look at every ledger: what existed, what names a bookie, what is undecided."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore, Unreadable
from bookie.protocol.ledger import LedgerMetadata, LedgerState

READS_AT_ONCE_MAX: Final = 1024
NAMED_MAX: Final = 10
"""Ledgers that are named one by one where people read of them; the others are counted."""


@dataclass(slots=True)
class Listing:
    """Ledger ids. `named`: some fragment names the bookie. `undecided`: not CLOSED, and the last
    fragment does (R25). `recovering`: IN_RECOVERY, whomever they name: their recoverer may be about
    to put any bookie into the fragments it closes with (S37). `unreadable`: their metadata is of no
    known format, with what is wrong; as they may be all of that, they are in each of the others.
    """

    existing: list[LedgerId] = field(default_factory=list)
    """Every ledger that was listed."""
    named: list[LedgerId] = field(default_factory=list)
    undecided: list[LedgerId] = field(default_factory=list)
    recovering: list[LedgerId] = field(default_factory=list)
    unreadable: Unreadable = field(default_factory=dict)

    @property
    def surely_named(self) -> list[LedgerId]:
        """`named` without those that may as well not name it."""
        return [ledger_id for ledger_id in self.named if ledger_id not in self.unreadable]

    def take(self, metadata: LedgerMetadata, bookie_id: BookieId) -> None:
        if metadata.state is LedgerState.IN_RECOVERY:
            self.recovering.append(metadata.ledger_id)
        if not metadata.names(bookie_id):
            return
        self.named.append(metadata.ledger_id)
        if not metadata.is_closed and bookie_id in metadata.last_fragment.ensemble:
            self.undecided.append(metadata.ledger_id)

    def take_unreadable(self, unreadable: Unreadable) -> None:
        """Nobody knows what these are: unknown is never negative."""
        for of_a_kind in (self.named, self.undecided, self.recovering):
            of_a_kind.extend(unreadable)
        self.unreadable |= unreadable


async def list_ledgers(store: MetadataStore, bookie_id: BookieId) -> Listing:
    """Read all ledgers; any error but a deletion in between fails the whole look (R23).

    Metadata that makes no sense is no error here: one such ledger must not hold up all the others.
    It begins behind a write of its own: a server of the store that follows a deposed leader hides
    the youngest ledgers, and what is not listed here counts as not naming the bookie.
    """
    await store.barrier()
    listing = Listing()
    async for batch in _batches(store):
        unreadable: Unreadable = {}
        listing.existing.extend(batch)
        for found in (await store.read_ledgers(batch, unreadable=unreadable)).values():
            listing.take(found.value, bookie_id)
        listing.take_unreadable(unreadable)
    return listing


def named_ids(ledger_ids: Iterable[LedgerId]) -> str:
    """The first of them for people, and how many more there are."""
    every = sorted(ledger_ids)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return ", ".join(map(str, every[:NAMED_MAX])) + more


async def _batches(store: MetadataStore) -> AsyncIterator[list[LedgerId]]:
    batch: list[LedgerId] = []
    async for ledger_id in store.ledger_ids():
        batch.append(ledger_id)
        if len(batch) == READS_AT_ONCE_MAX:
            yield batch
            batch = []
    yield batch
