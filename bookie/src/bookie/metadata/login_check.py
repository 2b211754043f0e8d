"""Whether a login is the one that a cluster's own znodes are for.

By scheme digest any password is taken, and makes another user of whoever has a wrong one: that
shows only in what access lists then forbid. Who has to write there can ask first.
"""

from kazoo.exceptions import NoNodeError
from kazoo.security import ANYONE_ID_UNSAFE, Permissions

from bookie.errors import UnavailableError
from bookie.metadata.login import FAILED
from bookie.metadata.store import MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore


async def check_login(store: MetadataStore) -> None:
    """UnavailableError where a cluster that exists belongs to another user than our login."""
    if not isinstance(store, ZooKeeperStore) or store.session.settings.login is None:
        return
    session, path = store.session, store.paths.instance_id
    try:
        lists, _stat = await session.read(lambda zk: zk.get_acls_async(path))
    except NoNodeError:  # nobody has made it yet
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
