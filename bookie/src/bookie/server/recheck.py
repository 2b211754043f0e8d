"""A bookie verifies its own copies on request and rejects those with a wrong digest.

A bookie does not check digests when it stores entries, and it keeps the first copy of an id. When a
caller reports that copies look corrupt, the bookie checks itself: it reads the ledger's digest type
and password from the metadata, linearizably, verifies its own copies with them, and rejects the
wrong ones. These are unreadable then (R8: unknown, never denied), and a recovery add replaces them.
"""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from bookie.errors import (
    BadRequestError,
    MetadataFormatError,
    NoSuchLedgerError,
)
from bookie.frames.entry import EntryCodec
from bookie.frames.frame import RunFrame
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.copies import verified_copies
from bookie.storage.storage import Storage

log = logging.getLogger(__name__)

ENTRIES_MAX: Final = 1_000_000
"""How many entries one request may name."""
READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of a recheck. `rejected`: entries whose copy was wrong and is rejected now.
    `message`: why no copy was verified.
    """

    rejected: EntrySet = EMPTY
    message: str = ""


async def recheck(
    storage: Storage, store: MetadataStore, ledger_id: LedgerId, entries: EntrySet
) -> Recheck:
    """Verify the copies of these entries, and reject the wrong ones, durably.

    Raises BadRequestError for too many entries, UnavailableError without metadata, StorageError
    when a disk fails.
    """
    if len(entries) > ENTRIES_MAX:
        raise BadRequestError(f"{len(entries)} entries in one request, at most {ENTRIES_MAX}")
    try:
        metadata = (await store.read_ledger(ledger_id)).value
    except NoSuchLedgerError:
        return Recheck(message=f"ledger {ledger_id} does not exist")
    except MetadataFormatError as error:
        return Recheck(message=str(error))
    if not metadata.password_is_stored:
        said = f"ledger {ledger_id} has no digest type in its metadata: no copy can be called wrong"
        return Recheck(message=said)
    # A checkpoint keeps only the first of several copies of an id: after it there is one copy of
    # each.
    await asyncio.to_thread(storage.maintenance.checkpoint)
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
    seen = await asyncio.to_thread(_seen_wrong, storage, codec, entries)
    if not seen:
        return Recheck()
    # Another copy may have replaced it since it was read, so `reject` verifies it once more.
    wrong = await asyncio.to_thread(
        storage.maintenance.reject, ledger_id, seen, partial(wrong_of, codec)
    )
    if wrong:
        log.error("ledger %d: %d copies with a wrong digest rejected", ledger_id, len(wrong))
    return Recheck(wrong)


def _seen_wrong(storage: Storage, codec: EntryCodec, entries: EntrySet) -> EntrySet:
    found = EMPTY
    for first, last in entries.ranges():
        at = EntryId(first)
        while at <= last:
            read = storage.read(codec.ledger_id, first=at, last=EntryId(last), bytes_max=READ_BYTES)
            through = read.answered_through
            _right, wrong = verified_copies(read.runs, codec, first=at, last=through)
            found |= wrong
            at = EntryId(through + 1)
    return found & entries


def wrong_of(codec: EntryCodec, frame: RunFrame) -> EntrySet:
    """Entries of a frame whose digest is wrong."""
    first, last = frame.first_entry_id, frame.last_entry_id
    _right, wrong = verified_copies([frame.buffer], codec, first=first, last=last)
    return wrong
