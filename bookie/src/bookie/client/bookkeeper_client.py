"""The client: create, open, recover and delete ledgers of one cluster."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final
from weakref import WeakSet

from bookie.client.peers import Peers
from bookie.client.placement import Placement
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.client.reader import LedgerReader, ReaderSettings
from bookie.client.recovery import RecoverySettings, recover
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.errors import BadRequestError, MetadataConflictError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import DigestType
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.ledger import Fragment, LedgerMetadata

CREATE_TRIES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of the writers, readers, recoveries and connections of a client."""

    writer: WriterSettings = field(default_factory=WriterSettings)
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    recovery: RecoverySettings = field(default_factory=RecoverySettings)
    pool: PoolSettings = field(default_factory=PoolSettings)


class Client:
    """One client of one cluster; an async context manager. The caller closes the store itself.

    `peers`: the connections to bookies, by default a pool of the client's own.
    """

    def __init__(
        self,
        store: MetadataStore,
        peers: Peers | None = None,
        *,
        settings: ClientSettings | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or ClientSettings()
        self._pool: BookiePool | None = None
        """The client's own pool, which it closes; None if the caller passed in `peers`, and closes
        them."""
        if peers is None:
            peers = self._pool = BookiePool(store, settings=self._settings.pool)
        self._peers = peers
        clock = asyncio.get_running_loop().time
        self._placement = Placement(store, rng=rng or random.Random(), clock=clock)
        self._buffers = FrameBuffers()
        self._writers: WeakSet[LedgerWriter] = WeakSet()
        """The writers still in use; closing the client abandons them."""

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Abandon the writers that were not closed, and cut the connections that this client has
        opened.
        """
        for writer in list(self._writers):
            writer.abandon()
        if self._pool is not None:
            await self._pool.close()

    async def create_ledger(
        self,
        *,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int,
        password: bytes = b"",
        digest_type: DigestType = DigestType.CRC32C,
        custom: Mapping[str, bytes] | None = None,
    ) -> LedgerWriter:
        """Create a ledger and return its writer.

        Raises BadRequestError for impossible quorums, NotEnoughBookiesError, UnavailableError.
        """
        if not ensemble_size >= write_quorum >= ack_quorum >= 1:
            raise BadRequestError(
                "quorums need ensemble >= write >= ack >= 1, "
                f"found {ensemble_size}/{write_quorum}/{ack_quorum}"
            )
        for _ in range(CREATE_TRIES_MAX):
            ensemble = await self._placement.choose(ensemble_size, write_quorum=write_quorum)
            metadata = LedgerMetadata(
                await self._store.new_ledger_id(),
                ensemble_size,
                write_quorum,
                ack_quorum,
                fragments=(Fragment(EntryId(0), ensemble),),
                digest_type=digest_type,
                password=password,
                ctime_ms=int(time.time() * 1000),
                custom=dict(custom or {}),
            )
            try:
                created = await self._store.create_ledger(metadata)
            except MetadataConflictError:
                continue  # somebody has created a ledger with this id explicitly
            return self._writer_of(created)
        raise MetadataConflictError(f"{CREATE_TRIES_MAX} fresh ledger ids were taken already")

    def _writer_of(self, created: Versioned[LedgerMetadata]) -> LedgerWriter:
        writer = LedgerWriter(
            created,
            store=self._store,
            peers=self._peers,
            placement=self._placement,
            settings=self._settings.writer,
            buffers=self._buffers,
        )
        self._writers.add(writer)
        return writer

    async def open_ledger(self, ledger_id: LedgerId, *, password: bytes = b"") -> LedgerReader:
        """Open a ledger for reading without recovery: up to the LAC while it is open; its writer
        goes on.
        """
        return LedgerReader(
            self._store,
            self._peers,
            await self._store.read_ledger(ledger_id),
            password=password,
            settings=self._settings.reader,
        )

    async def recover_ledger(self, ledger_id: LedgerId, *, password: bytes = b"") -> LedgerReader:
        """Fence, recover and close the ledger, which shuts out its writer, then open it for
        reading.
        """
        await recover(
            self._store,
            self._peers,
            ledger_id,
            password=password,
            settings=self._settings.recovery,
        )
        return await self.open_ledger(ledger_id, password=password)

    async def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete the ledger's metadata; bookies collect the entries. NoSuchLedgerError if there is
        none.
        """
        await self._store.delete_ledger(ledger_id)
