"""Who may do what to which znode."""

import pytest
from bookie.metadata.access import (
    ALL,
    CREATE,
    DELETE,
    OPEN,
    READ,
    WRITE,
    Access,
    Place,
    place_of,
)
from bookie.metadata.layout import Paths, value_node
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

PATHS = Paths("/east/ledgers")
FLEET, CLIENT = Id("x509", "CN=fleet.demo.storage"), Id("x509", "CN=client.demo.storage")
CLOSED = Access((FLEET,), CLIENT, is_super=True)
OWN = "/east/bookie-operator/instance"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/east", Place.SHARED),
        ("/east/bookie-operator", Place.SHARED),
        ("/east/ledgers", Place.ROOT),
        ("/east/ledgers/INSTANCEID", Place.OWN),
        ("/east/ledgers/LAYOUT", Place.OWN),
        ("/east/ledgers/cookies/bookie-0", Place.OWN),
        ("/east/ledgers/available/readonly/bookie-0", Place.OWN),
        ("/east/ledgers/underreplication/ledgers/0000", Place.OWN),
        ("/east/ledgers/idgen/ID-0000000001", Place.IDS),
        ("/east/ledgers/idgen-long/HOB-0000000001", Place.IDS),
        ("/east/ledgers/00", Place.LEDGER),
        ("/east/ledgers/00/0000/L0001", Place.LEDGER),
        ("/east/ledgers/000/0000/0000/0021/L4748", Place.LEDGER),
        (OWN, Place.OWN),
        (f"{OWN}/epochs/bookie-0", Place.OWN),
        (f"{OWN}/barriers", Place.BARRIER),
        (f"{OWN}/values", Place.VALUES),
        (f"{OWN}/values/{value_node('logs/orders')}", Place.LOG),
        (f"{OWN}/private", Place.OWN),
        (f"{OWN}/private/{value_node('checkpoints/repair')}", Place.OWN),
        ("/east/ledgers/somebody-elses", None),
        ("/west/ledgers", None),
    ],
)
def test_a_znode_is_for_one_thing(path: str, place: Place | None) -> None:
    assert place_of(path, PATHS) is place


def rights_of(who: Id, place: Place) -> int:
    found: int = sum(one.perms for one in CLOSED.list_of(place) if one.id == who)
    return found


@pytest.mark.parametrize("place", Place)
def test_the_fleet_may_do_everything_and_clients_never_change_lists(place: Place) -> None:
    assert rights_of(FLEET, place) == ALL
    assert rights_of(CLIENT, place) & ~(CREATE | DELETE | READ | WRITE) == 0


def test_a_client_makes_writes_and_deletes_ledgers() -> None:
    assert rights_of(CLIENT, Place.LEDGER) == READ | WRITE | CREATE | DELETE


def test_no_client_deletes_what_a_cluster_lives_by() -> None:
    """A znode is deleted with the right to its folder: cookies, and the root with INSTANCEID."""
    for folder in (Place.ROOT, Place.OWN, Place.VALUES, Place.SHARED):
        assert rights_of(CLIENT, folder) & (DELETE | WRITE) == 0


def test_without_a_fleet_everything_is_open_as_ever() -> None:
    assert all(OPEN.list_of(place) == OPEN_ACL_UNSAFE for place in Place)


def test_the_order_of_a_list_does_not_matter() -> None:
    assert CLOSED.is_right(Place.ROOT, CLOSED.list_of(Place.ROOT)[::-1])
    assert not CLOSED.is_right(Place.ROOT, list(OPEN_ACL_UNSAFE))


def test_what_a_stock_client_closed_for_itself_is_right_where_the_fleet_is_above_it() -> None:
    closed = [ACL(ALL, CLIENT)]
    assert CLOSED.is_right(Place.LEDGER, closed)
    assert not CLOSED.is_right(Place.OWN, closed)
    assert not Access((FLEET,), CLIENT).is_right(Place.LEDGER, closed)


def test_id_counters_that_a_stock_client_closed_for_itself_are_right_as_its_ledgers_are() -> None:
    closed = [ACL(ALL, CLIENT)]
    assert CLOSED.is_right(Place.IDS, closed)
    assert not Access((FLEET,), CLIENT).is_right(Place.IDS, closed)
