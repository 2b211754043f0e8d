"""Real `bookie serve` processes with a journal and two ledger disks each, and what is done to them.

Blocking where it only touches a process or a folder; coroutines where it has to wait. Every process
leads a group of its own, so that none is left behind.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import grpc
import yaml
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from small_disks import SmallDisk

MIB: Final = 1 << 20
LEDGER_DISKS: Final = 2
BOOT_WAIT_S: Final = 90.0
COLLECT_S: Final = 10
FLUSH_S: Final = 5
STOP_WAIT_S: Final = 60.0
POLL_S: Final = 0.1
ASK_WAIT_S: Final = 5.0
SERVING: Final = (pb.SERVING, pb.READ_ONLY)

DURABILITY: Final[dict[str, dict[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory"},
    "sync": {"journalWriteData": False, "ack": "sync"},
    "journal": {"journalWriteData": True},
}


class SoakError(Exception):
    """The soak has to end here; the message says what was expected and what came."""


class SoakBookie:
    """One bookie over all its processes. `small`: its second ledger disk, if it can be filled.

    `small_journal`: the journal lies there as well.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        metadata_url: str,
        mode: str,
        small: SmallDisk | None = None,
        small_journal: bool = False,
    ) -> None:
        self.name, self.folder, self.small = name, folder, small
        self.lock = asyncio.Lock()
        """Held by whoever does something to it."""
        self.is_expected = False
        """It should be running: an end that nobody asked for is a finding."""
        self.journal = folder / "journal"
        self.ledgers = [folder / f"ledger-{number}" for number in range(LEDGER_DISKS)]
        if small is not None:
            self.ledgers[-1] = small.folder / "ledger"
            if small_journal:
                self.journal = small.folder / "journal"
        self.log = folder / "log"
        self._config = folder / "bookie.yaml"
        self._runtime = folder / "runtime.json"
        self._process: subprocess.Popen[bytes] | None = None
        for path in (self.journal, *self.ledgers):
            path.mkdir(parents=True)
        self._settings = self._settings_for(metadata_url)
        self.become(mode)

    def become(self, mode: str | None) -> None:
        """Acknowledges that way from its next start on; None = as before."""
        if mode is not None:
            self._settings["durability"] = {**DURABILITY[mode], "flushIntervalSeconds": FLUSH_S}
            self._config.write_text(yaml.safe_dump(self._settings), encoding="utf-8")

    def _settings_for(self, metadata_url: str) -> dict[str, Any]:
        return {
            "bookieId": self.name,
            "metadata": metadata_url,
            "ports": {"run": 0, "stock": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(self.journal)},
            "ledgers": [{"directory": str(path)} for path in self.ledgers],
            "storage": {
                "ringBytes": 12 * MIB,
                "logFileBytes": 16 * MIB,
                "collectIntervalSeconds": COLLECT_S,
                "compactionIntervalSeconds": COLLECT_S,
            },
            "runtimeFile": str(self._runtime),
        }

    # Process
    def start(self) -> None:
        self._runtime.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bookie", "serve", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or has never been started."""
        return self._process.poll() if self._process is not None else None

    @property
    def runs(self) -> bool:
        return self._process is not None and self.exit_code is None

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.runs:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL, also to one that is frozen; nothing happens to one that is gone."""
        self.is_expected = False
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    async def stop(self) -> int:
        """A clean stop; the exit code."""
        assert self._process is not None
        self.is_expected = False
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self._process.wait, STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            raise SoakError(
                f"{self.name} did not stop within {STOP_WAIT_S:.0f} s of a SIGTERM: {self.log}"
            ) from None

    async def serving(self) -> pb.Health:
        """Its health once it serves; SoakError when it does not come back."""
        try:
            async with asyncio.timeout(BOOT_WAIT_S):
                while (health := await self._health()).phase not in SERVING:
                    if not self.runs:
                        raise SoakError(
                            f"{self.name} ended with code {self.exit_code} while it should have "
                            f"started: {self.log}"
                        )
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise SoakError(
                f"{self.name} does not serve {BOOT_WAIT_S:.0f} s after its start, it is "
                f"{pb.Phase.Name(health.phase)} {health.message!r}: {self.log}"
            ) from None
        self.is_expected = True
        return health

    async def _health(self) -> pb.Health:
        """As it tells; one without a phase while nobody answers."""
        try:
            port = json.loads(self._runtime.read_text(encoding="utf-8"))["ports"]["admin"]
        except (OSError, KeyError):
            return pb.Health()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            try:
                found: pb.Health = await stub.GetHealth(pb.GetHealthRequest(), timeout=ASK_WAIT_S)
            except grpc.aio.AioRpcError:
                return pb.Health()
            return found

    # Disks
    def wipe(self, *folders: Path) -> None:
        """New, empty volumes in the place of these."""
        for folder in folders:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
