"""S45: leaders change while ledgers are being chained; the list decides, order is kept."""

import asyncio

import pytest
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import read_log
from bookie.errors import BookieError, LedgerFencedError
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import LedgerState
from bookie.testing.fleet import FakeFleet
from fleet_writer import FleetClient
from hypothesis import given, settings
from hypothesis import strategies as st


class PacedStore(MemoryStore):
    """A session whose writes of lists wait until the test opens the gate."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.cluster)
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        self.waiting.set()
        await self.gate.wait()
        return await super().write_value(name, data, version=version)


async def leaders() -> tuple[FleetClient, PacedStore, PacedStore]:
    fleet, store = FakeFleet(2), MemoryStore()
    await store.initialise()
    await fleet.register(store)
    return FleetClient(store, fleet), PacedStore(store), PacedStore(store)


async def opened(ledgers: FleetClient, store: MemoryStore) -> ReplicatedLog:
    return await ReplicatedLog.open(
        "log", ledgers=ledgers, store=store, settings=LogSettings(2, 2, 2)
    )


async def payloads(ledgers: FleetClient) -> list[bytes]:
    entries = read_log("log", ledgers=ledgers, store=ledgers.store)
    return [entry.payload async for entry in entries]


async def open_ledgers(ledgers: FleetClient) -> list[int]:
    return [
        ledger_id
        async for ledger_id in ledgers.store.ledger_ids()
        if (await ledgers.store.read_ledger(ledger_id)).value.state is LedgerState.OPEN
    ]


async def test_s45_the_old_leader_chains_first_and_the_new_one_starts_again() -> None:
    ledgers, old_store, new_store = await leaders()
    old = await opened(ledgers, old_store)
    await old.append(b"a")
    new_store.gate.clear()
    taking_over = asyncio.create_task(opened(ledgers, new_store))
    await new_store.waiting.wait()  # it has closed the old leader's ledger and seen the old list
    await old.roll()
    await old.append(b"b")
    new_store.gate.set()
    new = await taking_over
    assert await open_ledgers(ledgers) == [new.ledger_id]
    with pytest.raises(LedgerFencedError):
        await old.append(b"x")
    await new.append(b"c")
    await new.close()
    assert await payloads(ledgers) == [b"a", b"b", b"c"]
    # Catches: fencing what was last on an old list only, a list without compare-and-set.


async def test_s45_the_new_leader_chains_first_and_the_old_roll_is_refused() -> None:
    ledgers, old_store, new_store = await leaders()
    old = await opened(ledgers, old_store)
    await old.append(b"a")
    old_store.gate.clear()
    old_store.waiting.clear()
    rolling = asyncio.create_task(old.roll())
    await old_store.waiting.wait()
    new = await opened(ledgers, new_store)
    old_store.gate.set()
    with pytest.raises(LedgerFencedError):
        await rolling
    assert await open_ledgers(ledgers) == [new.ledger_id]
    await new.append(b"b")
    await new.close()
    assert await payloads(ledgers) == [b"a", b"b"]


async def test_s45_both_of_the_last_two_ledgers_are_fenced() -> None:
    ledgers, old_store, new_store = await leaders()
    old = await opened(ledgers, old_store)
    await old.append(b"a")
    before_last = old.ledger_id
    ledgers.fleet.hold(0)
    late = old.append(b"late")
    rolling = asyncio.create_task(old.roll())  # on the list, and waiting for `late`
    await ledgers.fleet.settle()
    ledgers.fleet.heal(0)
    new = await opened(ledgers, new_store)
    assert (await ledgers.store.read_ledger(before_last)).value.is_closed
    ledgers.fleet.release(0)
    with pytest.raises(LedgerFencedError):
        await late
    await asyncio.gather(rolling, return_exceptions=True)
    assert await open_ledgers(ledgers) == [new.ledger_id]
    # Catches: fencing the last ledger only while its owner still writes to the one before.


@settings(max_examples=30, deadline=None)
@given(script=st.lists(st.sampled_from(["append", "roll", "lead"]), max_size=12), data=st.data())
def test_s45_whatever_leaders_do_acked_entries_keep_their_order(
    script: list[str], data: st.DataObject
) -> None:
    turns = [data.draw(st.integers(0, 1)) for _ in script]
    asyncio.run(play(list(zip(script, turns, strict=True))))


async def play(script: list[tuple[str, int]]) -> None:
    ledgers, one, two = await leaders()
    stores, owners = (one, two), [await opened(ledgers, one), await opened(ledgers, two)]
    acked: list[bytes] = []
    for number, (step, who) in enumerate(script):
        try:
            if step == "lead":
                owners[who] = await opened(ledgers, stores[who])
            elif step == "roll":
                await owners[who].roll()
            else:
                await owners[who].append(b"%d" % number)
                acked.append(b"%d" % number)
        except BookieError:
            continue
    last = await opened(ledgers, one)
    await last.close()
    assert await open_ledgers(ledgers) == []
    found = await payloads(ledgers)
    assert [payload for payload in found if payload in acked] == acked
