"""What becomes of the executors' pods, asked of the API server, and what is said of it."""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from bookie.errors import UnavailableError
from bookie.repair.engine.driver_pod import (
    DRIVER_LABEL,
    DriverPod,
)
from bookie.repair.spark import executor_pods
from bookie.repair.spark.executor_pods import (
    ExecutorDeadline,
    ExecutorPods,
    ServedPods,
    no_executors,
    story_of,
)

ENVIRONMENT = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "6443",
    "POD_IP": "10.244.0.9",
    "POD_NAME": "demo-bookie-1-2-1-x7k2p",
    "POD_NAMESPACE": "data",
    "REPAIR_IMAGE": "bookie-operator/repair:dev",
}


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def waiting(name: str, reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(name, phase="Pending", containerStatuses=[{"state": state}])


def test_patience_begins_again_with_every_executor() -> None:
    patience = ExecutorDeadline(60, now=0)
    looks = [patience.is_over(there, now=now) for there, now in ((0, 59), (1, 70), (0, 129))]
    assert not any(looks) and patience.is_over(0, now=131)


def test_the_story_tells_why_an_executor_does_not_run() -> None:
    told = story_of([waiting("x-exec-1", "ErrImagePull", "not\n found")])
    assert told == "x-exec-1: waiting, ErrImagePull: not found"


def test_the_story_of_many_pods_is_that_of_the_last() -> None:
    told = story_of([waiting(f"e{number}", "R", "") for number in range(9)])
    assert told.startswith("e8: ") and told.endswith("and 6 more")


def test_a_pod_without_a_node_and_one_that_ended_are_told_apart() -> None:
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ended = {"state": {"terminated": {"exitCode": 127, "reason": "Error"}}}
    told = story_of([pod("a", conditions=[unplaced]), pod("b", containerStatuses=[ended])])
    assert told == "b: terminated with exit code 127, Error; a: Unschedulable"


def test_what_cannot_be_asked_is_part_of_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    story = ExecutorPods(DriverPod.from_environment(ENVIRONMENT)).story()
    assert story.startswith("its pods cannot be listed: the API server cannot be asked: ")


@dataclass
class FakePods:
    pods: list[dict[str, Any]]
    asked: list[str] = field(default_factory=list)
    refused: str = ""

    def list(self, selector: str) -> list[Mapping[str, Any]]:
        self.asked.append(selector)
        return list(self.pods)

    def delete(self, name: str) -> None:
        self.asked.append(f"delete {name}")

    def refusal(self, pod: Mapping[str, Any]) -> str:
        self.asked.append(f"make {pod['spec']['containers'][0]['image']}")
        return self.refused


QUOTA = "pods is forbidden: exceeded quota: full"


def test_where_no_executor_could_be_made_the_story_is_the_servers_refusal() -> None:
    driver = DriverPod.from_environment(ENVIRONMENT)
    assert ExecutorPods(driver, FakePods([], refused=QUOTA)).story() == QUOTA
    assert ExecutorPods(driver, FakePods([])).story() == "no executor pod exists"


def test_no_pod_is_asked_for_where_there_is_one() -> None:
    pods = FakePods([pod("e1", phase="Pending")], refused=QUOTA)
    assert ExecutorPods(DriverPod.from_environment(ENVIRONMENT), pods).story() == "e1: Pending"


def test_only_pods_that_wait_or_run_are_deleted() -> None:
    phases = ("Pending", "Running", "Succeeded", "Failed")
    pods = FakePods([pod(phase, phase=phase) for phase in phases])
    ExecutorPods(DriverPod.from_environment(ENVIRONMENT), pods).delete_unfinished()
    own = f"{DRIVER_LABEL}={ENVIRONMENT['POD_NAME']}"
    assert pods.asked == [own, "delete Pending", "delete Running"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """An API server that knows one pod, and this pod's way to it."""
    server = HTTPServer(("127.0.0.1", 0), OnePod)
    server.asked = []  # type: ignore[attr-defined]

    def load(client_configuration: Any) -> None:
        client_configuration.host = f"http://127.0.0.1:{server.server_port}"

    monkeypatch.setattr(executor_pods, "load_incluster_config", load)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    yield server
    server.shutdown()
    server.server_close()


class OnePod(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if "driver%3Dunheard" in self.path:
            self.server.asked.append(f"GET {self.path}")  # type: ignore[attr-defined]
            return
        page = {"items": [pod("one", phase="Pending")]}
        if "continue=rest" in self.path:
            page = {"items": [pod("two", phase="Running")]}
        elif "driver%3Dmany" in self.path:
            page["metadata"] = {"continue": "rest"}  # type: ignore[assignment]
        self._answer(200, page)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(403, {"kind": "Status", "message": QUOTA})

    def do_DELETE(self) -> None:
        self._answer(404 if self.path.endswith("/gone") else 403, {"message": "no"})

    def _answer(self, status: int, answer: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path}")  # type: ignore[attr-defined]
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Not into the output of the tests."""


def test_the_api_server_is_asked_for_the_drivers_own_executors(served: HTTPServer) -> None:
    assert ServedPods("data").list("driver=d") == [pod("one", phase="Pending")]
    pods = "/api/v1/namespaces/data/pods?labelSelector=driver%3Dd&limit=50"
    assert served.asked == [f"GET {pods}"]  # type: ignore[attr-defined]


def test_executors_are_all_listed_however_many_pages_they_are(served: HTTPServer) -> None:
    listed = ServedPods("data").list("driver=many")
    assert [one["metadata"]["name"] for one in listed] == ["one", "two"]


def test_a_refusal_is_asked_for_without_a_pod_being_made(served: HTTPServer) -> None:
    told = ServedPods("data").refusal(pod("e1"))
    assert told == f"the API server refuses: {QUOTA}"
    assert served.asked == ["POST /api/v1/namespaces/data/pods?dryRun=All"]  # type: ignore[attr-defined]


def test_a_pod_that_is_gone_needs_no_deletion(served: HTTPServer) -> None:
    ServedPods("data").delete("gone")
    with pytest.raises(UnavailableError, match=r"the API server refuses: .*no"):
        ServedPods("data").delete("kept")


def test_an_api_server_that_hangs_up_is_asked_once(served: HTTPServer) -> None:
    with pytest.raises(UnavailableError, match="the API server cannot be asked"):
        ServedPods("data").list("driver=unheard")
    assert len(served.asked) == 1  # type: ignore[attr-defined]


def test_giving_up_names_the_image_and_the_pods() -> None:
    told = no_executors(DriverPod.from_environment(ENVIRONMENT), "none came", "e1: no node")
    assert told.startswith("none came; 2 executors of image bookie-operator/repair:dev")
    assert told.endswith("namespace data. e1: no node")
