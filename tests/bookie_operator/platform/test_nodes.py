"""Nodes are asked for their boot while a pod is new there, and once a minute after."""

from datetime import timedelta
from typing import Any

import pytest
from bookie_operator.platform.kubernetes.api import NODE, Object
from bookie_operator.platform.kubernetes.nodes import AGAIN_AFTER, SETTLED_AFTER, Node, Nodes
from fake_api import FakeApi

PASS = timedelta(seconds=15)


class House:
    """One node and the pod on it, looked at in passes."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.api.put(NODE, {"metadata": {"name": "node-1"}})
        self.nodes = Nodes(self.api, lambda: self.api.now)
        self.restarts = 0
        self.boot("boot-1")

    def boot(self, boot_id: str) -> None:
        self.api.set_status(NODE, "node-1", nodeInfo={"bootID": boot_id})

    @property
    def pod(self) -> Object:
        container: dict[str, Any] = {"name": "bookie", "restartCount": self.restarts}
        status = {"containerStatuses": [container | {"state": {"running": {"startedAt": "t"}}}]}
        return {"metadata": {"uid": "u"}, "spec": {"nodeName": "node-1"}, "status": status}

    async def look(self, after: timedelta = PASS) -> str | None:
        self.api.now += after
        node = (await self.nodes.of([self.pod])).get("node-1")
        return node.boot_id if node is not None else None

    async def settle(self) -> None:
        await self.look()
        await self.look(SETTLED_AFTER)
        self.api.calls.clear()


@pytest.fixture
def house() -> House:
    return House()


async def test_a_new_pod_has_its_node_asked_in_every_pass(house: House) -> None:
    for number in range(4):
        house.boot(f"boot-{number}")
        assert await house.look(PASS) == f"boot-{number}"


async def test_a_node_with_settled_pods_is_asked_once_a_minute(house: House) -> None:
    await house.settle()
    for _ in range(8):
        assert await house.look() == "boot-1"
    assert len(house.api.calls) == 2 == 8 * PASS / AGAIN_AFTER


async def test_a_container_that_starts_anew_has_its_node_asked_at_once(house: House) -> None:
    await house.settle()
    house.boot("boot-2")
    assert await house.look() == "boot-1"
    house.restarts += 1
    assert await house.look(timedelta(seconds=1)) == "boot-2"
    house.boot("boot-3")
    assert await house.look(timedelta(seconds=1)) == "boot-3", "what came late is seen as well"


async def test_a_node_that_may_not_be_read_is_asked_again(house: House) -> None:
    await house.settle()
    house.api.forbid("get", NODE)
    assert await house.look(AGAIN_AFTER) is None
    house.api.allow_all()
    assert await house.look() == "boot-1"


async def test_what_is_known_of_a_node_stays_while_the_server_is_too_busy_to_say(
    house: House,
) -> None:
    await house.settle()
    house.api.is_away = True
    assert await house.look(AGAIN_AFTER) == "boot-1"
    house.boot("boot-2")
    house.restarts += 1
    assert await house.look() is None, "of what its containers have started on since"
    house.api.is_away = False
    assert await house.look() == "boot-2"


async def test_a_node_without_pods_is_forgotten(house: House) -> None:
    await house.settle()
    assert await house.nodes.of([]) == {}


async def test_a_node_says_its_labels(house: House) -> None:
    house.api.edit(NODE, "node-1", lambda one: one["metadata"].update(labels={"zone": "a"}))
    assert await house.nodes.of([house.pod]) == {"node-1": Node("boot-1", {"zone": "a"})}


async def test_a_node_that_is_gone_says_nothing(house: House) -> None:
    house.api.remove(NODE, "node-1")
    assert await house.nodes.of([house.pod]) == {"node-1": Node("", {}, trouble="is gone")}


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ("True", ""),
        ("Unknown", "is not ready: Lost: no word"),
        ("False", "is not ready: Lost: no word"),
    ],
)
async def test_a_node_that_does_not_report_is_in_trouble(
    house: House, status: str, trouble: str
) -> None:
    ready = {"type": "Ready", "status": status, "reason": "Lost", "message": "no word"}
    pressure = {"type": "DiskPressure", "status": "False", "reason": "a", "message": "b"}
    house.api.set_status(NODE, "node-1", conditions=[pressure, ready])
    assert (await house.nodes.of([house.pod]))["node-1"].trouble == trouble


async def test_a_clock_that_goes_back_keeps_no_node_from_being_asked(house: House) -> None:
    await house.settle()
    await house.look(10 * AGAIN_AFTER)
    house.boot("boot-2")
    assert await house.look(-5 * AGAIN_AFTER) == "boot-2"
