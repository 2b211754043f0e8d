"""Stories of a client's connections: greetings, timeouts, pauses, addresses."""

import asyncio
from dataclasses import replace

import pytest
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import RUN_ENDPOINT, Endpoint
from bookie.protocol.status import Status
from bookie.wire.identity import Identity
from bookie.wire.native import LacRequest, Op, ReadRequest
from fleet_state import state_of
from fleet_story import CLIENT, PASSWORD, Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

KEY = master_key(PASSWORD)
ONE, TWO = BookieId("bookie-0"), BookieId("bookie-1")
LAC = LacRequest(LedgerId(3), KEY)
QUICK = PoolSettings(request_timeout_s=2.0, connect_timeout_s=1.0, last_adds_s=0.5)


def _pool(fleet: Fleet, settings: PoolSettings = QUICK) -> BookiePool:
    fleet.process(CLIENT)
    return BookiePool(fleet.stores[CLIENT], settings=settings)


async def _asked(fleet: Fleet, pool: BookiePool, bookie: BookieId = ONE, what: str = "") -> None:
    status, reply = await pool.read_lac(bookie, LAC)
    fleet.note(f"{what or bookie}: {status.name} {reply or ''}")


def _frame(first: int, payload: bytes = b"entry") -> bytes:
    codec = EntryCodec(LedgerId(3), DigestType.CRC32C, PASSWORD)
    heads = codec.heads(EntryId(first), [payload], lac=NO_ENTRY, length_before=0)
    return bytes(build_run(LedgerId(3), EntryId(first), [payload], heads=heads, lac=NO_ENTRY))


def _add(fleet: Fleet, pool: BookiePool, first: int, bookie: BookieId = ONE) -> None:
    pool.add_run(
        bookie,
        master_key=KEY,
        frame=_frame(first),
        on_reply=lambda status: fleet.note(f"add {first}: {status.name}"),
    )


async def _each(fleet: Fleet, pool: BookiePool) -> None:
    _add(fleet, pool, 0)
    read = ReadRequest(LedgerId(3), EntryId(0), EntryId(2), 1000, KEY)
    wait = replace(LAC, timeout_ms=100)
    for what, work in (
        ("read", pool.read(ONE, read)),
        ("read, fencing", pool.read(ONE, read, fence=True)),
        ("read_lac", pool.read_lac(ONE, LAC)),
        ("read_lac, fencing", pool.read_lac(ONE, LAC, fence=True)),
        ("wait_lac", pool.wait_lac(ONE, wait)),
        ("write_lac", pool.write_lac(ONE, replace(LAC, lac=EntryId(0)))),
        ("force", pool.force(ONE, LAC)),
    ):
        await fleet.seen(what, work)


def test_each_request(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            await fleet.begin()
            await fleet.ledger(ensemble=1, ack=1)
        pool = _pool(fleet)
        await _each(fleet, pool)
        fleet.note("a status that nobody knows, and answers without a body")
        for op in (Op.READ, Op.READ_LAC, Op.WAIT_LAC, Op.WRITE_LAC, Op.FORCE):
            for status in (77, Status.OK):
                times = 2 if op in (Op.READ, Op.READ_LAC) else 1
                fleet.answers("bookie-0", op, status, times=times)  # type: ignore[arg-type]
        for _ in range(2):
            await _each(fleet, pool)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=1)


@pytest.mark.parametrize("status", Status, ids=lambda one: one.name.lower())
def test_each_status_of_an_answer(status: Status) -> None:
    async def scenes(fleet: Fleet) -> None:
        with fleet.quiet():
            await fleet.begin()
            await fleet.ledger(ensemble=1, ack=1)
        pool = _pool(fleet)
        fleet.record.is_quiet = True
        for op in (Op.READ_LAC, Op.WRITE_LAC, Op.ADD_RUN):
            fleet.answers("bookie-0", op, status)
        assert await pool.read_lac(ONE, LAC) == (
            Status.UNREACHABLE if status is Status.OK else status, None,
        )  # fmt: skip
        assert await pool.write_lac(ONE, LAC) is status
        said: list[Status] = []
        pool.add_run(ONE, master_key=KEY, frame=_frame(0), on_reply=said.append)
        await asyncio.sleep(0.1)
        assert said == [status]
        await pool.close()

    told(scenes, bookies=1)


