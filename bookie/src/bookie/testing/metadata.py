"""A metadata store that fails on demand: outages, lost replies, stale reads, races.

It wraps any store, so the same test can run over memory and over ZooKeeper.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from bookie.errors import BookieError, NoSuchLedgerError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import (
    BookieInfo,
    Cookie,
    MetadataStore,
    StoredBoot,
    Underreplication,
    UnderreplicationMark,
    Unreadable,
    Versioned,
)
from bookie.protocol.ledger import LedgerMetadata

Result = TypeVar("Result")
Hook = Callable[[str], Awaitable[None]]


class Call(Protocol):
    """Does one operation of a store, or fails in its place; `name` is the operation's."""

    async def __call__(self, name: str, begin: Callable[[], Awaitable[Result]], /) -> Result: ...


class WrappedUnderreplication:
    """Keeps the `Underreplication` contract over `inner`, each call through `read` or `write`."""

    def __init__(self, inner: Underreplication, *, read: Call, write: Call) -> None:
        self._inner = inner
        self._read = read
        self._write = write

    async def marks(self) -> AsyncIterator[UnderreplicationMark]:
        async def listed() -> list[UnderreplicationMark]:
            return [mark async for mark in self._inner.marks()]

        for mark in await self._read("marks", listed):
            yield mark

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        return await self._read("read_mark", lambda: self._inner.read_mark(ledger_id))

    async def mark(
        self, ledger_id: LedgerId, missing: Iterable[BookieId], *, now_ms: int
    ) -> UnderreplicationMark:
        named = tuple(missing)
        return await self._write("mark", lambda: self._inner.mark(ledger_id, named, now_ms=now_ms))

    async def clear(self, ledger_id: LedgerId, *, version: int) -> bool:
        return await self._write("clear", lambda: self._inner.clear(ledger_id, version=version))

    async def lock(self, ledger_id: LedgerId, *, holder: str) -> bool:
        return await self._write("lock", lambda: self._inner.lock(ledger_id, holder=holder))

    async def unlock(self, ledger_id: LedgerId) -> None:
        await self._write("unlock", lambda: self._inner.unlock(ledger_id))

    async def is_enabled(self) -> bool:
        return await self._read("is_enabled", self._inner.is_enabled)

    async def set_enabled(self, enabled: bool) -> None:
        await self._write("set_enabled", lambda: self._inner.set_enabled(enabled))

    async def recovery_delay_s(self) -> int | None:
        return await self._read("recovery_delay_s", self._inner.recovery_delay_s)

    async def set_recovery_delay_s(self, seconds: int) -> None:
        await self._write("set_recovery_delay_s", lambda: self._inner.set_recovery_delay_s(seconds))


