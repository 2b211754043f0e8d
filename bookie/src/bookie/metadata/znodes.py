"""Single znodes over one session: read, create with its folders, compare-and-set, prune.

What the store and its collaborators share. A missing znode is None or empty here; who draws
consequences from that asks the cluster first (`zookeeper`).
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo.exceptions import NoNodeError, NotEmptyError

from bookie.errors import BadRequestError, UnavailableError
from bookie.metadata.multi_read import NO_NODE, Znode
from bookie.metadata.session import ZooKeeperSession

ZNODE_BYTES_MAX: Final = 1_000_000
"""ZooKeeper drops the connection on larger requests (jute.maxbuffer); this leaves room."""

CREATE_TRIES_MAX: Final = 4
READS_PER_REQUEST: Final = 256
"""So that an answer stays far below a megabyte, whatever the ensembles."""


class Znodes:
    """Reads are linearizable; errors as in `session`."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def get(self, path: str) -> tuple[bytes, Any] | None:
        """Data and kazoo's stat."""
        try:
            found: tuple[bytes, Any] = await self._session.read(lambda zk: zk.get_async(path))
        except NoNodeError:
            return None
        return found

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """The znodes in the order of the paths, a bounded number with one request."""
        found: list[Znode | None] = []
        for start in range(0, len(paths), READS_PER_REQUEST):
            asked = paths[start : start + READS_PER_REQUEST]
            for path, znode in zip(asked, await self._session.read_many(asked), strict=True):
                if not isinstance(znode, Znode) and znode != NO_NODE:
                    raise UnavailableError(f"ZooKeeper does not let us read {path}: error {znode}")
                found.append(znode if isinstance(znode, Znode) else None)
        return found

    async def exists(self, path: str) -> bool:
        return await self._session.read(lambda zk: zk.exists_async(path)) is not None

    async def children(self, path: str) -> list[str]:
        try:
            names: list[str] = await self._session.read(lambda zk: zk.get_children_async(path))
        except NoNodeError:
            return []
        return names

    async def create(
        self, path: str, raw: bytes, *, ephemeral: bool = False, repeat: bool = False
    ) -> None:
        """Creates the znode and the folders that it lacks; NodeExistsError when it is there."""
        _check_size(path, raw)
        for _ in range(CREATE_TRIES_MAX):
            # NoNode: a deletion pruned the folder between making it and using it.
            with suppress(NoNodeError):
                await self._session.write(
                    lambda zk: zk.create_async(path, raw, ephemeral=ephemeral, makepath=True),
                    repeat=repeat,
                )
                return
        raise UnavailableError(f"the folder of {path} was removed again and again: try again")

    async def set(self, path: str, raw: bytes, version: int, *, repeat: bool = False) -> int:
        """The new version; BadVersionError and NoNodeError are answers."""
        assert version >= 0, "a compare-and-set names the version it replaces"
        _check_size(path, raw)
        stat = await self._session.write(
            lambda zk: zk.set_async(path, raw, version=version), repeat=repeat
        )
        written: int = stat.version
        return written

    async def delete(self, path: str, *, version: int, repeat: bool = False) -> None:
        await self._session.write(lambda zk: zk.delete_async(path, version=version), repeat=repeat)

    async def prune(self, folder: str, *, below: str) -> None:
        """Removes folders that nothing is left in, up to `below`, as the stock client does."""
        while folder != below:
            try:
                await self._session.write(partial(_begin_delete, path=folder))
            except (NotEmptyError, NoNodeError, UnavailableError):
                return  # in use, or left for the next deletion
            folder = folder.rpartition("/")[0]


def _begin_delete(zk: Any, *, path: str) -> Any:
    return zk.delete_async(path)


def _check_size(path: str, raw: bytes) -> None:
    if len(raw) > ZNODE_BYTES_MAX:
        raise BadRequestError(
            f"{path} would hold {len(raw)} bytes, ZooKeeper takes {ZNODE_BYTES_MAX}: store less"
        )
