"""The runtime file: it says for platforms and people which process this bookie is and where it
listens.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.bounded import parse_json
from bookie.storage.disk import RealDisk, mapped, write_file

PID_MAX: Final = 2**31 - 1


@dataclass(slots=True)
class RuntimeFile:
    """The file; it is written again whenever a port becomes known. `path` None = there is none."""

    path: Path | None
    bookie_id: str
    """The id of this bookie."""
    started_at_ms: int
    """When this process began; a file of an earlier process has another time."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The ports on which it listens, by name; filled while they are opened."""

    def write(self) -> None:
        """Write the file atomically: a reader sees the old one or the new one. StorageError when
        that fails. Blocking.
        """
        if self.path is None:
            return
        content = {
            "pid": os.getpid(),
            "bookieId": self.bookie_id,
            "ports": dict(self.ports),
            "startedAtMs": self.started_at_ms,
        }
        with mapped("create directory", self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(RealDisk(), self.path, (json.dumps(content) + "\n").encode())

    def write_unless_taken(self) -> None:
        """Write the file unless it names another live process: before this process has the lock,
        that may be the bookie on the same directories. Blocking.
        """
        if not self._is_taken():
            self.write()

    def _is_taken(self) -> bool:
        try:
            pid = _pid(parse_json((self.path or Path()).read_text(encoding="utf-8"))["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return pid != os.getpid() and is_alive(pid)


def _pid(value: object) -> int:
    if type(value) is not int or not 0 < value <= PID_MAX:
        raise ValueError(f"found {value!r:.60}, expected the id of a process")
    return value


def is_alive(pid: int) -> bool:
    """True when a process of this id exists, ours or not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
