"""The metadata store in memory: it has the same interface as ZooKeeper's, within one process.

A `MemoryCluster` stands for a ZooKeeper ensemble, each `MemoryStore` for one session. Every
operation is atomic, since it never awaits between reading and changing. `open_store` shares
clusters by name (`memory://name`); tests that need isolation create their own `MemoryCluster`.
"""

import itertools
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from bookie.errors import (
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.ids import BookieId, LedgerId
from bookie.metadata.creation import is_own_create, with_creation_token
from bookie.metadata.store import (
    BookieInfo,
    Cookie,
    StoredBoot,
    UnderreplicationMark,
    Unreadable,
    Versioned,
)
from bookie.protocol.ledger import LedgerMetadata

Key = TypeVar("Key")
Value = TypeVar("Value")

NAMED_CLUSTERS_MAX: Final = 4096
"""How many `memory://name` clusters one process keeps; beyond it the least recently opened is
dropped."""


class MemoryCluster:
    """The state that all stores of one cluster share."""

    def __init__(self) -> None:
        self.instance_id: str | None = None
        """None until the cluster is initialised."""
        self.next_ledger_ids = itertools.count()
        self.ledgers: dict[LedgerId, Versioned[LedgerMetadata]] = {}
        """Metadata of the existing ledgers, with the version of the last write."""
        self.garbled: set[LedgerId] = set()
        """Ledgers whose metadata is unreadable, as another program might leave it; for tests."""
        self.cookies: dict[BookieId, Versioned[Cookie]] = {}
        """Cookies by bookie, with their versions."""
        self.boots: dict[BookieId, Versioned[StoredBoot]] = {}
        """The last boot that each bookie stored, with its version."""
        self.values: dict[str, Versioned[bytes]] = {}
        """Other values by path: lists of logs, checkpoints, histories."""
        self.registered: dict[BookieId, tuple[MemoryStore, BookieInfo]] = {}
        """The registration of each bookie, with the store whose session it ends with."""
        self.marks: dict[LedgerId, UnderreplicationMark] = {}
        """BookKeeper's marks of under-replicated ledgers."""
        self.mark_locks: dict[LedgerId, MemoryStore] = {}
        """The store whose session holds the lock of each mark."""
        self.replication_enabled = True
        """BookKeeper's switch for its own re-replication."""
        self.recovery_delay_s: int | None = None
        """BookKeeper's delay before a lost bookie counts, in seconds; None = not set."""

    def end_session(self, session: "MemoryStore") -> None:
        """Remove what exists only as long as this session: its registrations and locks."""
        for bookie_id in [b for b, (owner, _) in self.registered.items() if owner is session]:
            del self.registered[bookie_id]
        for ledger_id in [i for i, owner in self.mark_locks.items() if owner is session]:
            del self.mark_locks[ledger_id]


@lru_cache(maxsize=NAMED_CLUSTERS_MAX)
def named_cluster(name: str) -> MemoryCluster:
    """The cluster of this name in this process."""
    return MemoryCluster()


class MemoryStore:
    """One session; implements `MetadataStore`."""

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        self._cluster = MemoryCluster() if cluster is None else cluster
        """The cluster, which several stores share like sessions of one server."""
        self._closed = False
        """True once closed: no call is answered, and the registrations are gone."""

    @property
    def cluster(self) -> MemoryCluster:
        """The cluster that this session shares with others."""
        return self._cluster

    async def initialise(self) -> str:
        cluster = self.open_cluster()
        if cluster.instance_id is None:
            cluster.instance_id = str(uuid.uuid4())
        return cluster.instance_id

    async def instance_id(self) -> str | None:
        return self.open_cluster().instance_id

    async def close(self) -> None:
        self._closed = True
        self._cluster.end_session(self)

    async def barrier(self) -> None:
        self.open_cluster()

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        return LedgerId(next(self.open_cluster().next_ledger_ids))

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        ledgers = self.open_cluster().ledgers
        metadata = with_creation_token(metadata)
        existing = ledgers.get(metadata.ledger_id)
        if existing is not None and is_own_create(existing.value, metadata):
            return existing
        return _compare_and_set(
            ledgers, metadata.ledger_id, metadata, version=None, what="ledger metadata"
        )

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        cluster = self.open_cluster()
        found = cluster.ledgers.get(ledger_id)
        if found is None:
            raise NoSuchLedgerError(ledger_id)
        if ledger_id in cluster.garbled:
            raise _garbled(ledger_id)
        return found

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable | None = None
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        cluster = self.open_cluster()
        found = {i: cluster.ledgers[i] for i in ledger_ids if i in cluster.ledgers}
        for ledger_id in found.keys() & cluster.garbled:
            if unreadable is None:
                raise _garbled(ledger_id)
            unreadable[ledger_id] = _garbled(ledger_id)
            del found[ledger_id]
        return found

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        ledgers = self.open_cluster().ledgers
        if metadata.ledger_id not in ledgers:
            raise NoSuchLedgerError(metadata.ledger_id)
        return _compare_and_set(
            ledgers, metadata.ledger_id, metadata, version=version, what="ledger metadata"
        )

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        ledgers = self.open_cluster().ledgers
        if ledger_id not in ledgers:
            raise NoSuchLedgerError(ledger_id)
        _delete(ledgers, ledger_id, version=version, what="ledger metadata")

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        for ledger_id in sorted(self.open_cluster().ledgers):
            yield ledger_id

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        return {bookie_id: info for bookie_id, (_, info) in self.open_cluster().registered.items()}

    async def register(self, info: BookieInfo) -> None:
        registered = self.open_cluster().registered
        owner, _ = registered.get(info.bookie_id, (self, info))
        if owner is not self:
            raise MetadataConflictError(
                f"bookie {info.bookie_id} is registered by another session: "
                "stop the other process, or wait until its session has expired"
            )
        registered[info.bookie_id] = (self, replace(info, properties=dict(info.properties)))

    async def unregister(self, bookie_id: BookieId) -> None:
        registered = self.open_cluster().registered
        if bookie_id in registered and registered[bookie_id][0] is self:
            del registered[bookie_id]

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        return self.open_cluster().cookies.get(bookie_id)

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        cookies = self.open_cluster().cookies
        return _compare_and_set(cookies, cookie.bookie_id, cookie, version=None, what="cookie")

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        cookies = self.open_cluster().cookies
        return _compare_and_set(cookies, cookie.bookie_id, cookie, version=version, what="cookie")

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        return {bookie_id: found.value for bookie_id, found in self.open_cluster().cookies.items()}

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        return self.open_cluster().boots.get(bookie_id)

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        boots = self.open_cluster().boots
        return _compare_and_set(boots, bookie_id, boot, version=version, what="boot")

    @property
    def underreplication(self) -> "MemoryUnderreplication":
        return MemoryUnderreplication(self)

    # Values of our own
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        return self.open_cluster().values.get(name)

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        return _compare_and_set(
            self.open_cluster().values, name, bytes(data), version=version, what="value"
        )

    async def delete_value(self, name: str, *, version: int) -> None:
        _delete(self.open_cluster().values, name, version=version, what="value")

    def open_cluster(self) -> MemoryCluster:
        """The cluster; UnavailableError once the session is closed."""
        if self._closed:
            raise UnavailableError("this metadata store was closed: open a new one")
        return self._cluster


class MemoryUnderreplication:
    """Implements `Underreplication` for one session."""

    def __init__(self, session: MemoryStore) -> None:
        self._session = session

    async def marks(self) -> AsyncIterator[UnderreplicationMark]:
        for _, mark in sorted(self._session.open_cluster().marks.items()):
            yield mark

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        return self._session.open_cluster().marks.get(ledger_id)

    async def mark(
        self, ledger_id: LedgerId, missing: Iterable[BookieId], *, now_ms: int
    ) -> UnderreplicationMark:
        marks = self._session.open_cluster().marks
        found = marks.get(ledger_id)
        if found is None:
            named = tuple(dict.fromkeys(missing))
            marks[ledger_id] = UnderreplicationMark(ledger_id, named, now_ms, version=0)
        else:
            marks[ledger_id] = found.with_missing(missing, now_ms=now_ms)
        return marks[ledger_id]

    async def clear(self, ledger_id: LedgerId, *, version: int) -> bool:
        marks = self._session.open_cluster().marks
        if ledger_id in marks and marks[ledger_id].version != version:
            return False
        marks.pop(ledger_id, None)
        return True

    async def lock(self, ledger_id: LedgerId, *, holder: str) -> bool:
        locks = self._session.open_cluster().mark_locks
        is_free = ledger_id not in locks
        locks.setdefault(ledger_id, self._session)
        return is_free

    async def unlock(self, ledger_id: LedgerId) -> None:
        locks = self._session.open_cluster().mark_locks
        if locks.get(ledger_id) is self._session:
            del locks[ledger_id]

    async def is_enabled(self) -> bool:
        return self._session.open_cluster().replication_enabled

    async def set_enabled(self, enabled: bool) -> None:
        self._session.open_cluster().replication_enabled = enabled

    async def recovery_delay_s(self) -> int | None:
        return self._session.open_cluster().recovery_delay_s

    async def set_recovery_delay_s(self, seconds: int) -> None:
        self._session.open_cluster().recovery_delay_s = seconds


def _compare_and_set(
    table: dict[Key, Versioned[Value]], key: Key, value: Value, *, version: int | None, what: str
) -> Versioned[Value]:
    """Create the value when `version` is None, else replace exactly that version."""
    existing = table.get(key)
    found = None if existing is None else existing.version
    if found != version:
        raise MetadataConflictError(conflict_message(what, key, found=found, expected=version))
    table[key] = Versioned(value, 0 if version is None else version + 1)
    return table[key]


def _delete(
    table: dict[Key, Versioned[Value]], key: Key, *, version: int | None, what: str
) -> None:
    existing = table.get(key)
    if existing is None or version not in (None, existing.version):
        found = None if existing is None else existing.version
        raise MetadataConflictError(conflict_message(what, key, found=found, expected=version))
    del table[key]


def conflict_message(what: str, key: object, *, found: int | None, expected: int | None) -> str:
    """The message of a lost compare-and-set; None means "does not exist"."""
    versions = ["no value" if v is None else f"version {v}" for v in (found, expected)]
    return (
        f"{what} of {key}: found {versions[0]}, expected {versions[1]}; "
        "someone else changed it first: read it again and decide again"
    )


def _garbled(ledger_id: LedgerId) -> MetadataFormatError:
    return MetadataFormatError(
        f"metadata of ledger {ledger_id} is of no known format: leave it alone and look who "
        "wrote it"
    )