def test_answers_that_do_not_come(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet)
        await _asked(fleet, pool)
        fleet.note("one is lost, another one comes: the connection stays")
        fleet.answers("bookie-0", Op.READ_LAC, None)
        work = asyncio.ensure_future(_asked(fleet, pool, what="lost"))
        await asyncio.sleep(1)
        await fleet.seen("written", pool.write_lac(ONE, LAC))
        await work
        await _asked(fleet, pool, what="after it")
        fleet.note("one is lost, and nothing else comes: it is cut")
        fleet.answers("bookie-0", Op.READ_LAC, None)
        await _asked(fleet, pool, what="lost")
        await _asked(fleet, pool, what="at once")
        await asyncio.sleep(0.1)
        await _asked(fleet, pool, what="after a pause")
        fleet.note("two are lost, and something comes between them: it is cut")
        fleet.answers("bookie-0", Op.READ_LAC, None, times=2)
        works = [asyncio.ensure_future(_asked(fleet, pool, what="lost"))]
        await asyncio.sleep(0.05)
        await fleet.seen("written", pool.write_lac(ONE, LAC))
        works.append(asyncio.ensure_future(_asked(fleet, pool, what="lost, too")))
        await asyncio.gather(*works)
        await asyncio.sleep(0.1)
        fleet.note("a long poll may take its time and that of a request")
        fleet.answers("bookie-0", Op.WAIT_LAC, None)
        await fleet.seen("poll", pool.wait_lac(ONE, replace(LAC, timeout_ms=3000)))
        fleet.note("late by more than its time: what comes then is nobody's")
        await asyncio.sleep(0.5)
        fleet.network.lags["bookie-0", CLIENT] = 3.0
        await _asked(fleet, pool, what="late")
        await asyncio.sleep(5)
        fleet.network.lags.clear()
        await _asked(fleet, pool, what="again")
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=1)


def test_pauses_between_attempts(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet)
        await _asked(fleet, pool)
        fleet.crash("bookie-0")
        for _ in range(80):
            await asyncio.sleep(0.07)
            await _asked(fleet, pool)
        with fleet.quiet():
            await fleet.start("bookie-0")
            await asyncio.sleep(2)
        fleet.note("it is back: the pauses are short again")
        await _asked(fleet, pool)
        fleet.network.reset("bookie-0")
        for _ in range(4):
            await asyncio.sleep(0.03)
            await _asked(fleet, pool)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)


def _registered(fleet: Fleet, name: str, **changed: object) -> None:
    """The registration says something else."""
    session, info = fleet.cluster.registered[BookieId(name)]
    fleet.cluster.registered[BookieId(name)] = session, replace(info, **changed)  # type: ignore[arg-type]


