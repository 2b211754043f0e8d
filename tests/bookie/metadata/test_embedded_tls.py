"""The embedded ZooKeeper under TLS: who may speak to it, and what a renewal does."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.metadata import renewal
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.embedded_settings import REFUSALS_LOGGED_AT_ONCE
from bookie.metadata.java_stores import KEYSTORE
from bookie.monitoring.commands import ask
from bookie.tls.principals import Role
from fake_processes import until
from tls_fleet import TlsFleet

LOOK_S = 0.05

pytestmark = pytest.mark.process


@pytest.fixture
def fleet(tmp_path: Path) -> TlsFleet:
    return TlsFleet(tmp_path / "tls")


@pytest.fixture
def server(fleet: TlsFleet, tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    settings = EmbeddedSettings(fsync=False, tls=fleet.folder(Role.ZOOKEEPER))
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server:
        yield server


def health(server: EmbeddedZooKeeper, credentials: Path | None, *, wait_s: float = 5.0) -> str:
    address = (server.host, server.port)
    return ask(address, b"ruok", credentials=credentials, wait_s=wait_s)


def test_whoever_has_a_certificate_is_answered_and_nobody_else(
    fleet: TlsFleet, server: EmbeddedZooKeeper
) -> None:
    assert server.url.startswith("zks://")
    assert health(server, fleet.folder(Role.CLIENT)) == "imok"
    with pytest.raises(UnavailableError, match="does not answer"):
        health(server, None, wait_s=0.5)
    with pytest.raises(UnavailableError, match="certificate"):
        health(server, fleet.folder(Role.CLIENT, signed_by=fleet.new_authority("other")))


def test_strangers_and_probes_do_not_fill_the_log(
    fleet: TlsFleet, server: EmbeddedZooKeeper
) -> None:
    for _ in range(10 * REFUSALS_LOGGED_AT_ONCE):
        socket.create_connection((server.host, server.port)).close()
    assert health(server, fleet.folder(Role.CLIENT)) == "imok"
    lines = (server.directory / "zookeeper.log").read_text().count("Unsuccessful handshake")
    assert 1 <= lines <= REFUSALS_LOGGED_AT_ONCE + 2


def test_while_a_fleet_moves_one_port_takes_both(fleet: TlsFleet, tmp_path: Path) -> None:
    settings = EmbeddedSettings(fsync=False, tls=fleet.folder(Role.ZOOKEEPER), plain=True)
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server:
        assert health(server, None) == health(server, fleet.folder(Role.BOOKIE)) == "imok"


def test_an_authority_of_the_same_name_takes_over_without_a_restart(
    fleet: TlsFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKIE_ZOOKEEPER_RENEWAL_S", str(LOOK_S))
    settings = EmbeddedSettings(fsync=False, tls=fleet.folder(Role.ZOOKEEPER))
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server:
        after = fleet.new_authority()
        both = fleet.authority.pem + after.pem
        fleet.folder(Role.ZOOKEEPER, signed_by=after, trusting=both)
        new = fleet.folder(Role.BOOKIE, "new", signed_by=after, trusting=both)
        assert first_answer(server, new) == "imok"
        assert health(server, fleet.folder(Role.BOOKIE, "old", trusting=both)) == "imok"


def first_answer(server: EmbeddedZooKeeper, credentials: Path) -> str:
    """Nothing is none: under TLS 1.3 who is refused may see the end before the reason."""
    while server.is_running:
        with suppress(UnavailableError):
            if answer := health(server, credentials):
                return answer
    raise AssertionError("it ended")


def test_a_server_with_the_certificate_of_a_bookie_does_not_start(
    fleet: TlsFleet, tmp_path: Path
) -> None:
    settings = EmbeddedSettings(tls=fleet.folder(Role.BOOKIE))
    with pytest.raises(SettingsError, match=r"bookie one of storage/demo.*expected.*zookeeper"):
        EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings)


def test_what_gives_it_renewed_files_ends_with_it(server: EmbeddedZooKeeper, fleet: TlsFleet):
    server.stop()
    renewal.renew(fleet.folder(Role.ZOOKEEPER), server.directory / "tls", server.pid, look_s=LOOK_S)


async def test_what_could_not_be_written_is_written_once_it_can(
    fleet: TlsFleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As on a disk that was full for a while."""
    stores, credentials = tmp_path / "not-yet", fleet.folder(Role.ZOOKEEPER)
    served = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE)
    looks = partial(renewal.renew, credentials, stores, served.pid, look_s=LOOK_S)
    renewing = asyncio.create_task(asyncio.to_thread(looks))
    await until(lambda: "goes on with the files it had" in capfd.readouterr().err)
    stores.mkdir()
    await until(lambda: (stores / KEYSTORE).exists())
    served.terminate()
    await asyncio.gather(served.wait(), renewing)
