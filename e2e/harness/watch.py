"""Objects followed by `kubectl get --watch`: every version that was seen, and waits on them.

A wait looks at the versions in order, so that a state which lasted a moment is not missed, and
wakes the moment a new one comes.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final

from harness.kube import Kube, LateError, Object
from harness.settings import PATIENCE

AGAIN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """One version, and when it came."""

    at: datetime
    object: Object


class Watch:
    """Follows one object, or all that a selector names, through any restart of kubectl."""

    def __init__(self, kube: Kube, *what: str) -> None:
        self._command = kube.words("get", *what, "--watch", "--output", "json")
        self._environment = kube.environment
        self._news = threading.Condition()
        self._is_over = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.seen: list[Seen] = []
        self.what = " ".join(what)

    def start(self) -> "Watch":
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends it; one that never began is over as well."""
        self._is_over = True
        if not self._thread.is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.kill()
        self._thread.join(timeout=10.0)

    @property
    def latest(self) -> Object:
        with self._news:
            return self.seen[-1].object if self.seen else {}

    def mark(self) -> int:
        """A point in the story, for `since`: what was seen later lies behind it."""
        with self._news:
            return len(self.seen)

    def versions(self) -> list[Seen]:
        """Everything that was seen until now."""
        with self._news:
            return list(self.seen)

    def names(self) -> set[str]:
        """Of everything that was ever there."""
        with self._news:
            return {str(one.object["metadata"]["name"]) for one in self.seen}

    def wait(
        self,
        what: str,
        wanted: Callable[[Object], Any],
        *,
        seconds: float,
        since: int | None = None,
    ) -> Object:
        """The first version of which `wanted` is true: from the newest on, or from a mark on."""
        assert self._thread.ident is not None, f"nobody follows {self.what}: nothing will be seen"
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        with self._news:
            looked = max(0, len(self.seen) - 1) if since is None else since
            while True:
                while looked < len(self.seen):
                    found = self.seen[looked].object
                    looked += 1
                    if wanted(found):
                        return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise LateError(f"{self.what}: after {seconds:.0f} s still waiting for {what}")
                self._news.wait(min(left, 1.0))

    def _follow(self) -> None:
        while not self._is_over:
            with subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **self._environment},
            ) as self._process:
                assert self._process.stdout is not None
                self._read(self._process.stdout)
            if not self._is_over:
                time.sleep(AGAIN_S)

    def _read(self, stream: IO[str]) -> None:
        """Documents as kubectl prints them: indented, one after the other, `}` ends each."""
        lines: list[str] = []
        for line in stream:
            lines.append(line)
            if line == "}\n":
                self._add(json.loads("".join(lines)))
                lines = []

    def _add(self, found: Object) -> None:
        with self._news:
            self.seen.append(Seen(datetime.now(UTC), found))
            self._news.notify_all()
