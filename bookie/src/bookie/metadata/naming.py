"""Lists all ledgers, linearizably: which exist, which name a bookie, which are undecided."""

from collections.abc import AsyncIterator, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore, Unreadable
from bookie.protocol.ledger import LedgerMetadata, LedgerState

READS_AT_ONCE_MAX: Final = 1024
NAMED_MAX: Final = 10
"""How many ledgers a message names one by one; the others are counted."""


@dataclass(slots=True)
class Listing:
    """Ledger ids. `named`: some fragment names the bookie. `undecided`: not CLOSED, and the last
    fragment names it (R25). `recovering`: IN_RECOVERY, whatever bookies they name: their recoverer
    may be about to put any bookie into the fragments of its closing write (S37). `unreadable`:
    their metadata has no known format, with the error; as each of them may be any of the above,
    they are in all the other lists too.
    """

    existing: list[LedgerId] = field(default_factory=list)
    """Every listed ledger."""
    named: list[LedgerId] = field(default_factory=list)
    undecided: list[LedgerId] = field(default_factory=list)
    recovering: list[LedgerId] = field(default_factory=list)
    unreadable: Unreadable = field(default_factory=dict)

    @property
    def surely_named(self) -> list[LedgerId]:
        """`named` without the ledgers that may not name the bookie."""
        return [ledger_id for ledger_id in self.named if ledger_id not in self.unreadable]

    def only(self, ledger_ids: AbstractSet[LedgerId]) -> "Listing":
        """This listing without all other ledgers."""
        return Listing(
            [i for i in self.existing if i in ledger_ids],
            [i for i in self.named if i in ledger_ids],
            [i for i in self.undecided if i in ledger_ids],
            [i for i in self.recovering if i in ledger_ids],
            {i: why for i, why in self.unreadable.items() if i in ledger_ids},
        )

    def take(self, metadata: LedgerMetadata, bookie_id: BookieId) -> None:
        if metadata.state is LedgerState.IN_RECOVERY:
            self.recovering.append(metadata.ledger_id)
        if not metadata.names(bookie_id):
            return
        self.named.append(metadata.ledger_id)
        if not metadata.is_closed and bookie_id in metadata.last_fragment.ensemble:
            self.undecided.append(metadata.ledger_id)

    def take_unreadable(self, unreadable: Unreadable) -> None:
        """Put ledgers with unreadable metadata into every list: unknown never counts as no."""
        for of_a_kind in (self.named, self.undecided, self.recovering):
            of_a_kind.extend(unreadable)
        self.unreadable |= unreadable


async def list_ledgers(store: MetadataStore, bookie_id: BookieId) -> Listing:
    """Read all ledgers; any error except a deletion meanwhile fails the whole listing (R23).

    Malformed metadata is not an error here: one such ledger must not block all the others. The
    listing begins after a write barrier: a server of the store that follows a deposed leader would
    hide the youngest ledgers, and a ledger that is not listed counts as not naming the bookie.
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
    """A text for people: the first ids, and how many more there are."""
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
