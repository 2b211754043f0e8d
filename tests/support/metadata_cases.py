"""Metadata as tests of stores write it."""

from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata

MEMBERS = tuple(BookieId(f"bookie-{number}:3181") for number in range(3))


def some_ledger(ledger_id: LedgerId, *, password: bytes = b"") -> LedgerMetadata:
    """An open ledger on three bookies."""
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), MEMBERS),),
        digest_type=DigestType.HMAC,
        password=password,
        ctime_ms=1_700_000_000_000,
    )
