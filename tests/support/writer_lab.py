"""The real client and its writers over a fake fleet and a store that fails on demand."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.recovery import RecoverySettings
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.fleet import Call, FakeFleet
from bookie.testing.metadata import FaultyStore
from bookie.wire.native import Op

ONE_BY_ONE = WriterLimits(batch_bytes=1, gather_batches=1000, in_flight_batches=1000)
STALL_S = 60.0
SETTINGS = WriterSettings(limits=ONE_BY_ONE, stall_s=STALL_S)


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


class WriterLab:
    """A fleet, a store, a client; `writer` makes a new ledger on 3/3/2 unless told otherwise."""

    def __init__(self, bookies: int = 4, *, settings: WriterSettings = SETTINGS) -> None:
        self.fleet = FakeFleet(bookies)
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.client = Client(
            self.store,
            self.fleet,
            settings=ClientSettings(
                writer=settings, recovery=RecoverySettings(attempts=2, backoff_s=0)
            ),
            rng=random.Random(1),
        )

    async def writer(self, *quorums: int) -> LedgerWriter:
        await self.fleet.register(self.memory)
        ensemble, write, ack = quorums or (3, 3, 2)
        writer = await self.client.create_ledger(
            ensemble_size=ensemble, write_quorum=write, ack_quorum=ack
        )
        self.store.calls.clear()
        return writer

    async def stored(self, writer: LedgerWriter) -> LedgerMetadata:
        """What the metadata store holds, outage or not."""
        return (await self.memory.read_ledger(writer.ledger_id)).value

    async def change(
        self, ledger_id: LedgerId, change: Callable[[LedgerMetadata], LedgerMetadata]
    ) -> None:
        """Somebody else writes the metadata."""
        found = await self.memory.read_ledger(ledger_id)
        await self.memory.write_ledger(change(found.value), version=found.version)

    def spare(self, writer: LedgerWriter) -> BookieId:
        """The first bookie outside the ensemble."""
        ensemble = writer.metadata.last_fragment.ensemble
        return next(bookie_id for bookie_id in self.fleet.ids if bookie_id not in ensemble)

    def member(self, writer: LedgerWriter, position: int) -> BookieId:
        return writer.metadata.last_fragment.ensemble[position]

    def down(self, *bookie_ids: BookieId) -> None:
        for bookie_id in bookie_ids or self.fleet.ids:
            self.fleet[bookie_id].down = True

    def up(self, *bookie_ids: BookieId) -> None:
        for bookie_id in bookie_ids or self.fleet.ids:
            self.fleet[bookie_id].down = False

    def fail_calls(self, error: Exception, *names: str) -> None:
        """From now on these operations of the store raise `error`."""

        async def refuse(name: str) -> None:
            if name in names:
                raise error

        self.store.before = refuse

    def hang_calls(self, *names: str, seconds: float) -> None:
        """From now on these operations of the store take so long."""

        async def hang(name: str) -> None:
            if name in names:
                await asyncio.sleep(seconds)

        self.store.before = hang

    async def holders(self, writer: LedgerWriter, entry_id: int) -> list[BookieId]:
        """Members that metadata names for the entry and that hold it."""
        ensemble = (await self.stored(writer)).fragment_of(EntryId(entry_id)).ensemble
        return [b for b in ensemble if entry_id in self.fleet[b].held(writer.ledger_id)]


async def error_of(waiting: Awaitable[object]) -> BaseException:
    """The error this ends with; an answer is a failure of the test."""
    try:
        answer = await waiting
    except BookieError as error:
        return error
    raise AssertionError(f"expected an error, found the answer {answer}")


def quick(**changes: object) -> WriterSettings:
    return replace(SETTINGS, **changes)  # type: ignore[arg-type]


async def settled(future: "asyncio.Future[EntryId]", fleet: FakeFleet) -> bool:
    """Whether the future has an answer once nothing is left to do at this moment."""
    await fleet.settle()
    return future.done()
