"""Child processes of a benchmark: how they are ended, and what they used."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

STOP_WAIT_S: Final = 20.0


class Process:
    """A child that is ended with SIGTERM, and with SIGKILL when it does not listen."""

    def __init__(self, arguments: list[str], *, log: Path) -> None:
        with log.open("ab") as words:
            self.child = subprocess.Popen(
                [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=words
            )
        self._seen = psutil.Process(self.child.pid)

    def first_line(self) -> str:
        """What it prints first, usually its port."""
        assert self.child.stdout is not None
        return self.child.stdout.readline().decode()

    def stop(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        assert self.child.stdout is not None
        self.child.stdout.close()

    def kill(self) -> None:
        """Without a word, as a crash."""
        self.child.kill()
        self.child.wait()
        assert self.child.stdout is not None
        self.child.stdout.close()

    @property
    def has_ended(self) -> bool:
        return self.child.poll() is not None

    def cpu_s(self) -> float:
        """User and system seconds so far, of all threads."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    def written_bytes(self) -> int:
        """What it made the disks write so far, journals and indexes included."""
        return int(self._seen.io_counters().write_bytes)

    def resident_bytes(self) -> int:
        return int(self._seen.memory_info().rss)
