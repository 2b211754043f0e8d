"""What the operator relies on an API server for: claims that the fake and a real one keep."""

import asyncio
from contextlib import suppress
from typing import Final

import pytest
from bookie_operator.errors import PreconditionError
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    NODE,
    POD,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TASK,
    Api,
    Kind,
    Object,
    RefusedError,
)

LABELS: Final = {"part": "one"}
POLL_S: Final = 0.1
POLLS: Final = 300


def config(name: str = "a", **data: str) -> Object:
    return {"metadata": {"name": name, "labels": dict(LABELS)}, "data": data}


def task(name: str = "audit") -> Object:
    return {"metadata": {"name": name}, "spec": {"cluster": "nowhere", "type": "audit"}}


def stateful_set(*, replicas: int, **labels: str) -> Object:
    return {
        "metadata": {"name": "set"},
        "spec": {
            "replicas": replicas,
            "serviceName": "nowhere",
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS | labels},
                "spec": {"containers": [{"name": "a", "image": "nowhere/none:0"}]},
            },
        },
    }


def claim(name: str = "disk") -> Object:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name, "labels": dict(LABELS)}, "spec": wanted}


async def created(api: Api, kind: Kind, body: Object) -> Object:
    made = await api.create(kind, body)
    assert made is not None
    return made


async def the(api: Api, kind: Kind, name: str) -> Object:
    found = await api.get(kind, name)
    assert found is not None
    return found


def version(thing: Object) -> str:
    return str(thing["metadata"]["resourceVersion"])


async def until_gone(api: Api, kind: Kind, name: str) -> None:
    for _ in range(POLLS):
        if await api.get(kind, name) is None:
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"{kind.name} {name} does not go")


