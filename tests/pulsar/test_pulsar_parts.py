"""What the programs write, and how they come to bookies under TLS."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pulsar_claims import Claim, Outcome
from pulsar_tls import Secured

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def rule() -> ModuleType:
    """programs/payload.py, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("pulsar_payload", PROGRAMS / "payload.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_message_of_the_rule_is_known_by_its_number(rule: Any) -> None:
    for number in (0, 7, 10**6):
        content = rule.payload("topic", "k1", number, 5)
        assert rule.number_of(content, topic="topic", key="k1", seed=5) == number


@pytest.mark.parametrize("other", [{"topic": "t"}, {"key": "k2"}, {"seed": 6}])
def test_a_message_of_another_topic_key_or_run_is_foreign(rule: Any, other: Any) -> None:
    asked = {"topic": "topic", "key": "k1", "seed": 5} | other
    assert rule.number_of(rule.payload("topic", "k1", 3, 5), **asked) is None


@pytest.mark.parametrize("damage", [b"", b"topic k1 x 5 ", b"topic k1 3 5 00"])
def test_damaged_messages_are_foreign(rule: Any, damage: bytes) -> None:
    assert rule.number_of(damage, topic="topic", key="k1", seed=5) is None


def test_without_credentials_everything_is_in_plain(tmp_path: Path) -> None:
    assert Secured.of(None, tmp_path) == Secured({}, {}, ())


def test_the_key_for_zookeeper_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    for name in ("tls.key", "tls.crt", "ca.crt"):
        (tmp_path / name).write_text(name)
    secured = Secured.of(tmp_path, tmp_path)
    made = tmp_path / "zookeeper.pem"
    assert made.read_text() == "tls.keytls.crt" and made.stat().st_mode & 0o077 == 0
    assert f"-Dzookeeper.ssl.keyStore.location={made}" in secured.flags


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome((Claim("one", True), Claim("two", False))), "1 passed, 1 failed"),
        (Outcome((Claim("one", True),), error="the fleet did not come up"), "1 passed, 1 failed"),
        (Outcome((Claim("one", True),)), "1 passed, 0 failed"),
    ],
)
def test_what_ended_a_run_counts_as_a_failure(outcome: Outcome, words: str) -> None:
    assert outcome.counted == words
