"""The durability mode: when an add is acknowledged, and so what an unclean stop may lose.

A boot writes its mode into its marker. The next boot judges an unclean stop by the mode in the
marker, never by today's settings (R22).
"""

from enum import Enum


class DurabilityMode(Enum):
    """What is on disk before an add is answered."""

    JOURNAL = "journal"
    """The add's journal record; the ledger log is synced later. An unclean stop loses nothing, as
    the journal is replayed."""
    MEMORY = "memory"
    """Nothing (BP-46). An unclean stop may lose all entries since the last checkpoint, hence fence,
    limbo and repair."""
    SYNC = "sync"
    """The ledger log itself. An unclean stop loses no acknowledged entry."""
