"""Names in certificates: what is read back is what was written, and nothing else is a name."""

import pytest
from bookie.tls.principals import SERVER_DOMAIN, Principal, Role
from hypothesis import given
from hypothesis import strategies as st

BOOKIE = Principal("storage", "demo", Role.BOOKIE, "bookie-0")
WORDS = st.text(min_size=1, max_size=40)


@given(WORDS, WORDS, st.sampled_from(Role), WORDS)
def test_a_name_comes_back_from_its_uri(namespace: str, cluster: str, role: Role, name: str):
    principal = Principal(namespace, cluster, role, name)
    assert Principal.from_uri(principal.uri) == principal


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://elsewhere/storage/demo/bookie/bookie-0",
        "spiffe://bookie-operator/storage/demo/bookie",
        "spiffe://bookie-operator/storage/demo/king/bookie-0",
        "spiffe://bookie-operator/storage/demo/bookie/bookie-0/more",
        "spiffe://bookie-operator//demo/bookie/bookie-0",
        "spiffe://bookie-operator/storage/demo/%6Fperator/operator",
        "spiffe://bookie-operator/storage/demo/bookie/bookie%2D0",
        "spiffe://bookie-operator/storage/demo/bookie/%FF",
    ],
)
def test_nothing_else_is_a_name(uri: str):
    assert Principal.from_uri(uri) is None


def test_a_certificate_of_two_names_has_none():
    other = BOOKIE.peer(Role.OPERATOR, "operator")
    assert Principal.from_names([BOOKIE.uri, other.uri]) is None


def test_a_server_is_called_by_a_name_that_no_address_changes():
    assert BOOKIE.server_name == f"bookie-0.bookie.demo.storage.{SERVER_DOMAIN}"


@given(WORDS, WORDS)
def test_two_bookies_never_share_a_server_name(one: str, other: str):
    names = {BOOKIE.peer(Role.BOOKIE, name).server_name for name in (one, other)}
    assert len(names) == len({one, other})


def test_a_fleet_is_namespace_and_cluster():
    assert BOOKIE.is_of_fleet_of(BOOKIE.peer(Role.JOB, "repair"))
    assert not BOOKIE.is_of_fleet_of(Principal("other", "demo", Role.BOOKIE, "bookie-0"))


def test_zookeeper_knows_a_fleets_own_by_one_name_and_its_clients_by_another():
    own = {BOOKIE.peer(role, "any").x509_name for role in Role if role is not Role.CLIENT}
    assert own == {"CN=fleet.demo.storage"}
    assert BOOKIE.peer(Role.CLIENT, "any").x509_name == "CN=client.demo.storage"


@given(WORDS, WORDS, WORDS, WORDS)
def test_two_fleets_never_share_a_common_name(one: str, of_one: str, other: str, of_other: str):
    fleets = {(one, of_one), (other, of_other)}
    names = {Principal(*fleet, Role.BOOKIE, "any").common_name for fleet in fleets}
    assert len(names) == len(fleets)
    assert all(len(name) <= 64 for name in names)
