"""The marks that an unclean boot sets: limbo or unchecked, and a fence boundary where fences may be
lost, on all ledgers that existed at one moment, or on those of them that notes leave in doubt.

`boot` calls it between the replay and the cookie. `storage.records` and `protocol.admission`
explain the marks.
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
"""Lower than every ledger id."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Every ledger that existed at one moment: all ids up to `limit`, and the ids in `listing`."""

    limit: LedgerId
    listing: Listing


async def list_existing(store: MetadataStore, bookie_id: BookieId) -> Existing:
    """Take one id from the metadata store's generator, then list the ledgers.

    Every id that the generator ever gave is below that one, whichever client got it (R24): so a
    deleted ledger, or one whose creation is still on its way, is covered without being listed. A
    listed ledger above that id either has an explicit id and may be of any age, or was created
    since and has lost nothing. Only the clock of some other machine could tell the two apart, so
    both are covered, and the undecided ones go into limbo. A writer that began just now then
    has to replace this bookie; but no acknowledged entry is denied.
    """
    limit = await store.new_ledger_id()
    listing = await list_ledgers(store, bookie_id)
    if listing.unreadable:
        log.error(
            "the metadata of %d ledgers cannot be read (%s): they take no adds and are in limbo "
            "until it is mended or the ledgers are deleted; the first: %s",
            len(listing.unreadable),
            named_ids(listing.unreadable),
            listing.unreadable[min(listing.unreadable)],
        )
    return Existing(limit, listing)


def only_unreadable(listing: Listing) -> Existing:
    """Reduce the listing to the ledgers whose metadata cannot be read.

    For a new bookie: those ledgers may name an earlier bookie of the same id, and no readable
    ledger does. Writers of the other ledgers are about to choose this bookie, so it must not
    shut those out.
    """
    only = Listing(existing=list(listing.unreadable))
    only.take_unreadable(listing.unreadable)
    return Existing(NO_LEDGER, only)


def mark_existing(storage: Storage, epoch: int, existing: Existing) -> None:
    """Put the undecided ledgers into limbo, mark the rest unchecked, and keep adds out of all of
    them forever, since fences may be lost (R24). Blocking.
    """
    # A ledger on this bookie above the limit had an explicit id, and may be deleted by now (S40).
    known = {*existing.listing.existing, *storage.ledger_ids()}
    extra = frozenset(ledger_id for ledger_id in known if ledger_id > existing.limit)
    recovering = frozenset(existing.listing.recovering)
    boundary = Boundary(epoch, existing.limit, extra, recovering)
    limbo = existing.listing.undecided
    storage.maintenance.mark(boundary, limbo, fences_lost=True)


def in_doubt(storage: Storage, every: Listing) -> frozenset[LedgerId]:
    """The ledgers of which this bookie may have forgotten entries, if its notes are whole: those
    with a note, and those under a boundary whose check has not ended. Some of these may be checked
    already, but the new mark raises the epoch of the boundary over all of them.
    """
    boundary = storage.unchecked_boundary()
    known = {*every.existing, *storage.ledger_ids()} if boundary is not None else ()
    covered = (i for i in known if boundary is not None and boundary.covers(i))
    return frozenset({*storage.noted_ledgers(), *storage.limbo_ledgers(), *covered})


def mark_noted(storage: Storage, epoch: int, every: Listing) -> Listing:
    """Mark as `mark_existing` does, but only the ledgers `in_doubt`, and until they are checked;
    returns those that are listed. Blocking.

    The others are as they would be with a journal: the bookie has all that it ever acknowledged,
    so their writers may go on and what is absent is denied. The disks are as the boot before left
    them, and fences were durable before they were answered (R9): so no boundary has to stand for
    lost ones, and a ledger of which all is back takes adds again.
    """
    doubtful = in_doubt(storage, every)
    listing = every.only(doubtful)
    if doubtful:
        boundary = Boundary(epoch, NO_LEDGER, doubtful, frozenset(listing.recovering))
        storage.maintenance.mark(boundary, listing.undecided, fences_lost=False)
    else:
        storage.maintenance.settle()
    return listing
