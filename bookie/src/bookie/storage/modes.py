"""When an add is acknowledged: the one choice that decides what an unclean stop may lose.

The mode of a boot is written into its marker; what an unclean stop means is decided by the mode
recorded there, never by today's settings (R22).
"""

from enum import Enum


class DurabilityMode(Enum):
    """What is on disk before an add is answered."""

    JOURNAL = "journal"
    """Its journal record; the ledger log follows. Unclean stop: replay, nothing lost."""
    MEMORY = "memory"
    """Nothing (BP-46). Unclean stop: all since the last checkpoint may be gone, hence fence, limbo
    and repair."""
    SYNC = "sync"
    """The ledger log itself. Unclean stop: nothing acknowledged is lost."""
