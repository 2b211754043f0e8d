"""A command and all that it starts: processor time to the last child, and memory at its highest.

Memory is what the tree has at one moment, shared pages counted once (PSS). Children that lose their
parent come to us, so that no JVM or worker is forgotten. Linux only.
"""

import ctypes
import os
import resource
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

PR_SET_CHILD_SUBREAPER: Final = 36
SAMPLE_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Used:
    """What a tree of processes used, and what its root printed."""

    cpu_s: float
    wall_s: float
    peak_bytes: int
    said: str


def measured(command: list[str]) -> Used:
    """Run it to the end. CalledProcessError when it fails."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, began = _children_s(), time.monotonic()
    root = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = _Peak()
    said, _ = root.communicate()
    wall_s = time.monotonic() - began
    with suppress(ChildProcessError):  # orphans come to us
        while True:
            os.waitpid(-1, 0)
    peak.end()
    if root.returncode:
        raise subprocess.CalledProcessError(root.returncode, command, said)
    return Used(_children_s() - before, wall_s, peak.bytes, said)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Peak:
    """Looks at our descendants now and then."""

    def __init__(self) -> None:
        self.bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            total = 0
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    total += child.memory_full_info().pss
            self.bytes = max(self.bytes, total)
