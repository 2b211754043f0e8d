"""Objects kept as they are wanted, without writing them all in every pass."""

import asyncio

import pytest
from bookie.protocol.errors import UnavailableError
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, Object
from bookie_operator.platform.kubernetes.keeper import AGAIN_AFTER_S, Keeper
from fake_api import FakeApi
from virtual_time import in_virtual_time


def config(value: str = "1") -> Object:
    return {"metadata": {"name": "a"}, "data": {"a": value}}


def writes(api: FakeApi) -> int:
    return sum(verb == "patch" for verb, _kind, _name in api.calls)


async def test_what_did_not_change_is_not_written_again() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    for _ in range(3):
        await keeper.keep([(CONFIG_MAP, config())])
    assert writes(api) == 1


async def test_a_change_is_written_at_once() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    for value in ("1", "2", "1"):
        await keeper.keep([(CONFIG_MAP, config(value))])
    assert writes(api) == 3 and api.the(CONFIG_MAP, "a")["data"] == {"a": "1"}


@in_virtual_time
async def test_what_others_did_is_undone_after_a_while() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    await keeper.keep([(CONFIG_MAP, config())])
    api.remove(CONFIG_MAP, "a")
    await keeper.keep([(CONFIG_MAP, config())])
    assert api.find(CONFIG_MAP, "a") is None
    await asyncio.sleep(AGAIN_AFTER_S)
    await keeper.keep([(CONFIG_MAP, config())])
    assert api.find(CONFIG_MAP, "a") is not None


async def test_what_could_not_be_written_is_tried_again() -> None:
    api = FakeApi()
    keeper = Keeper(api)
    api.is_away = True
    with pytest.raises(UnavailableError):
        await keeper.keep([(CONFIG_MAP, config())])
    api.is_away = False
    await keeper.keep([(CONFIG_MAP, config())])
    assert api.find(CONFIG_MAP, "a") is not None
