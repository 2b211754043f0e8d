"""Where commands find a bookie that serves: by its registration, as that says."""

import itertools

import pytest
from bookie.cli.control_plane import registered
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.store import (
    ADMIN_ENDPOINT,
    BOOT_EPOCH_PROPERTY,
    TLS_AUTH,
    BookieInfo,
    Endpoint,
)

ME = BookieId("bookie-0")
NUMBERS = itertools.count()


async def registration(*endpoints: Endpoint) -> str:
    """URL of a cluster in which a bookie is registered so."""
    name = f"planes-{next(NUMBERS)}"
    store = MemoryStore(named_cluster(name))
    await store.initialise()
    await store.register(BookieInfo(ME, endpoints, {BOOT_EPOCH_PROPERTY: "5"}))
    return f"memory://{name}"


@pytest.mark.parametrize("auth", [(), (TLS_AUTH,)])
@pytest.mark.parametrize(("host", "shown"), [("node", "node:7"), ("::1", "[::1]:7")])
async def test_a_bookie_is_asked_as_its_registration_says(
    auth: tuple[str, ...], host: str, shown: str
) -> None:
    found = await registered(
        await registration(Endpoint(ADMIN_ENDPOINT, host, 7, "grpc", auth=auth)), ME
    )
    assert (found.target, found.has_tls) == (shown, bool(auth))
    assert (found.meant.bookie, found.meant.epoch) == (ME, 5)


async def test_a_bookie_without_a_control_plane_is_not_asked() -> None:
    url = await registration()
    for name in (ME, BookieId("bookie-9")):
        with pytest.raises(UnavailableError, match="is not registered with a control plane"):
            await registered(url, name)
