"""The dashboards: as they are made, and each query answered by a real Prometheus, of real figures.

One bookie with all its wires and disks, a ZooKeeper, and the operator's figures of a cluster in
trouble, are scraped by Prometheus itself; then each panel is asked for. What is empty must say why.
"""

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from bookie.metadata.embedded import EmbeddedZooKeeper
from bookie.metadata.opening import open_store
from bookie.monitoring.commands import ask
from bookie.monitoring.mntr import exposition
from bookie.server.http import BookieCollector, Gauges
from bookie.server.state import BookieState
from bookie_operator.metrics import OperatorMetrics, serve_http
from bookie_operator.model.status import ClusterStatus
from bookie_operator.status_tree.tree import GOOD_WHEN_TRUE
from dashboards import TARGET, dashboards, grafana
from helm_charts import OPERATOR, alert_rules, of_kind, render
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_server import (
    Prometheus,
    Source,
    filled,
    find_prometheus,
    metric_names,
    running_prometheus,
    zookeeper_figures,
)
from server_lab import ME, ServerLab

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
    "tls": {"certificates": [{"name": "job", "ends": "2026-11-25T00:00:00Z"}]},
    "scrub": {"finishedAt": "2026-11-25T00:00:00Z", "corruptFound": 2},
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
RATE_S: Final = 60
"""However slow the machine is, what a test did lies within."""
ABSENT: Final = {
    "bookie_operator_cluster_created_timestamp_seconds": "no daemon runs here that finds a cluster",
}
"""Figures that no rule may ask for but these, and why they are not scraped here."""
QUERIES: Final = [
    (f"{dashboard.name}: {panel.title}: {legend}", expr)
    for dashboard in dashboards()
    for panel in dashboard.panels
    for expr, legend in panel.queries
]
SUFFIXES: Final = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("", "_count", "_sum"),
}
"""What Prometheus stores of a figure of this type; of any other, its name."""


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


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper that syncs, as the shared one does not."""
    with EmbeddedZooKeeper.start(tmp_path_factory.mktemp("keeper")) as found:
        yield found


@pytest.fixture(scope="module")
def exposed(keeper: EmbeddedZooKeeper) -> set[str]:
    """Every figure that a bookie, an operator or a ZooKeeper has."""
    booted = Gauges(1, True, 0, 0, 0, 0)
    ours: list[Collector] = [BookieCollector(BookieState(ME), booted), OperatorMetrics().registry]
    families = [family for one in ours for family in one.collect()]
    theirs = exposition(ask(("127.0.0.1", keeper.port), b"mntr"))
    return {
        f"{family.name}{suffix}"
        for family in (*families, *text_string_to_metric_families(theirs))
        for suffix in SUFFIXES.get(family.type, ("",))
    }


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[0])
def test_a_panel_asks_for_figures_that_there_are(query: tuple[str, str], exposed: set[str]) -> None:
    asked = metric_names(query[1])
    assert asked and asked <= exposed


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda one: one.name)
def test_choices_are_taken_of_figures_that_there_are(dashboard: Any, exposed: set[str]) -> None:
    assert set().union(*(metric_names(metric) for _label, metric in dashboard.labels)) <= exposed


def test_every_rule_asks_for_figures_that_there_are(exposed: set[str]) -> None:
    for rule in alert_rules():
        asked = metric_names(rule["expr"])
        assert asked and asked <= exposed | {"up"}, rule["alert"]


def test_conditions_that_are_good_are_in_no_table_of_what_is_not_as_it_should_be() -> None:
    panel = next(p for one in dashboards() for p in one.panels if "Conditions" in p.title)
    for expr, _legend in panel.queries:
        named = re.search(r'type[!=]~"([^"]*)"', expr)
        assert named is not None and set(named[1].split("|")) == GOOD_WHEN_TRUE


def test_names_are_told_from_labels_functions_and_numbers() -> None:
    query = 'sum by (le, pod) (rate(a_b{le="x{y}",n=~"$n"}[5m] offset 1h)) > 1e3 or on (c) b_total'
    assert metric_names(query) == {"a_b", "b_total"}


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: Debian has it in the package prometheus")
    rules = [
        {"record": f"panel_{at}", "expr": filled(expr, rate_s=RATE_S)}
        for at, (_where, expr) in enumerate(QUERIES)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def prometheus(
    server: ServerLab, keeper: EmbeddedZooKeeper, tmp_path: Path
) -> AsyncIterator[Prometheus]:
    """It scrapes a bookie, an operator and a ZooKeeper."""
    program = find_prometheus()
    if program is None:
        pytest.skip("prometheus is not on PATH: Debian has it in a package of that name")
    assert server.bookie is not None
    metrics = OperatorMetrics()
    metrics.show("ns", "demo", ClusterStatus.model_validate(STATUS))
    metrics.acted("ns", "demo", "RestartBookie")
    metrics.passed("ns", "demo", is_failed=False)
    operator = await serve_http(metrics, host="127.0.0.1", port=0)
    with zookeeper_figures(("127.0.0.1", keeper.port)) as port:
        of_cluster = {"namespace": "ns", "cluster": "demo"}
        sources = [
            Source("bookies", server.bookie.ports["http"], of_cluster | {"pod": "demo-bookie-0"}),
            Source("operator", operator.addresses[0][1], {"namespace": "ops"}),
            Source("zookeeper", port, of_cluster | {"pod": "demo-zookeeper-0"}),
        ]
        async with running_prometheus(
            program, tmp_path, sources, scrape_s=SCRAPES_S, rate_s=RATE_S
        ) as found:
            yield found
    await operator.cleanup()


async def test_every_alert_asks_for_figures_that_there_are(
    server: ServerLab, prometheus: Prometheus
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 5)
    await server.flush()
    for expr in ("bookie_sync_seconds_count > 0", "bookie_operator_condition", "znode_count"):
        await prometheus.until(expr)
    asked = set().union(*(metric_names(rule["expr"]) for rule in alert_rules()))
    assert len(asked) >= 14
    assert asked - await prometheus.names() == set(ABSENT)


async def test_every_panel_has_figures(
    server: ServerLab, prometheus: Prometheus, keeper: EmbeddedZooKeeper
) -> None:
    ledger = await server.ledger()
    await prometheus.until("count_over_time(bookie_entries_added_total[1h]) > 1")
    await prometheus.until("count_over_time(znode_count[1h]) > 1")
    await server.add(ledger, 0, 5)
    await server.held(ledger, 0, 4)
    await server.flush()
    store = await open_store(keeper.url)
    await store.initialise()
    await store.close()
    for count in ("bookie_read_wait_seconds_count", "readlatency_count", "updatelatency_count"):
        await prometheus.until(f"rate({count}[{RATE_S}s]) > 0")
    empty = {
        (panel.title, legend)
        for dashboard in dashboards()
        for panel in dashboard.panels
        for expr, legend in panel.queries
        if not await prometheus.query(expr)
    }
    assert empty == set(EMPTY)
