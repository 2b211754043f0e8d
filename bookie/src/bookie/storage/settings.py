"""Settings of a storage: directories, mode, sizes. The server makes them of its settings file."""

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
"""So many rows in memory bring the next checkpoint forward."""
ROWS_MAX: Final = 200_000
"""So many rows of one directory in memory refuse adds until a checkpoint has taken them."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Sizes in bytes. `flush_interval_s` is the server's: it calls `checkpoint` that often."""

    journal_dir: Path
    ledger_dirs: tuple[Path, ...]
    mode: DurabilityMode
    flush_interval_s: float = 10.0
    ring_bytes: int = 32 * MIB
    log_file_bytes: int = 128 * MIB
    direct_io: Literal["auto", "on", "off"] = "auto"
    reserve_bytes: int = 64 * MIB
    """Space of each disk that log files leave to index, journal and checkpoints."""
    journal_ring_bytes: int = 16 * MIB
    journal_file_bytes: int = 64 * MIB
    checkpoint_bytes: int = 1024 * MIB
    """So many appended bytes bring the next checkpoint forward: bounds journal and replay."""
    checkpoint_rows: int = CHECKPOINT_ROWS
    rows_max: int = ROWS_MAX
    compact_below: float = 0.5
    """A log file with less than this part of it live is compacted."""
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
