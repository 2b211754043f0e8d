"""How much of the disk the ledger log gets: appends with group commit against a bare probe.

    python benchmarks/bench_log.py [DIRECTORY]

Both write the same bytes to preallocated files on the same disk with direct writes, in turn, in one
run; the figure to look at is the ratio, the absolute ones belong to this machine and this minute.
The probe is one thread that calls pwrite with 1 MiB blocks and one fdatasync at the end. The log
gets run frames of 64 KiB and of 1 KiB from one thread, with a sync always on its way.
"""

import mmap
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.ids import EntryId, LedgerId
from bookie.storage.disk import RealDisk
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.log_files import LogSettings

MIB: Final = 1024 * 1024
TOTAL_BYTES: Final = 512 * MIB
PROBE_BLOCK_BYTES: Final = MIB
ROUNDS: Final = 5
FRAME_SIZES: Final = (64 * 1024, 1024)


def frame_of(size: int) -> bytearray:
    """A run frame with one entry of `size` payload bytes."""
    entry = ENTRY_HEADER.pack(1, 0, -1, size) + os.urandom(size)
    return build_run(LedgerId(1), EntryId(0), [entry], lac=EntryId(-1))


def probe_mib_per_s(directory: Path) -> float:
    """The bare disk: direct 1 MiB writes to a preallocated file, one sync."""
    disk = RealDisk()
    direct = disk.supports_direct(directory)
    file = disk.create(directory / "probe", size=TOTAL_BYTES, direct=direct)
    block = memoryview(mmap.mmap(-1, PROBE_BLOCK_BYTES))
    start = time.perf_counter()
    for offset in range(0, TOTAL_BYTES, PROBE_BLOCK_BYTES):
        file.pwrite([block], offset)
    file.fdatasync()
    seconds = time.perf_counter() - start
    file.close()
    disk.unlink(directory / "probe")
    return TOTAL_BYTES / MIB / seconds


def log_mib_per_s(directory: Path, frame: bytearray) -> float:
    """The log: frames as fast as it takes them, a sync always wanted, all synced at the end."""
    told = threading.Event()
    log = LedgerLog.open(directory, disk=RealDisk(), settings=LogSettings(), notify=told.set)
    count = min(TOTAL_BYTES // len(frame), 200_000)
    start = time.perf_counter()
    for _ in range(count):
        told.clear()
        while log.append(frame) is None:
            told.wait()
            told.clear()
        log.stream.request_sync()
    log.stream.sync()
    seconds = time.perf_counter() - start
    for file in log.files()[:-1]:
        log.delete_file(file.file_id)
    log.close()
    return count * len(frame) / MIB / seconds


def main() -> None:
    """Prints one line per frame size: medians of the rounds and their ratio."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    for size in FRAME_SIZES:
        frame = frame_of(size)
        probes, logs = [], []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=where) as name:
                probes.append(probe_mib_per_s(Path(name)))
                logs.append(log_mib_per_s(Path(name), frame))
        probe, log = statistics.median(probes), statistics.median(logs)
        print(
            f"log, {size // 1024:>3} KiB frames: {log:6.0f} MiB/s synced, "
            f"probe {probe:6.0f} MiB/s, ratio {log / probe:.2f}"
        )


if __name__ == "__main__":
    main()