class ApiClaims:
    """Each claim begins in an empty namespace; `api` is a fixture of the suite that runs them."""

    async def test_what_is_not_there_is_none(self, api: Api) -> None:
        assert await api.get(CONFIG_MAP, "a") is None
        gone = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
        assert await api.delete(CONFIG_MAP, gone) is False

    async def test_an_object_is_created_once(self, api: Api) -> None:
        made = await created(api, CONFIG_MAP, config(a="1"))
        assert await api.create(CONFIG_MAP, config(a="2")) is None
        found = await the(api, CONFIG_MAP, "a")
        assert (found["data"], version(found)) == ({"a": "1"}, version(made))

    async def test_a_new_object_of_an_old_name_is_another_one(self, api: Api) -> None:
        first = await created(api, CONFIG_MAP, config())
        assert await api.delete(CONFIG_MAP, first)
        second = await created(api, CONFIG_MAP, config())
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert second["metadata"]["creationTimestamp"].endswith("Z")

    async def test_a_list_takes_every_label(self, api: Api) -> None:
        await created(api, CONFIG_MAP, config("a"))
        await created(api, CONFIG_MAP, config("b") | {"metadata": {"name": "b"}})
        assert [one["metadata"]["name"] for one in await api.list(CONFIG_MAP, LABELS)] == ["a"]
        assert not await api.list(CONFIG_MAP, LABELS | {"other": "x"})
        names = {one["metadata"]["name"] for one in await api.list(CONFIG_MAP)}
        assert {"a", "b"} <= names

    async def test_a_list_of_events_takes_every_field(self, api: Api) -> None:
        for name, kind in (("one", "Warning"), ("two", "Normal")):
            about = {"kind": "ConfigMap", "name": "thing", "namespace": api.namespace}
            event = {"metadata": {"name": name}, "involvedObject": about, "type": kind}
            await created(api, EVENT, event | {"reason": "Test", "message": "m"})
        fields = {"involvedObject.name": "thing", "type": "Warning"}
        found = await api.list(EVENT, fields=fields)
        assert [one["metadata"]["name"] for one in found] == ["one"]
        assert not await api.list(EVENT, fields=fields | {"involvedObject.name": "other"})

    async def test_an_apply_creates(self, api: Api) -> None:
        made = await api.apply(CONFIG_MAP, config(a="1"))
        assert made["metadata"]["uid"] and made["data"] == {"a": "1"}

    async def test_the_same_apply_again_changes_nothing(self, api: Api) -> None:
        first = await api.apply(STATEFUL_SET, stateful_set(replicas=0))
        settled = await self._settled(api, first)
        again = await api.apply(STATEFUL_SET, stateful_set(replicas=0))
        assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1
        assert version(again) == version(settled)

    async def _settled(self, api: Api, thing: Object) -> Object:
        """Once its controller has written its first status, which the fake's never does."""
        last = thing
        for _ in range(10):
            await asyncio.sleep(POLL_S if "managedFields" in thing["metadata"] else 0)
            last = await the(api, STATEFUL_SET, thing["metadata"]["name"])
            if (last.get("status") or {}).get("observedGeneration"):
                break
        return last

    async def test_what_a_manager_stops_applying_goes(self, api: Api) -> None:
        await api.apply(CONFIG_MAP, config(a="1", b="2"), manager="one")
        left = await api.apply(CONFIG_MAP, config(a="1"), manager="one")
        assert left["data"] == {"a": "1"}

    async def test_what_another_manager_applies_stays(self, api: Api) -> None:
        await api.apply(CONFIG_MAP, config(a="1", b="2"), manager="one")
        await api.apply(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"b": "2"}}, manager="two")
        left = await api.apply(CONFIG_MAP, config(a="1"), manager="one")
        assert left["data"] == {"a": "1", "b": "2"}

    async def test_force_takes_a_field_from_its_owner(self, api: Api) -> None:
        await api.apply(CONFIG_MAP, config(a="1"), manager="one")
        await api.apply(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"a": "2"}}, manager="two")
        left = await api.apply(CONFIG_MAP, {"metadata": {"name": "a"}}, manager="two")
        assert "a" not in (left.get("data") or {}), "one lost it, and two gave it up"

    async def test_a_fence_holds_until_the_whole_is_applied_again(self, api: Api) -> None:
        whole = await api.apply(STATEFUL_SET, stateful_set(replicas=0))
        assert whole["spec"]["replicas"] == 0
        body: Object = {"metadata": {"name": "set"}, "spec": {"replicas": 1}}
        assert (await api.apply(STATEFUL_SET, body, manager="fence"))["spec"]["replicas"] == 1
        assert (await api.apply(STATEFUL_SET, body, manager="fence"))["spec"]["serviceName"]
        back = await api.apply(STATEFUL_SET, stateful_set(replicas=0))
        assert back["spec"]["replicas"] == 0

    async def test_created_labels_outlive_an_apply_without_them(self, api: Api) -> None:
        await created(api, CLAIM, claim())
        kept = await api.apply(CLAIM, {"metadata": {"name": "disk", "labels": {"kept": "yes"}}})
        assert kept["metadata"]["labels"] == LABELS | {"kept": "yes"}
        back = await api.apply(CLAIM, {"metadata": {"name": "disk", "labels": dict(LABELS)}})
        assert back["metadata"]["labels"] == LABELS

    async def test_an_apply_for_an_older_version_is_refused(self, api: Api) -> None:
        old = await api.apply(CONFIG_MAP, config(a="1"))
        await api.apply(CONFIG_MAP, config(a="2"))
        body = {"metadata": {"name": "a", "resourceVersion": version(old)}, "data": {"a": "3"}}
        with pytest.raises(PreconditionError):
            await api.apply(CONFIG_MAP, body)
        assert (await the(api, CONFIG_MAP, "a"))["data"] == {"a": "2"}

    async def test_an_apply_to_a_very_object_makes_no_other_one(self, api: Api) -> None:
        made = await created(api, CONFIG_MAP, config(a="1"))
        uid = {"uid": made["metadata"]["uid"]}
        mine = {"metadata": {"name": "a", **uid}, "data": {"a": "2"}}
        applied = await api.apply(CONFIG_MAP, mine)
        assert applied["data"] == {"a": "2"}
        await api.delete(CONFIG_MAP, applied)
        for _already_there in range(2):
            with pytest.raises(PreconditionError):
                await api.apply(CONFIG_MAP, mine)
            await api.create(CONFIG_MAP, config(a="3"))
        assert (await the(api, CONFIG_MAP, "a"))["data"] == {"a": "3"}

    async def test_a_version_alone_does_not_keep_an_apply_from_creating(self, api: Api) -> None:
        body = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"a": "1"}}
        assert (await api.apply(CONFIG_MAP, body))["data"] == {"a": "1"}

    async def test_a_status_is_written_apart(self, api: Api) -> None:
        made = await created(api, TASK, task() | {"status": {"phase": "Running"}})
        assert "status" not in await the(api, TASK, "audit")
        told = await self._tell(api, made, phase="Running", message="at work")
        assert (told["metadata"]["generation"], told["status"]["message"]) == (1, "at work")
        assert told["spec"]["type"] == "audit"

    async def test_a_status_is_written_whole(self, api: Api) -> None:
        made = await created(api, TASK, task())
        told = await self._tell(api, made, phase="Running", target="a-job", message="at work")
        told = await self._tell(api, told, phase="Failed")
        assert (told["status"]["phase"], told["status"].get("message", "")) == ("Failed", "")
        assert told["status"].get("target", "") == ""

    async def _tell(self, api: Api, thing: Object, **status: str) -> Object:
        return await api.replace_status(TASK, "audit", status, version=version(thing))

    async def test_the_same_status_again_changes_nothing(self, api: Api) -> None:
        told = await self._tell(api, await created(api, TASK, task()), phase="Running")
        assert version(await self._tell(api, told, phase="Running")) == version(told)

    async def test_a_status_for_an_older_version_is_refused(self, api: Api) -> None:
        old = await created(api, TASK, task())
        await self._tell(api, old, phase="Running")
        with pytest.raises(PreconditionError):
            await self._tell(api, old, phase="Failed")
        assert (await the(api, TASK, "audit"))["status"]["phase"] == "Running"

    async def test_a_status_of_what_is_gone_is_refused(self, api: Api) -> None:
        old = await created(api, TASK, task())
        await api.delete(TASK, old)
        with pytest.raises(RefusedError):
            await self._tell(api, old, phase="Running")

    async def test_a_field_that_the_kind_lacks_is_left_out_of_a_status(self, api: Api) -> None:
        made = await created(api, TASK, task())
        told = await self._tell(api, made, phase="Running", mood="good")
        assert told["status"]["phase"] == "Running" and "mood" not in told["status"]

    async def test_a_generation_counts_specs_only(self, api: Api) -> None:
        await api.apply(STATEFUL_SET, stateful_set(replicas=0))
        labelled = {"metadata": {"name": "set", "labels": {"a": "b"}}}
        same = await api.apply(STATEFUL_SET, labelled, manager="other")
        after = await api.apply(STATEFUL_SET, stateful_set(replicas=0, more="x"))
        found = [one["metadata"]["generation"] for one in (same, after)]
        assert found == [1, 2]

    async def test_only_the_very_object_is_deleted(self, api: Api) -> None:
        made = await created(api, CONFIG_MAP, config())
        with pytest.raises(PreconditionError):
            await api.delete(CONFIG_MAP, {"metadata": made["metadata"] | {"uid": "another"}})
        assert await api.delete(CONFIG_MAP, made)
        assert await api.get(CONFIG_MAP, "a") is None

    async def test_only_an_object_that_is_still_as_it_was_read_is_deleted(self, api: Api) -> None:
        read = await api.apply(CONFIG_MAP, config(a="1"))
        changed = await api.apply(CONFIG_MAP, config(a="2"))
        with pytest.raises(PreconditionError):
            await api.delete(CONFIG_MAP, read)
        assert await api.delete(CONFIG_MAP, changed)

    async def test_immutable_settings_stay(self, api: Api) -> None:
        await created(api, CONFIG_MAP, config(a="1") | {"immutable": True})
        with pytest.raises(RefusedError):
            await api.apply(CONFIG_MAP, config(a="2"))
        assert (await the(api, CONFIG_MAP, "a"))["data"] == {"a": "1"}

    async def test_a_claim_in_use_waits_for_its_pod(self, api: Api) -> None:
        [node, *_] = [one["metadata"]["name"] for one in await api.list(NODE)]
        await created(api, CLAIM, claim())
        await created(api, POD, pod_of(node))
        await self._delete(api, CLAIM, "disk")
        assert "deletionTimestamp" in (await the(api, CLAIM, "disk"))["metadata"]
        await self._delete(api, POD, "user")
        assert "deletionTimestamp" in (await the(api, POD, "user"))["metadata"]
        await self.let_go(api)
        await until_gone(api, CLAIM, "disk")

    async def test_a_pod_that_is_deleted_by_force_waits_for_no_node(self, api: Api) -> None:
        [node, *_] = [one["metadata"]["name"] for one in await api.list(NODE)]
        await created(api, POD, pod_of(node))
        await self._delete(api, POD, "user", is_forced=True)
        assert await api.get(POD, "user") is None, "at once, whatever the node does"

    async def _delete(self, api: Api, kind: Kind, name: str, *, is_forced: bool = False) -> None:
        """Whatever controllers write into it meanwhile."""
        for _ in range(POLLS):
            with suppress(PreconditionError):
                assert await api.delete(kind, await the(api, kind, name), is_forced=is_forced)
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"{kind.name} {name} never rests")

    async def let_go(self, api: Api) -> None:
        """A suite whose controllers do not run by themselves lets them."""

    async def test_an_event_is_recorded_once_and_counted_up(self, api: Api) -> None:
        about = {"kind": "Namespace", "name": api.namespace, "namespace": api.namespace}
        metadata = {"name": "told.1", "namespace": api.namespace}
        body = {"metadata": metadata, "involvedObject": about, "reason": "A", "count": 1}
        await created(api, EVENT, body)
        assert await api.create(EVENT, body) is None
        assert (await api.apply(EVENT, body | {"count": 2}))["count"] == 2

    async def test_an_object_without_a_valid_name_is_refused(self, api: Api) -> None:
        with pytest.raises(RefusedError):
            await api.create(SERVICE_ACCOUNT, {"metadata": {"name": "Not_A_Name"}})


def pod_of(node: str) -> Object:
    disk = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    container = {"name": "a", "image": "nowhere/none:0"}
    spec = {"nodeName": node, "containers": [container], "volumes": [disk]}
    return {"metadata": {"name": "user"}, "spec": spec}
