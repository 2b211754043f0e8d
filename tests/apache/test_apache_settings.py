"""Which bookie of ours a test gets for Apache's settings, and which it does not get."""

import pytest
from apache_settings import NotOursError, Place, parsed, translated

PLACE = Place("127.0.0.1:4000", "127.0.0.1", 4000)
STOCK = {
    "metadataServiceUri": "zk+longhierarchical://a:1;b:2/ledgers",
    "journalDirectory": "/j",
    "ledgerDirectories": "/l,/m",
    "bookiePort": "4000",
}

USUAL = {"journalWriteData": False, "ack": "sync"}


def made(**more: str) -> dict[str, object]:
    return translated({**STOCK, **more}, PLACE, USUAL)


def test_a_bookie_is_where_the_test_looks_for_it() -> None:
    settings = made()
    assert settings["bookieId"] == "127.0.0.1:4000" and settings["host"] == "127.0.0.1"
    assert settings["metadata"] == "zk://a:1,b:2/ledgers"


def test_each_ledger_directory_is_one_of_ours() -> None:
    assert made()["ledgers"] == [{"directory": "/l/our-ledger-0"}, {"directory": "/m/our-ledger-1"}]


def test_deleted_ledgers_go_as_soon_as_the_test_wants() -> None:
    storage = made(gcWaitTime="60000")["storage"]
    assert isinstance(storage, dict) and storage["collectGraceSeconds"] == 60


@pytest.mark.parametrize(
    ("wanted", "durability"), [("true", {"journalWriteData": True}), ("false", USUAL)]
)
def test_a_test_has_the_journal_that_it_wants(wanted: str, durability: dict[str, object]) -> None:
    assert made(journalWriteData=wanted)["durability"] == durability


@pytest.mark.parametrize(
    "setting",
    [
        {"maxPendingAddRequestsPerThread": "1"},
        {"forceReadOnlyBookie": "true"},
        {"readOnlyModeEnabled": "false"},
        {"ledgerManagerFactoryClass": "some.MSLedgerManagerFactory"},
    ],
)
def test_what_our_bookie_has_not_is_refused_by_name(setting: dict[str, str]) -> None:
    with pytest.raises(NotOursError, match=next(iter(setting))):
        made(**setting)


@pytest.mark.parametrize("name", ["ledgerStorageClass", "auditorPeriodicCheckInterval"])
def test_what_no_client_sees_is_let_pass(name: str) -> None:
    assert made(**{name: "x"}) == made()


def test_a_value_may_have_the_sign_of_equality() -> None:
    assert parsed("a=b=c\nd=\n") == {"a": "b=c", "d": ""}
