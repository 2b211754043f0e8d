"""ZooKeeper's access lists: which principal may do what to which znode, as a pure function of its
path.

The fleet itself (bookies, operator, jobs, people who repair it) may do everything. Clients may do
what BookKeeper's own need: create, write and delete ledgers, draw ids, keep lists of ledgers for
logs. Everything else they may only read, such as the registered bookies. In ZooKeeper, removing a
znode takes DELETE on its parent, so clients never have DELETE on the cluster's root.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Id, Permissions

from bookie.metadata.layout import LOGS_PREFIX, OWN_ROOT, Paths

READ: Final = Permissions.READ
WRITE: Final = Permissions.WRITE
CREATE: Final = Permissions.CREATE
DELETE: Final = Permissions.DELETE
ALL: Final = Permissions.ALL
X509: Final = "x509"


class Place(Enum):
    """The purpose of a znode. The value: what clients may do to it, and a label."""

    SHARED = READ | CREATE, "shared"
    """A znode above the cluster, which other clusters may share."""
    ROOT = READ | CREATE, "root"
    OWN = READ, "own"
    """A znode that only the fleet writes: identities, registrations, cookies, epochs, marks."""
    IDS = READ | WRITE | CREATE | DELETE, "ids"
    LEDGER = READ | WRITE | CREATE | DELETE, "ledger"
    """The metadata of a ledger, or a folder of ledgers."""
    BARRIER = READ | WRITE, "barrier"
    VALUES = READ | CREATE, "values"
    LOG = READ | WRITE, "log"
    """The list of ledgers of a client's log."""

    def __init__(self, clients: int, label: str) -> None:
        self.clients = clients
        self.label = label


@dataclass(frozen=True, slots=True)
class Access:
    """The names in the access lists of one cluster.

    `fleet`: the names by which ZooKeeper knows the fleet itself; if empty, everyone may do
    everything. `clients`: the name of clients that may use the cluster. `is_super`: ZooKeeper lets
    the fleet do everything, whatever a list says.
    """

    fleet: tuple[Id, ...] = ()
    clients: Id = ANYONE_ID_UNSAFE
    is_super: bool = False

    def list_of(self, place: Place) -> list[ACL]:
        """The access list of a znode of this kind."""
        if not self.fleet:
            return list(OPEN_ACL_UNSAFE)
        # Clusters below one parent may have different clients.
        clients = ANYONE_ID_UNSAFE if place is Place.SHARED else self.clients
        return [*(ACL(ALL, one) for one in self.fleet), ACL(place.clients, clients)]

    def is_right(self, place: Place, found: list[ACL]) -> bool:
        """True when the access list `found` is right, in any order.

        It is also right if one of Apache's clients has reserved its ledgers for clients
        (zkEnableSecurity) while the fleet is ZooKeeper's super user.
        """
        if set(found) == set(self.list_of(place)):
            return True
        if place is Place.SHARED and self.fleet:
            return set(found) != set(
                OPEN_ACL_UNSAFE
            )  # somebody has restricted it, for other clusters
        by_client = place in (Place.LEDGER, Place.IDS) and self.clients != ANYONE_ID_UNSAFE
        return by_client and self.is_super and found == [ACL(ALL, self.clients)]


OPEN: Final = Access()


def place_of(path: str, paths: Paths) -> Place | None:
    """The purpose of a znode of this cluster; None for an unknown one."""
    if path == paths.root or not path.startswith(f"{paths.root}/"):
        return Place.ROOT if path == paths.root else _place_beside(path, paths)
    first = path.removeprefix(f"{paths.root}/").partition("/")[0]
    if first.isdecimal():
        return Place.LEDGER
    return PLACES.get(first)


PLACES: Final = {
    "LAYOUT": Place.OWN,
    "INSTANCEID": Place.OWN,
    "available": Place.OWN,
    "cookies": Place.OWN,
    "underreplication": Place.OWN,
    "idgen": Place.IDS,
    "idgen-long": Place.IDS,
}


def _place_beside(path: str, paths: Paths) -> Place | None:
    parent = paths.root.rpartition("/")[0]
    own = f"{parent}/{OWN_ROOT}"
    if path == own or f"{parent}/".startswith(f"{path}/"):
        return Place.SHARED
    if not path.startswith(f"{own}/"):
        return None
    _instance_id, _, kind = path.removeprefix(f"{own}/").partition("/")
    if kind.startswith(f"values/{LOGS_PREFIX}"):
        return Place.LOG
    return {"barriers": Place.BARRIER, "values": Place.VALUES}.get(kind, Place.OWN)
