"""Keeps one bookie registered in ZooKeeper for as long as this process wants.

The registration is an ephemeral znode, which ends with its session. After every reconnection, and
whenever the znode changes, a keeper task checks and corrects it. It replaces a registration of an
earlier session if that is ours (of the same store, or of an earlier boot of the same bookie);
otherwise it waits until it is gone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from bookie.errors import BookieError, MetadataConflictError, MetadataFormatError
from bookie.metadata.layout import Paths, bookie_node
from bookie.metadata.service_info import decode_info, encode_info
from bookie.metadata.session import ZooKeeperSession
from bookie.metadata.store import BOOT_EPOCH_PROPERTY, BookieInfo

log = logging.getLogger(__name__)

RETRY_DELAY_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0
RACES_MAX: Final = 8
FORMER_SESSIONS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class _Node:
    """A registration as found: its session, version and bytes."""

    owner: int
    version: int
    raw: bytes


@dataclass(eq=False)
class Registration:
    """The registration of one bookie."""

    session: ZooKeeperSession
    paths: Paths
    info: BookieInfo
    """The wanted content; its bookie id never changes."""
    _: KW_ONLY
    check_cluster: Callable[[], Awaitable[object]]
    """Raises when the cluster is gone or was replaced by another one."""

    def __post_init__(self) -> None:
        self._node_name = bookie_node(self.info.bookie_id)
        self._own_sessions: deque[int] = deque(maxlen=FORMER_SESSIONS_MAX)
        """Ids of sessions that this process had: their registrations are its own."""
        self._turn = asyncio.Lock()
        """Held during one check and change: one at a time."""
        self._news = asyncio.Event()
        """Set when the registration may be wrong and must be checked."""
        self._keeper: asyncio.Task[None] | None = None
        """The task that checks whenever `_news` is set; it runs from the first successful
        `announce` on."""

    async def announce(self, info: BookieInfo) -> None:
        """Register the bookie, or change its registration, and keep it so from then on.

        Raises UnavailableError, and MetadataConflictError when another live session has registered
        the bookie. After a failed first call nothing goes on trying.
        """
        assert info.bookie_id == self.info.bookie_id
        self.info = info
        self.session.on_connected.add(self._news.set)
        try:
            await self._put_right()
        except BaseException:
            if self._keeper is None:
                self.session.on_connected.discard(self._news.set)
            raise
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"register {self._node_name}")

    async def withdraw(self) -> None:
        """Remove the registration; after UnavailableError it ends with the session."""
        await self.abandon()
        async with self._turn:
            for path in self._places():
                node = await self._look(path)
                if node is not None and self._is_own(node):
                    with suppress(NoNodeError):
                        await self.session.write(partial(_begin_delete, path=path))

    async def abandon(self) -> None:
        """Stop keeping it; the znode ends with the session."""
        self.session.on_connected.discard(self._news.set)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    async def _keep(self) -> None:
        while True:
            await self._news.wait()
            delay = RETRY_DELAY_S
            while not await self._tried():
                await asyncio.sleep(delay)
                delay = min(2 * delay, RETRY_DELAY_MAX_S)

    async def _tried(self) -> bool:
        self._news.clear()
        try:
            await self._put_right()
        except BookieError as error:
            log.warning("registration of %s will be tried again: %s", self._node_name, error)
            return False
        return True

    async def _put_right(self) -> None:
        """Check both places of the registration and correct what is wrong."""
        async with self._turn:
            for _ in range(RACES_MAX):
                await self.check_cluster()
                try:
                    await self._write()
                    if await self._is_watched():
                        return
                except (NodeExistsError, NoNodeError, BadVersionError):
                    continue  # another client was faster: look again
        raise MetadataConflictError(
            f"registration of {self._node_name} changed {RACES_MAX} times while it was written: "
            "look for a second process with this bookie id"
        )

    async def _is_watched(self) -> bool:
        """Set a watch on the registration; False when it is gone already."""
        stat = await self.session.read(
            lambda zk: zk.exists_async(self._places()[0], watch=self._watch)
        )
        return stat is not None and stat.ephemeralOwner == self.session.session_id

    def _places(self) -> tuple[str, str]:
        """The path where the registration belongs, and the other one, where it must not be."""
        writable = f"{self.paths.writable}/{self._node_name}"
        read_only = f"{self.paths.read_only}/{self._node_name}"
        return (read_only, writable) if self.info.read_only else (writable, read_only)

    async def _write(self) -> None:
        """Write the registration, once no other session's is in the way.

        It is one transaction, so that no reader sees the bookie in neither place or in both, and no
        older process of the same bookie can register in between.
        """
        raw = encode_info(self.info)
        wanted, other = self._places()
        here, there = await self._yielding(wanted), await self._yielding(other)
        session_id = self.session.session_id
        mine = here is not None and here.owner == session_id
        if mine and here is not None and here.raw == raw and there is None:
            return
        if self.info.read_only:
            await self.session.write(lambda zk: zk.ensure_path_async(self.paths.read_only))
        if session_id is not None and session_id not in self._own_sessions:
            self._own_sessions.append(session_id)

        def fill(changes: Any) -> None:
            if there is not None:
                changes.delete(other, version=there.version)
            if here is not None and mine:
                changes.set_data(wanted, raw, version=here.version)
            else:
                if here is not None:
                    changes.delete(wanted, version=here.version)
                changes.create(wanted, raw, ephemeral=True)

        await self.session.transact(fill)

    async def _yielding(self, path: str) -> _Node | None:
        """Read the registration at this path; wait first until one of another live
        process is gone.
        """
        node = await self._look(path)
        if node is None or self._is_own(node) or self._is_superseded(node):
            return node
        await self._wait_gone(path)
        return None

    async def _look(self, path: str) -> _Node | None:
        try:
            raw, stat = await self.session.read(lambda zk: zk.get_async(path))
        except NoNodeError:
            return None
        return _Node(owner=stat.ephemeralOwner, version=stat.version, raw=raw)

    def _is_own(self, node: _Node) -> bool:
        return node.owner == self.session.session_id or node.owner in self._own_sessions

    def _is_superseded(self, node: _Node) -> bool:
        """True for a registration of an earlier boot of this bookie. Boots take their epochs under
        the folder lock, so the process with a lower one no longer runs on these disks.
        """
        try:
            found = decode_info(node.raw, bookie_id=self.info.bookie_id, read_only=False)
            earlier = int(found.properties[BOOT_EPOCH_PROPERTY])
            return earlier < int(self.info.properties[BOOT_EPOCH_PROPERTY])
        except (KeyError, ValueError, MetadataFormatError):
            return False

    async def _wait_gone(self, path: str) -> None:
        changed = asyncio.Event()
        watch = self._watcher(changed.set)
        limit_s = self.session.settings.registration_wait_s
        try:
            async with asyncio.timeout(limit_s):
                while await self.session.read(lambda zk: zk.exists_async(path, watch=watch)):
                    await changed.wait()
                    changed.clear()
        except TimeoutError as error:
            raise MetadataConflictError(
                f"bookie {self._node_name} is registered by another session, which did not end "
                f"within {limit_s:g} s: stop the other process, or wait"
            ) from error

    def _watcher(self, callback: Callable[[], None]) -> Callable[[object], None]:
        return lambda _event: self.session.post(callback)

    def _watch(self, _event: object) -> None:
        """kazoo's thread calls it when our znode changes or the session fails."""
        self.session.post(self._news.set)


def _begin_delete(zk: Any, *, path: str) -> Any:
    return zk.delete_async(path)
