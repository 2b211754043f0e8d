"""The fake API server over HTTP: what it refuses, what its watches send, and what it cannot do."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from bookie_operator.platform.kubernetes.api import CLUSTER, CONFIG_MAP, POD, Kind, Object, typed
from fake_api_server import APPLY, MERGE, STEPS, FakeApiServer
from fake_changes import Changes
from fake_patches import merged

OURS = {"ours": "yes"}
PODS = "/api/v1/namespaces/fleet/pods"
MAPS = "/api/v1/namespaces/fleet/configmaps"
CLUSTER_PATH = CLUSTER.path("fleet", "demo")


def named(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


class Caller:
    """Asks the server as any HTTP client does."""

    def __init__(self, session: ClientSession, server: FakeApiServer) -> None:
        self.session, self.server = session, server
        self.fleet = server.namespace("fleet")

    async def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Object]:
        data, headers = (
            json.dumps(body) if body is not None else None,
            {"Content-Type": content_type},
        )
        url = f"{self.server.url}{path}"
        async with self.session.request(method, url, data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def names(self, path: str) -> list[str]:
        _code, found = await self.ask("GET", path)
        return [one["metadata"]["name"] for one in found["items"]]

    async def events(self, path: str, count: int) -> list[tuple[str, str]]:
        """Type and name of the first events of a watch."""
        found: list[tuple[str, str]] = []
        async with asyncio.timeout(10), self.session.get(f"{self.server.url}{path}") as answer:
            async for line in answer.content:
                event = json.loads(line)
                thing = event["object"]
                found.append((event["type"], (thing.get("metadata") or thing).get("name", "")))
                if len(found) == count:
                    break
        return found


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with FakeApiServer().serving() as server, ClientSession() as session:
        yield Caller(session, server)


async def test_a_list_has_every_object_unless_labels_are_asked_for(caller: Caller) -> None:
    caller.fleet.put(POD, named("mine", **OURS))
    caller.fleet.put(POD, named("theirs", ours="no"))
    caller.server.namespace("other").put(POD, named("elsewhere"))
    assert await caller.names("/api/v1/pods") == ["mine", "theirs", "elsewhere"]
    assert await caller.names(PODS) == ["mine", "theirs"]
    assert await caller.names("/api/v1/pods?labelSelector=ours") == ["mine", "theirs"]
    assert await caller.names("/api/v1/pods?labelSelector=ours%3Dyes") == ["mine"]


async def test_pages_have_every_object_once_and_the_version_of_the_first(caller: Caller) -> None:
    for number in range(5):
        caller.fleet.put(POD, named(f"pod-{number}"))
    found, more, versions = list[str](), "", set[str]()
    for _page in range(3):
        _code, page = await caller.ask("GET", f"{PODS}?limit=2&continue={more}")
        found += [one["metadata"]["name"] for one in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        more = page["metadata"].get("continue", "")
        caller.fleet.put(CONFIG_MAP, named(f"news-{len(found)}"))
    assert (found, more) == ([f"pod-{number}" for number in range(5)], "")
    assert len(versions) == 1


async def test_a_watch_tells_what_came_after_its_version(caller: Caller) -> None:
    caller.fleet.put(POD, named("before"))
    _code, listed = await caller.ask("GET", PODS)
    since = listed["metadata"]["resourceVersion"]
    caller.fleet.put(POD, named("new"))
    caller.fleet.set_status(POD, "new", phase="Running")
    caller.fleet.remove(POD, "new")
    caller.server.namespace("other").put(POD, named("elsewhere"))
    path = f"{PODS}?watch=true&resourceVersion={since}"
    assert await caller.events(path, 3) == [
        ("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new"),
    ]  # fmt: skip


async def test_a_watch_by_labels_tells_of_no_others(caller: Caller) -> None:
    caller.fleet.put(POD, named("theirs"))
    caller.fleet.put(POD, named("a", **OURS))
    caller.fleet.edit(POD, "a", lambda pod: pod["metadata"].update(labels={}))
    caller.fleet.edit(POD, "a", lambda pod: pod["metadata"].update(labels=OURS))
    path = "/api/v1/pods?watch=true&resourceVersion=1&labelSelector=ours"
    assert await caller.events(path, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_a_watch_goes_on_with_what_happens_meanwhile(caller: Caller) -> None:
    is_watching = asyncio.Event()
    caller.server.hear = lambda asked: is_watching.set()
    following = asyncio.ensure_future(caller.events(f"{PODS}?watch=true", 1))
    await is_watching.wait()
    caller.fleet.put(POD, named("new"))
    assert await following == [("ADDED", "new")]


async def test_a_version_that_is_forgotten_is_expired(caller: Caller) -> None:
    caller.server.changes = Changes(remembered=2)
    for number in range(4):
        caller.fleet.put(POD, named(f"pod-{number}"))
    assert await caller.events(f"{PODS}?watch=true&resourceVersion=1", 1) == [("ERROR", "")]


async def test_a_watch_ends_when_its_time_is_over(caller: Caller) -> None:
    assert await caller.events(f"{PODS}?watch=true&timeoutSeconds=0.01", 1) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "code"),
    [
        ("GET", f"{PODS}/none", None, "", 404),
        ("GET", "/api/v1/namespaces/fleet/wishes", None, "", 404),
        ("GET", f"{PODS}?labelSelector=a+in+(b)", None, "", 400),
        ("POST", "/api/v1/namespaces/none/configmaps", typed(CONFIG_MAP, named("a")), "", 404),
        ("POST", MAPS, named("a"), "", 400),
        ("POST", MAPS, typed(CONFIG_MAP, named("taken")), "", 409),
        ("POST", MAPS, typed(CONFIG_MAP, named("Not_A_Name")), "", 422),
        ("PATCH", f"{MAPS}/a?force=true", typed(CONFIG_MAP, named("a")), APPLY, 400),
        ("PATCH", f"{MAPS}/a?fieldManager=m&force=true", typed(CONFIG_MAP, named("b")), APPLY, 400),
        ("PATCH", f"{MAPS}/taken", {"metadata": {"resourceVersion": "0"}}, MERGE, 409),
        ("PATCH", f"{MAPS}/none", {}, MERGE, 404),
        ("PATCH", f"{MAPS}/taken", [{"op": "test", "path": "/data", "value": 1}], STEPS, 422),
        ("PATCH", f"{MAPS}/taken", {}, "text/plain", 415),
        ("DELETE", f"{MAPS}/taken", {"preconditions": {"uid": "another"}}, "", 409),
        ("PUT", f"{MAPS}/taken", typed(CONFIG_MAP, named("taken")), "", 501),
        ("PATCH", f"{MAPS}/a?fieldManager=m", typed(CONFIG_MAP, named("a")), APPLY, 501),
        ("GET", f"{PODS}?fieldSelector=a=b", None, "", 400),
        ("DELETE", MAPS, None, "", 501),
    ],
)  # fmt: skip
async def test_what_a_real_server_refuses_and_what_this_one_cannot(
    caller: Caller, method: str, path: str, body: Any, content_type: str, code: int
) -> None:
    caller.fleet.put(CONFIG_MAP, named("taken"))
    found, status = await caller.ask(method, path, body, content_type or "application/json")
    assert (found, status["code"], status["kind"]) == (code, code, "Status")


async def test_a_patch_of_an_object_leaves_its_status(caller: Caller) -> None:
    caller.fleet.put(CLUSTER, {**named("demo"), "spec": {"a": 1}, "status": {"phase": "Running"}})
    patch = {"metadata": {"annotations": {"b": "c"}}, "spec": {"a": None}, "status": {"phase": "X"}}
    _code, made = await caller.ask("PATCH", CLUSTER_PATH, patch, MERGE)
    assert (made["status"], made["metadata"]["annotations"]) == ({"phase": "Running"}, {"b": "c"})
    assert "a" not in made["spec"] and made["metadata"]["generation"] == 2
    _code, made = await caller.ask("PATCH", f"{CLUSTER_PATH}/status", patch, MERGE)
    assert made["status"] == {"phase": "X"} and made["metadata"]["generation"] == 2


async def test_the_last_finalizer_ends_an_object_that_is_being_deleted(caller: Caller) -> None:
    tree = caller.fleet.put(CLUSTER, {**named("demo"), "spec": {}})
    version = tree["metadata"]["resourceVersion"]
    steps = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": []},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "a/b"},
    ]
    code, _made = await caller.ask("PATCH", CLUSTER_PATH, steps, STEPS)
    assert (code, (await caller.ask("PATCH", CLUSTER_PATH, steps, STEPS))[0]) == (200, 422)
    await caller.ask("DELETE", CLUSTER_PATH)
    assert "deletionTimestamp" in caller.fleet.the(CLUSTER, "demo")["metadata"]
    await caller.ask(
        "PATCH", CLUSTER_PATH, [{"op": "remove", "path": "/metadata/finalizers/0"}], STEPS
    )
    assert caller.fleet.find(CLUSTER, "demo") is None


def test_a_merge_patch_takes_away_by_null_and_replaces_lists() -> None:
    tree = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merged(tree, {"a": {"b": None, "c": [3]}, "e": {"f": None}}) == {
        "a": {"c": [3]}, "d": 1, "e": {},
    }  # fmt: skip


async def test_kinds_are_discovered_with_their_statuses(caller: Caller) -> None:
    _code, groups = await caller.ask("GET", "/apis")
    assert CLUSTER.group in {one["name"] for one in groups["groups"]}
    _code, found = await caller.ask("GET", f"/apis/{CLUSTER.api_version}")
    assert {"bookieclusters", "bookieclusters/status"} <= {
        one["name"] for one in found["resources"]
    }


@pytest.mark.parametrize("kind", [POD, CONFIG_MAP])
async def test_every_request_is_counted(caller: Caller, kind: Kind) -> None:
    caller.fleet.put(kind, named("a"))
    await caller.ask("GET", kind.path("fleet"))
    [asked] = caller.server.asked
    assert (asked.verb, asked.target.kind, asked.objects, asked.is_write) == (
        "list",
        kind,
        1,
        False,
    )
    assert asked.size > 0
