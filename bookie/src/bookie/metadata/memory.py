"""The metadata store in memory: the same contract as ZooKeeper's, within one process.

A `MemoryCluster` is what a ZooKeeper ensemble would hold; each `MemoryStore` is one session of it.
Every operation is atomic, since it never awaits between looking and changing. `open_store` shares
clusters by name (`memory://name`); tests that want isolation make their own `MemoryCluster`.
"""

import itertools
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from bookie.metadata.creation import is_own_create, with_creation_token
from bookie.metadata.store import BookieInfo, Cookie, Versioned
from bookie.protocol.errors import MetadataConflictError, NoSuchLedgerError, UnavailableError
from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.ledger import LedgerMetadata

Key = TypeVar("Key")
Value = TypeVar("Value")

NAMED_CLUSTERS_MAX: Final = 4096
"""How many `memory://name` clusters one process keeps; the least recently opened goes first."""


class MemoryCluster:
    """The state shared by all stores of one cluster."""

    def __init__(self) -> None:
        self.instance_id: str | None = None
        self.next_ledger_ids = itertools.count()
        self.ledgers: dict[LedgerId, Versioned[LedgerMetadata]] = {}
        self.cookies: dict[BookieId, Versioned[Cookie]] = {}
        self.boot_epochs: dict[BookieId, Versioned[int]] = {}
        self.values: dict[str, Versioned[bytes]] = {}
        self.registered: dict[BookieId, tuple[MemoryStore, BookieInfo]] = {}


@lru_cache(maxsize=NAMED_CLUSTERS_MAX)
def named_cluster(name: str) -> MemoryCluster:
    """The one cluster of this name in this process."""
    return MemoryCluster()


class MemoryStore:
    """One session; keeps the `MetadataStore` contract."""

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        self._cluster = MemoryCluster() if cluster is None else cluster
        self._closed = False

    @property
    def cluster(self) -> MemoryCluster:
        """What this session shares with the others of its cluster."""
        return self._cluster

    async def initialise(self) -> str:
        cluster = self._open()
        if cluster.instance_id is None:
            cluster.instance_id = str(uuid.uuid4())
        return cluster.instance_id

    async def instance_id(self) -> str | None:
        return self._open().instance_id

    async def close(self) -> None:
        self._closed = True
        registered = self._cluster.registered
        for bookie_id in [b for b, (owner, _) in registered.items() if owner is self]:
            del registered[bookie_id]

    # Ledgers
    async def new_ledger_id(self) -> LedgerId:
        return LedgerId(next(self._open().next_ledger_ids))

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        ledgers = self._open().ledgers
        metadata = with_creation_token(metadata)
        existing = ledgers.get(metadata.ledger_id)
        if existing is not None and is_own_create(existing.value, metadata):
            return existing
        return _compare_and_set(
            ledgers, metadata.ledger_id, metadata, version=None, what="ledger metadata"
        )

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        found = self._open().ledgers.get(ledger_id)
        if found is None:
            raise NoSuchLedgerError(ledger_id)
        return found

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        ledgers = self._open().ledgers
        return {ledger_id: ledgers[ledger_id] for ledger_id in ledger_ids if ledger_id in ledgers}

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        ledgers = self._open().ledgers
        if metadata.ledger_id not in ledgers:
            raise NoSuchLedgerError(metadata.ledger_id)
        return _compare_and_set(
            ledgers, metadata.ledger_id, metadata, version=version, what="ledger metadata"
        )

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        ledgers = self._open().ledgers
        if ledger_id not in ledgers:
            raise NoSuchLedgerError(ledger_id)
        _delete(ledgers, ledger_id, version=version, what="ledger metadata")

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        for ledger_id in sorted(self._open().ledgers):
            yield ledger_id

    # Bookies
    async def bookies(self) -> Mapping[BookieId, BookieInfo]:
        return {bookie_id: info for bookie_id, (_, info) in self._open().registered.items()}

    async def register(self, info: BookieInfo) -> None:
        registered = self._open().registered
        owner, _ = registered.get(info.bookie_id, (self, info))
        if owner is not self:
            raise MetadataConflictError(
                f"bookie {info.bookie_id} is registered by another session: "
                "stop the other process, or wait until its session has expired"
            )
        registered[info.bookie_id] = (self, replace(info, properties=dict(info.properties)))

    async def unregister(self, bookie_id: BookieId) -> None:
        registered = self._open().registered
        if bookie_id in registered and registered[bookie_id][0] is self:
            del registered[bookie_id]

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        return self._open().cookies.get(bookie_id)

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        cookies = self._open().cookies
        return _compare_and_set(cookies, cookie.bookie_id, cookie, version=None, what="cookie")

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        cookies = self._open().cookies
        return _compare_and_set(cookies, cookie.bookie_id, cookie, version=version, what="cookie")

    async def cookies(self) -> Mapping[BookieId, Cookie]:
        return {bookie_id: found.value for bookie_id, found in self._open().cookies.items()}

    async def read_boot_epoch(self, bookie_id: BookieId) -> Versioned[int] | None:
        return self._open().boot_epochs.get(bookie_id)

    async def write_boot_epoch(
        self, bookie_id: BookieId, epoch: int, *, version: int | None
    ) -> Versioned[int]:
        epochs = self._open().boot_epochs
        return _compare_and_set(epochs, bookie_id, epoch, version=version, what="boot epoch")

    # Values of our own
    async def read_value(self, name: str) -> Versioned[bytes] | None:
        return self._open().values.get(name)

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        return _compare_and_set(
            self._open().values, name, bytes(data), version=version, what="value"
        )

    async def delete_value(self, name: str, *, version: int) -> None:
        _delete(self._open().values, name, version=version, what="value")

    async def value_names(self, prefix: str) -> list[str]:
        return sorted(name for name in self._open().values if name.startswith(prefix))

    def _open(self) -> MemoryCluster:
        if self._closed:
            raise UnavailableError("this metadata store was closed: open a new one")
        return self._cluster


def _compare_and_set(
    table: dict[Key, Versioned[Value]], key: Key, value: Value, *, version: int | None, what: str
) -> Versioned[Value]:
    """Creates when `version` is None, else replaces exactly that version."""
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
    """The sentence of a lost compare-and-set; None stands for "does not exist"."""
    versions = ["no value" if v is None else f"version {v}" for v in (found, expected)]
    return (
        f"{what} of {key}: found {versions[0]}, expected {versions[1]}; "
        "someone else changed it first: read it again and decide again"
    )
