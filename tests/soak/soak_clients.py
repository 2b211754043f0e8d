"""Client processes of a soak, as the one that started them sees them."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any, Final

from promises import Findings, Promises
from soak_bookies import SoakError

CLIENT: Final = Path(__file__).parent / "soak_client.py"
LINE_BYTES_MAX: Final = 16 << 20
CLOSE_WAIT_S: Final = 150.0
"""Longer than a writer waits before it gives its adds up."""


class ClientProcess:
    """One client. Its promises go into `promises` as it tells them."""

    def __init__(self, name: str, promises: Promises, *, command: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._promises = promises
        self._command = [sys.executable, str(CLIENT), "--name", name, *command]
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self.last: dict[str, Any] = {}
        self.is_expected = False

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES_MAX,
                start_new_session=True,
            )
        self._listening = asyncio.create_task(self._listen())
        self.is_expected = True

    async def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if not line.endswith(b"\n"):
                return  # killed in the midst of a sentence
            self.last = json.loads(line)
            for row in self.last["ledgers"]:
                self._promises.merge(tuple(row))

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def figure(self, name: str) -> Any:
        """The newest that it has told, 0 before it spoke."""
        return self.last.get(name, 0)

    @property
    def findings(self) -> Findings:
        """What it found against the cluster."""
        return Findings(
            lost=self.figure("lost"),
            wrong=self.figure("wrong"),
            failed=self.figure("failed"),
            words=list(self.last.get("words", ())),
        )

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.runs:
            self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL: its ledgers stay open, and nobody claims what it had not told."""
        self.is_expected = False
        if self._process is not None:
            self.signal(signal.SIGKILL)
            await self._process.wait()
        if self._listening is not None:
            await self._listening

    async def stop(self) -> None:
        """Lets it close its ledgers; SoakError when it cannot."""
        assert self._process is not None and self._process.stdin is not None
        self.is_expected = False
        self._process.stdin.write(b"stop\n")
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                code = await self._process.wait()
        except TimeoutError:
            raise SoakError(
                f"client {self.name} did not end within {CLOSE_WAIT_S:.0f} s: {self.log}"
            ) from None
        if self._listening is not None:
            await self._listening
        if code != 0 or not self.figure("is_last"):
            raise SoakError(f"client {self.name} ended with code {code}: {self.log}")
