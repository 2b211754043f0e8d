"""Creation tokens: by them a store knows our own retried create from a collision of ids."""

import secrets
from dataclasses import replace
from typing import Final

from bookie.protocol.ledger import LedgerMetadata

TOKEN_END: Final = 2**63 - 1


def with_creation_token(metadata: LedgerMetadata) -> LedgerMetadata:
    """Returns the metadata with a random token added, unless the caller has given it one."""
    if metadata.creation_token:
        return metadata
    return replace(metadata, creation_token=1 + secrets.randbelow(TOKEN_END - 1))


def is_own_create(existing: LedgerMetadata, wanted: LedgerMetadata) -> bool:
    """True when `existing` is what an earlier try of the same create wrote."""
    return wanted.creation_token != 0 and existing.creation_token == wanted.creation_token
