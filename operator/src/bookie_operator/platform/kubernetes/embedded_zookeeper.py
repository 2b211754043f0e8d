"""Keeps the ZooKeeper that a cluster has of its own: its accounts, its volume, its server."""

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLAIM, Api, Object
from bookie_operator.platform.kubernetes.claims import write
from bookie_operator.platform.kubernetes.classes import access_mode
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.ownership import check_labels
from bookie_operator.platform.kubernetes.surroundings import (
    accounts,
    zookeeper,
    zookeeper_claim,
)


async def keep_zookeeper(api: Api, keeper: Keeper, cluster: BookieCluster) -> None:
    """While the cluster is paused, volume and server are left as they are: whoever brings an
    earlier state of it back has to stop the server, and may change the volume under it."""
    service, server = zookeeper(cluster)
    await keeper.keep(accounts(cluster))
    if cluster.spec.paused:
        await keeper.keep([service])
        return
    await _keep_claim(api, cluster)
    await keeper.keep([service, server])


async def _keep_claim(api: Api, cluster: BookieCluster) -> None:
    embedded, name = cluster.spec.metadata.embedded, cluster.metadata.name
    assert embedded is not None
    if await api.list(CLAIM, names.selector(name, names.ZOOKEEPER)):
        return
    mode = await access_mode(api, embedded.storage_class)
    wanted = zookeeper_claim(cluster, access_mode=mode)
    if await api.create(CLAIM, wanted) is None:
        await _label_again(api, wanted, name)


async def _label_again(api: Api, wanted: Object, cluster: str) -> None:
    """A claim of this name that has lost a label is the metadata: never to be deleted."""
    known = await api.get(CLAIM, str(wanted["metadata"]["name"]))
    if known is None:
        return  # gone again: the next pass makes it
    check_labels(CLAIM, known, cluster)
    await write(api, known, labels=wanted["metadata"]["labels"])
