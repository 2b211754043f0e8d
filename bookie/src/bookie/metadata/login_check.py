"""Checks whether a login is the one that owns the znodes of a cluster.

With the scheme digest ZooKeeper accepts any password; a wrong one just makes the client another
user, which shows only when an access list forbids something. A program that is going to write can
check first.
"""

from kazoo.exceptions import NoNodeError
from kazoo.security import ANYONE_ID_UNSAFE, Permissions

from bookie.errors import UnavailableError
from bookie.metadata.login import FAILED
from bookie.metadata.store import MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore


async def check_login(store: MetadataStore) -> None:
    """Raise UnavailableError when the cluster exists and belongs to another user than our login."""
    if not isinstance(store, ZooKeeperStore) or store.session.settings.login is None:
        return
    session, path = store.session, store.paths.instance_id
    try:
        lists, _stat = await session.read(lambda zk: zk.get_acls_async(path))
    except NoNodeError:  # there is no cluster yet
        return
    owners = [one.id for one in lists if one.perms == Permissions.ALL]
    mine = {*session.closed_access.fleet, ANYONE_ID_UNSAFE}
    if session.closed_access.is_super or not mine.isdisjoint(owners):
        return
    raise UnavailableError(
        f"{FAILED}: ZooKeeper at {session.hosts} knows us as {session.shown_as}, to whom "
        f"{path} does not belong: correct user and password in {session.settings.login}; a user "
        "that is new there needs `bookie metadata acls --apply` by the one of before"
    )
