"""Bookies of which nothing but a cookie is left: gone for good, by a scale-down or by a person.

Their marks are unknown, as those of a bookie that is down, and nobody needs them: no ledger counts
on such a bookie. Whoever takes it for one that is down has every repair end undecided.
"""

from collections.abc import Iterable

from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore, Unreadable
from bookie.protocol.ledger import LedgerState
from bookie.repair.look.audit import batches_of, read_ledgers

LEDGERS_PER_BATCH = 1024


async def left_over(store: MetadataStore, silent: Iterable[BookieId]) -> set[BookieId]:
    """Of bookies that gave no answer, those that are not registered and that no ledger names.

    None of them while any ledger cannot be read, or is in recovery: its recoverer may be about to
    name any bookie (S37). Raises UnavailableError without the metadata store.
    """
    candidates = set(silent) - (await store.bookies()).keys()
    if not candidates:
        return candidates
    async for batch in batches_of(store.ledger_ids(), LEDGERS_PER_BATCH):
        unreadable: Unreadable = {}
        found = await read_ledgers(store, batch, unreadable=unreadable)
        ledgers = [one.value for one in found.values()]
        if unreadable or any(one.state is LedgerState.IN_RECOVERY for one in ledgers):
            return set()
        candidates = {b for b in candidates if not any(one.names(b) for one in ledgers)}
        if not candidates:
            break
    return candidates
