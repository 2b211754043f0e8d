"""Numbers in ids of bookies: how people count them, and lists are sorted."""

from bookie.ids import BookieId


def by_number(bookie_id: BookieId) -> tuple[str, int]:
    """A sort key: `bookie-10` after `bookie-2`."""
    stem, _, ordinal = bookie_id.rpartition("-")
    return (stem, int(ordinal)) if ordinal.isdecimal() else (bookie_id, 0)
