"""Keeps one bookie announced in ZooKeeper for as long as this process wants it to be.

The announcement is an ephemeral znode: it goes when its session does. After every reconnection,
and whenever the znode changes under our feet, a keeper task looks and puts it right. A left-over of
an earlier session gives way when it is ours (same store, or an earlier boot of the same bookie),
and is waited out when it is not.
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
    """A registration as found: whose session it is, its version and its bytes."""

    owner: int
    version: int
    raw: bytes


@dataclass(eq=False)
class Registration:
    """One bookie's announcement."""

    session: ZooKeeperSession
    paths: Paths
    info: BookieInfo
    """What it should say now; of one bookie for ever."""
    _: KW_ONLY
    check_cluster: Callable[[], Awaitable[object]]
    """Raises when the cluster is gone or another one lies in its place."""

    def __post_init__(self) -> None:
        self._node_name = bookie_node(self.info.bookie_id)
        self._own_sessions: deque[int] = deque(maxlen=FORMER_SESSIONS_MAX)
        """Ids of sessions that this process had: what they left behind is its own."""
        self._turn = asyncio.Lock()
        """One look and change at a time."""
        self._news = asyncio.Event()
        """Something may be not as it should be: look again."""
        self._keeper: asyncio.Task[None] | None = None
        """Looks whenever there is news; from the first announcement that succeeded on."""

    async def announce(self, info: BookieInfo) -> None:
        """Announces, or moves and rewrites what is announced; kept up from then on.

        Raises UnavailableError, and MetadataConflictError when another live session holds the
        place. A first announcement that fails leaves nothing behind that goes on trying.
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
        """Removes the announcement; UnavailableError leaves that to the end of the session."""
        await self.abandon()
        async with self._turn:
            for path in self._places():
                node = await self._look(path)
                if node is not None and self._is_own(node):
                    with suppress(NoNodeError):
                        await self.session.write(partial(_begin_delete, path=path))

    async def abandon(self) -> None:
        """Stops keeping it up; the znode goes with the session."""
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
        """Looks at both places and changes what is not as it should be."""
        async with self._turn:
            for _ in range(RACES_MAX):
                await self.check_cluster()
                try:
                    await self._write()
                    if await self._is_watched():
                        return
                except (NodeExistsError, NoNodeError, BadVersionError):
                    continue  # someone was quicker: look again
        raise MetadataConflictError(
            f"registration of {self._node_name} changed {RACES_MAX} times while it was written: "
            "look for a second process with this bookie id"
        )

    async def _is_watched(self) -> bool:
        """Asks for news of the announcement; False when it is gone already."""
        stat = await self.session.read(
            lambda zk: zk.exists_async(self._places()[0], watch=self._watch)
        )
        return stat is not None and stat.ephemeralOwner == self.session.session_id

    def _places(self) -> tuple[str, str]:
        """Where the announcement belongs, and where it does not."""
        writable = f"{self.paths.writable}/{self._node_name}"
        read_only = f"{self.paths.read_only}/{self._node_name}"
        return (read_only, writable) if self.info.read_only else (writable, read_only)

    async def _write(self) -> None:
        """Puts the announcement in its place, once nobody else's is in the way.

        One transaction, so that nobody sees the bookie in neither place or in both, and an older
        process of the same bookie has no gap to slip into.
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
        """What is at this place; another live process's announcement is waited out first."""
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
        """True for an earlier boot of this bookie: boots take their epochs under the folder lock,
        so the process that wrote a lower one no longer runs on these disks."""
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
        """Called on kazoo's thread when our znode changes or the session has trouble."""
        self.session.post(self._news.set)


def _begin_delete(zk: Any, *, path: str) -> Any:
    return zk.delete_async(path)
