"""Marks of under-replicated ledgers in ZooKeeper, as BookKeeper's auditor and workers keep them.

Below `underreplication/`: LAYOUT, a mark for each ledger at `ledgers/xxxx/xxxx/xxxx/xxxx/urL<id>`,
`locks/urL<id>` (ephemeral: who re-replicates it now), `disable` (switched off while it exists) and
`lostBookieRecoveryDelay` (seconds). Marks, locks and LAYOUT are protobuf text.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from bookie.errors import MetadataFormatError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.bookkeeper_pb2 import (
    LedgerRereplicationLayoutFormat,
    LockDataFormat,
    UnderreplicatedLedgerFormat,
)
from bookie.metadata.layout import Paths
from bookie.metadata.listing import walk_marks
from bookie.metadata.multi_read import Znode
from bookie.metadata.session import ZooKeeperSession
from bookie.metadata.store import UnderreplicationMark
from bookie.metadata.znodes import READS_PER_REQUEST, Znodes

log = logging.getLogger(__name__)

Format = TypeVar("Format", bound=Message)

LAYOUT_TYPE: Final = "BASIC"
LAYOUT_VERSION: Final = 1
MARK_TRIES_MAX: Final = 16
"""How many races one call of `mark` may lose before it gives up."""
UNLOCK_TRIES_MAX: Final = 3
"""How often one call of `unlock` asks for the deletion before it gives up."""
ANY_VERSION: Final = -1


@dataclass(eq=False)
class ZooKeeperUnderreplication:
    """Implements `Underreplication` on one session."""

    session: ZooKeeperSession
    paths: Paths
    _: KW_ONLY
    check_cluster: Callable[[], Awaitable[object]]
    """Raises when the cluster is gone or was replaced by another one."""

    def __post_init__(self) -> None:
        self._znodes = Znodes(self.session)
        self._layout_is_known = False
        """True once this session has found or created the marks' layout."""
        self._locked: set[LedgerId] = set()
        """The ledgers whose lock this session holds."""

    # Marks
    async def marks(self) -> AsyncIterator[UnderreplicationMark]:
        await self._look_at_layout()
        batch: list[LedgerId] = []
        async with aclosing(walk_marks(self.session, self.paths.marks)) as ledger_ids:
            async for ledger_id in ledger_ids:
                batch.append(ledger_id)
                if len(batch) == READS_PER_REQUEST:
                    for mark in await self._read_listed(batch):
                        yield mark
                    batch.clear()
        for mark in await self._read_listed(batch):
            yield mark

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        await self._look_at_layout()
        found = await self._znodes.get(self.paths.mark(ledger_id))
        if found is None:
            await self.check_cluster()
            return None
        raw, stat = found
        return decode_mark(Znode(raw, stat.version, stat.ctime), ledger_id)

    async def mark(
        self, ledger_id: LedgerId, missing: Iterable[BookieId], *, now_ms: int
    ) -> UnderreplicationMark:
        await self._make_layout()
        named = tuple(dict.fromkeys(missing))
        wanted = UnderreplicationMark(ledger_id, named, now_ms, version=0)
        for _ in range(MARK_TRIES_MAX):
            found = await self.read_mark(ledger_id)
            merged = wanted if found is None else found.with_missing(named, now_ms=now_ms)
            if merged is found or await self._write(found, merged):
                return merged
        raise UnavailableError(
            f"the mark of ledger {ledger_id} changed {MARK_TRIES_MAX} times meanwhile: try again"
        )

    async def clear(self, ledger_id: LedgerId, *, version: int) -> bool:
        path = self.paths.mark(ledger_id)
        try:
            # Never repeat it: at a second try there may be a new mark.
            await self._znodes.delete(path, version=version)
        except BadVersionError:
            return False
        except NoNodeError:
            await self.check_cluster()
            return True
        await self._znodes.prune(path.rpartition("/")[0], below=self.paths.marks)
        return True

    # Locks
    async def lock(self, ledger_id: LedgerId, *, holder: str) -> bool:
        await self._make_layout()
        path = self.paths.mark_lock(ledger_id)
        raw = _encode(LockDataFormat(bookieId=holder))
        try:
            await self._znodes.create(path, raw, ephemeral=True, repeat=True)
        except NodeExistsError:
            # The lock may be this session's own, from a create whose reply was lost.
            if ledger_id in self._locked or not await self._is_own(path):
                return False
        self._locked.add(ledger_id)
        return True

    async def unlock(self, ledger_id: LedgerId) -> None:
        self._locked.discard(ledger_id)
        path = self.paths.mark_lock(ledger_id)
        for tries_left in reversed(range(UNLOCK_TRIES_MAX)):
            if not await self._is_own(path):
                return
            try:
                with suppress(NoNodeError):
                    # Never repeat it without a look: by now the lock may be another worker's.
                    await self._znodes.delete(path, version=ANY_VERSION)
                return
            except UnavailableError:
                if not tries_left:
                    raise

    # Switches
    async def is_enabled(self) -> bool:
        if await self._znodes.exists(self.paths.replication_disabled):
            return False
        await self.check_cluster()
        return True

    async def set_enabled(self, enabled: bool) -> None:
        await self._make_layout()
        path = self.paths.replication_disabled
        with suppress(NodeExistsError, NoNodeError):
            if enabled:
                await self._znodes.delete(path, version=ANY_VERSION, repeat=True)
            else:
                await self._znodes.create(path, b"", repeat=True)

    async def recovery_delay_s(self) -> int | None:
        found = await self._znodes.get(self.paths.recovery_delay)
        if found is None:
            await self.check_cluster()
            return None
        try:
            return int(found[0])
        except ValueError as error:
            raise MetadataFormatError(
                f"{self.paths.recovery_delay} holds {found[0]!r}, expected seconds"
            ) from error

    async def set_recovery_delay_s(self, seconds: int) -> None:
        await self._make_layout()
        path, raw = self.paths.recovery_delay, b"%d" % seconds
        try:
            await self._znodes.create(path, raw, repeat=True)
        except NodeExistsError:
            await self.session.write(lambda zk: zk.set_async(path, raw), repeat=True)

    async def _read_listed(self, ledger_ids: Sequence[LedgerId]) -> list[UnderreplicationMark]:
        znodes = await self._znodes.get_many([self.paths.mark(i) for i in ledger_ids])
        return [
            _listed(znode, ledger_id)
            for ledger_id, znode in zip(ledger_ids, znodes, strict=True)
            if znode is not None
        ]

    async def _write(
        self, found: UnderreplicationMark | None, wanted: UnderreplicationMark
    ) -> bool:
        """Write a mark; False when another client was first. It may be repeated, as adding bookies
        again changes nothing.
        """
        path, raw = self.paths.mark(wanted.ledger_id), encode_mark(wanted)
        try:
            if found is None:
                await self._znodes.create(path, raw, repeat=True)
            else:
                await self._znodes.set(path, raw, found.version, repeat=True)
        except (NodeExistsError, NoNodeError, BadVersionError):
            return False
        return True

    async def _is_own(self, path: str) -> bool:
        found = await self._znodes.get(path)
        return found is not None and found[1].ephemeralOwner == self.session.session_id

    async def _look_at_layout(self) -> bool:
        """True when marks are kept here, in the known form; False when there are none yet."""
        if not self._layout_is_known:
            found = await self._znodes.get(self.paths.marks_layout)
            if found is None:
                await self.check_cluster()
                return False
            _check_layout(found[0], self.paths.marks_layout)
            self._layout_is_known = True
        return True

    async def _make_layout(self) -> None:
        if await self._look_at_layout():
            return
        layout = LedgerRereplicationLayoutFormat(type=LAYOUT_TYPE, version=LAYOUT_VERSION)
        for path, raw in (
            (self.paths.marks, b""),
            (self.paths.mark_locks, b""),
            (self.paths.marks_layout, _encode(layout)),
        ):
            with suppress(NodeExistsError):
                await self._znodes.create(path, raw, repeat=True)
        await self._look_at_layout()  # if several race, the first LAYOUT counts


