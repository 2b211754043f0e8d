"""Settings of a storage: directories, mode, sizes. The server makes them from its settings file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from bookie.errors import SettingsError
from bookie.storage.journal import journal_settings
from bookie.storage.log_files import LogSettings
from bookie.storage.modes import DurabilityMode
from bookie.storage.space import SpaceMarks

MIB: Final = 1024 * 1024

CHECKPOINT_ROWS: Final = 50_000
"""With so many rows of a directory in memory the next checkpoint begins early."""
ROWS_MAX: Final = 200_000
"""With so many rows of one directory in memory the storage takes no adds until a checkpoint has
committed them."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Settings of a storage; sizes in bytes. `flush_interval_s`: how often the server calls
    `checkpoint`, in seconds.
    """

    journal_dir: Path
    ledger_dirs: tuple[Path, ...]
    mode: DurabilityMode
    flush_interval_s: float = 10.0
    note_idle_flushes: int | None = 2
    """For how many checkpoints in a row a ledger must be idle before its note is taken back. None:
    memory mode keeps no notes, and an unclean stop puts every ledger in doubt."""
    ring_bytes: int = 32 * MIB
    log_file_bytes: int = 128 * MIB
    direct_io: Literal["auto", "on", "off"] = "auto"
    reserve_bytes: int = 64 * MIB
    """Space on each disk that log files leave free for the index, the journal and checkpoints."""
    journal_ring_bytes: int = 16 * MIB
    journal_file_bytes: int = 64 * MIB
    checkpoint_bytes: int = 1024 * MIB
    """After so many appended bytes the next checkpoint begins early; this bounds the journal and
    its replay."""
    checkpoint_rows: int = CHECKPOINT_ROWS
    rows_max: int = ROWS_MAX
    compact_below: float = 0.5
    """A log file is compacted when less than this part of it is live."""
    space: SpaceMarks = field(default_factory=SpaceMarks)

    def __post_init__(self) -> None:
        if not self.ledger_dirs:
            raise SettingsError("a bookie needs at least one ledger directory")
        if not 0 < self.checkpoint_rows <= self.rows_max:
            raise SettingsError(
                f"expected 0 < checkpoint_rows <= rows_max, "
                f"found {self.checkpoint_rows} and {self.rows_max}"
            )
        if not 0 <= self.compact_below < 1:
            raise SettingsError(f"compact_below is {self.compact_below}; expected 0 <= x < 1")

    @property
    def log(self) -> LogSettings:
        return LogSettings(
            ring_bytes=self.ring_bytes,
            file_bytes=self.log_file_bytes,
            direct_io=self.direct_io,
            reserve_bytes=self.reserve_bytes,
        )

    @property
    def journal(self) -> LogSettings:
        return journal_settings(
            ring_bytes=self.journal_ring_bytes,
            file_bytes=self.journal_file_bytes,
            direct_io=self.direct_io,
        )
