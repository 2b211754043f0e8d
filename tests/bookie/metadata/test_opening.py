"""Metadata URLs."""

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.embedded import free_port
from bookie.metadata.opening import check_url, open_store
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import StoredBoot


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory://",
        "zk://",
        "zk://host/ledgers",
        "zk://host:2181",
        "zk://host:2181/",
        "zk://host:2181,/ledgers",
        "zk://host:2181/a//b",
        "zk://host:99999/ledgers",
        "zk://host:2181,other:0/ledgers",
        "zk://::1:2181/ledgers",
        "zk://[::1]/ledgers",
        "zk://[::1]:2181,/ledgers",
        "http://host:2181/ledgers",
        "host:2181/ledgers",
    ],
)
async def test_another_form_of_url_is_named_with_the_expected_one(url: str) -> None:
    with pytest.raises(SettingsError, match="zk://host:port"):
        await open_store(url)


@pytest.mark.parametrize(
    "hosts",
    ["[::1]:2181", "[fd00::1]:2181,[fd00::2]:2181", "[fd00::1]:2181,zookeeper:2181,10.0.0.1:1"],
)
def test_an_ensemble_may_have_addresses_of_either_family(hosts: str) -> None:
    check_url(f"zk://{hosts}/ledgers")


async def test_stores_of_one_memory_name_share_and_others_do_not() -> None:
    one, same, other = [await open_store(f"memory://opening-{name}") for name in "aab"]
    await one.write_boot(BookieId("b"), StoredBoot(3), version=None)
    assert await same.read_boot(BookieId("b")) is not None
    assert await other.read_boot(BookieId("b")) is None


async def test_a_silent_address_is_an_error_after_the_time_allowed(unused_port: int) -> None:
    settings = ZooKeeperSettings(connect_timeout_s=0.2)
    with pytest.raises(UnavailableError, match="no ZooKeeper answers"):
        await open_store(f"zk://127.0.0.1:{unused_port}/ledgers", settings=settings)


@pytest.fixture
def unused_port() -> int:
    return free_port()
