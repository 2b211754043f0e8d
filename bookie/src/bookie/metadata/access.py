"""Who may do what to which znode: ZooKeeper's access lists, as a pure function over paths.

The fleet itself (bookies, operator, jobs, people who mend it) may do everything. Clients may do to
a cluster what BookKeeper's own need: make, write and delete ledgers, draw ids, keep the logs of
ledgers. The rest they may read, such as who the bookies are. Rights are ZooKeeper's: to remove a
znode takes DELETE on the folder that it lies in, so clients never have that on the cluster's root.
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
    """What a znode is for; the value: what clients may do to it."""

    SHARED = READ | CREATE, "shared"
    """Above a cluster: other clusters may lie beside it."""
    ROOT = READ | CREATE, "root"
    OWN = READ, "own"
    """The fleet's: identities, registrations, cookies, epochs, marks."""
    IDS = READ | WRITE | CREATE | DELETE, "ids"
    LEDGER = READ | WRITE | CREATE | DELETE, "ledger"
    """A ledger, or a folder of ledgers."""
    BARRIER = READ | WRITE, "barrier"
    VALUES = READ | CREATE, "values"
    LOG = READ | WRITE, "log"
    """Which ledgers a client's log has."""

    def __init__(self, clients: int, label: str) -> None:
        self.clients = clients
        self.label = label


@dataclass(frozen=True, slots=True)
class Access:
    """Who is who in the access lists of one cluster.

    `fleet`: the names by which ZooKeeper knows the fleet itself; without any, everyone may do
    everything. `clients`: the name of those who may use it. `is_super`: ZooKeeper lets the fleet do
    everything, whatever a list says.
    """

    fleet: tuple[Id, ...] = ()
    clients: Id = ANYONE_ID_UNSAFE
    is_super: bool = False

    def list_of(self, place: Place) -> list[ACL]:
        """The access list of a znode of this kind."""
        if not self.fleet:
            return list(OPEN_ACL_UNSAFE)
        # Clusters beside each other may have other clients.
        clients = ANYONE_ID_UNSAFE if place is Place.SHARED else self.clients
        return [*(ACL(ALL, one) for one in self.fleet), ACL(place.clients, clients)]

    def is_right(self, place: Place, found: list[ACL]) -> bool:
        """True when it is so, in whatever order.

        Also where one of Apache's clients has closed its ledgers (zkEnableSecurity), so that they
        are the clients' own, and the fleet is above all lists.
        """
        if set(found) == set(self.list_of(place)):
            return True
        if place is Place.SHARED and self.fleet:
            return set(found) != set(
                OPEN_ACL_UNSAFE
            )  # somebody has closed it, for clusters beside this one
        by_client = place in (Place.LEDGER, Place.IDS) and self.clients != ANYONE_ID_UNSAFE
        return by_client and self.is_super and found == [ACL(ALL, self.clients)]


OPEN: Final = Access()


def place_of(path: str, paths: Paths) -> Place | None:
    """What a znode of this cluster is for; None for one that is not known here."""
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
