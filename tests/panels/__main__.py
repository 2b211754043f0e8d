"""`make dashboards-proof`: every query of the dashboards, asked of a real Prometheus.

It scrapes two local fleets: `demo` acknowledges from memory, loses a bookie under load and repairs
it; `durable` acknowledges from the disk. Exit codes: 0 each query returned series or has its reason
to return none, 1 one did not, 2 Prometheus is not installed.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bookie.hosts import loopback
from bookie.ids import BookieId
from bookie.testing.figures import tell
from bookie_operator.model.condition_types import ConditionType
from dashboards import dashboards
from panel_answers import findings, shown_answer
from panels_fleet import Fleet
from prometheus_server import (
    Prometheus,
    Source,
    find_prometheus,
    running_prometheus,
    write_targets,
    zookeeper_figures,
)
from stock_client import V3Client

SCRAPE_S: Final = 1.0
RATE_S: Final = 10.0
WARM_UP_S: Final = 15.0
AFTER_S: Final = 5.0
POLL_S: Final = 0.1
KILLED: Final = BookieId("bookie-1")
DISKS: Final = {
    "disks": [
        {"name": "journal", "role": "journal", "size": "1Gi"},
        {"name": "ledger-0", "role": "ledger", "size": "2Gi"},
    ]
}
STORY: Final = (
    "two fleets come up, a writer writes and reads on each",
    f"{KILLED} of demo, which acknowledges from memory, is killed, and another one is to restart",
    "the operator starts it again and repairs its ledgers; writers of those meet a fence",
    "the writers end; audits find every copy",
)


def fleets(folder: Path) -> list[Fleet]:
    common: dict[str, Any] = {
        "storage": DISKS,
        "quorum": {"ensemble": 3, "write": 3, "ack": 2},
        "repair": {"engine": "inline", "backoffSeconds": 1},
    }
    return [
        Fleet(folder, "demo", replicas=4, ack="memory", flushIntervalSeconds=5, **common),
        Fleet(folder, "durable", replicas=3, ack="sync", **common),
    ]


async def prove(folder: Path, program: str) -> tuple[dict[str, Any], list[str]]:
    """The figures for the file, and what is wrong."""
    demo, durable = found = fleets(folder)
    async with AsyncExitStack() as stack:
        for fleet in found:
            stack.push_async_callback(fleet.down)
        say(STORY[0])
        await asyncio.gather(*(fleet.up() for fleet in found))
        exporters = [
            stack.enter_context(zookeeper_figures((loopback(), fleet.zookeeper_port)))
            for fleet in found
        ]

        def sources() -> list[Source]:
            each = zip(found, exporters, strict=True)
            return [one for fleet, exporter in each for one in fleet.sources(exporter)]

        scraping = running_prometheus(program, folder, sources(), scrape_s=SCRAPE_S, rate_s=RATE_S)
        prometheus = await stack.enter_async_context(scraping)
        await stack.enter_async_context(following(folder, sources))
        began = time.time()
        await story(demo, durable)
        return await answers(prometheus, since=began, until=time.time())


@asynccontextmanager
async def following(folder: Path, sources: Callable[[], list[Source]]) -> AsyncIterator[None]:
    """Bookies that start again are scraped at their new ports."""

    async def follow() -> None:
        known = sources()
        while True:
            await asyncio.sleep(POLL_S)
            if (now := sources()) != known:
                write_targets(folder, known := now)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def story(demo: Fleet, durable: Fleet) -> None:
    stopped = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for fleet in (demo, durable):
            tasks.create_task(fleet.write(stopped))
        stock = await V3Client.connect(durable.ports("stock")["bookie-0"])
        tasks.create_task(stock.ask(stock.info()))
        await asyncio.sleep(WARM_UP_S)
        say(STORY[1])
        await demo.kill(KILLED)
        await demo.ask("restart", type="restart", bookie="bookie-2")
        await demo.until(ConditionType.LIMBO_PRESENT, is_true=True)
        say(STORY[2])
        await demo.until(ConditionType.LIMBO_PRESENT, is_true=False)
        await asyncio.sleep(WARM_UP_S)
        stopped.set()
    say(STORY[3])
    await asyncio.gather(demo.whole(), durable.whole())
    await asyncio.sleep(AFTER_S)
    await stock.close()


def say(line: str) -> None:
    print(line, flush=True)


async def answers(
    prometheus: Prometheus, *, since: float, until: float
) -> tuple[dict[str, Any], list[str]]:
    """Each query over the whole story."""
    shown, counts = [], {}
    for dashboard in dashboards():
        for panel in dashboard.panels:
            for query in panel.queries:
                series = await prometheus.graph(query[0], since=since, until=until)
                shown.append(shown_answer(dashboard, panel, query, series))
                counts[panel.title, query[1]] = len(series)
    figures = {
        "prometheus": await prometheus.version(),
        "seconds": round(until - since),
        "story": STORY,
        "scrapes": "each second",
        "queries": shown,
    }
    return figures, findings(counts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="dashboards-proof", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("build/proof/dashboards.json"))
    options = parser.parse_args()
    program = find_prometheus()
    if program is None:
        print("dashboards-proof: prometheus is not on PATH: Debian has a package of that name")
        return 2
    # A client says how it goes on without a bookie that was killed; nobody asked here.
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="dashboards-") as folder:
        figures, wrong = asyncio.run(prove(Path(folder), program))
        figures = json.loads(json.dumps(figures).replace(folder, ""))
    count = sum(1 for one in figures["queries"] if one["series"])
    line = f"dashboards: {count} of {len(figures['queries'])} queries returned series"
    for one in wrong:
        print(f"dashboards-proof: {one}")
    tell("make dashboards-proof", figures, path=options.json, line=line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
