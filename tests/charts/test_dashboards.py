"""The dashboards: as they are made, and each query answered by a real Prometheus, of real figures.

One bookie with all its wires and disks, and the operator's figures of a cluster in trouble, are
scraped by Prometheus itself; then each panel is asked for. What is empty must say why.
"""

import asyncio
import json
import re
import shutil
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml
from bookie_operator.metrics import OperatorMetrics, serve_http
from bookie_operator.model.status import ClusterStatus
from dashboards import TARGET, dashboards, grafana
from helm_charts import OPERATOR, alert_rules, of_kind, render
from server_lab import ServerLab

EMPTY: Final = {
    ("Adds that wait for a disk", "p50 {{pod}}"): "the bookie is in memory mode: no add waits",
    ("Adds that wait for a disk", "p99 {{pod}}"): "the bookie is in memory mode: no add waits",
    ("Requests refused", "{{pod}} {{status}}"): "none was refused",
    ("Connections", "{{pod}} stock {{wire}}"): "no stock client came",
}
"""Panels and legends of queries without a series here, and why."""
STATUS: Final = {
    "conditions": [
        {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": at}
        for at in ["2026-11-25T00:00:00Z"]
        for kind, status in [
            ("Available", "False"),
            ("Degraded", "True"),
            ("RepairRunning", "True"),
            ("DurabilityVerified", "False"),
        ]
    ],
    "limbo": {"ledgers": 3, "unchecked": 2},
    "audit": {
        "finishedAt": "2026-11-25T00:00:00Z",
        "classes": {"missing": {"findings": 2, "entries": 9, "truncated": False}},
    },
    "blocked": [
        {
            "action": "Restart",
            "predicate": "OneActionAtATime",
            "candidate": "bookie-1",
            "message": "waits",
            "since": "2026-11-25T00:00:00Z",
        }
    ],
}
SCRAPES_S: Final = 1
WAIT_S: Final = 60.0


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda one: one.name)
def test_the_files_are_those_that_are_made(dashboard: Any) -> None:
    text = (TARGET / f"{dashboard.name}.json").read_text(encoding="utf-8")
    assert text == grafana(dashboard), "run `make dashboards`"


def test_each_is_a_config_map_that_grafana_looks_for() -> None:
    maps = of_kind(render(OPERATOR, "--set=metrics.dashboards.enabled=true"), "ConfigMap")
    assert [next(iter(one["data"])) for one in maps] == sorted(
        p.name for p in TARGET.glob("*.json")
    )
    for one in maps:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(next(iter(one["data"].values())))["panels"]


@pytest.fixture
async def prometheus(server: ServerLab, tmp_path: Path) -> AsyncIterator[str]:
    """Its address. It scrapes both sources."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not on PATH: Debian has it in a package of that name")
    assert server.bookie is not None
    metrics = OperatorMetrics()
    metrics.show("ns", "demo", ClusterStatus.model_validate(STATUS))
    metrics.acted("ns", "demo", "RestartBookie")
    metrics.passed("ns", "demo", is_failed=False)
    operator = await serve_http(metrics, host="127.0.0.1", port=0)
    sources = {
        "bookie": (server.bookie.ports["http"], {"cluster": "demo", "pod": "demo-bookie-0"}),
        "operator": (operator.addresses[0][1], {}),
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration(sources)))
    child = await asyncio.create_subprocess_exec(
        program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
        "--web.listen-address=127.0.0.1:0", stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(WAIT_S):
            url = await ready(child)
        yield url
    finally:
        child.kill()
        await child.wait()
        await operator.cleanup()


def configuration(sources: dict[str, tuple[int, dict[str, str]]]) -> dict[str, Any]:
    jobs = [
        {
            "job_name": name,
            "honor_labels": True,
            "scrape_interval": f"{SCRAPES_S}s",
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "ns"} | labels}
            ],
        }
        for name, (port, labels) in sources.items()
    ]
    return {"scrape_configs": jobs}


async def ready(child: asyncio.subprocess.Process) -> str:
    """Reads its log until it says where it listens. What it says after that fits the pipe."""
    assert child.stderr is not None
    async for line in child.stderr:
        if b"Listening on" in line:
            return "http://" + line.decode().partition("address=")[2].split()[0].strip('"')
    raise AssertionError("it ended without listening")


async def ask(session: aiohttp.ClientSession, url: str, expr: str) -> list[Any]:
    for variable in ("namespace", "cluster", "pod"):
        expr = expr.replace(f"${variable}", ".*")
    expr = expr.replace("$__rate_interval", f"{10 * SCRAPES_S}s")
    async with session.get(f"{url}/api/v1/query?query={urllib.parse.quote(expr)}") as answer:
        if answer.status == 503:  # it has just begun to listen, and is not ready
            return []
        found = await answer.json()
    assert found["status"] == "success", f"{expr}: {found.get('error')}"
    # NaN is a quantile of nothing.
    return [one for one in found["data"]["result"] if one["value"][1] != "NaN"]


async def until(session: aiohttp.ClientSession, url: str, expr: str) -> None:
    """Prometheus is another process: it is asked until it has seen it."""
    while not await ask(session, url, expr):  # noqa: ASYNC110
        await asyncio.sleep(SCRAPES_S / 4)


NAMES: Final = re.compile(r"\bbookie_\w+")
ABSENT: Final = {
    "bookie_operator_cluster_created_timestamp_seconds": "no daemon runs here that finds a cluster",
}
"""Figures that no rule may ask for but these, and why they are not scraped here."""


async def test_every_alert_asks_for_figures_that_there_are(
    server: ServerLab, prometheus: str
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 5)
    await server.flush()
    async with aiohttp.ClientSession() as session:
        await until(session, prometheus, "bookie_sync_seconds_count > 0")
        await until(session, prometheus, "bookie_operator_condition")
        async with session.get(f"{prometheus}/api/v1/label/__name__/values") as answer:
            scraped = set((await answer.json())["data"])
    asked = {name for rule in alert_rules() for name in NAMES.findall(rule["expr"])}
    assert len(asked) >= 14
    assert asked - scraped == set(ABSENT)


async def test_every_panel_has_figures(server: ServerLab, prometheus: str) -> None:
    ledger = await server.ledger()
    async with aiohttp.ClientSession() as session:
        await until(session, prometheus, "count_over_time(bookie_entries_added_total[1h]) > 1")
        await server.add(ledger, 0, 5)
        await server.held(ledger, 0, 4)
        await server.flush()
        await until(session, prometheus, "rate(bookie_read_wait_seconds_count[10s]) > 0")
        empty = {
            (panel.title, legend)
            for dashboard in dashboards()
            for panel in dashboard.panels
            for expr, legend in panel.queries
            if not await ask(session, prometheus, expr)
        }
    assert empty == set(EMPTY)
