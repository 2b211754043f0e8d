"""Every attack on a fleet's ports, by who tries it: the same on this machine and on Kubernetes.

`must_work` are no attacks: those who may do something do it, by the same code, and whoever is to be
refused at a port reaches it. An attack that could never work would prove nothing.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import data_ports
import metadata_store
from control_plane import Calls
from kazoo.security import OPEN_ACL_UNSAFE
from strangers import Attacker

CONNECT_S: Final = 5.0
OF_JOBS: Final = frozenset(
    {
        "GetHealth",
        "ListLimbo",
        "GetAvailability",
        "ClearLimbo",
        "RecordLoss",
        "RecheckEntries",
        "Flush",
    }
)
OF_BOOKIES: Final = frozenset({"GetHealth", "ListLimbo", "GetAvailability"})
NOTHING: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Attack:
    """One try. `line`: of the threat model in docs/security.md."""

    line: str
    who: Attacker
    what: str
    run: Callable[[], tuple[bool, str]]
    must_work: bool = False
    """It is none: whoever may do it does it, by the same code."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Where a bookie and the fleet's ZooKeeper listen, and a ledger that somebody has written."""

    host: str
    admin: int
    stock: int
    run: int
    zookeeper: str
    """`host:port`"""
    bookie_id: str
    ledger_id: int

    def places(self) -> dict[str, data_ports.Place]:
        host, _, port = self.zookeeper.rpartition(":")
        return {
            "control plane": (self.host, self.admin),
            "stock port": (self.host, self.stock),
            "native port": (self.host, self.run),
            "ZooKeeper": (host, int(port)),
        }


def reached(doors: Doors, who: Attacker) -> Iterator[Attack]:
    """The ports are there for whoever is refused by them."""
    for line, place in doors.places().items():
        yield Attack(line, who, "connect", partial(_connect, place), must_work=True)


def _connect(place: data_ports.Place) -> tuple[bool, str]:
    try:
        socket.create_connection(place, CONNECT_S).close()
    except OSError as error:
        return True, f"{place[0]}:{place[1]} is not reached: {error}"
    return False, f"{place[0]}:{place[1]} is open"


def on_control_plane(
    doors: Doors, calls: Calls, who: Attacker, allowed: frozenset[str]
) -> Iterator[Attack]:
    """Every call that this one may not make; one that it may must work."""
    meant = {"bookie-id": doors.bookie_id, "cluster-id": "any", "boot-epoch": "0"}
    admin = f"{doors.host}:{doors.admin}"
    for method in calls.methods:
        if method not in allowed:
            call = partial(calls.call, who, admin, method, meant)
            yield Attack("control plane", who, method, call)
    if "GetHealth" in allowed:
        health = partial(calls.call, who, admin, "GetHealth", {})
        yield Attack("control plane", who, "GetHealth", health, must_work=True)


def by_a_persons_word(
    doors: Doors, calls: Calls, who: Attacker, *, looks: Attacker, may: bool
) -> Attack:
    """A loss of what nobody has lost. Who may say so is answered, by the entries that are there.
    `looks`: who may ask the bookie whom a call has to mean."""
    admin = f"{doors.host}:{doors.admin}"
    record = partial(calls.call, who, admin, "RecordLoss", calls.meant(looks, admin))
    return Attack("control plane", who, "a loss by a person's word", record, must_work=may)


def of_stranger(doors: Doors, who: Attacker) -> Iterator[Attack]:
    """By somebody without a certificate of the fleet's authority, at the ports for clients."""
    for what, fence in (("read an entry", False), ("fence a ledger", True)):
        frame = data_ports.v2_read(doors.ledger_id, 0, fence=fence)
        ask = partial(data_ports.ask_stock, who, (doors.host, doors.stock), frame)
        yield Attack("stock port", who, f"{what}, version 2", ask)
    greet = partial(data_ports.greet_native, who, (doors.host, doors.run))
    yield Attack("native port", who, "greet", greet)
    for what, work in (("read all passwords", read), ("delete all ledgers", wipe)):
        attempt = partial(metadata_store.attempt, who, doors.zookeeper, work)
        yield Attack("ZooKeeper", who, what, attempt)


