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
from bookie.monitoring.exporter import Address, Exporter

START_WAIT_S: Final = 60.0
RATE_SCRAPES: Final = 10
"""Scrapes in the interval of a rate, in place of Grafana's variable."""
VARIABLE: Final = re.compile(r"\$(?:namespace|cluster|pod)\b")
NOT_NAMES: Final = (
    re.compile(r'"[^"]*"'),  # a label's value, which may hold any of the others
    re.compile(r"\{[^}]*\}|\[[^\]]*\]"),  # labels, and the length of a range
    re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)"),
    re.compile(r"\b\w+\s*(?=\()"),  # a function
    re.compile(r"\b(?:and|or|unless|offset|bool)\b"),
    re.compile(r"\b\d\w*"),  # a number, or a duration
)
NAME: Final = re.compile(
    r"\{[^}]*\}|\[[^\]]*\]"  # labels, and the length of a range
    r"|\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)"
    r"|\b\w+\s*(?=\()"  # a function
    r"|\b(?:and|or|unless|offset|bool)\b"
    r"|\$?\b\d\w*"  # a number, or a duration
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


def configuration(sources: Sequence[Source], *, scrape_s: float) -> dict[str, Any]:
    """As the chart's PodMonitors have Prometheus scrape: each target's labels, its own kept."""
    jobs = {source.job: [one for one in sources if one.job == source.job] for source in sources}
    return {
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": True,
                "scrape_interval": f"{round(scrape_s * 1000)}ms",
                "scrape_timeout": f"{round(scrape_s * 1000)}ms",
                "static_configs": [
                    {"targets": [f"127.0.0.1:{one.port}"], "labels": dict(one.labels)}
                    for one in group
                ],
            }
            for job, group in jobs.items()
        ]
    }


def filled(expr: str, *, scrape_s: float) -> str:
    """A panel's query with all chosen, as Grafana sends it."""
    text = VARIABLE.sub(".*", expr)
    return text.replace("$__rate_interval", f"{round(RATE_SCRAPES * scrape_s * 1000)}ms")


def metric_names(expr: str) -> set[str]:
    """The figures that a query asks for."""
    for pattern in NOT_NAMES:
        expr = pattern.sub(" ", expr)
    return set(NAME.findall(expr))


class Prometheus:
    """One that runs."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, scrape_s: float) -> None:
        self.url = url
        self._session = session
        self._scrape_s = scrape_s

    async def query(self, expr: str) -> list[Any]:
        """Series with their value now; those without a number are none."""
        text = filled(expr, scrape_s=self._scrape_s)
        async with self._session.get(f"{self.url}/api/v1/query", params={"query": text}) as answer:
            if answer.status == 503:  # it has just begun to listen, and is not ready
                return []
            found = json.loads(await answer.read())
        if found["status"] != "success":
            raise ValueError(f"{text}: {found.get('error')}")
        return [one for one in found["data"]["result"] if one["value"][1] != NOT_A_NUMBER]

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
    program: str, folder: Path, sources: Sequence[Source], *, scrape_s: float
) -> AsyncIterator[Prometheus]:
    """Scrapes the sources until the end of the block."""
    settings = folder / "prometheus.yml"
    settings.write_text(yaml.safe_dump(configuration(sources, scrape_s=scrape_s)))
    child = await asyncio.create_subprocess_exec(
        program, f"--config.file={settings}", f"--storage.tsdb.path={folder}/prometheus",
        "--web.listen-address=127.0.0.1:0", stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(START_WAIT_S):
            url = await _listening(child)
        async with aiohttp.ClientSession() as session:
            yield Prometheus(url, session, scrape_s=scrape_s)
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
def zookeeper_figures(zookeeper: Address) -> Iterator[int]:
    """The port of an exporter in a thread of this process."""
    with Exporter(("127.0.0.1", 0), zookeeper) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()
