"""Operations on single znodes: read, create with the folders above, compare-and-set, prune.

The store and its collaborators share them. A missing znode is None or empty here; a caller that
draws conclusions from that must check the cluster first (`zookeeper`).
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
"""The largest value. ZooKeeper drops the connection on larger requests (jute.maxbuffer); this
leaves a margin."""

CREATE_TRIES_MAX: Final = 4
READS_PER_REQUEST: Final = 256
"""How many znodes one request reads, so that an answer stays far below a megabyte, whatever the
ensembles."""


class Znodes:
    """Znodes on one session. Reads are linearizable; errors are as in `session`."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def get(self, path: str) -> tuple[bytes, Any] | None:
        """Read a znode: its data and kazoo's stat; None when there is none."""
        try:
            found: tuple[bytes, Any] = await self._session.read(lambda zk: zk.get_async(path))
        except NoNodeError:
            return None
        return found

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read znodes, in the order of the paths, a bounded number with one request."""
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
        """Create the znode and the folders above it; NodeExistsError when it exists."""
        _check_size(path, raw)
        for _ in range(CREATE_TRIES_MAX):
            # NoNode: a deletion has pruned the folder between its creation and its use.
            with suppress(NoNodeError):
                await self._session.write(
                    lambda zk: zk.create_async(path, raw, ephemeral=ephemeral, makepath=True),
                    repeat=repeat,
                )
                return
        raise UnavailableError(f"the folder of {path} was removed again and again: try again")

    async def set(self, path: str, raw: bytes, version: int, *, repeat: bool = False) -> int:
        """Compare-and-set; returns the new version. BadVersionError and NoNodeError are answers."""
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
        """Remove empty folders upwards, up to `below`, as the stock client does."""
        while folder != below:
            try:
                await self._session.write(partial(_begin_delete, path=folder))
            except (NotEmptyError, NoNodeError, UnavailableError):
                return  # it is in use, or a later deletion removes it
            folder = folder.rpartition("/")[0]


def _begin_delete(zk: Any, *, path: str) -> Any:
    return zk.delete_async(path)


def _check_size(path: str, raw: bytes) -> None:
    if len(raw) > ZNODE_BYTES_MAX:
        raise BadRequestError(
            f"{path} would hold {len(raw)} bytes, ZooKeeper takes {ZNODE_BYTES_MAX}: store less"
        )
