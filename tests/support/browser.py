"""A real browser for pages: headless chromium, asked through its DevTools protocol.

`Page`: one open file, what expressions are worth in it, and all that the browser complained about.
"""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
WAIT_S: Final = 60.0
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run",
    "--disable-background-networking", "--remote-allow-origins=*",
)  # fmt: skip


def chromium() -> str | None:
    """The browser's path."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Page:
    """One open page. `complaints`: what its console and its log said."""

    socket: aiohttp.ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    asked: int = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command; what comes before it is noted."""
        self.asked += 1
        await self.socket.send_json({"id": self.asked, "method": method, "params": params})
        while (told := await self._next()).get("id") != self.asked:
            pass
        assert "error" not in told, told
        answer: dict[str, Any] = told["result"]
        return answer

    async def open(self, path: Path) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.ask(f"{domain}.enable")
        await self.ask("Page.navigate", url=path.as_uri())
        while (await self._next()).get("method") != "Page.loadEventFired":
            pass

    async def value(self, expression: str) -> Any:
        """What the expression is worth in the page."""
        told = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def _next(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((await self.socket.receive(WAIT_S)).data)
        if told.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                  "Log.entryAdded"):  # fmt: skip
            self.complaints.append(json.dumps(told["params"]))
        return told


@asynccontextmanager
async def opened(path: Path, profile: Path, *, width: int = 1200) -> AsyncIterator[Page]:
    """This file in a browser of its own; `profile`: an empty folder for it."""
    browser = chromium()
    assert browser is not None
    flags = [*FLAGS, f"--window-size={width},900", f"--user-data-dir={profile}"]
    process = await asyncio.create_subprocess_exec(
        browser,
        *flags,
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        port = await asyncio.wait_for(_port(process.stderr), WAIT_S)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                targets = await answer.json(content_type=None)
            url = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                await page.open(path)
                yield page
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def _port(words: asyncio.StreamReader) -> int:
    while line := await words.readline():
        if found := re.search(rb"DevTools listening on ws://[^:]+:(\d+)/", line):
            return int(found[1])
    raise AssertionError("the browser ended before it listened")
