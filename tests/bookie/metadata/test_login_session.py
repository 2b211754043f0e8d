"""A ZooKeeper with users of its own, digest and SASL: who may do what, and what is heard."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.login_check import check_login
from bookie.metadata.opening import LOGIN_VARIABLE, open_store
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import Cookie
from bookie.metadata.zookeeper import ZooKeeperStore
from metadata_cases import some_ledger

pytestmark = pytest.mark.process

COOKIE = Cookie(BookieId("bookie-0"), ("/journal",), ("/ledger",), "instance")
JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_fleet="hunter-2";
};
"""
SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"

Open = Callable[..., Awaitable[ZooKeeperStore]]


def login(folder: Path, scheme: str, password: str = "hunter-2") -> Path:
    path = folder / f"{scheme}.yaml"
    path.write_text(f"scheme: {scheme}\nuser: fleet\npassword: {password}\n")
    return path


@pytest.fixture(scope="module")
def sasl_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server that knows the user `fleet` by SASL as well."""
    folder = tmp_path_factory.mktemp("sasl")
    (folder / "jaas.conf").write_text(JAAS)
    options = f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"{options} -Dzookeeper.authProvider.sasl={SASL}")
        settings = EmbeddedSettings(fsync=False)
        with EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as server:
            yield server


@pytest.fixture
def url(sasl_zookeeper: EmbeddedZooKeeper, zookeeper_roots: Iterator[str]) -> str:
    return f"zk://{sasl_zookeeper.address}{next(zookeeper_roots)}"


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Open]:
    """Opens stores of the cluster; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def another(credentials: Path | None, *, wait_s: float = 15.0) -> ZooKeeperStore:
            settings = ZooKeeperSettings(login=credentials, connect_timeout_s=wait_s)
            store = await open_store(url, settings=settings)
            assert isinstance(store, ZooKeeperStore)
            stack.push_async_callback(store.close)
            return store

        yield another


@pytest.mark.parametrize("scheme", ["digest", "sasl"])
async def test_a1_without_the_fleets_login_a_cookie_stays(
    opened: Open, tmp_path: Path, scheme: str
) -> None:
    bookie = await opened(login(tmp_path, scheme))
    await bookie.initialise()
    await bookie.create_cookie(COOKIE)
    nobody = await opened(None)
    for path in ("cookies/bookie-0", "INSTANCEID"):
        with pytest.raises(UnavailableError, match="does not allow this write to whoever shows no"):
            at = f"{bookie._paths.root}/{path}"
            await nobody.session.write(lambda zk, at=at: zk.delete_async(at))
    assert await nobody.read_cookie(COOKIE.bookie_id) is not None


@pytest.mark.parametrize("scheme", ["digest", "sasl"])
async def test_a_ledger_that_a_client_without_a_login_made_is_mended(
    opened: Open, tmp_path: Path, scheme: str
) -> None:
    fleet = await opened(login(tmp_path, scheme))
    await fleet.initialise()
    nobody = await opened(None)
    made = await nobody.create_ledger(some_ledger(await nobody.new_ledger_id()))
    written = await fleet.write_ledger(made.value, version=made.version)
    await nobody.delete_ledger(made.value.ledger_id, version=written.version)


async def test_a_wrong_password_of_sasl_is_named(opened: Open, tmp_path: Path) -> None:
    wrong = login(tmp_path, "sasl", "hunter-3")
    with pytest.raises(
        UnavailableError,
        match=r"authentication failed: .* refuses the login sasl:fleet of .*sasl.yaml",
    ) as e:
        await opened(wrong, wait_s=1.0)
    assert "hunter" not in str(e.value)


async def test_a_wrong_password_of_digest_is_another_user(opened: Open, tmp_path: Path) -> None:
    await (await opened(login(tmp_path, "digest"))).initialise()
    other = await opened(login(tmp_path, "digest", "hunter-3"))
    with pytest.raises(UnavailableError, match="does not allow this write to digest:fleet"):
        await other.create_cookie(COOKIE)


async def test_a_wrong_password_of_digest_is_found_out_by_who_asks(
    opened: Open, tmp_path: Path
) -> None:
    fleet = await opened(login(tmp_path, "digest"))
    await check_login(fleet)  # there is no cluster yet
    await fleet.initialise()
    await check_login(fleet)
    other = await opened(login(tmp_path, "digest", "hunter-3"))
    with pytest.raises(UnavailableError, match=r"authentication failed: .* digest:fleet") as found:
        await check_login(other)
    assert "digest.yaml" in str(found.value) and "hunter" not in str(found.value)


async def test_who_needs_no_login_is_asked_for_none(opened: Open, tmp_path: Path) -> None:
    nobody = await opened(None)
    await nobody.initialise()
    await check_login(nobody)
    await check_login(await opened(login(tmp_path, "digest")))  # the tree is open to everyone


async def test_a_password_that_is_set_right_is_used_without_a_restart(
    opened: Open, tmp_path: Path
) -> None:
    store = await opened(login(tmp_path, "sasl"))
    await store.initialise()
    login(tmp_path, "sasl", "hunter-3")
    store.session._client._connection._socket.shutdown(2)
    login(tmp_path, "sasl")
    # Of a write that the broken connection took nobody knows; a read is tried again.
    assert await store.read_cookie(COOKIE.bookie_id) is None
    await store.create_cookie(COOKIE)


async def test_the_environment_names_the_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGIN_VARIABLE, str(login(tmp_path, "sasl")))
    store = await open_store(url)
    assert isinstance(store, ZooKeeperStore)
    assert [one.scheme for one in store.session.access.fleet] == ["sasl"]
    await store.close()