WRONG = {
    "another_bookie": {"endpoints": (Endpoint(RUN_ENDPOINT, "bookie-1", 3182, "bookie-rpc"),)},
    "no_endpoint": {"endpoints": (Endpoint("other", "bookie-0", 3182, "bookie-rpc"),)},
    "nobody_listens": {"endpoints": (Endpoint(RUN_ENDPOINT, "bookie-0", 1, "bookie-rpc"),)},
    "no_port": {"endpoints": (Endpoint(RUN_ENDPOINT, "bookie-0", 70000, "bookie-rpc"),)},
    "a_later_boot": {"properties": {"bootEpoch": "9"}},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_registration_that_is_wrong(what: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        right = fleet.cluster.registered[ONE][1]
        _registered(fleet, "bookie-0", **WRONG[what])
        pool = _pool(fleet)
        for _ in range(3):
            await _asked(fleet, pool)
            await asyncio.sleep(0.12)
        _registered(fleet, "bookie-0", endpoints=right.endpoints, properties=right.properties)
        await _asked(fleet, pool, what="put right")
        await asyncio.sleep(0.5)
        await _asked(fleet, pool, what="put right")
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)


GREETINGS = {
    "unauthorized": (Status.UNAUTHORIZED, b"the certificate is of somebody else"),
    "bad_request": (Status.BAD_REQUEST, b"this is bookie nobody"),
    "no_reason": (Status.NOT_READY, b""),
    "no_identity": (Status.OK, b"[]"),
    "another_bookie": (Status.OK, Identity("cluster", "bookie-9", 1).encode()),
    "another_cluster": (Status.OK, Identity("cluster", "bookie-0", 1).encode()),
    "no_epoch": (Status.OK, Identity("the same", "bookie-0").encode()),
    "none": (None, b""),
}


@pytest.mark.parametrize("what", GREETINGS)
def test_a_greeting_that_is_refused(what: str, snapshot: SnapshotAssertion) -> None:
    status, body = GREETINGS[what]

    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet)
        said = body.replace(b"the same", fleet.cluster.instance_id.encode())
        fleet.answers("bookie-0", Op.HELLO, status, times=2, body=said)
        _add(fleet, pool, 0)
        for _ in range(3):
            await _asked(fleet, pool)
            await asyncio.sleep(0.12)
        fleet.note("those that were refused are cut")
        _connections(fleet)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=1)


def _connections(fleet: Fleet) -> None:
    for line in state_of(fleet.bookies["bookie-0"]):
        if "connections" in line:
            fleet.note(line)


def test_an_epoch_that_no_registration_names_yet(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        with fleet.quiet():
            await fleet.stop("bookie-0")
            await fleet.start("bookie-0")
        _registered(fleet, "bookie-0", properties={"bootEpoch": "1"})
        pool = _pool(fleet)
        await _asked(fleet, pool)
        fleet.network.reset("bookie-0")
        await asyncio.sleep(0.1)
        fleet.note("no process of the boot before counts now")
        await _asked(fleet, pool)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=1)


def test_it_boots_again_unseen(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet, replace(QUICK, address_ttl_s=1.0))
        await _asked(fleet, pool)
        await _asked(fleet, pool, TWO)
        fleet.network.block("bookie-0", CLIENT)
        with fleet.quiet():
            fleet.crash("bookie-0")
            await asyncio.sleep(5)
            await fleet.start("bookie-0")
        fleet.network.unblock("bookie-0", CLIENT)
        fleet.note("a request to its former life; then it is learned of by way of another bookie")
        work = asyncio.ensure_future(_asked(fleet, pool))
        await asyncio.sleep(0.1)
        fleet.network.reset("bookie-1")
        await asyncio.sleep(0.1)
        await _asked(fleet, pool, TWO)
        await work
        await asyncio.sleep(0.2)
        await _asked(fleet, pool)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)


def test_bounds_of_what_is_under_way(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        size = len(KEY) + len(_frame(0))
        for what, settings in (
            ("requests", replace(QUICK, in_flight_requests_max=2)),
            ("bytes", replace(QUICK, in_flight_bytes_max=2 * size)),
        ):
            fleet.note(
                f"by {what}: the third is refused at once, and each bookie has its own bound"
            )
            pool = _pool(fleet, settings)
            for number in range(3):
                _add(fleet, pool, number)
            _add(fleet, pool, 3, TWO)
            await asyncio.sleep(0.1)
            for number in range(3):
                _add(fleet, pool, 4 + number)
            await asyncio.sleep(0.1)
            fleet.note("a lost answer takes room until it is given up, a lost connection none")
            fleet.answers("bookie-0", Op.ADD_RUN, None)
            for number in range(2):
                _add(fleet, pool, 7 + number)
                await asyncio.sleep(0.5)
            _add(fleet, pool, 9)
            await asyncio.sleep(2.5)
            for number in range(3):
                _add(fleet, pool, 10 + number)
            await asyncio.sleep(0.5)
            fleet.answers("bookie-0", Op.ADD_RUN, None, times=2)
            for number in range(2):
                _add(fleet, pool, 13 + number)
            await asyncio.sleep(0.5)
            fleet.network.reset("bookie-0")
            await asyncio.sleep(0.5)
            for number in range(3):
                _add(fleet, pool, 15 + number)
            await asyncio.sleep(0.5)
            await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)


