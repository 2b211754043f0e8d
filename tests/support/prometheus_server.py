"""A real Prometheus (Debian's package) for the dashboards: what it scrapes, and what it answers."""

import asyncio
import json
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from bookie.monitoring.commands import Address
from bookie.monitoring.exporter import Exporter

TARGETS: Final = "targets.json"
START_WAIT_S: Final = 60.0
VARIABLE: Final = re.compile(r"\$(?:namespace|cluster|pod)\b")
NOT_NAMES: Final = (
    re.compile(r'"[^"]*"'),  # a label's value, which may hold any of the others
    re.compile(r"\{[^}]*\}|\[[^\]]*\]"),  # labels, and the length of a range
    re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)"),
    re.compile(r"\b\w+\s*(?=\()"),  # a function
    re.compile(r"\b(?:and|or|unless|offset|bool)\b"),
    re.compile(r"\b\d\w*"),  # a number, or a duration
)
NAME: Final = re.compile(r"[a-zA-Z_:][\w:]*")
NOT_A_NUMBER: Final = "NaN"
"""A quantile or a mean of nothing."""


@dataclass(frozen=True, slots=True)
class Source:
    """A port with `/metrics`, and the labels of the pod that it stands for."""

    job: str
    port: int
    labels: Mapping[str, str]


def configuration(*, scrape_s: float) -> dict[str, Any]:
    """As the chart's PodMonitors have Prometheus scrape; which targets is in a file beside it."""
    every = _duration(scrape_s)
    discovery = {"files": [TARGETS], "refresh_interval": every}
    job = {"job_name": "pods", "honor_labels": True, "file_sd_configs": [discovery]}
    return {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [job],
    }


def write_targets(folder: Path, sources: Sequence[Source]) -> None:
    """What is scraped from now on: a bookie that starts again has another port."""
    targets = [
        {"targets": [f"127.0.0.1:{one.port}"], "labels": {"job": one.job} | dict(one.labels)}
        for one in sources
    ]
    fresh = folder / f"{TARGETS}.new"
    fresh.write_text(json.dumps(targets))
    fresh.replace(folder / TARGETS)


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def filled(expr: str, *, rate_s: float) -> str:
    """A panel's query with all chosen, as Grafana sends it."""
    text = VARIABLE.sub(".*", expr)
    return text.replace("$__rate_interval", _duration(rate_s))


def metric_names(expr: str) -> set[str]:
    """The figures that a query asks for."""
    for pattern in NOT_NAMES:
        expr = pattern.sub(" ", expr)
    return set(NAME.findall(expr))


class Prometheus:
    """One that runs."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession, *, scrape_s: float, rate_s: float
    ) -> None:
        self.url = url
        self._session = session
        self._scrape_s = scrape_s
        self._rate_s = rate_s

    async def query(self, expr: str) -> list[Any]:
        """Series with their value now; those without a number are none."""
        found = await self._ask("query", expr)
        return [one for one in found if one["value"][1] != NOT_A_NUMBER]

    async def graph(self, expr: str, *, since: float, until: float) -> list[Any]:
        """Series with their values, scrape by scrape, as a graph has them; times since 1970."""
        place = {"start": since, "end": until, "step": self._scrape_s}
        found = await self._ask("query_range", expr, **place)
        numbers = [
            one | {"values": [float(v) for _at, v in one["values"] if v != NOT_A_NUMBER]}
            for one in found
        ]
        return [one for one in numbers if one["values"]]

    async def _ask(self, path: str, expr: str, **place: float) -> list[Any]:
        text = filled(expr, rate_s=self._rate_s)
        question = {"query": text} | {name: str(value) for name, value in place.items()}
        async with self._session.get(f"{self.url}/api/v1/{path}", params=question) as answer:
            if answer.status == 503:  # it has just begun to listen, and is not ready
                return []
            found = json.loads(await answer.read())
        if found["status"] != "success":
            raise ValueError(f"{text}: {found.get('error')}")
        series: list[Any] = found["data"]["result"]
        return series

    async def version(self) -> str:
        async with self._session.get(f"{self.url}/api/v1/status/buildinfo") as answer:
            return str((await answer.json())["data"]["version"])

    async def names(self) -> set[str]:
        """Of all figures that it has scraped."""
        async with self._session.get(f"{self.url}/api/v1/label/__name__/values") as answer:
            return set((await answer.json())["data"])

    async def until(self, expr: str) -> None:
        """Another process scrapes when it likes: it is asked until it has seen it."""
        while not await self.query(expr):  # noqa: ASYNC110
            await asyncio.sleep(self._scrape_s / 4)


def find_prometheus() -> str | None:
    """The program; None where it is not installed."""
    return shutil.which("prometheus")


@asynccontextmanager
async def running_prometheus(
    program: str, folder: Path, sources: Sequence[Source], *, scrape_s: float, rate_s: float
) -> AsyncIterator[Prometheus]:
    """Scrapes the sources until the end of the block. `rate_s`: what a rate is taken over."""
    settings = folder / "prometheus.yml"
    settings.write_text(yaml.safe_dump(configuration(scrape_s=scrape_s)))
    write_targets(folder, sources)
    child = await asyncio.create_subprocess_exec(
        program, f"--config.file={settings}", f"--storage.tsdb.path={folder}/prometheus",
        "--web.listen-address=127.0.0.1:0", stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(START_WAIT_S):
            url = await _listening(child)
        async with aiohttp.ClientSession() as session:
            yield Prometheus(url, session, scrape_s=scrape_s, rate_s=rate_s)
    finally:
        child.kill()
        await child.wait()


async def _listening(child: asyncio.subprocess.Process) -> str:
    """Reads its log until it says where it listens. What it says after that fits the pipe."""
    assert child.stderr is not None
    async for line in child.stderr:
        if b"Listening on" in line:
            return "http://" + line.decode().partition("address=")[2].split()[0].strip('"')
    raise ValueError("prometheus ended without listening")


@contextmanager
def zookeeper_figures(zookeeper: Address, credentials: Path | None = None) -> Iterator[int]:
    """The port of an exporter in a thread of this process."""
    with Exporter(("127.0.0.1", 0), zookeeper, credentials=credentials) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()
