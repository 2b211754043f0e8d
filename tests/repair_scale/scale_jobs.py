"""Repair jobs as processes of their own, and the killing of their executors.

A job is the product's own `bookie repair --engine spark-local`, with a local cluster
for a master: every executor is a JVM of its own, which a seeded hand kills while tasks run.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from bookie_processes import BookieProcess

MASTER: Final = "local-cluster[2,1,640]"
EXECUTOR_CLASS: Final = "CoarseGrainedExecutorBackend"
POLL_S: Final = 0.05
JOB_WAIT_S: Final = 1200.0
WORDS_CHARS: Final = 4000
"""Of a job's words, at each end."""
AUDITED: Final = " audit: "
"""In the job's words once nothing more is copied; marks may go only after it."""


@dataclass
class RepairJob:
    """One job of the repair library, a repair unless `kind` says otherwise. `words`: a file with
    all it said, in the order it said it.
    """

    metadata_url: str
    folder: Path
    name: str
    engine: str = "spark-local"
    more: tuple[str, ...] = ()
    kind: str = "repair"
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.words = self.folder / f"{self.name}.words"
        self.result = self.folder / f"{self.name}.json"

    def start(self) -> "RepairJob":
        command = [
            sys.executable, "-m", "bookie", self.kind, "--metadata", self.metadata_url,
            "--engine", self.engine, "--progress", "--result", str(self.result), *self.more,
        ]  # fmt: skip
        environ = os.environ | {"BOOKIE_SPARK_MASTER": MASTER}
        with self.words.open("wb") as words:
            self.process = subprocess.Popen(command, stdout=words, stderr=words, env=environ)
        return self

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def has_audited(self) -> bool:
        """It copies nothing any more."""
        return AUDITED in self.said

    @property
    def said(self) -> str:
        return self.words.read_text(encoding="utf-8", errors="replace")

    @property
    def last_words(self) -> str:
        """Both ends: an error's trace is the end, and what led to it was said before."""
        said = self.said
        if len(said) <= 2 * WORDS_CHARS:
            return said
        return f"{said[:WORDS_CHARS]}\n[...]\n{said[-WORDS_CHARS:]}"

    def document(self) -> dict[str, Any]:
        """Its result; whoever asks for one that is not there gets its last words."""
        if not self.result.exists():
            raise SystemExit(f"{self.name} ended without a result:\n{self.last_words}")
        found: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        return found

    def executors(self) -> list[psutil.Process]:
        """Executors that have a Python worker: a task has begun there."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if any(EXECUTOR_CLASS in word for word in child.cmdline()):
                        found += [child] if child.children() else []
        return found

    def kill(self) -> None:
        """SIGKILL of the driver; its JVM and executors follow as they lose it."""
        self.process.kill()
        self.process.wait()


@dataclass
class Killer:
    """Kills executors of a job, one at a time: after a random wait, a random one that works."""

    rng: random.Random
    kills: int
    wait_s: tuple[float, float]
    killed: list[int] = field(default_factory=list)

    async def work(self, job: RepairJob) -> None:
        """Until it has killed as many as it may, or the job has ended."""
        for number in range(self.kills):
            # The first one dies as soon as it works: also a short job loses one.
            await asyncio.sleep(self.rng.uniform(*self.wait_s) if number else 0)
            while not (working := job.executors()):
                if job.has_ended or job.has_audited:
                    return
                await asyncio.sleep(POLL_S)
            chosen = self.rng.choice(working)
            with suppress(psutil.NoSuchProcess):
                chosen.kill()
                self.killed.append(chosen.pid)
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def killing(killer: Killer, job: RepairJob) -> AsyncIterator[None]:
    """It works meanwhile."""
    work = asyncio.create_task(killer.work(job))
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def until_ended(job: RepairJob) -> int:
    """Its exit code."""
    async with asyncio.timeout(JOB_WAIT_S):
        while not job.has_ended:
            await asyncio.sleep(POLL_S)
    return int(job.process.returncode)


async def until_said(job: RepairJob, words: str) -> None:
    """Until it has said these words; SystemExit when it ends without."""
    async with asyncio.timeout(JOB_WAIT_S):
        while words not in job.said:
            if job.has_ended:
                raise SystemExit(f"{job.name} ended before it said {words!r}:\n{job.last_words}")
            await asyncio.sleep(POLL_S)


def stop_all(jobs: Iterable[RepairJob], bookies: Iterable[BookieProcess]) -> None:
    """What a story leaves behind, however it ended."""
    for job in jobs:
        if not job.has_ended:
            job.kill()
    for bookie in bookies:
        if bookie.is_running:
            bookie.stop()
