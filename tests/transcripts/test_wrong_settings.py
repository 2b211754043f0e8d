"""What is said about settings that are wrong, and which of them a variable may override."""

from pathlib import Path
from typing import Any, Final

import pytest
from bookie.errors import SettingsError
from bookie.server.settings import load_settings, parse_settings
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

LEAST: Final[dict[str, Any]] = {
    "bookieId": "bookie-0",
    "metadata": "zk://zk:2181/ledgers",
    "journal": {"directory": "/j"},
    "ledgers": [{"directory": "/l"}],
}
TLS: Final = {"directory": "/t"}
WRONG: Final[tuple[dict[str, Any], ...]] = (
    {"bookieId": "-"}, {"bookieId": None}, {"metadata": "http://zk"}, {"metadata": "zk://"},
    {"journal": {}}, {"journal": {"directory": "/l"}}, {"ledgers": []},
    {"ledgers": [{"directory": "/l"}, {"directory": "/l"}]}, {"ledgers": [{"path": "/l"}]},
    {"port": {}}, {"ports": {"run": 65536, "stok": 1}}, {"ports": {"admin": None}},
    {"durability": {"ack": "disk", "flushIntervalSeconds": 0, "noteIdleFlushes": 0}},
    {"cookieFix": {"policy": "Always"}},
    {"storage": {"ringBytes": 1, "logFileBytes": 1, "directIo": "yes", "collectShareMax": 1.5}},
    {"limits": {"readThreads": 65, "replyBytes": 1, "replyBytesPerConnection": 1}},
    {"limits": {"requestBytes": 1, "connections": -1, "httpSeconds": 0}},
    {"lease": {"seconds": 10, "confirmSeconds": 5}}, {"lease": {"second": 10}},
    {"tls": {}}, {"tls": {**TLS, "mode": "Off"}}, {"tls": {**TLS, "clients": "some"}},
    {"authentication": {"mechanisms": []}}, {"authentication": {"mechanisms": ["tls"]}},
    {"authentication": {"mechanisms": ["tls"]}, "tls": {**TLS, "clients": "none"}},
    {"authentication": {"mechanisms": ["digest-md5"]}},
    {"authentication": {"mechanisms": ["gssapi"]}},
    {"authentication": {"mechanisms": ["gssapi"], "keytab": "/k"}},
    {"authentication": {"mechanisms": ["gssapi"], "keytab": "/k", "principal": "bookkeeper"}},
    {"authentication": {"mechanisms": ["plain"], "clientPrincipals": "("}},
    {"rack": "rack"}, {"advertised": {"http": "h:1"}}, {"advertised": {"run": "h"}},
    {"advertised": {"stock": "h:1"}, "ports": {"stock": None}},
)  # fmt: skip
FILES: Final = ("", "[]", "a: [", "bookieId: 1\nbookieId: 2\n", "a: 1\n---\nb: 2\n")
VARIABLES: Final = (
    ("BOOKIE_PORTS__RUN", "0"), ("BOOKIE_DURABILITY__JOURNAL_WRITE_DATA", "false"),
    ("BOOKIE_LIMITS__HTTPSECONDS", "4.5"), ("BOOKIE_TLS__DIRECTORY", "/t"), ("BOOKIE_RACK", "/r"),
    ("BOOKIE_PORTS__RUM", "0"), ("BOOKIE_PORT__RUN", "0"), ("BOOKIE_RACK__NAME", "0"),
    ("BOOKIE_PORTS__RUN", "["), ("BOOKIE_PORTS__RUN", "many"), ("BOOKIE_BOOKIEID", ""),
)  # fmt: skip


def test_wrong_settings(snapshot: SnapshotAssertion) -> None:
    texts = []
    for changes in WRONG:
        with pytest.raises(SettingsError) as refused:
            parse_settings(LEAST | changes, source="bookie.yaml")
        texts.append(f"{changes}\n    {refused.value}\n")
    with pytest.raises(SettingsError) as refused:
        parse_settings({}, source="bookie.yaml")
    texts.append(f"nothing\n    {refused.value}\n")
    assert snapshot(extension_class=Words) == "".join(texts)


def test_files_that_are_none(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    texts = []
    for content in FILES:
        file = tmp_path / "bookie.yaml"
        file.write_text(content)
        with pytest.raises(SettingsError) as refused:
            load_settings(file, {})
        texts.append(f"{content!r}\n    {refused.value}\n".replace(str(file), "FILE"))
    assert snapshot(extension_class=Words) == "".join(texts)


def test_variables(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    file = tmp_path / "bookie.yaml"
    file.write_text(str(LEAST))
    usual = load_settings(file, {}).model_dump()
    texts = []
    for name, value in VARIABLES:
        try:
            found = load_settings(file, {name: value}).model_dump()
            said: object = {key: found[key] for key in found if found[key] != usual[key]}
        except SettingsError as error:
            said = str(error).replace(str(file), "FILE")
        texts.append(f"{name}={value}\n    {said}\n")
    assert snapshot(extension_class=Words) == "".join(texts)