def encode_mark(mark: UnderreplicationMark) -> bytes:
    """Encode a mark as Apache's auditor does."""
    return _encode(UnderreplicatedLedgerFormat(replica=mark.missing, ctime=mark.ctime_ms))


def decode_mark(znode: Znode, ledger_id: LedgerId) -> UnderreplicationMark:
    """Decode the mark in a znode; if it has no time, the znode's creation time is taken."""
    message = _decode(znode.data, UnderreplicatedLedgerFormat(), f"mark of ledger {ledger_id}")
    return UnderreplicationMark(
        ledger_id,
        tuple(map(BookieId, message.replica)),
        message.ctime if message.HasField("ctime") else znode.created_ms,
        znode.version,
    )


def _listed(znode: Znode, ledger_id: LedgerId) -> UnderreplicationMark:
    """Like `decode_mark`, but a malformed mark becomes one without bookies: it must hide neither
    the others nor itself.
    """
    try:
        return decode_mark(znode, ledger_id)
    except MetadataFormatError as error:
        log.warning("%s: taken as a mark that names no bookie", error)
        return UnderreplicationMark(ledger_id, (), znode.created_ms, znode.version)


def _check_layout(raw: bytes, path: str) -> None:
    layout = _decode(raw, LedgerRereplicationLayoutFormat(), path)
    if (layout.type, layout.version) != (LAYOUT_TYPE, LAYOUT_VERSION):
        raise MetadataFormatError(
            f"{path} says {layout.type} {layout.version}, expected {LAYOUT_TYPE} {LAYOUT_VERSION}: "
            "marks of under-replicated ledgers are kept in a form that this product does not know"
        )


def _encode(message: Message) -> bytes:
    return text_format.MessageToString(message, as_utf8=False).encode()


def _decode(raw: bytes, message: Format, what: str) -> Format:
    try:
        text_format.Parse(raw.decode(), message)
        if not message.IsInitialized():
            raise ValueError("a required field is missing")
    except (ValueError, text_format.ParseError) as error:
        raise MetadataFormatError(
            f"{what} holds {raw[:80]!r} and cannot be read ({error}): look who wrote it"
        ) from error
    return message
