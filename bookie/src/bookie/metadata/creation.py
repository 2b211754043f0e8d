"""Creation tokens: they let a store distinguish our own retried create from a collision of ids."""

import secrets
from dataclasses import replace
from typing import Final

from bookie.protocol.ledger import LedgerMetadata

TOKEN_END: Final = 2**63 - 1


def with_creation_token(metadata: LedgerMetadata) -> LedgerMetadata:
    """Add a random token to the metadata, unless it has one."""
    if metadata.creation_token:
        return metadata
    return replace(metadata, creation_token=1 + secrets.randbelow(TOKEN_END - 1))


def is_own_create(existing: LedgerMetadata, wanted: LedgerMetadata) -> bool:
    """True when an earlier try of the same create wrote `existing`."""
    return wanted.creation_token != 0 and existing.creation_token == wanted.creation_token
