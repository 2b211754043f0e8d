"""Child processes for tests of the local platform: they stand where bookies and engines stand."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bookie_operator.plan.actions import StartJob

PATIENCE_S: Final = 20.0

_BOOKIE = """
import json, os, signal, sys, yaml
settings = yaml.safe_load(open(sys.argv[1]))
fresh = settings["runtimeFile"] + ".new"
told = {"pid": os.getpid(), "bookieId": settings["bookieId"], "ports": {"admin": 4242}}
json.dump(told, open(fresh, "w"))
os.replace(fresh, settings["runtimeFile"])
signal.sigwait([signal.SIGTERM])
"""
_STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: signal.pause()
"""
_ENGINE = """
import json, sys
json.dump(json.loads(sys.argv[2]), open(sys.argv[1], "w"))
sys.exit(int(sys.argv[3]))
"""


def bookie_like(settings: Path) -> list[str]:
    """Writes the runtime file as a bookie does, and ends by SIGTERM."""
    return [sys.executable, "-c", _BLOCK + _BOOKIE, str(settings)]


def pausing() -> "subprocess.Popen[bytes]":
    """Runs until a signal ends it."""
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])


def ends_at_once(settings: Path) -> list[str]:
    return [sys.executable, "-c", "raise SystemExit(3)"]


def stubborn() -> list[str]:
    """Ignores SIGTERM; prints `ready` once it does."""
    return [sys.executable, "-c", _STUBBORN]


def engine_like(report: str, *, code: int = 0) -> Callable[[StartJob, str, Path], list[str]]:
    """Writes `report` (JSON) as its result and exits with `code`."""
    return lambda job, url, result: [
        *(sys.executable, "-c", _ENGINE, str(result), report, str(code)),
    ]


def endless(job: StartJob, url: str, result: Path) -> list[str]:
    return [sys.executable, "-c", "import signal; signal.pause()"]


# SIGTERM is blocked from the first line on, so that sigwait sees one sent at any time.
_BLOCK = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"


async def until(holds: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    """Yield to the loop until `holds()`; TimeoutError after the patience."""
    async with asyncio.timeout(patience_s):
        while not holds():  # noqa: ASYNC110 - what it waits for lies in other processes
            await asyncio.sleep(0.01)
