"""Objects that a spec wants no more are taken away, if not at once."""

import pytest
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import SERVICE, Kind, Object
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.optional_objects import OptionalObjects
from bookie_operator.platform.kubernetes.surroundings import owned
from fake_api import FakeApi
from operator_scenes import cluster

CLUSTER = cluster()


def service(name: str, of: BookieCluster = CLUSTER) -> tuple[Kind, Object]:
    return SERVICE, owned(of, name, names.EXTERNAL, {"spec": {"type": "ClusterIP"}})


@pytest.mark.parametrize("verb", ["list", "delete"])
@pytest.mark.parametrize("wanted", [[], [service("a")]])
async def test_what_could_not_be_taken_away_is_once_that_may_be(
    verb: str, wanted: list[tuple[Kind, Object]]
) -> None:
    api = FakeApi()
    objects = OptionalObjects(api, Keeper(api), SERVICE, names.EXTERNAL)
    assert not await objects.settle([service("a"), service("b")], CLUSTER)
    api.refuse(verb, SERVICE, "a webhook is away")
    for _pass in range(2):
        assert await objects.settle(wanted, CLUSTER)
    api.allow_all()
    assert not await objects.settle(wanted, CLUSTER)
    assert [one["metadata"]["name"] for one in api.all(SERVICE)] == ["a"] * len(wanted)


async def test_what_was_taken_away_and_is_wanted_again_is_there_at_once() -> None:
    api = FakeApi()
    objects = OptionalObjects(api, Keeper(api), SERVICE, names.EXTERNAL)
    for wanted in ([service("a"), service("b")], [service("b")], [service("a"), service("b")]):
        assert not await objects.settle(wanted, CLUSTER)
        there = [one["metadata"]["name"] for one in api.all(SERVICE)]
        assert there == [body["metadata"]["name"] for _kind, body in wanted]


async def test_what_changes_while_it_is_to_be_taken_away_goes_with_the_next_pass() -> None:
    api = FakeApi()
    objects = OptionalObjects(api, Keeper(api), SERVICE, names.EXTERNAL)
    assert not await objects.settle([service("a"), service("b")], CLUSTER)

    def change() -> None:
        """Between the look and the deletion, once."""
        api.after_call = lambda: None
        api.edit(SERVICE, "a", lambda one: one["metadata"].update(annotations={"by": "others"}))

    api.after_call = change
    assert not await objects.settle([], CLUSTER)
    assert [one["metadata"]["name"] for one in api.all(SERVICE)] == ["a"]
    assert not await objects.settle([], CLUSTER) and not api.all(SERVICE)
