"""What the settings of a storage say to its parts."""

from dataclasses import replace
from pathlib import Path

from bookie.storage.modes import DurabilityMode
from bookie.storage.settings import MIB, StorageSettings

GIVEN = StorageSettings(Path("/j"), (Path("/l"),), DurabilityMode.SYNC)


def test_the_journal_and_the_logs_get_each_their_own_sizes() -> None:
    sizes = {"ring_bytes": 3 * MIB, "log_file_bytes": 5 * MIB, "reserve_bytes": 7 * MIB}
    of_journal = {"journal_ring_bytes": 2 * MIB, "journal_file_bytes": 4 * MIB}
    made = replace(GIVEN, direct_io="off", **sizes, **of_journal)  # type: ignore[arg-type]
    log, journal = made.log, made.journal
    assert (log.ring_bytes, log.file_bytes, log.reserve_bytes) == tuple(sizes.values())
    assert (journal.ring_bytes, journal.file_bytes) == tuple(of_journal.values())
    assert log.direct_io == journal.direct_io == "off"
