"""Every copy by itself: what an index says is there must be there, readable, and right.

Readers are content with one good copy and audits with indexes; a crash may spoil what neither
looks at. So each bookie is asked for all that closed ledgers owe it.
"""

from collections.abc import Iterator
from typing import Final

from bookie.client.peers import Peers
from bookie.frames.digests import VerifiedRun
from bookie.frames.entry import EntryCodec, master_key
from bookie.ids import BookieId, EntryId
from bookie.protocol.answers import MemberAnswers
from bookie.protocol.assignment import assigned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.expect import members
from bookie.wire.native import ReadRequest
from promises import Promises

READ_BYTES: Final = 1 << 20
PASSWORD: Final = b""
"""The soak's ledgers have none."""


async def check_copies(promises: Promises, peers: Peers, metadata: LedgerMetadata) -> int:
    """Reads all copies of one closed ledger; how many there are."""
    codec = EntryCodec(metadata.ledger_id, metadata.digest_type, PASSWORD)
    copies = 0
    for bookie_id in members(metadata):
        member = MemberAnswers(codec, VerifiedRun.payloads)
        await _ask(member, peers, metadata, bookie_id)
        for entry_id in _owed(metadata, bookie_id):
            status = member.answer(entry_id)
            payload = member.copy(entry_id)
            if status is Status.OK and payload is not None:
                promises.note_read(metadata.ledger_id, entry_id, payload)
                copies += 1
            else:
                said = status.name if status is not None else "nothing"
                is_corrupt = bool(member.corrupt_within(entry_id, entry_id))
                promises.findings.add_failed(
                    f"ledger {metadata.ledger_id} entry {entry_id}: {bookie_id} owes a copy and "
                    f"says {said}{', it is corrupt' if is_corrupt else ''}"
                )
    return copies


async def _ask(
    member: MemberAnswers[bytes], peers: Peers, metadata: LedgerMetadata, bookie_id: BookieId
) -> None:
    """For everything from the first entry to the last."""
    last = metadata.last_entry_id
    while member.through < last:
        first = EntryId(member.through + 1)
        key = master_key(PASSWORD)
        request = ReadRequest(metadata.ledger_id, first, last, READ_BYTES, key)
        status, reply = await peers.read(bookie_id, request)
        member.take(status, reply, first=first, last=last)


def _owed(metadata: LedgerMetadata, bookie_id: BookieId) -> Iterator[EntryId]:
    owed = assigned(metadata, bookie_id, through=metadata.last_entry_id)
    for low, high in owed.ranges():
        yield from map(EntryId, range(low, high + 1))
