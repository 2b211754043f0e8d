"""Stories on a fake API server: a spec that is wrong, and a cluster that is deleted."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from bookie_operator.fleet import Fleet
from bookie_operator.handlers import Operator
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    EVENT,
    POD,
    SERVICE,
    STATEFUL_SET,
    Object,
)
from fake_pods import FakeBookies
from kubernetes_lab import Lab
from story_words import changes, flat
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from virtual_time import in_virtual_time

MISTAKES: Final[dict[str, dict[str, Any]]] = {
    "too few replicas": {"replicas": 1},
    "a quorum that forgets": {"quorum": {"ensemble": 3, "write": 3, "ack": 1}},
    "no storage, and a mode that nobody knows": {"storage": None, "tls": {"mode": "Perhaps"}},
    "a schedule that never comes": {"audit": {"schedule": "0 3 31 2 *"}},
    "right again": {},
}


@in_virtual_time
async def test_specs_that_are_wrong(snapshot: SnapshotAssertion) -> None:
    """Told once for each mistake; what runs runs on."""
    lab = Lab(replicas=3, tls={"mode": "Off"})
    bookies = FakeBookies(lab.controllers)
    running = asyncio.ensure_future(_fleet(lab, bookies).run(lambda: False))
    await bookies.register(*lab.cluster.spec.bookie_ids)
    await _go_on(lab, bookies, 12)
    right = lab.api.the(CLUSTER, "demo")["spec"]
    lines, was, heard = [], flat(_status(lab)), _events(lab)
    for what, mistake in MISTAKES.items():
        lab.api.edit(CLUSTER, "demo", _changed(right | mistake))
        await _go_on(lab, bookies, 20)
        now, told = flat(_status(lab)), _events(lab)
        lines += [f"\n# {what}", *sorted(told - heard), *changes(was, now)]
        was, heard = now, told
    running.cancel()
    assert snapshot(extension_class=Words) == "\n".join(lines).lstrip() + "\n"


@pytest.mark.parametrize("retention", ["Retain", "Delete"])
async def test_a_cluster_that_is_deleted(retention: str, snapshot: SnapshotAssertion) -> None:
    """Its bookies stop first, then its volumes go if they are to go."""
    lab = Lab(retention={"whenDeleted": retention}, metadata={"embedded": {}}, tls={"mode": "Off"})
    lab.controllers.settle()
    await lab.run_bookie()
    operator = Operator(lambda _namespace: lab.api)
    lines = [f"# spec.retention.whenDeleted: {retention}", *_objects(lab)]
    is_down = False
    while not is_down:
        is_down = await operator.take_down("fleet", "demo", lab.api.the(CLUSTER, "demo"))
        lines += [f"\n# is down: {is_down}", *_objects(lab)]
        lab.controllers.settle()
    lines += ["\n# a moment after that", *_objects(lab)]
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


def _fleet(lab: Lab, bookies: FakeBookies) -> Fleet:
    return Fleet(
        lab.api,
        "demo",
        metrics=OperatorMetrics(),
        control=lambda _credentials: bookies,
        opener=bookies.open_store,
        clock=lambda: lab.api.now,
    )


async def _go_on(lab: Lab, bookies: FakeBookies, seconds: int) -> None:
    for _ in range(2 * seconds):
        await asyncio.sleep(0.5)
        lab.api.now += timedelta(seconds=0.5)
        bookies.step()


def _changed(spec: Object) -> Callable[[Object], None]:
    def change(tree: Object) -> None:
        tree["spec"] = {name: value for name, value in spec.items() if value is not None}

    return change


def _status(lab: Lab) -> Object:
    """Without what the fakes make new in each run."""
    tree: Object = lab.api.the(CLUSTER, "demo")["status"]
    return {name: tree[name] for name in ("observedGeneration", "phase", "conditions")}


def _events(lab: Lab) -> set[str]:
    return {f"say: {one['type']} {one['reason']}: {one['message']}" for one in lab.api.all(EVENT)}


def _objects(lab: Lab) -> list[str]:
    """Every object that a bookie or the store consists of, and what is to become of it."""
    found = []
    for kind in (STATEFUL_SET, POD, SERVICE, CONFIG_MAP, CLAIM):
        for one in lab.api.all(kind):
            replicas = one.get("spec", {}).get("replicas") if kind is STATEFUL_SET else None
            more = f", replicas {replicas}" if replicas is not None else ""
            found.append(f"{kind.name} {one['metadata']['name']}{more}")
    return found
