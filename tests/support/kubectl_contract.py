"""What the plugin relies on of kubectl: the fake and the real one must both keep it.

A lab stands for a namespace `books`: `test_kubectl.py` puts the fake there, the e2e test a real API
server.
"""

import json
import threading
from typing import Any, Protocol

import pytest
from bookie_operator.kubectl.client import CLUSTERS, TASKS, Kubectl, KubectlError, NotFoundError
from bookie_operator.model.base import API_VERSION, GROUP
from click.testing import Result
from kubectl_lab import tree_of

Tree = dict[str, Any]
AUDIT = {
    "apiVersion": API_VERSION,
    "kind": "BookieTask",
    "metadata": {"generateName": "audit-"},
    "spec": {"cluster": "demo", "type": "audit"},
}
WATCH_S = 20.0
"""Enough for a slow API server; every watch here ends earlier."""


class Lab(Protocol):
    user: str
    """Who calls, by the API server's word."""

    def run(self, *words: str, stdin: str = "") -> Result: ...
    def kubectl(self, *flags: str) -> Kubectl: ...
    def put(self, plural: str, tree: Tree) -> None: ...
    def get(self, plural: str, name: str) -> Tree: ...
    def set_status(self, plural: str, name: str, status: Tree) -> None: ...
    def delete(self, plural: str, name: str) -> None: ...
    def look_on(self) -> None: ...


