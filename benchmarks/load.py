"""What benchmarks write: equal payloads, appended as an application does that batches a little."""

import os
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.ids import NO_ENTRY, EntryId

from benchmarks.fleet import BOOKIES
from benchmarks.rows import KIB

APPEND_BYTES: Final = 256 * KIB
"""Payload given to a writer at a time."""


async def new_ledger(client: Client) -> LedgerWriter:
    """On all three bookies, 3/3/2."""
    return await client.create_ledger(ensemble_size=BOOKIES, write_quorum=3, ack_quorum=2)


async def append_all(writer: LedgerWriter, *, size: int, count: int) -> EntryId:
    """So many entries of `size` bytes; the last one's id, which may not be acknowledged yet."""
    payloads, last = [os.urandom(size)] * max(APPEND_BYTES // size, 1), NO_ENTRY
    for start in range(0, count, len(payloads)):
        await writer.room()
        last = writer.append_many(payloads[: count - start])
    return last
