"""Which entries in the frames of a reply came with a right copy, and which only with wrong ones."""

from collections.abc import Iterable

from bookie.errors import FrameError
from bookie.frames.digests import verify_run
from bookie.frames.entry import Buffer, EntryCodec
from bookie.frames.frame import parse_run
from bookie.protocol.availability import EntrySet


def verified_copies(
    frames: Iterable[Buffer], codec: EntryCodec, *, first: int, last: int
) -> tuple[EntrySet, EntrySet]:
    """Ids within `first`..`last` with a right copy, and ids of which only wrong copies came.

    A frame that cannot be parsed, or was garbled on its way, says nothing about its entries.
    """
    right, wrong = list[int](), list[int]()
    for frame in frames:
        try:
            run = parse_run(frame)
        except FrameError:
            continue
        checked = verify_run(run, codec, first=first, last=last)
        right += checked.ids
        wrong += checked.corrupt
    good = EntrySet.from_ids(right)
    return good, EntrySet.from_ids(wrong) - good