class FaultyStore:
    """Keeps the `MetadataStore` contract over `inner`, with switches.

    `is_out`: every call fails before anything happens. `lost_replies`: that many of the next
    writes happen and are then reported as unavailable. `late_writes`: that many of the next writes
    are reported as unavailable and happen when the test calls `land`. `before`: awaited with the
    name of each operation before it starts, to hold it back or to let somebody else go first.
    """

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self.is_out = False
        self.lost_replies = 0
        self.late_writes = 0
        self._under_way: list[Callable[[], Awaitable[object]]] = []
        self.before: Hook | None = None
        self.calls: list[str] = []
        self._stale: dict[LedgerId, Versioned[LedgerMetadata]] | None = None

    async def freeze_ledgers(self) -> None:
        """Freeze what reads and listings of ledgers show, as a lagging replica does.

        A barrier ends it.
        """
        ids = [ledger_id async for ledger_id in self.inner.ledger_ids()]
        self._stale = {ledger_id: await self.inner.read_ledger(ledger_id) for ledger_id in ids}

    def thaw(self) -> None:
        """Ends `freeze_ledgers`."""
        self._stale = None

    async def land(self) -> None:
        """The late writes happen now, or are refused; nobody learns of it."""
        landing, self._under_way = self._under_way, []
        for begin in landing:
            with suppress(BookieError):
                await begin()

    async def _reached(self, name: str) -> None:
        self.calls.append(name)
        if self.before is not None:
            await self.before(name)
        if self.is_out:
            raise UnavailableError(f"simulated outage of the metadata store during {name}")

    async def _read(self, name: str, begin: Callable[[], Awaitable[Result]]) -> Result:
        await self._reached(name)
        return await begin()

    async def _write(self, name: str, begin: Callable[[], Awaitable[Result]]) -> Result:
        await self._reached(name)
        if self.late_writes:
            self.late_writes -= 1
            self._under_way.append(begin)
            raise UnavailableError(f"simulated delay of {name}: it may happen yet")
        result = await begin()
        if self.lost_replies:
            self.lost_replies -= 1
            raise UnavailableError(f"simulated loss of the reply to {name}: it did happen")
        return result

    async def initialise(self) -> str:
        return await self._write("initialise", self.inner.initialise)

    async def instance_id(self) -> str | None:
        return await self._read("instance_id", self.inner.instance_id)

    async def close(self) -> None:
        await self.inner.close()

    async def barrier(self) -> None:
        await self._write("barrier", self.inner.barrier)
        self.thaw()

    async def new_ledger_id(self) -> LedgerId:
        return await self._write("new_ledger_id", self.inner.new_ledger_id)

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        return await self._write("create_ledger", lambda: self.inner.create_ledger(metadata))

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        await self._reached("read_ledger")
        if self._stale is None:
            return await self.inner.read_ledger(ledger_id)
        if ledger_id not in self._stale:
            raise NoSuchLedgerError(ledger_id)
        return self._stale[ledger_id]

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        await self._reached("read_ledger")
        if self._stale is None:
            return await self.inner.read_ledgers(ledger_ids, unreadable=unreadable)
        return {i: self._stale[i] for i in ledger_ids if i in self._stale}

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        return await self._write(
            "write_ledger", lambda: self.inner.write_ledger(metadata, version=version)
        )

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        await self._write(
            "delete_ledger", lambda: self.inner.delete_ledger(ledger_id, version=version)
        )

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        await self._reached("ledger_ids")
        if self._stale is not None:
            for ledger_id in sorted(self._stale):
                yield ledger_id
            return
        async for ledger_id in self.inner.ledger_ids():
            if self.is_out:
                raise UnavailableError("simulated outage of the metadata store in a listing")
            yield ledger_id

    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        return await self._read("bookies", self.inner.bookies)

    async def register(self, info: BookieInfo) -> None:
        await self._write("register", lambda: self.inner.register(info))

    async def unregister(self, bookie_id: BookieId) -> None:
        await self._write("unregister", lambda: self.inner.unregister(bookie_id))

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        return await self._read("read_cookie", lambda: self.inner.read_cookie(bookie_id))

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        return await self._write("create_cookie", lambda: self.inner.create_cookie(cookie))

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        return await self._write(
            "write_cookie", lambda: self.inner.write_cookie(cookie, version=version)
        )

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        return await self._read("cookies", self.inner.cookies)

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        return await self._read("read_boot", lambda: self.inner.read_boot(bookie_id))

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        return await self._write(
            "write_boot",
            lambda: self.inner.write_boot(bookie_id, boot, version=version),
        )

    @property
    def underreplication(self) -> Underreplication:
        return WrappedUnderreplication(
            self.inner.underreplication, read=self._read, write=self._write
        )

    async def read_value(self, name: str) -> Versioned[bytes] | None:
        return await self._read("read_value", lambda: self.inner.read_value(name))

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        return await self._write(
            "write_value", lambda: self.inner.write_value(name, data, version=version)
        )

    async def delete_value(self, name: str, *, version: int) -> None:
        await self._write("delete_value", lambda: self.inner.delete_value(name, version=version))
