"""The fleet as its user sees it: the `bookie-operator` command and the status file it keeps."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from bookie.hosts import at_port, loopback

POLL_S = 0.2
KILL_TRIES_MAX = 300
UNFLUSHED_BYTES = (1_000_000, 5_000_000)
"""The demo's writers give a bookie well over this in the ten seconds between two flushes."""
Status = dict[str, Any]


class Fleet:
    """One local BookieCluster in `folder`, driven only through the operator's command line."""

    def __init__(self, manifest: Path, folder: Path) -> None:
        self._manifest = manifest
        self._folder = folder
        self.metadata_url = ""
        self._status_file = folder / "status.json"

    async def up(self) -> None:
        """From nothing to Available; what an earlier demo left is taken down first."""
        if self._folder.exists():
            await self._operator("down", check=False)
            shutil.rmtree(self._folder)
        await self._operator("up", str(self._manifest), "--detach")
        os.environ |= variables(await self._operator("env"))
        self.metadata_url = self.status()["metadata"]["url"]

    async def down(self) -> None:
        """Whatever there is of it, also when it never came up."""
        await self._operator("down", check=bool(self.metadata_url))

    async def kill_between_flushes(self, bookie: str) -> int:
        """SIGKILL, as a crash would be, while the bookie holds entries only in memory.

        It flushes every few seconds: the moment is one at which a good part of an interval's
        traffic is unflushed and the next flush is not due. Returns how many bytes that were.
        """
        path = self._folder / "bookies" / bookie / "runtime.json"
        runtime = json.loads(path.read_text(encoding="utf-8"))
        url = f"http://{at_port(loopback(), runtime['ports']['http'])}/metrics"
        for _ in range(KILL_TRIES_MAX):
            unflushed = await asyncio.to_thread(_metric, url, "bookie_unflushed_bytes")
            if UNFLUSHED_BYTES[0] <= unflushed <= UNFLUSHED_BYTES[1]:
                os.kill(runtime["pid"], signal.SIGKILL)
                return unflushed
            await asyncio.sleep(POLL_S)
        raise SystemExit(
            f"{bookie} never held {UNFLUSHED_BYTES} unflushed bytes: is it written to?"
        )

    async def replace_disk(self, bookie: str, disk: str) -> None:
        """As when a volume claim is deleted: a new, empty volume in its place."""
        await self._operator("replace-disk", bookie, disk)

    async def _operator(self, *words: str, check: bool = True) -> str:
        command = (sys.executable, "-m", "bookie_operator", "local", *words)
        process = await asyncio.create_subprocess_exec(
            *command,
            "--dir",
            str(self._folder),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, complaint = await process.communicate()
        except asyncio.CancelledError:
            # What it began goes on without it; the command that comes next takes that down.
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            raise
        if check and process.returncode != 0:
            raise SystemExit(
                f"bookie-operator local {' '.join(words)} failed with {process.returncode}:\n"
                f"{output.decode()}{complaint.decode()}"
            )
        return output.decode()

    async def audit(self) -> dict[str, int]:
        """`bookie audit` over every ledger; the counts of its result."""
        command = (sys.executable, "-m", "bookie", "audit", "--metadata", self.metadata_url)
        process = await asyncio.create_subprocess_exec(
            *command,
            "--output",
            "json",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, complaint = await process.communicate()
        if not output:
            raise SystemExit(f"bookie audit failed: {complaint.decode()}")
        counts = json.loads(output)["audit"]
        return {name: counts[name] for name in ("ledgers", "entries", "ok", "missing", "unknown")}

    def memory_mib(self) -> float:
        """Resident memory of all bookie processes together."""
        found = 0.0
        for process in psutil.process_iter(["cmdline", "memory_info"]):
            words = process.info["cmdline"] or []
            if "serve" in words and any(str(self._folder.resolve()) in word for word in words):
                found += process.info["memory_info"].rss / 2**20
        return round(found, 1)

    def status(self) -> Status:
        """The status object, as `kubectl get bkc -o json` would show it."""
        document: Status = json.loads(self._status_file.read_text(encoding="utf-8"))
        found: Status = document.get("status", document)
        return found

    def bookie(self, bookie: str) -> Status:
        return next(item for item in self.status()["bookies"] if item["id"] == bookie)

    def open_incidents(self) -> list[Status]:
        return [item for item in self.status().get("incidents", ()) if item["outcome"] == "Open"]

    def condition(self, name: str) -> str:
        for condition in self.status()["conditions"]:
            if condition["type"] == name:
                return str(condition["status"])
        return "Unknown"

    async def wait(self, what: str, *, until: Callable[[], bool], seconds: float) -> None:
        """Poll the status until it shows what is awaited; SystemExit says what it showed."""
        try:
            async with asyncio.timeout(seconds):
                while not until():
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            status = json.dumps(self.status(), indent=1)
            raise SystemExit(f"after {seconds:.0f} s still waiting for {what}:\n{status}") from None


def variables(lines: str) -> dict[str, str]:
    """Of the lines `export NAME=VALUE` that `bookie-operator local env` has for a shell."""
    words = (shlex.split(line)[1] for line in lines.splitlines())
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _metric(url: str, name: str) -> int:
    """One figure of a bookie's metrics page."""
    with urllib.request.urlopen(url, timeout=5) as page:
        lines = page.read().decode().splitlines()
    return int(next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")))
