"""Child processes of a benchmark: how they are ended, and what they used."""

import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

STOP_WAIT_S: Final = 20.0


class Process:
    """A child that is ended with SIGTERM, and with SIGKILL when it does not listen.

    `is_asked`: it reads from a pipe, not from our stdin.
    """

    def __init__(
        self,
        arguments: list[str],
        *,
        log: Path,
        program: str = sys.executable,
        is_asked: bool = False,
    ) -> None:
        with log.open("ab") as words:
            self.child = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.PIPE if is_asked else None,
                stdout=subprocess.PIPE,
                stderr=words,
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
        self._close_pipes()

    def kill(self) -> None:
        """Without a word, as a crash."""
        self.child.kill()
        self.child.wait()
        self._close_pipes()

    def ask(self, words: str, *, wait_s: float) -> str:
        """The line that it answers with; empty when it ended instead, or was silent for so long."""
        assert self.child.stdin is not None and self.child.stdout is not None
        with suppress(BrokenPipeError):
            self.child.stdin.write(words.encode() + b"\n")
            self.child.stdin.flush()
        readable, _, _ = select.select([self.child.stdout], [], [], wait_s)
        line = self.first_line() if readable else ""
        if readable and not line:  # its end of the pipe is closed: it is about to end
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(STOP_WAIT_S)
        return line

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

    def _close_pipes(self) -> None:
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it ended before it read all
                    pipe.close()
