"""What an unclean boot marks: everything there was at one moment, as one boundary and limbo marks.

The boot calls here between the replay and the cookie (`boot`); what marks mean is in `records` and
`protocol.admission`.
"""

import logging
from dataclasses import dataclass
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers, named_ids
from bookie.metadata.store import MetadataStore
from bookie.storage.records import Boundary
from bookie.storage.storage import Storage

log = logging.getLogger(__name__)

NO_LEDGER: Final = LedgerId(-1)
"""Below every id."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Every ledger there was at one moment: all ids up to `limit`, and those the listing has."""

    limit: LedgerId
    listing: Listing


async def list_existing(store: MetadataStore, bookie_id: BookieId) -> Existing:
    """One id from the generator, then the listing.

    Every id that the generator ever gave is below that one, whoever got it (R24): a ledger that is
    deleted, or created by a write that is still on its way, is covered without being listed. What
    is listed above it has an explicit id, of any age, or was created since and has lost nothing:
    nothing in its metadata that a foreign clock has not written tells the two apart. So both are
    covered, and undecided ones are in limbo. A writer that began just now with this bookie is
    refused by it and has to go on in another ledger; entries that were acknowledged are not denied.
    """
    limit = await store.new_ledger_id()
    listing = await list_ledgers(store, bookie_id)
    if listing.unreadable:
        log.error(
            "the metadata of %d ledgers cannot be read (%s): they are fenced and in limbo until it "
            "is mended or the ledgers are deleted; the first: %s",
            len(listing.unreadable),
            named_ids(listing.unreadable),
            listing.unreadable[min(listing.unreadable)],
        )
    return Existing(limit, listing)


def only_unreadable(listing: Listing) -> Existing:
    """Of all that exists no more than the ledgers whose metadata nobody can read.

    For a new bookie: they may name one of its id that was deleted, while nothing that can be read
    does. Whoever writes the other ledgers is about to choose this bookie, and is not to be fenced.
    """
    only = Listing(existing=list(listing.unreadable))
    only.take_unreadable(listing.unreadable)
    return Existing(NO_LEDGER, only)


def mark_existing(storage: Storage, epoch: int, existing: Existing) -> None:
    """Fence all of it, put what is undecided in limbo, leave the rest to be checked. Blocking."""
    # What lies here above the limit had an explicit id, and may be deleted by now (S40).
    known = {*existing.listing.existing, *storage.ledger_ids()}
    extra = frozenset(ledger_id for ledger_id in known if ledger_id > existing.limit)
    recovering = frozenset(existing.listing.recovering)
    boundary = Boundary(epoch, existing.limit, extra, recovering)
    limbo = existing.listing.undecided
    storage.maintenance.mark(boundary, limbo, unchecked=True)
