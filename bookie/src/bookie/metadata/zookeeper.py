"""The metadata store in ZooKeeper, in BookKeeper's own layout, so that Apache's tools can read it.

`layout` has the paths; `codec`, `cookie` and `service_info` have the formats; `underreplication`
has the marks; `session` deals with threads, deadlines and linearizable reads. Our own data (boot
epochs, values) is beside the cluster's root, under the cluster's instance id, so that another
cluster at the same path starts without it.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from bookie.errors import (
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.ids import BookieId, LedgerId
from bookie.metadata.access_lists import AccessLists
from bookie.metadata.boots import decode_boot, encode_boot
from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.metadata.cookie import decode_cookie, encode_cookie
from bookie.metadata.creation import is_own_create, with_creation_token
from bookie.metadata.layout import (
    LAYOUT_TEXT,
    RESERVED_BOOKIE_ID,
    Paths,
    bookie_node,
    is_long_layout,
    ledger_path,
    value_kind,
    value_node,
)
from bookie.metadata.ledger_ids import LedgerIds
from bookie.metadata.listing import walk_ledgers
from bookie.metadata.multi_read import Znode
from bookie.metadata.registration import Registration
from bookie.metadata.service_info import decode_info
from bookie.metadata.session import ZooKeeperSession, ZooKeeperSettings
from bookie.metadata.store import BookieInfo, Cookie, StoredBoot, Unreadable, Versioned
from bookie.metadata.underreplication import ZooKeeperUnderreplication
from bookie.metadata.znodes import Znodes
from bookie.protocol.ledger import LedgerMetadata

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

READS_AT_ONCE: Final = 64
ANY_VERSION: Final = -1


class ZooKeeperStore:
    """One session on one cluster; implements `MetadataStore`."""

    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._paths = paths
        self._znodes = Znodes(session)
        self._ledger_ids = LedgerIds(session, paths)
        self._registrations: dict[BookieId, Registration] = {}
        """The registrations that this process has begun and not ended, one for each bookie."""
        self._underreplication = ZooKeeperUnderreplication(
            session, paths, check_cluster=self._check_cluster
        )
        self._instance_id: str | None = None
        """The cluster's instance id once it was read; it never changes. None before."""
        self._long_layout: bool | None = None
        """Whether ledgers are in BookKeeper's long layout; None until that was read."""
        self._has_barrier = False
        """True once the znode for barriers is known to exist."""

    @classmethod
    async def open(
        cls, hosts: str, root: str, *, settings: ZooKeeperSettings | None = None
    ) -> "ZooKeeperStore":
        """Open a store on a new session; UnavailableError when no server answers at `hosts`."""
        paths = Paths(root)
        settings = settings or ZooKeeperSettings()
        session = await ZooKeeperSession.open(hosts, settings=settings, paths=paths)
        return cls(session, paths)

    @property
    def session(self) -> ZooKeeperSession:
        """The session that this store uses."""
        return self._session

    @property
    def paths(self) -> Paths:
        """The paths of the cluster's znodes."""
        return self._paths

    async def access_lists(self) -> AccessLists:
        """The checker of the cluster's access lists; UnavailableError when there is no cluster."""
        instance_id = await self._require_instance_id()
        return AccessLists(self._session, self._paths, instance_id=instance_id)

    async def initialise(self) -> str:
        if await self.instance_id() is None:
            self._instance_id = None
            await self._make_cluster()
        # Also when the cluster exists: its creator may have died before it wrote the layout.
        with suppress(NodeExistsError):
            await self._session.write(
                lambda zk: zk.create_async(self._paths.layout, LAYOUT_TEXT.encode()), repeat=True
            )
        self._long_layout = None
        await self._has_long_layout()
        instance_id = await self._require_instance_id()
        if self._session.access.fleet:
            # Before anybody else creates and owns them: below the root clients may create any
            # znode.
            for folder in self._paths.folders(instance_id):
                await self._session.write(partial(_begin_folder, path=folder), repeat=True)
        return instance_id

    async def instance_id(self) -> str | None:
        found = await self._znodes.get(self._paths.instance_id)
        return None if found is None else found[0].decode()

    async def close(self) -> None:
        for registration in self._registrations.values():
            await registration.abandon()
        self._registrations.clear()
        await self._session.close()

    async def barrier(self) -> None:
        folder = await self._own("barriers")
        try:
            await self._session.write(lambda zk: zk.set_async(folder, b""), repeat=True)
        except NoNodeError:
            if self._has_barrier:
                self._has_barrier = False
                raise UnavailableError(f"{folder} was removed: the next one makes it") from None
            # The first caller creates it. Not without the try above: clients may write to it but
            # not create it.
            with suppress(NodeExistsError):
                await self._znodes.create(folder, b"", repeat=True)
        self._has_barrier = True

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        return await self._ledger_ids.take()

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        metadata = with_creation_token(metadata)
        path = await self._ledger_path(metadata.ledger_id)
        try:
            await self._znodes.create(path, encode_ledger(metadata), repeat=True)
        except NodeExistsError:
            existing = await self.read_ledger(metadata.ledger_id)
            if is_own_create(existing.value, metadata):
                return existing
            raise MetadataConflictError(
                f"ledger {metadata.ledger_id} exists already: take another id"
            ) from None
        return Versioned(metadata, 0)

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        found = await self._znodes.get(await self._ledger_path(ledger_id))
        if found is None:
            raise await self._no_such_ledger(ledger_id)
        raw, stat = found
        return _ledger_in(Znode(raw, stat.version, stat.ctime), ledger_id)

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        paths = [await self._ledger_path(ledger_id) for ledger_id in ledger_ids]
        znodes = await self._znodes.get_many(paths)
        found: dict[LedgerId, Versioned[LedgerMetadata]] = {}
        for ledger_id, znode in zip(ledger_ids, znodes, strict=True):
            if znode is None:
                continue
            try:
                found[ledger_id] = _ledger_in(znode, ledger_id)
            except MetadataFormatError as error:
                if unreadable is None:
                    raise
                unreadable[ledger_id] = error
        if None in znodes:
            await self._check_cluster()  # the ledgers must be missing, not the cluster
        return found

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        path = await self._ledger_path(metadata.ledger_id)
        try:
            written = await self._znodes.set(path, encode_ledger(metadata), version)
        except NoNodeError:
            raise await self._no_such_ledger(metadata.ledger_id) from None
        except BadVersionError:
            raise _conflict("metadata of ledger", metadata.ledger_id, version) from None
        return Versioned(metadata, written)

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        path = await self._ledger_path(ledger_id)
        expected = ANY_VERSION if version is None else version
        try:
            await self._znodes.delete(path, version=expected)
        except NoNodeError:
            raise await self._no_such_ledger(ledger_id) from None
        except BadVersionError:
            raise _conflict("metadata of ledger", ledger_id, version) from None
        await self._znodes.prune(path.rpartition("/")[0], below=self._paths.root)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        await self._check_cluster()
        async for ledger_id in walk_ledgers(self._session, self._paths.root):
            yield ledger_id

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        # Read the writable ones twice: a bookie that moves between the reads is still seen in one
        # of them.
        before = await self._znodes.children(self._paths.writable)
        read_only = await self._znodes.children(self._paths.read_only)
        writable = await self._znodes.children(self._paths.writable)
        names = {*before, *read_only, *writable} - {RESERVED_BOOKIE_ID}
        infos = await _at_once(
            sorted(names), lambda name: self._info(BookieId(name), read_only=name not in writable)
        )
        return {info.bookie_id: info for info in infos if info is not None}

    async def register(self, info: BookieInfo) -> None:
        registration = self._registrations.get(info.bookie_id)
        if registration is None:
            registration = Registration(
                self._session, self._paths, info, check_cluster=self._check_cluster
            )
            # Before it is announced: a call that fails or is cancelled may have left its znode.
            self._registrations[info.bookie_id] = registration
        await registration.announce(info)

    async def unregister(self, bookie_id: BookieId) -> None:
        registration = self._registrations.get(bookie_id)
        if registration is not None:
            await registration.withdraw()
            self._registrations.pop(bookie_id, None)

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        found = await self._get_or_check(self._cookie_path(bookie_id))
        return None if found is None else Versioned(decode_cookie(found[0]), found[1].version)

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        path = self._cookie_path(cookie.bookie_id)
        written = await self._compare_and_set(
            path, encode_cookie(cookie), version=None, what=f"cookie of {cookie.bookie_id}"
        )
        return Versioned(cookie, written)

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        path = self._cookie_path(cookie.bookie_id)
        written = await self._compare_and_set(
            path, encode_cookie(cookie), version=version, what=f"cookie of {cookie.bookie_id}"
        )
        return Versioned(cookie, written)

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        names = [BookieId(name) for name in await self._znodes.children(self._paths.cookies)]
        found = await _at_once(names, self.read_cookie)
        return {
            name: cookie.value
            for name, cookie in zip(names, found, strict=True)
            if cookie is not None
        }

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        found = await self._get_or_check(await self._own("epochs", bookie_node(bookie_id)))
        if found is None:
            return None
        return Versioned(decode_boot(found[0], bookie_id=bookie_id), found[1].version)

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        path = await self._own("epochs", bookie_node(bookie_id))
        written = await self._compare_and_set(
            path, encode_boot(boot), version=version, what=f"boot of {bookie_id}"
        )
        return Versioned(boot, written)

    # Values of our own
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        found = await self._get_or_check(await self._own(value_kind(name), value_node(name)))
        return None if found is None else Versioned(found[0], found[1].version)

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        path = await self._own(value_kind(name), value_node(name))
        written = await self._compare_and_set(path, data, version=version, what=f"value {name}")
        return Versioned(data, written)

    async def delete_value(self, name: str, *, version: int) -> None:
        path = await self._own(value_kind(name), value_node(name))
        try:
            await self._znodes.delete(path, version=version)
        except (NoNodeError, BadVersionError):
            raise _conflict("value", name, version) from None

    @property
    def underreplication(self) -> ZooKeeperUnderreplication:
        return self._underreplication

    # The cluster
    async def _make_cluster(self) -> None:
        """Create the cluster in one transaction, as `initnewcluster` does, or step by step if the
        root exists.
        """
        paths, instance_id = self._paths, str(uuid.uuid4()).encode()
        parent = paths.root.rpartition("/")[0]
        if parent:
            await self._session.write(lambda zk: zk.ensure_path_async(parent), repeat=True)

        def fill(changes: Any) -> None:
            for path in (paths.root, paths.writable, paths.read_only):
                changes.create(path)
            changes.create(paths.instance_id, instance_id)

        try:
            await self._session.transact(fill, repeat=True)
        except NodeExistsError:
            await self._session.write(lambda zk: zk.ensure_path_async(paths.read_only), repeat=True)
            # If several clients race, one creates it and the others adopt what they read then.
            with suppress(NodeExistsError):
                await self._session.write(
                    lambda zk: zk.create_async(paths.instance_id, instance_id), repeat=True
                )

    async def _require_instance_id(self) -> str:
        if self._instance_id is None:
            self._instance_id = await self._check_cluster()
        return self._instance_id

    async def _check_cluster(self) -> str:
        """Read the instance id; UnavailableError unless it is the one with which this store began.

        Called before the store reports anything as absent: in a ZooKeeper that has lost its files,
        or in a new cluster at the same path, everything is absent, which says nothing about our
        cluster.
        """
        found = await self.instance_id()
        where = f"{self._paths.root} of ZooKeeper {self._session.hosts}"
        if found is None:
            raise UnavailableError(
                f"there is no cluster at {where}: initialise it first, or correct the path in the "
                "metadata URL"
            )
        if self._instance_id not in (None, found):
            raise UnavailableError(
                f"the cluster at {where} is {found}, expected {self._instance_id}: it was "
                "deleted and initialised again; bring it back, or start again with empty folders"
            )
        return found

    async def _no_such_ledger(self, ledger_id: LedgerId) -> NoSuchLedgerError:
        await self._check_cluster()
        return NoSuchLedgerError(ledger_id)

    async def _has_long_layout(self) -> bool:
        if self._long_layout is None:
            await self._require_instance_id()
            found = await self._znodes.get(self._paths.layout)
            if found is None:
                raise UnavailableError(
                    f"the cluster at {self._paths.root} of ZooKeeper {self._session.hosts} has no "
                    "LAYOUT: initialise it first, or correct the path in the metadata URL"
                )
            self._long_layout = is_long_layout(found[0].decode(errors="replace"))
        return self._long_layout

    async def _ledger_path(self, ledger_id: LedgerId) -> str:
        below = ledger_path(ledger_id, long_layout=await self._has_long_layout())
        return f"{self._paths.root}/{below}"

    def _cookie_path(self, bookie_id: BookieId) -> str:
        return f"{self._paths.cookies}/{bookie_node(bookie_id)}"

    async def _own(self, kind: str, node: str | None = None) -> str:
        folder = self._paths.own(await self._require_instance_id(), kind)
        return folder if node is None else f"{folder}/{node}"

    async def _info(self, bookie_id: BookieId, *, read_only: bool) -> BookieInfo | None:
        for is_read_only in (read_only, not read_only):
            folder = self._paths.read_only if is_read_only else self._paths.writable
            found = await self._znodes.get(f"{folder}/{bookie_id}")
            if found is None:
                continue
            try:
                return decode_info(found[0], bookie_id=bookie_id, read_only=is_read_only)
            except MetadataFormatError as error:
                # A malformed registration must hide neither the other bookies nor this one.
                log.warning("%s: taken as a bookie without endpoints", error)
                return BookieInfo(bookie_id, (), read_only=is_read_only)
        return None

    # Znodes
    async def _get_or_check(self, path: str) -> tuple[bytes, Any] | None:
        """Like `Znodes.get`, for callers that draw conclusions from None: checks that this is still
        our cluster.
        """
        found = await self._znodes.get(path)
        if found is None:
            await self._check_cluster()
        return found

    async def _compare_and_set(
        self, path: str, raw: bytes, *, version: int | None, what: str
    ) -> int:
        """Compare-and-set a znode, or create it when `version` is None; returns the new version."""
        try:
            if version is not None:
                return await self._znodes.set(path, raw, version)
            await self._znodes.create(path, raw)
        except (NodeExistsError, NoNodeError, BadVersionError):
            raise _conflict(what, None, version) from None
        return 0


def _begin_folder(zk: Any, *, path: str) -> Any:
    return zk.ensure_path_async(path)


async def _at_once(
    items: Iterable[Item], read: Callable[[Item], Awaitable[Result]]
) -> list[Result]:
    """Read all items, a bounded number at a time; returns the results in order."""
    slots = asyncio.Semaphore(READS_AT_ONCE)

    async def one(item: Item) -> Result:
        async with slots:
            return await read(item)

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ledger_in(znode: Znode, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
    metadata = decode_ledger(znode.data, ledger_id=ledger_id, stored_at_ms=znode.created_ms)
    return Versioned(metadata, znode.version)


def _conflict(what: str, key: object, version: int | None) -> MetadataConflictError:
    subject = what if key is None else f"{what} {key}"
    expected = "that it does not exist" if version is None else f"version {version}"
    return MetadataConflictError(
        f"{subject}: expected {expected}, but someone else changed it first; "
        "read it again and decide again"
    )
