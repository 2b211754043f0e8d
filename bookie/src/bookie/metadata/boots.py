"""The encoding of a StoredBoot in the znode of the bookie's boot epoch.

It is JSON, UTF-8, keys sorted: `{"epoch": 7, "generation": 12, "lease": 75.0, "nonce": "5f3a...",
"rolledBack": "", "served": 6}`. An older version stored only the epoch, as decimal digits: `7`;
another one had no lease.
"""

import json
import math

from bookie.bounded import parse_json
from bookie.errors import MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.store import StoredBoot


def encode_boot(boot: StoredBoot) -> bytes:
    assert boot.epoch >= 0 and boot.generation >= 0
    fields = {
        "epoch": boot.epoch,
        "generation": boot.generation,
        "lease": boot.lease_s,
        "nonce": boot.nonce,
        "rolledBack": boot.rolled_back,
        "served": boot.served,
    }
    return json.dumps(fields, sort_keys=True).encode()


def decode_boot(raw: bytes, *, bookie_id: BookieId) -> StoredBoot:
    """Decode a stored boot; MetadataFormatError when the bytes have neither form."""
    try:
        found = parse_json(raw)
        if raw.isdigit():
            return StoredBoot(found, served=found, is_bare=True)
        boot = StoredBoot(
            found["epoch"],
            found["nonce"],
            found["generation"],
            found["served"],
            found["rolledBack"],
            lease_s=found.get("lease", 0.0),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _not_a_boot(raw, bookie_id) from error
    numbers, words = (boot.epoch, boot.generation, boot.served), (boot.nonce, boot.rolled_back)
    if not all(type(n) is int and n >= 0 for n in numbers) or not all(
        isinstance(word, str) for word in words
    ):
        raise _not_a_boot(raw, bookie_id)
    if type(boot.lease_s) not in (int, float) or not 0 <= boot.lease_s < math.inf:
        raise _not_a_boot(raw, bookie_id)
    return boot


def _not_a_boot(raw: bytes, bookie_id: BookieId) -> MetadataFormatError:
    return MetadataFormatError(
        f"boot of {bookie_id} is {raw[:80]!r}, expected an epoch and generation as JSON, or digits"
    )
