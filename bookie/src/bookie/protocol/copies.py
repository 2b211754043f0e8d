"""What the frames of a reply say of copies: which entries came right, which came wrong alone."""

from collections.abc import Iterable

from bookie.errors import FrameError
from bookie.frames.digests import verify_run
from bookie.frames.entry import Buffer, EntryCodec
from bookie.frames.frame import parse_run
from bookie.protocol.availability import EntrySet


def verified_copies(
    frames: Iterable[Buffer], codec: EntryCodec, *, first: int, last: int
) -> tuple[EntrySet, EntrySet]:
    """Ids within `first`..`last` of which a copy is right, and those of which only wrong ones came.

    A frame that cannot be read, or was garbled on its way, says nothing of its entries.
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
