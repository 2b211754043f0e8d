"""How far running jobs are: the last line of progress in the tail of each pod's log.

A log is there already, whatever engine works, and reading it needs no right to write for anybody.
It is for people only, so it may be missing: a log that cannot be read now costs a pass LOG_S at
most, and is left alone for a while.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bookie.errors import BookieError
from bookie.progress import last_progress

from bookie_operator.plan.deadlines import still_waits
from bookie_operator.platform.kubernetes.api import Api, RefusedError

LINES_MAX: Final = 100
"""Lines read from the end of a log: a Spark driver writes others between two lines of progress."""
BYTES_MAX: Final = 64 * 1024
LOG_S: Final = 1.0
"""One log, or all at once, may keep a pass this long."""
EVERY: Final = timedelta(seconds=5)
"""Between two looks at one log, and so between two changes of the status for its sake."""
AGAIN: Final = timedelta(seconds=60)
"""Wait after a failed read: the node is away, or an older chart lacks the permission."""


@dataclass(frozen=True, slots=True)
class _Seen:
    line: str
    next_at: datetime


class JobLogs:
    """The progress of one cluster's jobs, by name."""

    def __init__(self, api: Api, *, container: str, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._container = container
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        """The last line of each running job, and when to read it again."""

    async def progress(self, pods: Mapping[str, str]) -> dict[str, str]:
        """Job -> its last line of progress, of jobs that run in these pods (job -> pod)."""
        now = self._clock()
        known = {job: seen for job, seen in self._seen.items() if job in pods}
        waiting = {j for j, seen in known.items() if still_waits(seen.next_at, now, longest=AGAIN)}
        due = [job for job in pods if job not in waiting]
        looks = (self._look(pods[job], known.get(job), now) for job in due)
        self._seen = known | dict(zip(due, await asyncio.gather(*looks), strict=True))
        return {job: seen.line for job, seen in self._seen.items()}

    async def _look(self, pod: str, before: _Seen | None, now: datetime) -> _Seen:
        last = before.line if before is not None else ""
        try:
            async with asyncio.timeout(LOG_S):
                log = await self._api.log(
                    pod, container=self._container, lines=LINES_MAX, size=BYTES_MAX
                )
        except RefusedError:  # it is not there yet, or not any more
            return _Seen(last, now + EVERY)
        except (BookieError, TimeoutError):
            return _Seen(last, now + AGAIN)
        return _Seen(last_progress(log) or last, now + EVERY)
