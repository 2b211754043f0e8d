"""Argo CD's health check of a BookieCluster, run in Lua over statuses that the planner made."""

from pathlib import Path
from typing import Any

import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.invalid import invalid_status
from bookie_operator.plan.planner import plan
from lupa import LuaRuntime
from operator_scenes import at, bookie, cluster, observed

SCRIPT = Path(__file__).parents[2] / "docs/gitops/argocd-health.lua"
OLD, NEW = cluster(), cluster(image="new:1")


def health(status: ClusterStatus | None, generation: int = 1, **spec: Any) -> tuple[str, str]:
    """As Argo CD asks: the object is the global `obj`, the answer what the script returns."""
    lua = LuaRuntime()
    document: dict[str, Any] = {"metadata": {"generation": generation}, "spec": spec}
    if status is not None:
        document["status"] = status.as_dict()
    lua.globals().obj = lua.table_from(document, recursive=True)
    answer = lua.execute(SCRIPT.read_text())
    return str(answer.status), str(answer.message)


def status_of(*special: Any) -> ClusterStatus:
    return plan(NEW, observed(*special, of=NEW, seconds=100), ClusterStatus()).status


def lasting(*special: Any) -> ClusterStatus:
    """The status when all has been so for a minute."""
    return plan(NEW, observed(*special, of=NEW, seconds=160), status_of(*special)).status


REFUSED = bookie("bookie-1", of=NEW, phase=Phase.REFUSED)


@pytest.mark.parametrize(
    ("status", "generation", "spec", "expected"),
    [
        (None, 1, {}, ("Progressing", "not reported")),
        (status_of(), 1, {}, ("Healthy", "4 bookies serve")),
        (status_of(), 2, {}, ("Progressing", "this generation")),
        (status_of(), 1, {"paused": True}, ("Suspended", "paused")),
        (status_of(bookie("bookie-3", of=OLD)), 1, {}, ("Progressing", "RollingOut: 3 of 4")),
        (lasting(REFUSED), 1, {}, ("Degraded", "RefusedBoot: bookie-1")),
        (status_of(bookie("bookie-1", of=NEW, limbo=2)), 1, {}, ("Healthy", "serve")),
        (invalid_status(status_of(), 2, "replicas: 1", at(9)), 2, {}, ("Degraded", "InvalidSpec")),
    ],
)
def test_argo_cd_reads_what_is_meant(
    status: ClusterStatus | None, generation: int, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    found, message = health(status, generation, **spec)
    assert found == expected[0] and expected[1] in message
