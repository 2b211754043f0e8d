"""The access mode of a claim: as strict as its class allows, and as is known."""

import pytest
from bookie.errors import UnavailableError
from bookie_operator.platform.kubernetes.api import CSI_DRIVER, STORAGE_CLASS, Kind
from bookie_operator.platform.kubernetes.classes import (
    DEFAULT_CLASS,
    ONCE,
    ONCE_POD,
    access_mode,
)
from fake_api import FakeApi


def api_with(provisioner: str, *, has_driver: bool = False, is_default: bool = True) -> FakeApi:
    api = FakeApi()
    notes = {DEFAULT_CLASS: "true" if is_default else "false"}
    metadata = {"name": "fast", "annotations": notes}
    api.put(STORAGE_CLASS, {"metadata": metadata, "provisioner": provisioner})
    if has_driver:
        api.put(CSI_DRIVER, {"metadata": {"name": provisioner}})
    return api


@pytest.mark.parametrize("name", ["fast", ""])
async def test_a_csi_driver_keeps_a_second_pod_off(name: str) -> None:
    assert await access_mode(api_with("ebs.csi.aws.com", has_driver=True), name) == ONCE_POD


async def test_local_path_does_as_well() -> None:
    assert await access_mode(api_with("rancher.io/local-path"), "") == ONCE_POD


async def test_other_provisioners_only_know_nodes() -> None:
    assert await access_mode(api_with("kubernetes.io/gce-pd"), "fast") == ONCE


@pytest.mark.parametrize("name", ["", "slow"])
async def test_a_class_that_is_not_there_promises_nothing(name: str) -> None:
    api = api_with("ebs.csi.aws.com", has_driver=True, is_default=False)
    assert await access_mode(api, name) == ONCE


@pytest.mark.parametrize(
    ("verb", "kind"), [("list", STORAGE_CLASS), ("get", CSI_DRIVER)], ids=["class", "driver"]
)
async def test_without_the_right_to_look_the_plain_mode_is_asked_for(verb: str, kind: Kind) -> None:
    api = api_with("ebs.csi.aws.com", has_driver=True)
    api.forbid(verb, kind)
    assert await access_mode(api, "") == ONCE


async def test_a_class_that_cannot_be_read_now_is_read_again_later() -> None:
    """A claim keeps its mode for life."""
    api = api_with("rancher.io/local-path")
    api.is_away = True
    with pytest.raises(UnavailableError):
        await access_mode(api, "")
    api.is_away = False
    assert await access_mode(api, "") == ONCE_POD
