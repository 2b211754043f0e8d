"""Whom a control plane call is meant for: addresses are used again by other bookies.

An answer of the wrong bookie could pass for one of the right one, and a clear or a loss record
could reach the wrong disks. So a caller that knows the id sends it, and another bookie refuses.
"""

from typing import Final

BOOKIE_ID_KEY: Final = "bookie-id"
"""Metadata key of the id meant; a call without it means whoever is there."""


def metadata_for(bookie_id: str) -> tuple[tuple[str, str], ...]:
    """Metadata of a call that is meant for this bookie alone."""
    return ((BOOKIE_ID_KEY, bookie_id),)