class KubectlContract:
    """Inherit, and give a fixture `lab`."""

    # The client
    def test_an_object_is_got_whole(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("limbo"))
        found = lab.kubectl().get(CLUSTERS, "demo")
        assert found["metadata"]["name"] == "demo"
        assert found["status"]["bookies"][1] == tree_of("limbo")["status"]["bookies"][1]

    def test_all_are_listed(self, lab: Lab) -> None:
        assert lab.kubectl().get_all(CLUSTERS) == []
        lab.put("bookieclusters", tree_of("limbo"))
        assert [t["metadata"]["name"] for t in lab.kubectl().get_all(CLUSTERS)] == ["demo"]

    def test_what_is_not_there_is_not_found(self, lab: Lab) -> None:
        with pytest.raises(NotFoundError, match='"demo" not found: check the name'):
            lab.kubectl().get(CLUSTERS, "demo")

    def test_an_unknown_resource_asks_for_its_definition(self, lab: Lab) -> None:
        with pytest.raises(KubectlError, match="expected the CustomResourceDefinitions"):
            lab.kubectl().get_all(f"bookiefoos.{GROUP}")

    def test_the_namespace_is_known(self, lab: Lab) -> None:
        assert lab.kubectl().namespace() == "books"

    def test_a_created_object_gets_a_name(self, lab: Lab) -> None:
        made = lab.kubectl().create(AUDIT)
        assert made["metadata"]["name"].startswith("audit-")
        assert lab.kubectl().get(TASKS, made["metadata"]["name"])["spec"]["type"] == "audit"

    def test_a_merge_patch_leaves_the_rest(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("limbo"))
        lab.kubectl().patch(CLUSTERS, "demo", merge={"spec": {"paused": True}})
        spec = lab.get("bookieclusters", "demo")["spec"]
        assert (spec["paused"], spec["replicas"]) == (True, 4)

    def test_a_watch_begins_with_what_is_there_and_tells_changes(self, lab: Lab) -> None:
        lab.look_on()
        lab.put("bookieclusters", tree_of("limbo"))
        changes = lab.kubectl().watch(CLUSTERS, "demo", seconds=WATCH_S)
        assert next(changes).found["status"]["phase"] == "Repairing"
        lab.set_status("bookieclusters", "demo", {"phase": "Running"})
        after = next(changes)
        assert (after.type, after.found["status"]["phase"]) == ("MODIFIED", "Running")

    def test_a_watch_tells_of_the_end(self, lab: Lab) -> None:
        lab.look_on()
        lab.put("bookieclusters", tree_of("limbo"))
        changes = lab.kubectl().watch(CLUSTERS, "demo", seconds=WATCH_S)
        next(changes)
        lab.delete("bookieclusters", "demo")
        assert any(change.type == "DELETED" for change in changes)

    def test_a_watch_ends_with_its_time(self, lab: Lab) -> None:
        lab.look_on()
        lab.put("bookieclusters", tree_of("limbo"))
        assert [c.type for c in lab.kubectl().watch(CLUSTERS, "demo", seconds=1)] == ["ADDED"]

    def test_a_watch_of_nothing_is_an_error(self, lab: Lab) -> None:
        with pytest.raises(NotFoundError):
            list(lab.kubectl().watch(CLUSTERS, "demo", seconds=WATCH_S))

    # The commands
    def test_status_and_limbo_are_shown(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("limbo"))
        assert "bookie-1  Limbo" in lab.run("status").stdout
        assert lab.run("limbo").exit_code == 3

    def test_a_wait_for_limbo_ends_with_it(self, lab: Lab) -> None:
        lab.look_on()
        lab.put("bookieclusters", tree_of("limbo"))
        healed = tree_of("healthy")["status"]
        cure = threading.Timer(1.0, lab.set_status, ("bookieclusters", "demo", healed))
        cure.start()
        done = lab.run("limbo", "--wait", "--timeout", f"{WATCH_S}s")
        cure.join()
        assert done.exit_code == 0, done.output

    def test_pause_and_resume_change_the_spec(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("healthy"))
        assert lab.run("pause").exit_code == 0
        assert lab.get("bookieclusters", "demo")["spec"]["paused"] is True
        assert lab.run("resume").exit_code == 0
        assert lab.get("bookieclusters", "demo")["spec"]["paused"] is False

    def test_an_approval_becomes_a_task(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("approval"))
        done = lab.run("approve", "bookie-2", "--yes", "--no-wait")
        spec = lab.get("bookietasks", done.stdout.strip())["spec"]
        assert (spec["planId"], spec["approvedBy"]) == ("ee794b4013cd", lab.user)

    def test_every_other_wish_becomes_a_task(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("blocked"))
        wishes = (
            ("audit",),
            ("repair", "bookie-1"),
            ("replace-disk", "bookie-1", "ledger-0", "--yes"),
            ("accept-loss", "5", "two disks burnt", "--entry", "10", "--yes"),
        )
        for wish in wishes:
            done = lab.run(*wish, "--no-wait", "-o", "json")
            assert json.loads(done.stdout)["spec"]["type"] == wish[0], done.output

    def test_a_task_is_followed_to_its_end(self, lab: Lab) -> None:
        lab.look_on()
        lab.put("bookieclusters", tree_of("healthy"))
        operator = threading.Thread(target=_end_the_task, args=(lab,))
        operator.start()
        done = lab.run("audit", "--timeout", f"{WATCH_S}s")
        operator.join()
        assert done.exit_code == 0 and "Succeeded: nothing found" in done.stdout, done.output

    def test_events_of_the_cluster_are_listed(self, lab: Lab) -> None:
        lab.put("bookieclusters", tree_of("healthy"))
        about = {"kind": "BookieCluster", "name": "demo", "namespace": "books"}
        lab.put("events", _event("one", about))
        lab.put("events", _event("two", about | {"name": "other"}))
        told = json.loads(lab.run("events", "-o", "json").stdout)
        assert [event["metadata"]["name"] for event in told] == ["one"]


def _event(name: str, about: Tree) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "involvedObject": about,
        "reason": "BookieServing",
        "message": "bookie-0: serves",
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


def _end_the_task(lab: Lab) -> None:
    """As an operator does, once there is one."""
    kubectl = lab.kubectl()
    found: list[Tree] = []
    while not found:
        found = kubectl.get_all(TASKS)
    name = found[0]["metadata"]["name"]
    lab.set_status("bookietasks", name, {"phase": "Running", "target": "demo-audit-2"})
    lab.set_status("bookietasks", name, {"phase": "Succeeded", "message": "nothing found"})
