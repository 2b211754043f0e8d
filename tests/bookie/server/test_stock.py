"""The stock port: adds of BookKeeper's clients as runs, what is refused, garbage, back-pressure."""

import asyncio
import random
import struct
from typing import Any, cast

import pytest
from bookie.frames.frame import RunFrame
from bookie.hosts import loopback
from bookie.metadata.store import RPC_ENDPOINT
from bookie.protocol.status import Status
from bookie.server.connections import DataServer
from bookie.server.operations import Operations, Then
from bookie.server.sessions import Sessions
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.server.stock import StockConnection, StockService
from bookie.wire.stock.messages import Outcome
from server_lab import ME, ServerLab
from stock_client import NEVER, StockLab, V2Client, V3Client, entry

OK = Outcome.OK
MIB = 1 << 20
FEW, MANY = 9, 200
"""Adds at once: parsed one by one, or as a block."""


def outcomes(answers: list) -> set[Outcome]:
    return {answer.outcome for answer in answers}


# ---- runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_the_adds_of_one_write_are_one_run(stock: StockLab, count: int) -> None:
    ledger = await stock.server.ledger()
    answers = await stock.ask(*[stock.frames.add(ledger, i, payload=b"same") for i in range(count)])
    assert [(a.outcome, a.entry_id) for a in answers] == [(OK, i) for i in range(count)]
    assert await stock.server.held(ledger, 0, MANY) == list(range(count))
    assert stock.server.traffic.entries_added == count
    # A block of version 3 ends where a number gets one byte more.
    assert stock.server.traffic.runs_added <= (1 if count == FEW else 3)


