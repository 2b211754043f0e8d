"""The real writer core on a fake fleet, and a client round it: what scenarios and logs write with.

One entry a run, all sent at once, so that a test can hold, lose and reorder every single add.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.reader import ReaderSettings
from bookie.client.recovery import RecoverySettings, registered_replacements
from bookie.errors import BookieError, MetadataConflictError
from bookie.frames.entry import master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.protocol.writer import Writer
from bookie.protocol.writer_effects import (
    Acked,
    Closed,
    Effect,
    Failed,
    NeedReplacement,
    Recipient,
    SendRun,
    WriteMetadata,
)
from bookie.testing.fleet import FakeFleet
from fleet_ledgers import FleetLedgers

ONE_BY_ONE = WriterLimits(batch_bytes=1, gather_batches=1000, in_flight_batches=1000)


class FleetWriter:
    """A writer with a future per entry; `acked` are the ids whose caller was told so."""

    def __init__(
        self, store: MetadataStore, fleet: FakeFleet, metadata: Versioned[LedgerMetadata]
    ) -> None:
        self.core = Writer(metadata.value, version=metadata.version, limits=ONE_BY_ONE)
        self.acked: list[EntryId] = []
        self._store = store
        self._fleet = fleet
        self._key = master_key(metadata.value.password)
        self._futures: dict[EntryId, asyncio.Future[EntryId]] = {}
        self._closing: asyncio.Future[EntryId] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ledger_id(self) -> LedgerId:
        return self.core.metadata.ledger_id

    @property
    def lac(self) -> EntryId:
        return self.core.lac

    def append(self, payload: bytes) -> "asyncio.Future[EntryId]":
        future: asyncio.Future[EntryId] = asyncio.get_running_loop().create_future()
        entry_id = self.core.append([payload])
        self._futures[entry_id] = future
        self._perform(self.core.pump())
        return future

    async def close(self) -> EntryId:
        self._closing = asyncio.get_running_loop().create_future()
        self._perform(self.core.close())
        if self.core.error is not None:
            raise self.core.error
        return await self._closing

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendRun():
                    self._send(effect)
                case Acked(last):
                    self._settle(last)
                case NeedReplacement():
                    self._start(self._replace(effect))
                case WriteMetadata():
                    self._start(self._write(effect))
                case Failed(error):
                    self._fail(error)
                case Closed(last):
                    assert self._closing is not None
                    self._closing.set_result(last)

    def _send(self, run: SendRun) -> None:
        def on_reply(sender: Recipient, status: Status) -> None:
            self._perform(self.core.replied(run.run_id, sender, status))

        self._fleet.add_run_to(
            run.recipients, master_key=self._key, frame=run.frame, on_reply=on_reply
        )

    def _settle(self, last: EntryId) -> None:
        for entry_id in [entry_id for entry_id in self._futures if entry_id <= last]:
            self.acked.append(entry_id)
            self._futures.pop(entry_id).set_result(entry_id)

    def _fail(self, error: BookieError) -> None:
        futures = [*self._futures.values(), self._closing]
        self._futures.clear()
        for future in futures:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # looked at: a test may not care

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, effect: NeedReplacement) -> None:
        choose = registered_replacements(self._store, self.ledger_id)
        found: dict[int, BookieId] = {}
        for position in effect.positions:
            exclude = frozenset(effect.ensemble) | frozenset(found.values())
            bookie = await choose(ensemble=effect.ensemble, exclude=exclude)
            if bookie is not None:
                found[position] = bookie
        self._perform(self.core.replace(found) if found else self.core.no_replacement())

    async def _write(self, effect: WriteMetadata) -> None:
        try:
            stored = await self._store.write_ledger(effect.metadata, version=effect.version)
        except MetadataConflictError:
            stored = await self._store.read_ledger(self.ledger_id)
        self._perform(self.core.store_answered(stored.value, stored.version))


async def writer_of(ledgers: FleetLedgers) -> FleetWriter:
    """A writer of the ledger these tests have created."""
    current = await ledgers.store.read_ledger(ledgers.ledger_id)
    return FleetWriter(ledgers.store, ledgers.fleet, current)


class FleetClient(Client):
    """The real client over a fake fleet; retries of a recovery take no time."""

    def __init__(self, store: MetadataStore, fleet: FakeFleet) -> None:
        settings = ClientSettings(
            reader=ReaderSettings(poll_ms=1, retry_s=0),
            recovery=RecoverySettings(attempts=2, backoff_s=0),
        )
        super().__init__(store, fleet, settings=settings, rng=random.Random(1))
        self.store = store
        self.fleet = fleet
