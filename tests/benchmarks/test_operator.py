"""The benchmark of the operator: what it makes of its figures, and what its strikes are."""

import os
from typing import Any, cast

import pytest
from bookie.metadata.session import ZooKeeperSession
from bookie_operator.platform.kubernetes.api import CLUSTER, EVENT, POD
from fake_api_server import Asked, FakeApiServer, Target

from benchmarks.bench_operator import Bench, Gate, memory_of
from benchmarks.fake_bookies import NAME
from benchmarks.fake_kubernetes import FakeKubernetes, cluster_of, foreign_pod
from benchmarks.processes import Process

MEMORY = {"rss_mib": 100.0, "pss_mib": 90.0, "peak_mib": 110.0, "threads": 9.0}


def found(**more: Any) -> dict[str, Any]:
    storm = {"noticed_s": 1.0, "last_noticed_s": 2.0, "whole_s": 3.0, "writes": 1}
    storm["requests"] = {"get pods": 5}
    requests = {"get pods": 120, "watch pods": 1, "watch jobs": 1}
    return {
        "at rest, before storms": MEMORY,
        "at the end": MEMORY,
        "rest": {"requests": requests, "seconds": 60.0, "cpu_share": 0.25},
        "strike pod": {"seconds": [1.0, 2.0, 9.0]},
        "strike full": {"seconds": [5.0]},
        "storm specs": storm,
        "storm pods": storm,
        "sent": {"refused": {"404 get pods": 3}, "for_all_pods": 0},
    } | more


def bench(**more: Any) -> Bench:
    nobody = cast(Process, None)
    made = Bench(nobody, nobody, clusters=2)
    made.found = found(**more)
    return made


def broken(gates: list[Gate]) -> list[str]:
    return [gate.what for gate in gates if not gate.is_held]


def test_every_figure_has_its_gate() -> None:
    assert broken(bench().gates()) == ["requests/s of a cluster at rest"]
    quiet = {"requests": {"get pods": 12}, "seconds": 60.0, "cpu_share": 0.1}
    assert broken(bench(rest=quiet).gates()) == []
    sent = {"refused": {"501 watch pods": 1}, "for_all_pods": 1}
    assert broken(bench(rest=quiet, sent=sent).gates()) == [
        "requests for the pods of others",
        "answers 501 of the fake",
    ]
    large = {"at the end": MEMORY | {"peak_mib": 257.0}}
    assert broken(bench(rest=quiet, **large).gates()) == ["memory at its highest, MiB"]


def test_tables_join_watches_and_have_the_median() -> None:
    shown = bench().tables()
    assert "| watch, of all kinds | 2 | 0.03 | 1.00 |" in shown
    assert "| all | 122 |" in shown
    assert "| a deleted pod | 3 | 1.00 | 2.00 | 9.00 |" in shown


def test_memory_is_that_of_the_process() -> None:
    used = memory_of(os.getpid())
    assert 0 < used["pss_mib"] <= used["rss_mib"] <= used["peak_mib"]


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    made = FakeKubernetes(FakeApiServer(), cast(ZooKeeperSession, None))
    made.server.namespace("team").put(CLUSTER, cluster_of("zk://here:1/team/ledgers"))
    return made


def asked(verb: str, target: Target, code: int = 200) -> Asked:
    return Asked(7.0, verb, target, {}, code=code)


@pytest.mark.parametrize(
    ("one", "is_reaction"),
    [
        (asked("update", Target(CLUSTER, "team", NAME, "status")), True),
        (asked("create", Target(EVENT, "team")), True),
        (asked("update", Target(CLUSTER, "team", NAME, "status"), 409), False),
        (asked("update", Target(CLUSTER, "other", NAME, "status")), False),
        (asked("list", Target(POD, "team")), False),
        (asked("patch", Target(CLUSTER, "team", NAME)), False),
    ],
)
async def test_only_what_the_operator_tells_of_a_cluster_is_a_reaction(
    kubernetes: FakeKubernetes, one: Asked, is_reaction: bool
) -> None:
    noticed = kubernetes.expect("team")
    kubernetes.server.hear(one)
    assert noticed.done() is is_reaction


def test_pods_of_others_have_none_of_our_labels() -> None:
    labels = foreign_pod(1, node="node-1")["metadata"]["labels"]
    assert not any("bookie" in label for label in labels)
