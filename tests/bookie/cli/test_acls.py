"""`bookie metadata acls` on a tree that was made before there were credentials."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bookie.cli.main import main
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.opening import open_store
from bookie.metadata.store import Cookie
from bookie.tls.environment import DIRECTORY_VARIABLE, MODE_VARIABLE
from bookie.tls.principals import Role
from click.testing import CliRunner, Result
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl
from metadata_cases import some_ledger
from tls_fleet import TlsFleet

pytestmark = pytest.mark.process

COOKIE = Cookie(BookieId("bookie-0"), ("/journal",), ("/ledger",), "instance")


@pytest.fixture(scope="module")
def moving_zookeeper(
    tls_fleet: TlsFleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedZooKeeper]:
    """A server of a fleet that moves to TLS."""
    settings = EmbeddedSettings(fsync=False, tls=tls_fleet.folder(Role.ZOOKEEPER), plain=True)
    folder = tmp_path_factory.mktemp("moving")
    with EmbeddedZooKeeper.start(folder, settings=settings) as server:
        yield server


@pytest.fixture
async def cluster(
    moving_zookeeper: EmbeddedZooKeeper,
    zookeeper_roots: Iterator[str],
    tls_fleet: TlsFleet,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Where a plain cluster lies; the environment has an operator's credentials."""
    at = f"{moving_zookeeper.address}{next(zookeeper_roots)}"
    store = await open_store(f"zk://{at}")
    await store.initialise()
    await store.create_cookie(COOKIE)
    await store.create_ledger(some_ledger(await store.new_ledger_id()))
    await store.write_value("logs/orders", b"[]", version=None)
    await store.barrier()
    await store.close()
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tls_fleet.folder(Role.OPERATOR)))
    return at


def acls(cluster: str, *options: str, scheme: str = "zks") -> Result:
    words = ["metadata", "acls", "--metadata", f"{scheme}://{cluster}", "--output", "json"]
    return CliRunner().invoke(main, [*words, *options])


def sums(result: Result) -> tuple[int, int]:
    rows = json.loads(result.stdout)
    return sum(row["different"] for row in rows), sum(row["changed"] for row in rows)


def test_it_shows_what_differs_and_changes_nothing(cluster: str) -> None:
    for _ in range(2):
        shown = acls(cluster)
        different, changed = sums(shown)
        assert shown.exit_code == Exit.FINDINGS
        assert different >= 12 and changed == 0


def test_what_it_sets_is_right_from_then_on(cluster: str) -> None:
    set_right = acls(cluster, "--apply")
    different, changed = sums(set_right)
    assert set_right.exit_code == Exit.OK and different == changed >= 12
    assert (acls(cluster).exit_code, sums(acls(cluster))) == (Exit.OK, (0, 0))


@contextmanager
def anybody(cluster: str) -> Iterator[KazooClient]:
    """A client without credentials."""
    client = KazooClient(cluster.partition("/")[0])
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_a1_nobody_takes_a_cookie_away_until_all_is_open_again(cluster: str) -> None:
    acls(cluster, "--apply")
    cookie = f"/{cluster.partition('/')[2]}/cookies/bookie-0"
    with anybody(cluster) as client:
        with pytest.raises(NoAuthError):
            client.delete(cookie)
        assert acls(cluster, "--open", "--apply").exit_code == Exit.OK
        client.delete(cookie)


def test_a_znode_that_is_not_known_is_left_alone(cluster: str) -> None:
    with anybody(cluster) as client:
        client.create(f"/{cluster.partition('/')[2]}/foreign/znode", makepath=True)
    unknown = {row["kind"]: row for row in json.loads(acls(cluster, "--apply").stdout)}["unknown"]
    assert unknown["first"].endswith("/ledgers/foreign") and unknown["changed"] == 0


@pytest.fixture
def by_login(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same cluster, for a fleet that logs in and is no super user."""
    login = tmp_path / "login"
    login.write_text("scheme: digest\nuser: fleet\npassword: secret\n")
    login.chmod(0o600)
    monkeypatch.delenv(DIRECTORY_VARIABLE)
    monkeypatch.setenv("BOOKIE_ZOOKEEPER__CREDENTIALS_FILE", str(login))
    return cluster


@pytest.mark.parametrize("allowed", [{"read": True}, {}])
def test_a_znode_of_other_credentials_holds_up_no_other(
    by_login: str, allowed: dict[str, bool]
) -> None:
    path = f"/{by_login.partition('/')[2]}/cookies/bookie-0"
    theirs = [make_digest_acl("they", "other", all=True), make_acl("world", "anyone", **allowed)]
    with anybody(by_login) as client:
        client.set_acls(path, theirs)
    applied = acls(by_login, "--apply", scheme="zk")
    rows = json.loads(applied.stdout)
    assert [row["first_refused"] for row in rows if row["refused"]] == [path]
    assert sum(row["refused"] for row in rows) == 1 and sums(applied)[1] >= 11
    assert applied.exit_code == Exit.FINDINGS and f"the first is {path}: run" in applied.stderr


def test_while_a_fleet_moves_nothing_is_closed(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODE_VARIABLE, "Accepted")
    refused = acls(cluster, "--apply")
    assert refused.exit_code == Exit.REFUSED and "set Required everywhere first" in refused.stderr
    assert acls(cluster).exit_code == Exit.FINDINGS


def test_without_credentials_it_says_what_it_needs(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE)
    words = ["metadata", "acls", "--metadata", f"zk://{cluster}"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == Exit.USAGE and "no credentials by which" in found.stderr
