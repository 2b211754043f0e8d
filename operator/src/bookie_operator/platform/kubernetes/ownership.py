"""Decides whether an existing object belongs to this cluster: others' objects are never written.
Pure.

Names are made from the cluster's name, so another cluster or somebody else may already use them:
`a-bookies` is a service of the cluster `a`, and the service of a cluster `a-bookies`.
"""

from bookie.errors import UnavailableError
from bookie.ids import BookieId

from bookie_operator.errors import NameTakenError
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLUSTER, Kind, Object


def check_ours(kind: Kind, found: Object, wanted: Object) -> None:
    """Raise unless `found` may become `wanted`.

    The owner tells, or, where somebody took the owner away, the labels.
    """
    mine = {one["uid"] for one in wanted["metadata"].get("ownerReferences") or ()}
    owners = found["metadata"].get("ownerReferences") or ()
    if any(one.get("uid") in mine for one in owners):
        _check_settings(kind, found, wanted)
        return
    controller = next((one for one in owners if one.get("controller")), None)
    if controller is None:
        if labels_of(wanted).items() <= labels_of(found).items():
            _check_settings(kind, found, wanted)
            return
        raise taken(kind, found, "nobody that is known")
    whose = f"{controller.get('kind')} {controller.get('name')}"
    cluster = labels_of(wanted).get(names.CLUSTER_LABEL)
    if (controller.get("kind"), controller.get("name")) == (CLUSTER.name, cluster):
        name = found["metadata"]["name"]
        raise UnavailableError(f"{kind.name} {name} is of an earlier {whose}, and goes with it")
    raise taken(kind, found, whose)


def _check_settings(kind: Kind, found: Object, wanted: Object) -> None:
    """What cannot be changed must be as it is wanted."""
    if found.get("immutable") and found.get("data") != wanted.get("data"):
        raise taken(kind, found, "somebody who gave it another content")


def check_labels(kind: Kind, found: Object, cluster: str, bookie_id: BookieId | str = "") -> None:
    """Raise unless an object without an owner has the labels of this cluster.

    One label may have been taken away by hand: the bookie's tells enough.
    """
    labels = labels_of(found)
    whose = labels.get(names.CLUSTER_LABEL)
    is_bookies = bool(bookie_id) and labels.get(names.BOOKIE_LABEL) == bookie_id
    if whose != cluster and not (whose is None and is_bookies):
        raise taken(kind, found, f"cluster {whose}" if whose else "nobody that is known")


def owning_cluster(thing: Object) -> str:
    """The uid of the cluster that owns it; empty = none does."""
    owners = thing["metadata"].get("ownerReferences") or ()
    return next((str(one.get("uid")) for one in owners if one.get("kind") == CLUSTER.name), "")


def is_of(thing: Object, uid: str) -> bool:
    """Whether it may be of the cluster with this uid, and surely is of no other. What an earlier
    cluster of the name owns is deleted with that one, some time after it."""
    return owning_cluster(thing) in ("", uid)


def taken(kind: Kind, found: Object, whose: str) -> NameTakenError:
    name = found["metadata"]["name"]
    return NameTakenError(
        f"{kind.name} {name} exists already and belongs to {whose}; expected none, or this "
        "cluster's: delete it, or give the cluster another name"
    )


def labels_of(thing: Object) -> dict[str, str]:
    return dict(thing["metadata"].get("labels") or {})