def test_addresses_when_the_store_is_away(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet, replace(QUICK, address_ttl_s=2.0, request_timeout_s=5.0))
        fleet.weather.is_out = True
        fleet.note("nothing is known, and the store is away; both wait for one look")
        await asyncio.gather(_asked(fleet, pool), _asked(fleet, pool, TWO))
        await asyncio.sleep(1)
        fleet.weather.is_out = False
        await asyncio.gather(_asked(fleet, pool), _asked(fleet, pool, TWO))
        fleet.note("known addresses stay; a lost connection looks again and goes on with them")
        fleet.weather.is_out = True
        fleet.network.reset("bookie-0")
        await asyncio.sleep(0.1)
        await _asked(fleet, pool)
        fleet.note("the store is slow: three seconds, then the address that is known")
        fleet.weather.is_out = False
        fleet.weather.latency_s = 4.0
        fleet.network.reset("bookie-0")
        await asyncio.sleep(0.1)
        await _asked(fleet, pool)
        fleet.weather.latency_s = 0.0
        fleet.note("one that is registered no more, and one that never was")
        await asyncio.sleep(6)
        with fleet.quiet():
            await fleet.stop("bookie-0")
            await asyncio.sleep(3)
        for name in ("bookie-0", "bookie-9", "bookie-9"):
            await _asked(fleet, pool, BookieId(name))
            await asyncio.sleep(0.1)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)


def test_an_address_counts_for_a_while(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet, replace(QUICK, address_ttl_s=2.0))
        for number, name in enumerate(fleet.bookies):
            await asyncio.sleep(0.9)
            fleet.note(f"{name} is asked for the first time")
            await _asked(fleet, pool, BookieId(name))
            if not number:
                with fleet.quiet():
                    await fleet.stop("bookie-1")
                    await asyncio.sleep(0.2)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=4)


def test_the_end_of_a_pool(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet)
        await _asked(fleet, pool)
        fleet.note("a slow add is waited for, a poll is not")
        fleet.network.lags["bookie-0", CLIENT] = 0.3
        _add(fleet, pool, 0)
        poll = asyncio.ensure_future(pool.wait_lac(ONE, replace(LAC, timeout_ms=5000)))
        await asyncio.sleep(0.01)
        await pool.close()
        await fleet.seen("poll", poll)
        _add(fleet, pool, 1)
        await _asked(fleet, pool, what="after the end")
        fleet.network.lags.clear()
        await asyncio.sleep(1)
        await _asked(fleet, pool, what="a while after the end")
        await pool.close()
        fleet.note("one that has no connection yet, and a bookie that does not answer")
        fleet.network.block("bookie-0", CLIENT)
        pool = _pool(fleet)
        _add(fleet, pool, 2)
        await pool.close()
        await asyncio.sleep(0.01)
        fleet.note("the end")

    assert snapshot(extension_class=Words) == told(scenes, bookies=1)


def test_what_waits_for_a_connection_is_sent_in_order(snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await fleet.begin()
        pool = _pool(fleet, replace(QUICK, connect_timeout_s=1.5))
        fleet.network.block("bookie-0", CLIENT)
        for number in range(3):
            _add(fleet, pool, number)
        await asyncio.sleep(0.2)
        fleet.network.unblock("bookie-0", CLIENT)
        fleet.note("the next one is sent behind them")
        await asyncio.sleep(0.8055)
        _add(fleet, pool, 3)
        await asyncio.sleep(0.5)
        fleet.note("no answer to a connection within its time")
        fleet.network.block("bookie-1", CLIENT)
        _add(fleet, pool, 4, TWO)
        await asyncio.sleep(1.6)
        await pool.close()

    assert snapshot(extension_class=Words) == told(scenes, bookies=2)