async def test_adds_of_any_sizes_are_one_run(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    frames = [stock.frames.add(ledger, i, payload=bytes(i % 7)) for i in range(MANY)]
    assert outcomes(await stock.ask(*frames)) == {OK}
    assert stock.server.traffic.runs_added == 1


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_ledgers_that_share_a_connection_have_runs_of_their_own(
    stock: StockLab, count: int
) -> None:
    ledgers = [await stock.server.ledger() for _ in range(3)]
    numbers = [(ledger, i) for i in range(count) for ledger in ledgers]
    answers = await stock.ask(*[stock.frames.add(*number, payload=b"x") for number in numbers])
    assert outcomes(answers) == {OK}
    for ledger in ledgers:
        assert await stock.server.held(ledger, 0, MANY) == list(range(count))
    assert stock.server.traffic.runs_added <= (3 if count == FEW else 3 * 6)


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_a_share_of_a_striped_ledger_is_few_runs(stock: StockLab, count: int) -> None:
    ledger = await stock.server.ledger()
    ids = [i for i in range(300) if i % 5 in (0, 3, 4)][:count]  # the first of 5, write quorum 3
    frames = [stock.frames.add(ledger, i, payload=b"x") for i in ids]
    assert outcomes(await stock.ask(*frames)) == {OK}
    assert await stock.server.held(ledger, 0, 500) == ids
    assert stock.server.traffic.runs_added <= (3 if count == FEW else 6)


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_ids_that_come_twice_or_fall_are_answered_each(stock: StockLab, count: int) -> None:
    ledger = await stock.server.ledger()
    ids = [*range(count), *range(count), 7, 3, 7]
    answers = await stock.ask(*[stock.frames.add(ledger, i, payload=b"x") for i in ids])
    assert sorted(a.entry_id for a in answers) == sorted(ids) and outcomes(answers) == {OK}
    assert await stock.server.held(ledger, 0, MANY) == list(range(count))


async def test_who_waits_for_each_add_has_the_first_ones_ruled_on(
    stock: StockLab, ruled: list[Status]
) -> None:
    ledger, client = await stock.server.ledger(), await stock.client()
    for number in range(5):
        assert outcomes(await client.ask(stock.frames.add(ledger, number))) == {OK}
    assert ruled == [Status.OK] * 2
    assert await stock.server.held(ledger, 0, MANY) == [0, 1, 2, 3, 4]
    await stock.server.fence(ledger)
    assert outcomes(await client.ask(stock.frames.add(ledger, 5))) == {Outcome.FENCED}
    await client.close()


async def test_the_highest_lac_of_the_entries_is_that_of_the_ledger(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    lacs = (-1, -1, 1, 0)
    await stock.ask(*[stock.frames.add(ledger, i, lac=lac) for i, lac in enumerate(lacs)])
    _status, reply = await stock.server.lac(ledger)
    assert reply is not None and (reply.lac, reply.last_entry_id) == (1, 3)


async def test_what_their_client_wrote_ours_reads_verbatim(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    await stock.ask(*[stock.frames.add(ledger, i) for i in range(3)])
    _status, reply = await stock.server.read(ledger, 0, 2)
    assert reply is not None
    assert b"".join(entry(ledger, i) for i in range(3)) in bytes(reply.runs[0])


async def test_an_add_of_deferred_sync_is_taken_as_any_other(stock3: StockLab) -> None:
    ledger = await stock3.server.ledger()
    assert outcomes(await stock3.ask(stock3.frames.add(ledger, 0, deferred=True))) == {OK}


async def test_an_entry_of_megabytes_goes_through(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    payload = random.Random(1).randbytes(3 << 20)
    await stock.ask(stock.frames.add(ledger, 0, payload=payload))
    [found] = await stock.ask(stock.frames.read(ledger, 0))
    assert found.body == entry(ledger, 0, payload=payload)


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_a_wrong_key_is_refused_alone(stock: StockLab, count: int) -> None:
    ledger = await stock.server.ledger()
    make = stock.frames.add
    frames = [make(ledger, i, payload=b"x") for i in range(count)]
    wrong = [make(ledger, count + i, payload=b"x", key=NEVER) for i in range(count)]
    answers = await stock.ask(*frames, *wrong)
    refused = {a.entry_id for a in answers if a.outcome is Outcome.UNAUTHORIZED}
    assert refused == set(range(count, 2 * count))


async def test_a_fence_stops_adds_and_lets_recovery_pass(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    make = stock.frames.add
    await stock.server.fence(ledger)
    for count in (FEW, MANY):
        frames = [make(ledger, i, payload=b"x") for i in range(count)]
        assert outcomes(await stock.ask(*frames)) == {Outcome.FENCED}
        frames = [make(ledger, i, payload=b"x", recovery=True) for i in range(count)]
        assert outcomes(await stock.ask(*frames)) == {OK}


async def test_a_deleted_ledger_takes_no_late_adds(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    await stock.ask(stock.frames.add(ledger, 0))
    bookie = stock.server.bookie
    assert bookie is not None and bookie.control.booted is not None
    await asyncio.to_thread(bookie.control.booted.storage.maintenance.delete_ledgers, [ledger])
    for recovery in (False, True):
        late = stock.frames.add(ledger, 1, recovery=recovery)
        assert outcomes(await stock.ask(late)) == {Outcome.FENCED}
    assert outcomes(await stock.ask(stock.frames.read(ledger, 0))) == {Outcome.NO_LEDGER}


async def test_a_read_only_bookie_takes_recovery_adds_alone(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    assert stock.server.bookie is not None
    stock.server.bookie.state.switch_read_only(ReadOnlyReason.PERSON, True)
    assert outcomes(await stock.ask(stock.frames.add(ledger, 0))) == {Outcome.READ_ONLY}
    assert outcomes(await stock.ask(stock.frames.add(ledger, 0, recovery=True))) == {OK}


async def test_who_stops_denies_nothing_and_takes_nothing(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    client, frames = await stock.client(), stock.frames
    assert stock.server.bookie is not None
    stock.server.bookie.state.phase = Phase.STOPPING
    asked = [frames.add(ledger, 0), frames.read(ledger, 0), frames.read(ledger, 0, fence=True)]
    assert outcomes(await client.ask(*asked)) == {stock.told(Outcome.IO)}
    stock.server.bookie.state.phase = Phase.SERVING
    assert outcomes(await client.ask(frames.add(ledger, 0))) == {OK}


async def test_an_add_that_is_refused_before_any_rule_is_counted(stock: StockLab) -> None:
    ledger, refused = await stock.server.ledger(), stock.server.traffic.refused
    for times in (1, 2):
        await stock.ask(stock.frames.add(ledger, 2**63 - 1, payload=b"x"))
        assert refused[Status.BAD_REQUEST] == times


async def test_an_id_beyond_all_ids_is_refused(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    for ids in ([2**63 - 1], [5, 2**63 - 1], [*range(MANY), 2**63 - 1]):
        answers = await stock.ask(*[stock.frames.add(ledger, i, payload=b"x") for i in ids])
        assert [a.outcome for a in answers if a.entry_id == 2**63 - 1] == [Outcome.BAD_REQUEST]


async def test_authentication_and_tls_are_answered_as_not_there(stock3: StockLab) -> None:
    auth, tls = await stock3.ask(stock3.frames.auth(), stock3.frames.start_tls())
    assert auth.message.authPluginName == "AuthDisabledPlugin"
    assert tls.outcome is Outcome.BAD_REQUEST


# ---- the port -----------------------------------------------------------------------------------


async def test_null_switches_the_port_off(idle_server: ServerLab) -> None:
    idle_server.tree["ports"]["stock"] = None
    bookie = await idle_server.start()
    assert "stock" not in bookie.ports
    assert (await idle_server.store.bookies())[ME].endpoint(RPC_ENDPOINT) is None


async def test_connections_are_counted_by_version(stock: StockLab) -> None:
    clients = [await stock.client(kind) for kind in (V2Client, V2Client, V3Client)]
    for client in clients:
        await client.ask(client.read(1, 0))
    assert stock.server.traffic.stock_connections == {"v2": 2, "v3": 1}
    await clients[0].close()
    await stock.server.until(lambda: stock.server.traffic.stock_connections["v2"] == 1)


async def test_garbage_ends_its_connection_with_the_reason_and_no_other(
    stock: StockLab, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = await stock.client(), await stock.client()
    bad.writer.write(struct.pack(">i", -5))
    assert await bad.until_closed() == b""
    assert "close connection from" in caplog.text and "found -5" in caplog.text
    assert stock.server.traffic.garbage == 1
    assert outcomes(await good.ask(stock.frames.read(1, 0))) == {Outcome.NO_LEDGER}


async def test_requests_in_front_of_garbage_are_answered(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    await stock.ask(stock.frames.add(ledger, 0))  # whose key has to be written first
    client = await stock.client()
    client.send(stock.frames.add(ledger, 1))
    client.writer.write(struct.pack(">i", 1 << 30))
    assert (await client.answer()).outcome is OK
    assert await client.until_closed() == b""


async def test_mutated_frames_are_answered_or_end_their_connection_alone(stock: StockLab) -> None:
    ledger = await stock.server.ledger()
    good, make, rng = await stock.client(), stock.frames, random.Random(7)
    for number in range(60):
        frames = [make.add(ledger, i, payload=b"x") for i in range(rng.choice((2, 40)))]
        stream = bytearray(
            b"".join(struct.pack(">i", len(f)) + f for f in (*frames, make.read(ledger, 0)))
        )
        for _ in range(rng.randint(1, 4)):
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        client = await stock.client()
        client.writer.write(bytes(stream))
        client.writer.write_eof()
        await client.until_closed()
        await client.close()
        assert outcomes(await good.ask(make.add(10**6, number))) == {OK}


# ---- back-pressure ------------------------------------------------------------------------------


class Storeroom:
    """Stands in for `operations`: takes as many runs as it has room for."""

    def __init__(self) -> None:
        self.state = BookieState("bookie-0", phase=Phase.SERVING)
        self.room = 0
        self.taken: list[int] = []
        self.asker: Any = None
        self.refusals = 0

    def add(self, asker: Any, frame: RunFrame, *, master_key: bytes, then: Then) -> bool:
        self.asker = asker
        if not self.room:
            self.refusals += 1
            return False
        self.room -= 1
        self.taken.append(frame.first_entry_id)
        then(Status.OK, None, "")
        return True

    def forget(self, asker: Any) -> None: ...

    def make_room(self, runs: int) -> None:
        self.room = runs
        self.asker.resume()


class FullLab:
    """A stock port before a storeroom without room."""

    def __init__(self) -> None:
        self.storeroom = Storeroom()
        sessions = Sessions(self.storeroom.state.traffic, connections_max=9)
        self.connections: list[StockConnection] = []
        self.service = StockService(cast(Operations, self.storeroom), sessions)
        self.server = DataServer(self._connection)

    def _connection(self) -> StockConnection:
        self.connections.append(StockConnection(self.service))
        return self.connections[-1]

    async def until_refused(self) -> None:
        while not self.storeroom.refusals:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class Outbox(asyncio.Transport):
    """A socket that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Any) -> None:
        self.sent += b"".join(list_of_data)


@pytest.mark.parametrize("kind", [V2Client, V3Client])
async def test_an_add_that_comes_alone_is_answered_in_the_turn_that_brought_it(kind: Any) -> None:
    lab, outbox, frames = FullLab(), Outbox(), kind(None, None)
    lab.storeroom.room = 3
    connection = lab._connection()
    connection.connection_made(outbox)
    for number in range(3):  # what its wire is shows in the first
        outbox.sent, frame = b"", frames.add(7, number)
        said = struct.pack(">i", len(frame)) + frame
        connection.get_buffer(-1)[: len(said)] = said
        connection.buffer_updated(len(said))
        assert frames.parse(outbox.sent[4:])[:2] == (OK, number)
    assert lab.storeroom.taken == [0, 1, 2] and connection.bytes_held == 0


@pytest.mark.parametrize("kind", [V2Client, V3Client])
async def test_an_add_that_comes_alone_waits_for_room(kind: Any) -> None:
    lab = FullLab()
    lab.storeroom.room = 1
    client = await kind.connect(await lab.server.start(loopback(), 0))
    assert outcomes(await client.ask(client.add(7, 0))) == {OK}
    client.send(client.add(7, 1))
    await lab.until_refused()
    lab.storeroom.make_room(1)
    assert (await client.answer()).entry_id == 1
    assert lab.storeroom.taken == [0, 1]
    await client.close()
    lab.server.stop()


@pytest.mark.parametrize("kind", [V2Client, V3Client])
async def test_adds_without_room_wait_in_their_order_and_the_socket_is_not_read(
    kind: Any,
) -> None:
    lab = FullLab()
    client = await kind.connect(await lab.server.start(loopback(), 0))
    client.send(*[client.add(ledger, 7 * ledger) for ledger in range(4)])
    await lab.until_refused()
    client.send(*[client.add(9, i, payload=bytes(MIB)) for i in range(30)])
    await asyncio.sleep(0.02)  # what must not happen has no end to wait for
    assert lab.connections[0].bytes_held == 0 and lab.storeroom.taken == []
    for room in (1, 0, 2):
        lab.storeroom.make_room(room)
    assert lab.storeroom.taken == [0, 7, 14]
    lab.storeroom.make_room(1000)
    answers = [await client.answer() for _ in range(34)]
    assert [a.entry_id for a in answers] == [0, 7, 14, 21, *range(30)]
    await client.close()
    lab.server.stop()
