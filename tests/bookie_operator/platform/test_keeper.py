"""Objects kept as they are wanted, without writing them all in every pass."""

import asyncio

import pytest
from bookie.errors import UnavailableError
from bookie_operator.platform.kubernetes.api import BUDGET, SERVICE, Object
from bookie_operator.platform.kubernetes.keeper import AGAIN_AFTER_S, Keeper
from fake_api import FakeApi, copied
from virtual_time import in_virtual_time


def service(value: str = "1") -> Object:
    return {"metadata": {"name": "a"}, "spec": {"a": value}}


def writes(api: FakeApi) -> int:
    return sum(verb == "patch" for verb, _kind, _name in api.calls)


async def test_what_did_not_change_is_not_written_again() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    for _ in range(3):
        await keeper.keep([(SERVICE, service())])
    assert writes(api) == 1


async def test_a_change_is_written_at_once() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    for value in ("1", "2", "1"):
        await keeper.keep([(SERVICE, service(value))])
    assert writes(api) == 3 and api.the(SERVICE, "a")["spec"] == {"a": "1"}


@in_virtual_time
async def test_what_others_did_is_undone_after_a_while() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    await keeper.keep([(SERVICE, service())])
    api.remove(SERVICE, "a")
    await keeper.keep([(SERVICE, service())])
    assert api.find(SERVICE, "a") is None
    await asyncio.sleep(AGAIN_AFTER_S)
    await keeper.keep([(SERVICE, service())])
    assert api.find(SERVICE, "a") is not None


async def test_what_could_not_be_written_is_tried_again() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    api.is_away = True
    with pytest.raises(UnavailableError):
        await keeper.keep([(SERVICE, service())])
    api.is_away = False
    await keeper.keep([(SERVICE, service())])
    assert api.find(SERVICE, "a") is not None


async def kept(api: FakeApi) -> Keeper:
    keeper = Keeper(api)
    await keeper.keep([(SERVICE, service())])
    return keeper


async def test_d3_echoes_of_own_writes_are_no_news() -> None:
    api = FakeApi()
    keeper = await kept(api)
    first = copied(api.the(SERVICE, "a"))
    await keeper.keep([(SERVICE, service("2"))])
    for echo in (first, api.the(SERVICE, "a")):
        assert not keeper.noticed(SERVICE, echo, is_gone=False)
    assert not keeper.noticed(SERVICE, {"metadata": {"name": "unknown"}}, is_gone=True)


async def test_d3_fields_of_others_are_no_news() -> None:
    api = FakeApi()
    keeper = await kept(api)
    api.edit(SERVICE, "a", lambda one: one["metadata"].update(annotations={"mesh": "on"}))
    assert not keeper.noticed(SERVICE, api.the(SERVICE, "a"), is_gone=False)


async def test_d3_the_end_of_an_older_object_of_the_name_is_no_news() -> None:
    api = FakeApi()
    keeper = await kept(api)
    old = copied(api.the(SERVICE, "a"))
    api.remove(SERVICE, "a")
    assert keeper.noticed(SERVICE, old, is_gone=True)
    await keeper.keep([(SERVICE, service())])
    assert not keeper.noticed(SERVICE, old, is_gone=True)
    assert keeper.sentences() == ["Service a was deleted by somebody else: made again"]
    assert not keeper.sentences()


async def test_d3_what_was_put_back_by_others_needs_no_write() -> None:
    api = FakeApi()
    keeper = await kept(api)
    for value, is_lost in (("2", True), ("1", False)):
        api.edit(SERVICE, "a", lambda one, v=value: one["spec"].update(a=v))  # type: ignore[misc]
        assert keeper.noticed(SERVICE, api.the(SERVICE, "a"), is_gone=False) == is_lost


async def test_d3_one_object_that_cannot_be_kept_holds_up_no_other() -> None:
    api = FakeApi()
    api.refuse("patch", BUDGET, "denied by policy")
    failed = await Keeper(api).tried([(BUDGET, service()), (SERVICE, service())])
    assert list(failed) == ["PodDisruptionBudget a"] and api.find(SERVICE, "a") is not None
