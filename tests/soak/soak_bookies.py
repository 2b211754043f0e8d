"""Real `bookie serve` processes with a journal and two ledger disks each, and what is done to them.

A bookie may get a second process on a copy of its folders, which may become the only one.

Blocking where it only touches a process or a folder; coroutines where it has to wait. Every process
leads a group of its own, so that none is left behind.
"""

import asyncio
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import yaml
from bookie.boot.marker import read_marker
from bookie.storage.disk import RealDisk
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from small_disks import SmallDisk
from soak_line import Line

MIB: Final = 1 << 20
LEDGER_DISKS: Final = 2
BOOT_WAIT_S: Final = 90.0
LEASE_S: Final = 6.0
CONFIRM_S: Final = 1.0
PORTS: Final = ("run", "stock", "admin", "http")
COLLECT_S: Final = 10
FLUSH_S: Final = 5
STOP_WAIT_S: Final = 60.0
POLL_S: Final = 0.1
ASK_WAIT_S: Final = 5.0
SERVING: Final = (pb.SERVING, pb.READ_ONLY)
TWINS_OWN: Final = ("journal", "ledgers", "line", "log", "mode")
"""What a second process of a bookie has for itself."""

DURABILITY: Final[dict[str, dict[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory"},
    "sync": {"journalWriteData": False, "ack": "sync"},
    "journal": {"journalWriteData": True},
}


class SoakError(Exception):
    """The soak has to end here; the message says what was expected and what came."""


def halt(pid: int) -> None:
    """SIGSTOP to a child, and all its threads stand still when this returns: until then one may be
    in the midst of a rename. Nothing happens to a child that has ended."""
    os.kill(pid, signal.SIGSTOP)
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class SoakBookie:
    """One bookie over all its processes. `small`: its second ledger disk, if it can be filled.

    `small_journal`: the journal lies there as well. `lease_s`: see the setting.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        metadata_url: str,
        mode: str,
        lease_s: float = LEASE_S,
        small: SmallDisk | None = None,
        small_journal: bool = False,
    ) -> None:
        self.name, self.folder, self.small = name, folder, small
        self.line = Line(metadata_url, log=folder.with_suffix(".line"))
        self._metadata_url, self.lease_s = metadata_url, lease_s
        self.approvals = 0
        """Given by a person since the process started."""
        self._copies = 0
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
        for path in self.disks:
            path.mkdir(parents=True)
        self.mode = mode

    def become(self, mode: str | None) -> None:
        """Acknowledges that way from its next start on; None = as before."""
        if mode is not None:
            self.mode = mode

    def _settings(self) -> dict[str, Any]:
        return {
            "bookieId": self.name,
            "metadata": self.line.url,
            "ports": self._ports,
            "lease": {"seconds": self.lease_s, "confirmSeconds": CONFIRM_S},
            "durability": {**DURABILITY[self.mode], "flushIntervalSeconds": FLUSH_S},
            "journal": {"directory": str(self.journal)},
            "ledgers": [{"directory": str(path)} for path in self.ledgers],
            "storage": {
                "ringBytes": 12 * MIB,
                "logFileBytes": 16 * MIB,
                "collectIntervalSeconds": COLLECT_S,
                "collectGraceSeconds": COLLECT_S,
                "compactionIntervalSeconds": COLLECT_S,
            },
            "runtimeFile": str(self._runtime),
        }

    @property
    def disks(self) -> list[Path]:
        return [self.journal, *self.ledgers]

    # Process
    def start(self, ports: dict[str, int] | None = None) -> None:
        """`ports`: any free ones unless they are given."""
        self._ports = ports or dict.fromkeys(PORTS, 0)
        self._config.write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        self._runtime.unlink(missing_ok=True)
        self.approvals = 0
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

    async def serving(self, *, with_person: bool = False) -> pb.Health:
        """Its health once it serves; SoakError when it does not come back. `with_person`: there is
        one who approves what it asks for."""
        try:
            async with asyncio.timeout(BOOT_WAIT_S):
                while (health := await self.health()).phase not in SERVING:
                    if with_person and health.phase == pb.AWAITING_APPROVAL:
                        await self.approve()
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

    def ports(self) -> dict[str, int]:
        """Those that it listens on, empty before it does."""
        try:
            tree = json.loads(self._runtime.read_text(encoding="utf-8"))
        except OSError:
            return {}
        return dict(tree["ports"])

    async def health(self) -> pb.Health:
        """As it tells; one without a phase while nobody answers."""
        port = self.ports().get("admin")
        if port is None:
            return pb.Health()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            try:
                found: pb.Health = await stub.GetHealth(pb.GetHealthRequest(), timeout=ASK_WAIT_S)
            except grpc.aio.AioRpcError:
                return pb.Health()
            return found

    async def approve(self) -> None:
        """As a person does it; no harm when the bookie has gone on meanwhile."""
        command = [sys.executable, "-m", "bookie", "cookie", "approve"]
        command += ["--runtime", str(self._runtime), "--by", "the soak", "--yes"]
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        self.approvals += await process.wait() == 0

    def end(self) -> None:
        """Nothing of it runs any more."""
        self.kill()
        self.line.end()

    # Disks
    @property
    def generation(self) -> int:
        """The highest that its folders tell."""
        found = [read_marker(RealDisk(), path).generation for path in self.disks]
        return max(generation or 0 for generation in found)

    def copied(self) -> "SoakBookie":
        """The same bookie on a copy of its folders as they are at this moment, to be started.

        The copies lie beside the originals, on the same disks. Blocking; the process stands still
        meanwhile, and is to be told to go on.
        """
        if self._process is not None and self.runs:
            halt(self._process.pid)
        self._copies += 1
        twin = copy.copy(self)
        twin.journal, *twin.ledgers = [
            path.with_name(f"{path.name.partition('.')[0]}.{self._copies}") for path in self.disks
        ]
        for path, target in zip(self.disks, twin.disks, strict=True):
            shutil.copytree(path, target)
        twin._process, twin.is_expected = None, False
        twin.log = self.folder / f"log.{self._copies}"
        twin._config = self.folder / f"bookie.{self._copies}.yaml"
        twin._runtime = self.folder / f"runtime.{self._copies}.json"
        twin.line = Line(self._metadata_url, log=self.folder.with_suffix(".line"))
        return twin

    def succeed(self, twin: "SoakBookie") -> None:
        """The twin is the bookie now; nothing is left of this process and its folders."""
        self.end()
        self.remove_disks()
        for name in (*TWINS_OWN, "_config", "_runtime", "_process"):
            setattr(self, name, getattr(twin, name))
        self.approvals = twin.approvals

    def put_back(self, twin: "SoakBookie") -> None:
        """The folders are again what the twin's are, which must not be started any more."""
        self.remove_disks()
        for path, source in zip(self.disks, twin.disks, strict=True):
            source.rename(path)

    def drop(self, twin: "SoakBookie") -> None:
        """The twin has never been; nothing happens when it has become this one."""
        if twin.line is not self.line:
            twin.end()
            twin.remove_disks()

    def remove_disks(self) -> None:
        for path in self.disks:
            shutil.rmtree(path, ignore_errors=True)

    def wipe(self, *folders: Path) -> None:
        """New, empty volumes in the place of these."""
        for folder in folders:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
