"""Settings: every wrong value is named with what was found and what is expected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie.boot.claim import outlasts_s
from bookie.boot.cookie_fix import FixPolicy
from bookie.errors import SettingsError
from bookie.protocol.collection import CollectionRules
from bookie.server.pacing import BusyRates
from bookie.server.part_settings import (
    boot_settings,
    busy_rates,
    collection_rules,
    reply_limits,
    request_limits,
    zookeeper_settings,
)
from bookie.server.replies import MIB, ReplyLimits
from bookie.server.sessions import RequestLimits
from bookie.server.settings import BookieSettings, load_settings
from bookie.storage.modes import DurabilityMode
from bookie.storage.settings import StorageSettings

GOOD: dict[str, Any] = {
    "bookieId": "bookie-0",
    "metadata": "memory://m",
    "journal": {"directory": "/disks/journal"},
    "ledgers": [{"directory": "/disks/0"}, {"directory": "/disks/1"}],
}
VOLUMES: dict[str, Any] = {
    "journal": {"directory": "/disks/journal", "volumeUid": "u-journal"},
    "ledgers": [{"directory": f"/disks/{n}", "volumeUid": f"u-{n}"} for n in range(2)],
}
TLS = {"directory": "/tls"}
PASSWORDS = {"mechanisms": ["digest-md5"], "usersFile": "/u"}


def load(
    folder: Path,
    change: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> BookieSettings:
    path = folder / "bookie.yaml"
    path.write_text(yaml.safe_dump(GOOD | dict(change or {})))
    return load_settings(path, environment or {})


def test_defaults_journal_everything(tmp_path: Path) -> None:
    assert load(tmp_path).durability.mode is DurabilityMode.JOURNAL


def test_a_storage_of_its_own_notes_as_long_as_one_of_a_bookie_without_a_setting(
    tmp_path: Path,
) -> None:
    of_bookie = boot_settings(load(tmp_path)).storage.note_idle_flushes
    of_itself = StorageSettings(tmp_path, (tmp_path,), DurabilityMode.MEMORY).note_idle_flushes
    assert of_itself == of_bookie


def test_each_part_gets_the_settings_that_are_its_own(tmp_path: Path) -> None:
    limits = {
        "recoveryBytesPerSecondBusy": 13, "requestBytes": 20 * MIB, "requestSeconds": 3,
        "replyBytes": 32 * MIB, "replyBytesPerConnection": 9 * MIB, "replySeconds": 4,
    }  # fmt: skip
    storage = {
        "collectIntervalSeconds": 5, "collectGraceSeconds": 7, "collectShareMax": 0.5,
        "collectBrakeFrom": 9, "compactionBytesPerSecondBusy": 11,
    }  # fmt: skip
    lease = {"seconds": 50, "confirmSeconds": 6}
    made = load(tmp_path, {"limits": limits, "storage": storage, "lease": lease})
    assert collection_rules(made) == CollectionRules(grace_s=7, share_max=0.5, brake_from=9)
    assert busy_rates(made) == BusyRates(recovery=13, compaction=11)
    assert request_limits(made.limits) == RequestLimits(total=20 * MIB, seconds=3)
    assert reply_limits(made.limits) == ReplyLimits(9 * MIB, 32 * MIB, seconds=4)
    boot = boot_settings(made)
    assert (boot.lease_s, boot.lease_wait_s) == (50, outlasts_s(50)) and outlasts_s(50) > 50


def test_the_storage_gets_the_settings_that_are_its_own(tmp_path: Path) -> None:
    durability = {"journalWriteData": False, "flushIntervalSeconds": 7, "noteIdleFlushes": 5}
    sizes = {"ringBytes": 32 * MIB, "logFileBytes": 64 * MIB, "directIo": "off"}
    fix = {"cookieFix": {"policy": "Approve"}}
    made = load(tmp_path, {"durability": durability, "storage": sizes, **fix} | VOLUMES)
    boot = boot_settings(made)
    assert boot.storage == StorageSettings(
        Path("/disks/journal"), (Path("/disks/0"), Path("/disks/1")), DurabilityMode.MEMORY,
        flush_interval_s=7, note_idle_flushes=5,
        ring_bytes=32 * MIB, log_file_bytes=64 * MIB, direct_io="off",
    )  # fmt: skip
    assert (boot.bookie_id, boot.policy) == ("bookie-0", FixPolicy.APPROVE)
    assert boot.volume_uids == ("u-journal", "u-0", "u-1")


@pytest.mark.parametrize(("together", "alone", "least"), [(20, 30, 20), (30, 20, 20)])
def test_one_connection_may_hold_no_more_replies_than_all_together(
    tmp_path: Path, together: int, alone: int, least: int
) -> None:
    sizes = {"replyBytes": together * MIB, "replyBytesPerConnection": alone * MIB}
    found = reply_limits(load(tmp_path, {"limits": sizes}).limits)
    assert (found.per_connection, found.total) == (least * MIB, together * MIB)


@pytest.mark.parametrize(
    ("durability", "mode"),
    [
        ({"journalWriteData": False}, DurabilityMode.MEMORY),
        ({"journalWriteData": False, "ack": "sync"}, DurabilityMode.SYNC),
        ({"journalWriteData": True, "ack": "sync"}, DurabilityMode.JOURNAL),
    ],
)
def test_durability_settings_choose_the_mode(
    tmp_path: Path, durability: dict[str, Any], mode: DurabilityMode
) -> None:
    assert load(tmp_path, {"durability": durability}).durability.mode is mode


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"journalWriteDatas": False}, "unknown setting journalWriteDatas"),
        ({"durability": {"journalWritData": False}}, "did you mean journalWriteData"),
        ({"durability": {"ack": "disk"}}, "durability.ack: input should be 'memory' or 'sync'"),
        ({"ports": {"run": 70000}}, "ports.run: .*65535, found 70000"),
        ({"metadata": "localhost:2181"}, "metadata: .*found 'localhost:2181'"),
        ({"metadata": "zk://localhost/ledgers"}, "metadata: .*expected zk://host:port"),
        ({"ledgers": []}, "ledgers: .*at least 1"),
        ({"ledgers": [{"directory": "/disks/journal"}]}, "directory /disks/journal is named twice"),
        ({"bookieId": None}, "bookieId: input should be a valid string"),
        ({"rack": "rack-a"}, "rack: "),
        ({"rack": "/a//b"}, "rack: "),
        ({"advertised": {"stock": "a"}}, "advertised: stock: found .a., expected host:port"),
        ({"advertised": {"stock": "a:1"}, "ports": {"stock": None}}, "advertised.stock is given"),
        ({"advertised": {"admin": "a:1"}}, "advertised: unknown port admin, expected stock or run"),
        ({"ledgers": [{"dir": "/x"}]}, "unknown setting ledgers.0.dir"),
        ({"tls": TLS | {"directry": "/c"}}, "unknown setting tls.directry, did you mean directory"),
        ({"tls": {"clients": "none"}}, "tls.directory is missing"),
        ({"tls": TLS | {"mode": "Off"}}, "tls.mode: input should be .*, found 'Off'"),
        ({"tls": TLS | {"clients": "all"}}, "tls.clients: input should be .*, found 'all'"),
        ({"tls": TLS | {"handshakeSeconds": 0}}, "tls.handshakeSeconds: .*than 0, found 0"),
        ({"authentication": {}}, "authentication.mechanisms is missing"),
        ({"authentication": {"mechanisms": []}}, "authentication.mechanisms: .*at least 1"),
        (
            {"authentication": {"mechanisms": ["plain"]}},
            "'tls', 'digest-md5' or 'gssapi', found 'plain'",
        ),
        (
            {"authentication": {"mechanisms": ["digest-md5"]}},
            "authentication: usersFile is missing",
        ),
        ({"authentication": {"mechanisms": ["tls"]}}, "mechanisms has tls, expected a section tls"),
        ({"authentication": PASSWORDS | {"realm": "a:b"}}, "authentication.realm: "),
        ({"authentication": PASSWORDS | {"loginSeconds": 0}}, "authentication.loginSeconds: "),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load(tmp_path, change)


def test_a_missing_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bookie.yaml"
    path.write_text("bookieId: b\nmetadata: memory://m\nledgers: [{directory: /x}]\n")
    with pytest.raises(SettingsError, match="journal is missing"):
        load_settings(path, {})


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environment = {"BOOKIE_DURABILITY__JOURNAL_WRITE_DATA": "false", "BOOKIE_PORTS__RUN": "0"}
    settings = load(tmp_path, environment=environment)
    assert settings.durability.mode is DurabilityMode.MEMORY
    assert settings.ports.run == 0


def test_the_environment_reaches_a_section_that_may_be_absent(tmp_path: Path) -> None:
    names = {"DIRECTORY": "/tls", "MODE": "Accepted", "CLIENTS": "none"}
    environment = {f"BOOKIE_TLS__{name}": value for name, value in names.items()}
    assert load(tmp_path).tls is None
    found = load(tmp_path, environment=environment).tls
    assert found is not None and found.mode == "Accepted" and found.clients == "none"


def test_certificates_that_are_not_verified_are_no_way_in(tmp_path: Path) -> None:
    change = {"authentication": {"mechanisms": ["tls"]}, "tls": TLS | {"clients": "none"}}
    with pytest.raises(SettingsError, match="expected a section tls whose clients are required"):
        load(tmp_path, change)


def test_an_unknown_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"BOOKIE_DURABILITY__AKC.*did you mean ack"):
        load(tmp_path, environment={"BOOKIE_DURABILITY__AKC": "sync"})


def test_variables_of_other_programs_are_ignored(tmp_path: Path) -> None:
    assert load(tmp_path, environment={"PATH": "/bin"}).bookie_id == "bookie-0"


@pytest.mark.parametrize("text", ["- a\n", "just words", "{"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bookie.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError):
        load_settings(path, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read settings"):
        load_settings(tmp_path / "none.yaml", {})


def test_the_session_with_zookeeper_has_the_bookies_credentials(tmp_path: Path) -> None:
    change = {
        "tls": {"directory": "/tls", "mode": "Accepted"},
        "zookeeper": {"credentialsFile": "/login"},
    }
    session = zookeeper_settings(load(tmp_path, change))
    assert (session.tls, session.login) == (Path("/tls"), Path("/login"))
    assert session.open_access, "while a fleet moves to TLS"


def test_without_credentials_the_session_with_zookeeper_is_anybodys(tmp_path: Path) -> None:
    session = zookeeper_settings(load(tmp_path))
    assert (session.tls, session.login, session.open_access) == (None, None, False)
