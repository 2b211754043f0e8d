"""Digests of whole runs, for those who want no payload of them: entries are looked at where they
lie, and nothing is made for each. A copy that goes on as it is, or an audit, needs no more.

As strict as `verified`, which it leaves all to that is small, odd or wrong.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from bookie.frames.entry import DIGEST_BYTES, ENTRY_HEADER_BYTES, EntryCodec, parse_header
from bookie.frames.header_checksums import CHECKSUMS, STORED, Checksum, Octets, of_headers
from bookie.frames.joint_digests import are_all_right
from bookie.frames.runs import FRAME_HEADER_BYTES, RunFrame
from bookie.frames.verified import ids_of, verify_run
from bookie.ids import EntryId

TOGETHER_BYTES_MIN: Final = 64 * 1024
"""Smaller runs take longer as arrays than entry by entry."""


class CheckedRun(NamedTuple):
    """Ids of the entries of a run, within a range of ids, that are right, and of the others."""

    ids: Sequence[int]
    corrupt: Sequence[int]


def check_run(run: RunFrame, codec: EntryCodec, *, first: int, last: int) -> CheckedRun:
    """The run's entries with ids `first`..`last`, each digest looked at."""
    is_whole = first <= run.first_entry_id and run.last_entry_id <= last
    is_big = len(run.buffer) >= TOGETHER_BYTES_MIN and run.ledger_id == codec.ledger_id
    if is_whole and is_big and _are_right(run, codec):
        return CheckedRun(ids_of(run), ())
    found = verify_run(run, codec, first=first, last=last)
    return CheckedRun(found.ids, found.corrupt)


def lac_of(run: RunFrame) -> EntryId:
    """The LAC that the run's last entry carries: no entry before it was written with a higher."""
    at = FRAME_HEADER_BYTES + 4 * (run.count - 1)
    length = int.from_bytes(run.buffer[at : at + 4], "big")
    return parse_header(run.buffer[len(run.buffer) - length :]).lac


def _are_right(run: RunFrame, codec: EntryCodec) -> bool:
    """True when each entry has the digest that it says; False tells nothing of any."""
    if are_all_right(run, codec):
        return True
    checksum = CHECKSUMS.get(codec.digest_type)
    if checksum is None:
        return False
    ahead = ENTRY_HEADER_BYTES + DIGEST_BYTES[codec.digest_type]
    offsets = run.offset_vector()
    lengths = offsets[1:] - offsets[:-1]
    if lengths.min() < ahead:
        return False
    if (lengths == lengths[0]).all():  # rows of an array are cheaper to come by than slices
        rows = np.frombuffer(run.buffer, np.uint8)[offsets[0] :].reshape(run.count, -1)
        return _agree(rows[:, :ahead], rows[:, ahead:], codec, checksum)
    heads = np.frombuffer(run.buffer, np.uint8)[offsets[:-1, None] + np.arange(ahead)]
    places = map(slice, (offsets[:-1] + ahead).tolist(), offsets[1:].tolist())
    return _agree(heads, map(run.buffer.__getitem__, places), codec, checksum)


def _agree(heads: Octets, payloads: Iterable[Any], codec: EntryCodec, checksum: Checksum) -> bool:
    """Header and digest of each entry in `heads`, and its payload as a buffer."""
    begun = of_headers(heads[:, :ENTRY_HEADER_BYTES], checksum)
    found = np.fromiter(map(checksum, payloads, begun.tolist()), np.uint32, len(heads))
    digests = np.ascontiguousarray(heads[:, ENTRY_HEADER_BYTES:])
    return bool((digests.view(STORED[codec.digest_type])[:, 0] == found).all())
