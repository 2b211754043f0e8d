"""Volume claims: finds the claim that was planned for, and changes its labels and size.

A server-side apply removes each of our fields that it leaves out. So each write has both labels and
size: without the size, a claim that once grew would request none, which the API server refuses.
"""

from collections.abc import Mapping

from bookie.errors import BookieError
from bookie.ids import BookieId

from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.quantity import is_smaller
from bookie_operator.plan.actions import DiskTemplate
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLAIM, Api, Object
from bookie_operator.platform.kubernetes.ownership import check_labels


def very(metadata: Object) -> Object:
    """Names that very object: an apply never makes another one in its place."""
    return {"name": metadata["name"], "uid": metadata["uid"]}


async def write(
    api: Api, claim: Object, *, labels: Mapping[str, str] | None = None, size: str = ""
) -> None:
    """Write labels and size of this very claim; what is not given stays as it is."""
    metadata = claim["metadata"]
    asked = {"storage": size or _size(claim)}
    kept = dict(metadata.get("labels") or {} if labels is None else labels)
    spec = {"resources": {"requests": asked}}
    await api.apply(CLAIM, {"metadata": very(metadata) | {"labels": kept}, "spec": spec})


def _size(claim: Object) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


async def planned_claim(api: Api, name: str, *, uid: str) -> Object:
    """The claim of this name. PreconditionError when it is another one by now, or none."""
    known = await api.get(CLAIM, name)
    if known is None or known["metadata"]["uid"] != uid:
        found = known["metadata"]["uid"] if known else "none"
        raise PreconditionError(f"claim {name} is {found}, planned for {uid}")
    return known


async def take_back(
    api: Api, known: Object, cluster: str, bookie_id: BookieId, disk: DiskTemplate
) -> bool:
    """A volume kept when its bookie left serves again, and one whose labels somebody took away
    is the bookie's that runs on it. False: it is ending, and is waited for."""
    check_labels(CLAIM, known, cluster, bookie_id)
    if "deletionTimestamp" in known["metadata"]:
        return False
    labels = names.labels(cluster, names.BOOKIE, bookie=bookie_id, disk=disk.name)
    await write(api, known, labels=labels)
    return True


async def leave(api: Api, claim: Object) -> None:
    """The volume of a bookie that has left is nobody's, and kept."""
    await write(api, claim, labels={**claim["metadata"]["labels"], names.RETAINED_LABEL: "true"})


async def expand(api: Api, claim: Object, size: str) -> bool:
    """Ask for this size; False: it was asked for already."""
    if _size(claim) == size:
        return False
    await write(api, claim, size=size)
    return True


async def expand_zookeeper(api: Api, cluster: BookieCluster) -> dict[str, BookieError]:
    """The metadata's volume grows with the spec as well; it serves on if that is refused."""
    embedded = cluster.spec.metadata.embedded
    if embedded is None or cluster.spec.paused:
        return {}
    for claim in await api.list(CLAIM, names.selector(cluster.metadata.name, names.ZOOKEEPER)):
        try:
            if is_smaller(_size(claim), embedded.size):
                await expand(api, claim, embedded.size)
        except BookieError as error:
            return {f"{CLAIM.name} {claim['metadata']['name']}": error}
    return {}
