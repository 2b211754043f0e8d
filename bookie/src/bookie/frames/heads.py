"""What stands before the payloads of a batch, header and digest of each entry, as one array.

From `batches` to `runs`. A writer's hot path: numbers go into columns, and the checksum of a header
is looked up instead of computed (`header_checksums`). Of a batch's headers only the low bytes of
entry id and length differ.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bookie.frames.entry import (
    DIGEST_BYTES,
    ENTRY_HEADER,
    ENTRY_HEADER_BYTES,
    DigestType,
    digest_function,
)
from bookie.frames.header_checksums import CHECKSUMS, STORED, Octets, of_similar
from bookie.ids import EntryId, LedgerId

Numbers = NDArray[np.int64]

_IDS: Final = slice(8, 16)
_LENGTHS: Final = slice(24, 32)
_NUMBER: Final = np.dtype(">i8")


class EntryHeads:
    """Makes the heads of one ledger's entries."""

    def __init__(self, ledger_id: LedgerId, digest_type: DigestType, password: bytes) -> None:
        self._ledger_id = ledger_id
        self._digest_type = digest_type
        self._password = password
        self.width = ENTRY_HEADER_BYTES + DIGEST_BYTES[digest_type]

    def of(
        self,
        first: EntryId,
        payloads: Sequence[bytes],
        lengths: Numbers,
        *,
        lac: EntryId,
        length_before: int,
    ) -> Octets:
        """One row of `width` bytes for each entry, ids rising from `first`.

        `lengths`: of the payloads; `length_before`: the ledger's payload bytes below `first`.
        """
        count = len(payloads)
        heads = np.empty((count, self.width), np.uint8)
        ids = np.arange(first, first + count, dtype=_NUMBER)
        totals = (np.cumsum(lengths) + length_before).astype(_NUMBER)
        common = ENTRY_HEADER.pack(self._ledger_id, 0, lac, 0)
        heads[:, :ENTRY_HEADER_BYTES] = np.frombuffer(common, np.uint8)
        heads[:, _IDS] = _octets(ids)
        heads[:, _LENGTHS] = _octets(totals)
        if self.width > ENTRY_HEADER_BYTES:
            heads[:, ENTRY_HEADER_BYTES:] = self._digests(heads, common, payloads)
        return heads

    def _digests(self, heads: Octets, common: bytes, payloads: Sequence[bytes]) -> Octets:
        checksum = CHECKSUMS.get(self._digest_type)
        if checksum is None:
            return self._other_digests(heads, payloads)
        places = chain(_differing(heads, _IDS), _differing(heads, _LENGTHS))
        begun = of_similar(heads, places, checksum(common, 0), checksum)
        found = np.fromiter(map(checksum, payloads, begun.tolist()), np.uint32, len(payloads))
        return _octets(found.astype(STORED[self._digest_type]))

    def _other_digests(self, heads: Octets, payloads: Sequence[bytes]) -> Octets:
        digest = digest_function(self._digest_type, self._password)
        headers = map(bytes, heads[:, :ENTRY_HEADER_BYTES])
        found = b"".join(map(digest, headers, payloads))
        return np.frombuffer(found, np.uint8).reshape(len(payloads), -1)


def _octets(numbers: NDArray[np.generic]) -> Octets:
    """A row of bytes for each number, as they lie in memory."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)


def _differing(heads: Octets, column: slice) -> Iterator[int]:
    """Places of a rising number's bytes that are not zero in all rows."""
    zeros = next((at for at, octet in enumerate(heads[-1, column].tolist()) if octet), None)
    return iter(()) if zeros is None else iter(range(column.start + zeros, column.stop))