def of_client(doors: Doors, who: Attacker) -> Iterator[Attack]:
    """By an application with credentials: it reads, and changes nothing that is the fleet's."""
    frame = data_ports.v2_read(doors.ledger_id, 0)
    ask = partial(data_ports.ask_stock, who, (doors.host, doors.stock), frame)
    yield Attack("stock port", who, "read an entry, version 2", ask, must_work=True)
    reading = partial(metadata_store.attempt, who, doors.zookeeper, read)
    yield Attack("ZooKeeper", who, "read all passwords", reading, must_work=True)
    for what, path in (
        ("delete a bookie's cookie", f"/ledgers/cookies/{doors.bookie_id}"),
        ("delete the instance id", "/ledgers/INSTANCEID"),
        ("delete the layout", "/ledgers/LAYOUT"),
    ):
        work = partial(_delete, path=path)
        attempt = partial(metadata_store.attempt, who, doors.zookeeper, work)
        yield Attack("ZooKeeper", who, what, attempt)
    for what, work in (
        ("open a cookie to all", partial(_open_to_all, path=f"/ledgers/cookies/{doors.bookie_id}")),
        ("register a bookie", partial(_make, path="/ledgers/available/bookie-9")),
        ("a later boot of a bookie", partial(_set_own, kind=f"epochs/{doors.bookie_id}")),
        ("a scrub's checkpoint", partial(_make_own, kind="private/repair%2Fcheckpoint-deep")),
        ("a pause of the cluster", partial(_make_own, kind="private/collection%2Fpaused")),
    ):
        attempt = partial(metadata_store.attempt, who, doors.zookeeper, work)
        yield Attack("ZooKeeper", who, what, attempt)


def of_odd_name(doors: Doors, calls: Calls, who: Attacker) -> Iterator[Attack]:
    """By one whose certificate is of the fleet's authority, and whose name is not quite one."""
    meant = {"bookie-id": doors.bookie_id, "cluster-id": "any", "boot-epoch": "0"}
    call = partial(calls.call, who, f"{doors.host}:{doors.admin}", "GetHealth", meant)
    yield Attack("control plane", who, "GetHealth", call)
    frame = data_ports.v2_read(doors.ledger_id, 0)
    ask = partial(data_ports.ask_stock, who, (doors.host, doors.stock), frame)
    yield Attack("stock port", who, "read an entry, version 2", ask)
    reading = partial(metadata_store.attempt, who, doors.zookeeper, read)
    yield Attack("ZooKeeper", who, "read all passwords", reading)


def odd_names(fleet: str) -> dict[str, list[str]]:
    """What is odd about them, and the URIs; `fleet`: how all names of the fleet begin."""
    operator = f"{fleet}/operator/operator"
    other = f"{fleet.rpartition('/')[0]}/other/operator/operator"
    return {
        "is the operator's and more behind a zero byte": [f"{operator}\0/client/one"],
        "has its role in capitals": [operator.replace("/operator/", "/OPERATOR/")],
        "is spelled with a percent sign": [operator.replace("/operator/", "/%6fperator/")],
        "begins in capitals": [operator.replace("spiffe", "SPIFFE")],
        "has a part too many": [f"{operator}/"],
        "is of two roles": [operator, f"{fleet}/client/client"],
        "is of two fleets": [operator, other],
        "is of another fleet": [other],
    }


def read(zk: Any) -> object:
    return [zk.get(path)[0][:40] for path in metadata_store.ledger_znodes(zk, "/ledgers")]


def wipe(zk: Any) -> object:
    paths = metadata_store.ledger_znodes(zk, "/ledgers")
    return [zk.delete(path) for path in paths]


def _delete(zk: Any, *, path: str) -> object:
    return zk.delete(path)


def _open_to_all(zk: Any, *, path: str) -> object:
    return zk.set_acls(path, OPEN_ACL_UNSAFE)


def _make(zk: Any, *, path: str) -> object:
    return zk.create(path, b"forged")


def _make_own(zk: Any, *, kind: str) -> object:
    return zk.create(_own(zk, kind), b"forged")


def _set_own(zk: Any, *, kind: str) -> object:
    return zk.set(_own(zk, kind), b'{"epoch": 99}')


def _own(zk: Any, kind: str) -> str:
    """A znode of the product's own, beside the cluster."""
    return f"/bookie-operator/{zk.get('/ledgers/INSTANCEID')[0].decode()}/{kind}"
