"""The pool over real sockets: matching, order, and every failure answered UNREACHABLE."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from bookie.client.channel import Channel
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.errors import UnavailableError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.build import build_run
from bookie.frames.entry import Buffer
from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.protocol.status import Status
from bookie.testing.metadata import FaultyStore
from bookie.wire.identity import Identity
from bookie.wire.native import (
    ENVELOPE,
    MASTER_KEY_BYTES,
    Envelope,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
)
from run_server import RunServer, greeted, register, reply_to
from uvloop_story import on_uvloop, run_on_uvloop

GIVES_UP_S = 10.0
"""A loop that a bug keeps from its end ends so: the test fails, and the process goes on."""

B0 = BookieId("b0")
KEY = bytes(20)
QUICK = PoolSettings(sweep_interval_s=0.01, backoff_min_s=0.001)
HASTY = replace(QUICK, request_timeout_s=0.05)
"""For servers that stay silent; a busy machine may need longer to connect: `until_ok` first."""
LAC = LacRequest(LedgerId(1), KEY)


class Bench:
    """One scripted bookie and a pool that knows its address."""

    def __init__(self, settings: PoolSettings | None = None) -> None:
        self.store = FaultyStore(MemoryStore())
        self.server = RunServer()
        self.pool = BookiePool(self.store, settings=settings)

    async def start(self) -> "Bench":
        self.port = await self.server.start()
        await register(self.store, B0, self.port)
        return self

    async def stop(self) -> None:
        await self.pool.close()
        await self.server.stop()

    def add(self, frame: bytes, bookie: BookieId = B0) -> "asyncio.Future[Status]":
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.pool.add_run(bookie, master_key=KEY, frame=frame, on_reply=answer.set_result)
        return answer

    async def until_ok(self, bookie: BookieId = B0) -> None:
        """Add again until it works: through the back-off, a turn of the loop at a time."""
        while await self.add(b"again", bookie) is not Status.OK:
            pass


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = await Bench().start()
    yield bench
    await bench.stop()


@pytest.fixture
async def quick() -> AsyncIterator[Bench]:
    bench = await Bench(QUICK).start()
    yield bench
    await bench.stop()


@pytest.fixture
async def hasty() -> AsyncIterator[Bench]:
    bench = await Bench(HASTY).start()
    yield bench
    await bench.stop()


@pytest.fixture
async def other() -> AsyncIterator[RunServer]:
    server = RunServer()
    yield server
    await server.stop()


async def test_an_add_carries_key_and_frame_verbatim(bench: Bench) -> None:
    assert await bench.add(b"frame") is Status.OK
    assert bench.server.requests == [(Op.ADD_RUN, KEY + b"frame")]


async def test_adds_arrive_in_the_order_of_their_calls(bench: Bench) -> None:
    frames = [b"%d" % index * (index % 7 * 9000 + 1) for index in range(60)]
    answers = [bench.add(frame) for frame in frames]
    await asyncio.gather(*answers)
    assert [body[MASTER_KEY_BYTES:] for _op, body in bench.server.requests] == frames
    assert bench.server.connections == 1


async def test_a_run_sent_twice_to_one_bookie_is_answered_twice(bench: Bench) -> None:
    ids: list[int] = []

    def noted(request: Envelope) -> Any:
        ids.append(request.request_id)
        return reply_to(request, Status.OK)

    bench.server.script = noted
    frame = bytes(99)
    assert await asyncio.gather(*[bench.add(frame) for _ in range(4)]) == [Status.OK] * 4
    assert len(set(ids)) == 4


async def test_a_run_for_two_bookies_is_made_once_and_goes_to_both(
    bench: Bench, other: RunServer
) -> None:
    frame, both = bytes(99), (B0, BookieId("b1"))
    await register(bench.store, BookieId("b1"), await other.start())
    for _ in range(2):  # the first ones connect
        assert await asyncio.gather(*[bench.add(frame, one) for one in both]) == [Status.OK] * 2
    assert bench.server.requests == other.requests == [(Op.ADD_RUN, KEY + frame)] * 2


async def test_a_run_sent_to_another_bookie_later_has_its_own_time(
    hasty: Bench, other: RunServer
) -> None:
    frame, loop = bytes(99), asyncio.get_running_loop()
    await register(hasty.store, BookieId("b1"), await other.start())
    for bookie in (B0, BookieId("b1")):
        await hasty.until_ok(bookie)
    hasty.server.script = other.script = lambda _request: None
    assert await hasty.add(frame) is Status.UNREACHABLE
    began = loop.time()
    assert await hasty.add(frame, BookieId("b1")) is Status.UNREACHABLE
    assert loop.time() - began >= HASTY.request_timeout_s


async def test_replies_in_any_order_find_their_requests(bench: Bench) -> None:
    held: list[Envelope] = []

    def backwards(request: Envelope) -> Any:
        held.append(request)
        if len(held) < 3:
            return None
        return [b for one in reversed(held) for b in reply_to(one, one.request_id % 3)]

    bench.server.script = backwards
    answers = await asyncio.gather(*[bench.add(b"x") for _ in range(3)])
    assert answers == [Status(request.request_id % 3) for request in held]


async def test_a_reply_larger_than_the_receive_buffer_comes_whole(bench: Bench) -> None:
    run = build_run(LedgerId(1), EntryId(0), [bytes(FRAME_BYTES_MAX - 60)], lac=EntryId(-1))
    reply = ReadReply(EntryId(3), EntryId(4), EntryId(0), Status.NO_SUCH_ENTRY, ((5, 6),), (run,))
    bench.server.script = lambda request: reply_to(request, 0, *reply.encode())
    request = ReadRequest(LedgerId(1), EntryId(0), EntryId(0), 1, KEY)
    for _ in range(2):
        status, found = await bench.pool.read(B0, request)
        assert status is Status.OK and found is not None
        assert (bytes(found.runs[0]), found.unknown, found.lac) == (run, ((5, 6),), 3)


def run_of(octet: int, *, size: int) -> bytes:
    return bytes(build_run(LedgerId(1), EntryId(0), [bytes([octet]) * size], lac=EntryId(-1)))


@pytest.mark.parametrize("size", [1000, 300_000, 2_000_000])
async def test_a_reply_stays_as_it_is_while_others_come(bench: Bench, size: int) -> None:
    runs = [run_of(octet, size=size) for octet in range(10)]
    ahead = iter([ReadReply(*[EntryId(0)] * 3, Status.UNKNOWN, (), (run,)) for run in runs])
    bench.server.script = lambda request: reply_to(request, 0, *next(ahead).encode())
    request = ReadRequest(LedgerId(1), EntryId(0), EntryId(0), 1, KEY)
    answers = await asyncio.gather(*(bench.pool.read(B0, request) for _ in runs))
    assert [bytes(reply.runs[0]) for _status, reply in answers if reply is not None] == runs


async def test_lac_requests_and_their_flags(bench: Bench) -> None:
    body = LacReply(EntryId(7), EntryId(9)).encode()
    bench.server.script = lambda request: reply_to(request, 0, body if request.code == 1 else b"")
    assert await bench.pool.read_lac(B0, LAC, fence=True) == (
        Status.OK,
        LacReply(EntryId(7), EntryId(9)),
    )
    assert await bench.pool.write_lac(B0, LAC) is Status.OK
    assert await bench.pool.force(B0, LAC) is Status.OK


async def test_a_refusal_has_no_reply_body(bench: Bench) -> None:
    bench.server.script = lambda request: reply_to(request, Status.UNKNOWN)
    assert await bench.pool.read_lac(B0, LAC) == (Status.UNKNOWN, None)


@pytest.mark.parametrize(
    "garbage",
    [
        lambda request: [ENVELOPE.pack(2**31, request.op, 0, 0, request.request_id)],
        lambda request: [ENVELOPE.pack(0, 99, 0, 0, request.request_id)],
        lambda request: [ENVELOPE.pack(0, Op.FORCE, 0, 0, request.request_id)],
        lambda request: reply_to(request, 77),
        lambda request: reply_to(request, 0, b"short"),
    ],
    ids=["oversize", "unknown op", "other op", "unknown status", "short body"],
)
async def test_garbage_is_unreachable(
    bench: Bench, garbage: Callable[[Envelope], list[bytes]]
) -> None:
    bench.server.script = garbage
    assert await bench.pool.read_lac(B0, LAC) == (Status.UNREACHABLE, None)


async def test_a_bookie_nobody_registered_is_unreachable(bench: Bench) -> None:
    assert await bench.add(b"x", BookieId("nobody")) is Status.UNREACHABLE


async def test_a_callback_never_comes_within_the_call(quick: Bench) -> None:
    await quick.pool.close()
    answer = quick.add(b"x")
    assert not answer.done()
    assert await answer is Status.UNREACHABLE


async def test_a_closing_pool_still_brings_the_adds_under_way(bench: Bench) -> None:
    answer = bench.add(b"x")
    await bench.pool.close()
    assert await answer is Status.OK


async def test_a_closing_pool_waits_for_a_silent_bookie_for_a_moment_only() -> None:
    bench = await Bench(PoolSettings(last_adds_s=0.01)).start()
    bench.server.script = lambda request: None
    answer = bench.add(b"x")
    await bench.stop()
    assert await answer is Status.UNREACHABLE


async def test_a_cut_connection_answers_everything_under_way_and_comes_back(quick: Bench) -> None:
    quick.server.script = lambda request: quick.server.cut()
    answers = await asyncio.gather(quick.add(b"a"), quick.add(b"b"))
    assert set(answers) == {Status.UNREACHABLE}
    quick.server.script = reply_to
    await quick.until_ok()
    assert quick.server.connections == 2


@pytest.mark.parametrize("is_there", [False, True])
async def test_what_was_answered_for_want_of_a_connection_is_not_sent_by_the_next_one(
    quick: Bench, is_there: bool
) -> None:
    quick.server.greet = lambda hello: reply_to(hello, Status.BAD_REQUEST, b"not now")
    if not is_there:
        await quick.server.stop()
    answers = await asyncio.gather(quick.add(b"a"), quick.add(bytes(99_999)))
    assert set(answers) == {Status.UNREACHABLE}
    quick.server.greet = greeted
    if not is_there:
        await quick.server.start(quick.port)
    await quick.until_ok()
    assert {body for _op, body in quick.server.requests} == {KEY + b"again"}


async def test_what_was_given_up_before_there_was_a_connection_is_not_sent_by_it(
    hasty: Bench,
) -> None:
    hellos: list[Envelope] = []
    hasty.server.greet = lambda hello: hellos.append(hello) or ()  # type: ignore[func-returns-value]
    assert await hasty.add(b"a") is Status.UNREACHABLE
    hasty.server.writers[0].writelines(greeted(hellos[0]))
    await hasty.until_ok()
    assert hasty.server.connections == 1
    assert {body for _op, body in hasty.server.requests} == {KEY + b"again"}


async def test_a_bookie_that_moved_is_found_again(quick: Bench) -> None:
    assert await quick.add(b"a") is Status.OK
    await quick.server.stop()
    await register(quick.store, B0, await quick.server.start())
    await quick.until_ok()


async def test_requests_fail_at_once_while_backing_off() -> None:
    bench = await Bench(PoolSettings(backoff_min_s=60)).start()
    await bench.server.stop()
    assert await bench.add(b"a") is Status.UNREACHABLE
    assert await bench.add(b"b") is Status.UNREACHABLE
    assert bench.server.connections == 0
    await bench.stop()


async def test_no_answer_in_time_is_unreachable_and_a_silent_connection_is_cut(
    hasty: Bench,
) -> None:
    await hasty.until_ok()
    before = hasty.server.connections
    hasty.server.script = lambda request: None
    assert await hasty.add(b"a") is Status.UNREACHABLE
    hasty.server.script = reply_to
    await hasty.until_ok()
    assert hasty.server.connections > before


async def test_a_connection_that_is_silent_since_its_greeting_is_cut() -> None:
    """What was asked before there was a connection was sent behind the greeting: to have heard that
    is no answer."""
    bench = await Bench(replace(QUICK, request_timeout_s=0.5)).start()
    bench.server.script = lambda _request: None
    assert await bench.add(b"a") is Status.UNREACHABLE
    assert bench.server.requests, "it was sent"
    bench.server.script = reply_to
    await bench.until_ok()
    assert bench.server.connections == 2
    await bench.stop()


async def test_a_long_poll_may_take_longer_than_the_request_timeout(hasty: Bench) -> None:
    reply = LacReply(EntryId(1), EntryId(1)).encode()

    def later(request: Envelope) -> None:
        writer = hasty.server.writers[-1]
        message = b"".join(map(bytes, reply_to(request, 0, reply)))
        asyncio.get_running_loop().call_later(0.1, writer.write, message)

    await hasty.until_ok()
    hasty.server.script = later
    request = LacRequest(LedgerId(1), KEY, EntryId(0), timeout_ms=5000)
    assert (await hasty.pool.wait_lac(B0, request))[0] is Status.OK


async def test_a_long_poll_without_an_answer_ends_soon_after_its_own_time(hasty: Bench) -> None:
    await hasty.until_ok()
    hasty.server.script = lambda request: None
    async with asyncio.timeout(10):
        request = LacRequest(LedgerId(1), KEY, EntryId(0), timeout_ms=40)
        assert await hasty.pool.wait_lac(B0, request) == (Status.UNREACHABLE, None)


async def test_bytes_under_way_to_one_bookie_are_bounded() -> None:
    bench = await Bench(PoolSettings(in_flight_bytes_max=1000, last_adds_s=0)).start()
    bench.server.script = lambda request: None
    first = bench.add(bytes(900))
    assert await bench.add(bytes(900)) is Status.UNREACHABLE
    assert not first.done()
    await bench.stop()
    assert await first is Status.UNREACHABLE


async def test_requests_under_way_to_one_bookie_are_bounded() -> None:
    bench = await Bench(PoolSettings(in_flight_requests_max=2, last_adds_s=0)).start()
    bench.server.script = lambda request: None
    under_way = [bench.add(b"a"), bench.add(b"b")]
    assert await bench.add(b"c") is Status.UNREACHABLE
    assert not any(one.done() for one in under_way)
    await bench.stop()
    assert await asyncio.gather(*under_way) == [Status.UNREACHABLE] * 2


class StoreAway(MemoryStore):
    async def bookies(self) -> Any:
        raise UnavailableError("away")


async def test_without_the_store_and_an_address_a_bookie_is_unreachable() -> None:
    pool = BookiePool(StoreAway(), settings=QUICK)
    assert (await pool.read_lac(B0, LAC))[0] is Status.UNREACHABLE
    await pool.close()


async def test_known_addresses_outlive_the_store(quick: Bench) -> None:
    await quick.until_ok()
    await quick.store.unregister(B0)
    quick.store.is_out = True
    quick.server.cut()
    await quick.until_ok()


async def test_a1_an_address_whose_bookie_is_not_registered_is_forgotten(quick: Bench) -> None:
    assert await quick.add(b"a") is Status.OK
    await quick.store.unregister(B0)
    quick.server.cut()
    while quick.store.calls.count("bookies") < 3:  # refused, looked up again
        assert await quick.add(b"b") is Status.UNREACHABLE
    assert quick.server.connections == 1


async def test_a_store_without_a_cluster_names_nobody(quick: Bench) -> None:
    pool = BookiePool(MemoryStore(), settings=QUICK)
    assert (await pool.read_lac(B0, LAC))[0] is Status.UNREACHABLE
    await pool.close()


# ---- who answers --------------------------------------------------------------------------------


def greets_as(**other: Any) -> Callable[[Envelope], list[Any]]:
    def greet(request: Envelope) -> list[Any]:
        found = replace(Identity.decode(request.body), **{"epoch": 1, **other})
        return reply_to(request, Status.OK, found.encode())

    return greet


@pytest.mark.parametrize(
    "greet",
    [
        greets_as(cluster="another"),
        greets_as(bookie="b1"),
        greets_as(epoch=0),
        lambda request: reply_to(request, Status.OK),
        lambda request: reply_to(request, Status.BAD_REQUEST, b"this is another"),
        lambda request: reply_to(request, Status.BAD_REQUEST),
        lambda request: reply_to(request._replace(op=Op.FORCE), Status.OK),
        lambda request: reply_to(request._replace(op=Op.FORCE), Status.OK, request.body),
    ],
    ids=["cluster", "bookie", "no epoch", "nobody", "refusal", "without words", "other op", "both"],
)
async def test_a1_nothing_is_sent_to_and_no_answer_taken_from_another_process(
    quick: Bench, greet: Callable[[Envelope], list[Any]]
) -> None:
    quick.server.greet = greet
    quick.server.script = lambda request: reply_to(request, Status.NO_SUCH_ENTRY)
    assert await quick.pool.read_lac(B0, LAC) == (Status.UNREACHABLE, None)
    assert quick.server.requests == []


async def test_a2_an_older_process_than_was_seen_does_not_count(quick: Bench) -> None:
    quick.server.greet = greets_as(epoch=3)
    assert await quick.add(b"a") is Status.OK
    quick.server.greet = greets_as(epoch=2)
    quick.server.cut()
    async with asyncio.timeout(GIVES_UP_S):
        while quick.server.connections < 3:
            await quick.add(b"b")
    assert [body for _op, body in quick.server.requests] == [KEY + b"a"]
    quick.server.greet = greets_as(epoch=4)
    await quick.until_ok()


async def test_a2_a_registration_tells_which_boot_is_meant(quick: Bench) -> None:
    await register(quick.store, B0, quick.port, boot_epoch=5)
    meant: list[Identity] = []

    def greet(request: Envelope) -> list[Any]:
        meant.append(Identity.decode(request.body))
        return greets_as(epoch=5)(request)

    quick.server.greet = greet
    await quick.until_ok()
    assert meant == [Identity(await quick.store.initialise(), B0, 5)]


async def test_a2_what_is_under_way_with_an_older_process_is_cut_off(quick: Bench) -> None:
    quick.server.script = lambda request: None
    under_way = asyncio.create_task(
        quick.pool.wait_lac(B0, LacRequest(LedgerId(1), KEY, EntryId(0), timeout_ms=60000))
    )
    while not quick.server.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await register(quick.store, B0, quick.port, boot_epoch=2)
    await quick.add(b"x", BookieId("b1"))  # unknown: the registrations are read again
    async with asyncio.timeout(10):  # less than the long poll itself
        assert await under_way == (Status.UNREACHABLE, None)


@pytest.mark.parametrize("turns", range(12))
async def test_a2_whenever_a_later_boot_is_heard_of_the_older_process_is_asked_no_more(
    quick: Bench, turns: int
) -> None:
    """Also between its greeting and the first request. `turns`: of the loop, since it greeted."""
    heard, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait(left: int) -> None:
        if left:
            loop.call_soon(wait, left - 1)
        elif not heard.is_set():
            heard.set()
            quick.pool._addresses.saw(B0, 2)

    quick.server.greet = lambda request: wait(turns) or greets_as(epoch=1)(request)  # type: ignore[func-returns-value]
    await quick.add(b"a")
    await heard.wait()
    assert await quick.add(b"b") is Status.UNREACHABLE
    assert KEY + b"b" not in [body for _op, body in quick.server.requests]


async def test_a_cancelled_read_does_no_harm(bench: Bench) -> None:
    bench.server.script = lambda request: None
    task = asyncio.create_task(bench.pool.read_lac(B0, LAC))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    bench.server.script = reply_to
    assert await bench.add(b"a") is Status.OK


class TlsLine(asyncio.Transport):
    """Its socket takes everything at once. As asyncio's TLS does, it pauses whoever writes at the
    limit of its buffer, not only above it."""

    def __init__(self) -> None:
        super().__init__(extra={"ssl_object": self})
        self.sent, self.limit, self.channel = list[Buffer](), 0, quiet_channel()
        self.channel.connection_made(self)

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high or 0

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.sent += list_of_data
        if self.limit <= 0:
            self.channel.pause_writing()


def quiet_channel() -> Channel:
    return Channel(on_message=lambda *_: None, on_lost=lambda *_: None, buffers=FrameBuffers())


async def test_under_tls_nobody_is_paused_whose_bytes_have_all_left() -> None:
    line = TlsLine()
    for request in (b"a", b"b", b"c"):
        line.channel.send([request])
    assert line.sent == [b"a", b"b", b"c"] and line.channel.write_now is not None


@on_uvloop
def test_works_on_uvloop() -> None:
    async def story() -> None:
        bench = await Bench().start()
        frames = [bytes([index]) * 300_000 for index in range(20)]
        assert set(await asyncio.gather(*map(bench.add, frames))) == {Status.OK}
        assert [body[MASTER_KEY_BYTES:] for _op, body in bench.server.requests] == frames
        await bench.stop()

    run_on_uvloop(story())
    gc.collect()


async def test_another_bookie_at_the_address_is_unreachable_and_gets_no_request(
    quick: Bench,
) -> None:
    quick.server.greet = lambda request: reply_to(request, Status.BAD_REQUEST, b"this is b1")
    assert await quick.add(b"x") is Status.UNREACHABLE
    assert quick.server.requests == []


async def test_a_connection_that_ends_instead_of_a_greeting_is_unreachable(quick: Bench) -> None:
    quick.server.greet = lambda request: quick.server.cut() or ()  # type: ignore[func-returns-value]
    assert await quick.add(b"x") is Status.UNREACHABLE


async def test_a_bookie_that_does_not_greet_in_time_is_unreachable() -> None:
    bench = await Bench(PoolSettings(connect_timeout_s=0.01)).start()
    bench.server.greet = lambda request: ()
    assert await bench.add(b"x") is Status.UNREACHABLE
    await bench.stop()


async def test_every_connection_says_whom_it_means(quick: Bench) -> None:
    greetings: list[Identity] = []

    def note(request: Envelope) -> Any:
        greetings.append(Identity.decode(request.body))
        return greets_as(epoch=4)(request)

    quick.server.greet = note
    await quick.until_ok()
    quick.server.cut()
    await quick.until_ok()
    cluster = await quick.store.initialise()
    assert greetings == [Identity(cluster, B0, 1), Identity(cluster, B0, 4)]


class CountingPool(BookiePool):
    """`sweepers`: timers that run at the same time."""

    sweepers = most = 0

    def _schedule_sweep(self) -> None:
        self.sweepers += 1
        self.most = max(self.most, self.sweepers)
        super()._schedule_sweep()

    def _sweep(self) -> None:
        self.sweepers -= 1
        super()._sweep()


@pytest.mark.parametrize("others", [False, True], ids=["the same bookie", "new bookies"])
async def test_requests_made_in_answers_start_no_second_sweeper(others: bool) -> None:
    bench = await Bench().start()
    bench.server.script = lambda request: None
    pool = CountingPool(bench.store, settings=HASTY)
    answered, again, broken = asyncio.Event(), 0, list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: broken.append(told))

    def ask_another(_status: Status) -> None:
        nonlocal again
        again += 1
        if again == 8:
            answered.set()
        elif again < 8:
            pool.add_run(B0, master_key=KEY, frame=b"x", on_reply=ask_another)
            if others:
                another = BookieId(f"new-{again}")
                pool.add_run(another, master_key=KEY, frame=b"x", on_reply=lambda _status: None)

    pool.add_run(B0, master_key=KEY, frame=b"x", on_reply=ask_another)
    await answered.wait()
    await pool.close()
    await bench.stop()
    assert (pool.most, broken) == (1, [])


async def test_a_registration_that_makes_no_sense_is_unreachable_at_once(bench: Bench) -> None:
    await register(bench.store, "b1", 70_000)
    async with asyncio.timeout(5):
        assert await bench.add(b"x", BookieId("b1")) is Status.UNREACHABLE


# ---- what becomes of a request ------------------------------------------------------------------


def nothing_is_owed(bench: Bench) -> bool:
    link = bench.pool._links[B0]
    return link.is_idle and link._in_flight_bytes == 0


def cut(bench: Bench) -> None:
    bench.server.script = lambda _request: bench.server.cut()


def be_silent(bench: Bench) -> None:
    bench.server.script = lambda _request: None


def be_silent_to_the_first(bench: Bench) -> None:
    """The connection stays, since it is heard of after that was sent."""
    first = len(bench.server.requests) + 1

    def script(request: Envelope) -> Sequence[Buffer] | None:
        return None if len(bench.server.requests) == first else reply_to(request)

    bench.server.script = script


@pytest.mark.parametrize("turn", [cut, be_silent, be_silent_to_the_first, lambda _bench: None])
async def test_whatever_comes_of_requests_each_is_answered_once_and_its_room_given_back(
    hasty: Bench, turn: Callable[[Bench], None]
) -> None:
    await hasty.until_ok()
    turn(hasty)
    answers: list[Status] = []
    for _ in range(3):
        hasty.pool.add_run(B0, master_key=KEY, frame=b"frame", on_reply=answers.append)
    while len(answers) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    hasty.server.script = reply_to
    await hasty.until_ok()
    assert len(answers) == 3 and nothing_is_owed(hasty)
    assert hasty.pool._links[B0]._backoff_s == HASTY.backoff_min_s, "it answers again"
