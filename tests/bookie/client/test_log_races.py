"""A log that rolls while somebody reads it, or waits to append to it."""

import asyncio

from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import read_log
from bookie.client.writer import WriterSettings
from bookie.metadata.memory import MemoryStore
from bookie.testing.fleet import Call, FakeFleet
from bookie.wire.native import Op


def adds(call: Call) -> bool:
    return call.op is Op.ADD_RUN


def plain_reads(call: Call) -> bool:
    return call.op is Op.READ and not call.fence


class Lab:
    """A log over ledgers of two members, in a fleet of some bookies."""

    def __init__(self, bookies: int, settings: WriterSettings | None = None) -> None:
        self.store, self.fleet = MemoryStore(), FakeFleet(bookies)
        chosen = ClientSettings(writer=settings or WriterSettings())
        self.client = Client(self.store, self.fleet, settings=chosen)

    async def open(self, **settings: int) -> ReplicatedLog:
        await self.store.initialise()
        await self.fleet.register(self.store)
        chosen = LogSettings(2, 2, 2, **settings)  # type: ignore[arg-type]
        return await ReplicatedLog.open(
            "log", ledgers=self.client, store=self.store, settings=chosen
        )

    async def read(self) -> list[bytes]:
        entries = read_log("log", ledgers=self.client, store=self.store)
        return [entry.payload async for entry in entries]

    async def answer_all(self) -> None:
        for member in self.fleet.ids:
            self.fleet.heal(member)
            self.fleet.release(member)
        await self.fleet.settle()

    async def answer_nothing(self) -> None:
        """Whatever waits is lost; two members, and so two requests one after the other."""
        for _member in range(2):
            for held in list(self.fleet.parked):
                held.drop()
            await self.fleet.settle()


async def test_who_reads_a_ledger_that_closes_meanwhile_leaves_no_gap_before_the_next() -> None:
    lab = Lab(3)
    log = await lab.open()
    await log.append_many([b"a"])
    await log.append_many([b"b"])  # it tells the bookies that a is acknowledged
    first, second = (await lab.store.read_ledger(log.ledger_id)).value.last_fragment.ensemble
    for member in (first, second):
        lab.fleet.hold(member, only=lambda call: adds(call) or plain_reads(call))
    late = log.append(b"c")
    rolling = asyncio.create_task(log.roll())
    await lab.fleet.settle()  # the next ledger is on the list, and c is on its way
    reading = asyncio.create_task(lab.read())
    await lab.fleet.settle()  # it asks for a, which is all that it knows to be acknowledged
    lab.fleet.heal(first)  # it gave no answer to the writer, which replaces it; the roll ends
    lab.fleet.heal(second)
    lab.fleet.held(first, only=adds)[0].drop()
    lab.fleet.release(second, only=adds)
    await late, await rolling
    await log.append_many([b"d"])
    await log.append_many([b"e"])
    for member in (first, second):
        lab.fleet.hold(member, only=plain_reads)
    await lab.answer_nothing()  # so that the reader looks at the metadata again
    await lab.answer_all()
    assert await reading == [b"a"]
    assert await lab.read() == [b"a", b"b", b"c", b"d"]


async def test_append_many_that_waited_for_room_goes_into_the_next_ledger() -> None:
    lab = Lab(2, WriterSettings(unacked_entries_max=1))
    log = await lab.open(roll_entries=1)
    for member in lab.fleet.ids:
        lab.fleet.hold(member, only=adds)
    log.append(b"a")  # fills the ledger: the log rolls by itself
    many = asyncio.create_task(log.append_many([b"b"]))
    await lab.fleet.settle()  # it waits for room, and the roll for a
    await lab.answer_all()
    await lab.answer_all()
    assert (await many).ledger_id == log.ledger_ids[1]
