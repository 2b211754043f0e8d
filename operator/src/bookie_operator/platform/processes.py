"""Processes that outlive the operator: started in sessions of their own, found again by identity.

A process is its pid and its start, since pids come back. Children of this operator are reaped and
have exit codes; adopted ones (a former operator's) just end.
"""

import asyncio
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

CREATED_SLACK_S: Final = 2.0
"""Where only the time is known: it is computed from the boot time, which every small correction of
the clock moves a little."""
MACHINE_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
TICKS_PLACE: Final = 19
"""Which field behind the name of a process in `/proc/PID/stat` has the ticks until its start."""
POLL_S: Final = 0.05
NO_MORE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ProcessId:
    """`created`: seconds since 1970; whoever sets the clock moves it for all processes that run.
    `start`: the machine's boot and the ticks from then on, which nothing moves; empty where the
    system does not tell, and in records of earlier versions.
    """

    pid: int
    created: float
    start: str = ""

    def __str__(self) -> str:
        return f"{self.pid}-{self.created:.2f}"

    def as_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "created": self.created, "start": self.start}

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> "ProcessId":
        return cls(int(tree["pid"]), float(tree["created"]), str(tree.get("start", "")))


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None when there is none (or only a zombie)."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid, process.create_time(), _start(pid))
    except psutil.Error:
        return None


def _start(pid: int) -> str:
    """`ProcessId.start` of the process that has this pid now."""
    try:
        boot = MACHINE_BOOT.read_text(encoding="ascii").strip()
        facts = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return f"{boot} {facts.rpartition(')')[2].split()[TICKS_PLACE]}"


def known_again(process: ProcessId) -> ProcessId | None:
    """The process as the system shows it now; None when it has ended."""
    found = identify(process.pid)
    if found is None:
        return None
    if found.start and process.start:
        return found if found.start == process.start else None
    return found if abs(found.created - process.created) <= CREATED_SLACK_S else None


def is_alive(process: ProcessId) -> bool:
    return known_again(process) is not None


def has_open(process: ProcessId, path: Path) -> bool:
    """Whether it has this file open; False where that is not known, as of another user's."""
    try:
        found = psutil.Process(process.pid).open_files()
    except psutil.Error:
        return False
    return any(file.path == str(path.resolve()) for file in found)


def send(process: ProcessId, number: signal.Signals, *, group: bool = False) -> bool:
    """Signal it (or its whole session's group); False when it is gone already."""
    if not is_alive(process):
        return False
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
        return True
    return False


def wait_gone(process: ProcessId, timeout_s: float) -> bool:
    """True once it has ended; False when it still runs after the timeout. Blocking."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return True
        try:
            if not is_alive(process):
                return True
            ready = select.select([descriptor], [], [], timeout_s)[0]
            return bool(ready)
        finally:
            os.close(descriptor)
    deadline = time.monotonic() + timeout_s
    while is_alive(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def stop(process: ProcessId, *, grace_s: float, group: bool = False) -> bool:
    """SIGTERM, then SIGKILL after the grace period; True when the first was enough. Blocking."""
    send(process, signal.SIGTERM)
    if wait_gone(process, grace_s):
        return True
    send(process, signal.SIGKILL, group=group)
    wait_gone(process, grace_s)
    return False


def exit_reason(code: int | None) -> str:
    if code is None:
        return "ended, its exit code is not known"
    if code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    return f"exit code {code}"


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that are settings of a bookie: only its file counts, not
    what a person has exported for a command line, such as the address of another fleet.
    """
    return {name: value for name, value in environment.items() if not name.startswith("BOOKIE_")}


class Children:
    """The processes this operator watches: started here, or adopted.

    Watching belongs to the loop that this is made in; all but `close` is for any one thread, which
    may be another than the loop's.
    """

    def __init__(self, on_exit: Callable[[], None]) -> None:
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._started: dict[ProcessId, subprocess.Popen[bytes]] = {}
        """Processes that this one started, which it has to collect."""
        self._watched: dict[ProcessId, int] = {}
        """Descriptors by which the end of processes is seen; the loop's own."""
        self._is_closed = False
        """True: processes are no longer watched. Only the event loop uses it."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        folder: Path,
        environment: Mapping[str, str] = NO_MORE,
    ) -> ProcessId:
        """Start in a session of its own: a Ctrl-C at the terminal is the operator's alone.

        What it says is appended to `log`. `environment`: variables beside those of this process.
        Blocking.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as said:
            child = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**own_environment(os.environ), **environment},
                start_new_session=True,
            )
        process = identify(child.pid) or ProcessId(child.pid, time.time())
        self._started[process] = child
        self.watch(process)
        return process

    def watch(self, process: ProcessId) -> None:
        """Call `on_exit` once it ends (where the system can tell; else the tick finds out)."""
        if hasattr(os, "pidfd_open"):
            self._loop.call_soon_threadsafe(self._watch, process)

    def is_alive(self, process: ProcessId) -> bool:
        child = self._started.get(process)
        if child is not None:
            return child.poll() is None
        return is_alive(process)

    def exit_code(self, process: ProcessId) -> int | None:
        """Negative = signal; None = runs, or nobody could collect it."""
        child = self._started.get(process)
        return child.poll() if child is not None else None

    def forget(self, process: ProcessId) -> None:
        """It has ended and its exit code is on record."""
        self._loop.call_soon_threadsafe(self._unwatch, process)
        child = self._started.pop(process, None)
        assert child is None or child.poll() is not None

    def close(self) -> None:
        """Stop watching; what runs goes on without us."""
        self._is_closed = True
        for process in list(self._watched):
            self._unwatch(process)
        for child in self._started.values():
            if child.poll() is None:
                # It outlives us on purpose: without this its object would complain.
                child.returncode = 0
        self._started.clear()

    def _watch(self, process: ProcessId) -> None:
        if self._is_closed or process in self._watched:
            return
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            self._watched[process] = descriptor
            self._loop.add_reader(descriptor, self._ended, process)

    def _ended(self, process: ProcessId) -> None:
        self._unwatch(process)
        self._on_exit()

    def _unwatch(self, process: ProcessId) -> None:
        descriptor = self._watched.pop(process, None)
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
