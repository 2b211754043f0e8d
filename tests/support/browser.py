"""A real browser for pages: headless chromium, asked through its DevTools protocol.

`Page`: one open page, what expressions are worth in it, and all that the browser complained about.
"""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
WAIT_S: Final = 60.0
LOOK_S: Final = 0.05
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
    shown: str = ""
    """URL of the page that the browser went to last."""
    is_loaded: bool = False
    """It is loaded: not the one before it, whose event may come late."""

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command; what comes before it is noted."""
        self.asked += 1
        await self.socket.send_json({"id": self.asked, "method": method, "params": params})
        while (told := await self._next()).get("id") != self.asked:
            pass
        assert "error" not in told, told
        answer: dict[str, Any] = told["result"]
        return answer

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.ask(f"{domain}.enable")
        await self.ask("Page.navigate", url=url)
        while not (self.shown == url and self.is_loaded):
            await self._next()

    async def value(self, expression: str) -> Any:
        """What the expression is worth in the page."""
        told = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def becomes(self, expression: str) -> None:
        """Waits until it is true in the page."""
        async with asyncio.timeout(WAIT_S):
            while not await self.value(expression):  # noqa: ASYNC110  # no event says so
                await asyncio.sleep(LOOK_S)

    async def key(self, name: str) -> None:
        """Presses a key, as a person does: Tab or Enter."""
        text = {"text": "\r"} if name == "Enter" else {}
        code = {"Enter": 13, "Tab": 9}[name]
        pressed = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", **pressed, **text)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def _next(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((await self.socket.receive(WAIT_S)).data)
        if told.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                  "Log.entryAdded"):  # fmt: skip
            self.complaints.append(json.dumps(told["params"]))
        elif told.get("method") == "Page.frameNavigated":
            self.shown, self.is_loaded = told["params"]["frame"]["url"], False
        elif told.get("method") == "Page.loadEventFired":
            self.is_loaded = True
        return told


@asynccontextmanager
async def opened(
    url: str, profile: Path, *, width: int = 1200, options: Sequence[str] = ()
) -> AsyncIterator[Page]:
    """This page in a browser of its own; `profile`: an empty folder for it."""
    browser = chromium()
    assert browser is not None
    flags = [*FLAGS, *options, f"--window-size={width},900", f"--user-data-dir={profile}"]
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
            devtools = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            async with session.ws_connect(devtools, max_msg_size=0) as socket:
                page = Page(socket)
                await page.open(url)
                yield page
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def _port(words: asyncio.StreamReader) -> int:
    while line := await words.readline():
        if found := re.search(rb"DevTools listening on ws://[^:]+:(\d+)/", line):
            return int(found[1])
    raise AssertionError("the browser ended before it listened")
