"""The native port of a whole bookie: what is taken, what is refused, what survives a SIGKILL."""

import asyncio
import errno

import pytest
from bookie.boot.marker import MARKER_NAME
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER
from bookie.frames.frame import parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.server.disk_reads import READS_PER_CONNECTION_MAX
from bookie.server.lifecycle import ExitCode
from bookie.server.pacing import ANSWER_DELAY_S_MAX
from bookie.server.state import ReadOnlyReason
from bookie.storage.log_files import HEADER_BYTES
from server_lab import KIB, ME, ServerLab, frame

WRONG_KEY = b"w" * 20


def entry(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, -1, len(payload)) + payload


# ---- adds and reads -----------------------------------------------------------------------------


async def test_entries_come_back_verbatim(server: ServerLab) -> None:
    ledger = await server.ledger()
    assert await server.add(ledger, 0, 5, lac=-1) is Status.OK
    status, reply = await server.read(ledger, 0, 4)
    assert status is Status.OK and reply is not None
    assert [bytes(run) for run in reply.runs] == [frame(ledger, 0, 5)]
    assert (reply.answered_through, reply.last_entry_id) == (4, 4)


async def test_what_was_never_here_is_denied(server: ServerLab) -> None:
    ledger = await server.ledger()
    assert await server.absent(ledger, 0) is Status.NO_SUCH_LEDGER
    await server.add(ledger, 0)
    assert await server.absent(ledger, 1) is Status.NO_SUCH_ENTRY


async def test_a2_a_process_that_slept_looks_at_its_lease_before_it_answers(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    assert await server.add(ledger, 0) is Status.OK
    assert server.bookie is not None
    server.bookie.state.lease_until = 0.0
    assert await server.add(ledger, 1) is Status.NOT_READY
    assert await server.absent(ledger, 1) is Status.UNKNOWN
    status, reply = await server.read(ledger, 0, 0)
    assert status is Status.OK and reply is not None and len(reply.runs) == 1


async def test_s9_what_the_disk_cannot_give_is_unknown_and_not_denied(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    await idle_server.add(ledger, 0, 3)
    await idle_server.stop()
    await idle_server.start()
    for folder in (path / "log" for path in idle_server.directories[1:]):
        for name in disk.list_directory(folder):
            disk.damage(folder / name, HEADER_BYTES + 60, b"\xff\xff")
    _status, reply = await idle_server.read(ledger, 0, 5)
    assert reply is not None and (reply.unknown, reply.runs) == (((0, 2),), ())


async def test_an_entry_id_twice_is_fine_and_keeps_its_first_copy(server: ServerLab) -> None:
    ledger = await server.ledger()
    first, second = (
        build_run(ledger, EntryId(0), [entry(ledger, 0, word)], lac=EntryId(-1))
        for word in (b"first", b"second")
    )
    assert [await server.send(first), await server.send(second)] == [Status.OK, Status.OK]
    await server.flush()
    status, reply = await server.read(ledger, 0, 0)
    assert status is Status.OK and reply is not None
    assert bytes(parse_run(memoryview(reply.runs[0])).buffer) == first


async def test_the_largest_entry_goes_through(idle_server: ServerLab) -> None:
    idle_server.sizes |= {"ring_bytes": 12 * KIB * KIB}
    await idle_server.start()
    ledger = await idle_server.ledger()
    body = entry(ledger, 0, bytes(ENTRY_BYTES_MAX - ENTRY_HEADER.size))
    run = build_run(ledger, EntryId(0), [body], lac=EntryId(-1))
    assert await idle_server.send(run) is Status.OK
    assert await idle_server.held(ledger, 0, 0) == [0]


async def test_a_run_that_the_log_cannot_ever_take_is_refused_not_kept_waiting(
    idle_server: ServerLab,
) -> None:
    idle_server.sizes |= {"ring_bytes": 64 * KIB}
    await idle_server.start()
    body = entry(1, 0, bytes(40 * KIB))
    run = build_run(LedgerId(1), EntryId(0), [body], lac=EntryId(-1))
    assert await idle_server.send(run) is Status.BAD_REQUEST


async def test_a_damaged_frame_is_refused_and_the_connection_goes_on(server: ServerLab) -> None:
    ledger = await server.ledger()
    run = bytearray(frame(ledger, 0, 3))
    run[-1] ^= 1
    assert await server.send(bytes(run)) is Status.BAD_REQUEST
    assert await server.add(ledger, 0) is Status.OK
    assert server.traffic.connections == 1


@pytest.mark.parametrize("body", [b"", b"short", bytes(100)])
async def test_garbage_in_place_of_a_frame_is_refused(server: ServerLab, body: bytes) -> None:
    assert await server.send(body) is Status.BAD_REQUEST


async def test_negative_ids_are_refused(server: ServerLab) -> None:
    request = server.lac_request(-1)
    assert (await server.pool.read_lac(ME, request, fence=True))[0] is Status.BAD_REQUEST
    assert (await server.read(-1, 0, 0))[0] is Status.BAD_REQUEST
    assert (await server.read(1, 5, 4))[0] is Status.BAD_REQUEST


async def test_many_reads_at_once_are_all_answered(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 3)
    reads = [server.held(ledger, 0, 2) for _ in range(4 * READS_PER_CONNECTION_MAX)]
    assert set(map(tuple, await asyncio.gather(*reads))) == {(0, 1, 2)}


# ---- beside clients that append ----------------------------------------------------------------


@pytest.fixture
async def slow_server(idle_server: ServerLab) -> ServerLab:
    """One that lets recovery adds and compaction hardly do anything beside clients."""
    idle_server.tree["limits"] = {"recoveryBytesPerSecondBusy": 1}
    idle_server.tree["storage"] = {
        "compactionBytesPerSecondBusy": 1,
        "collectIntervalSeconds": 0.01,
        "collectGraceSeconds": 0.01,
        "compactionIntervalSeconds": 0.01,
    }
    idle_server.tree["ledgers"] = idle_server.tree["ledgers"][:1]
    idle_server.sizes |= {"log_file_bytes": 64 * KIB, "ring_bytes": 256 * KIB}
    await idle_server.start()
    return idle_server


def log_files(server: ServerLab) -> set[str]:
    names = server.disk.list_directory(server.root / "ledger-0" / "log")
    return {name for name in names if name.endswith(".log")}


async def test_a_recovery_add_counts_at_once_and_is_answered_once_when_a_stop_comes(
    slow_server: ServerLab,
) -> None:
    ledger = await slow_server.ledger()
    assert await slow_server.add(ledger, 0) is Status.OK
    copied = asyncio.create_task(slow_server.add(ledger, 1, recovery=True))
    while await slow_server.held(ledger, 0, 1) != [0, 1]:
        assert await slow_server.add(ledger, 0) is Status.OK
    assert not copied.done()
    assert await slow_server.stop() is ExitCode.CLEAN
    assert await copied is Status.OK


async def test_without_clients_a_recovery_add_is_answered_at_once(slow_server: ServerLab) -> None:
    ledger, loop = await slow_server.ledger(), asyncio.get_running_loop()
    began = loop.time()
    assert await slow_server.add(ledger, 0, 100, recovery=True) is Status.OK
    assert loop.time() - began < ANSWER_DELAY_S_MAX


async def test_a_stop_does_not_wait_for_a_compaction_that_rests(slow_server: ServerLab) -> None:
    kept, dead = [await slow_server.ledger() for _ in range(2)]
    body = bytes(10 * KIB)
    for number in range(40):
        ledger = dead if number % 4 else kept
        run = build_run(ledger, EntryId(number), [entry(ledger, number, body)], lac=EntryId(-1))
        assert await slow_server.send(run) is Status.OK
    await slow_server.flush()
    before = log_files(slow_server)
    await slow_server.store.delete_ledger(dead)
    await slow_server.until(lambda: bool(before - log_files(slow_server)))
    assert await slow_server.stop() is ExitCode.CLEAN
    assert len(before & log_files(slow_server)) > len(before) // 2


# ---- keys ---------------------------------------------------------------------------------------


async def test_a_wrong_key_is_refused_everywhere(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    wrong = server.lac_request(ledger, lac=0, key=WRONG_KEY)
    assert await server.send(frame(ledger, 1), key=WRONG_KEY) is Status.UNAUTHORIZED
    assert (await server.read(ledger, 0, 0, fence=True, key=WRONG_KEY))[0] is Status.UNAUTHORIZED
    assert (await server.pool.read_lac(ME, wrong, fence=True))[0] is Status.UNAUTHORIZED
    assert await server.pool.write_lac(ME, wrong) is Status.UNAUTHORIZED
    assert await server.pool.force(ME, wrong) is Status.UNAUTHORIZED
    assert await server.add(ledger, 1) is Status.OK


async def test_the_key_is_known_after_a_kill(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.restart()
    wrong = await server.read(ledger, 0, 0, fence=True, key=WRONG_KEY)
    assert wrong[0] is Status.UNAUTHORIZED


# ---- fences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_read", [True, False])
async def test_a_fence_stops_the_writer_and_lets_recovery_pass(
    server: ServerLab, by_read: bool
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    answer = await (
        server.read(ledger, 5, 5, fence=True) if by_read else server.lac(ledger, fence=True)
    )
    assert answer[0] is Status.OK
    assert await server.add(ledger, 1) is Status.FENCED
    assert await server.add(ledger, 1, recovery=True) is Status.OK


async def test_a_fence_ends_what_many_adds_were_taken_on(server: ServerLab) -> None:
    ledger = await server.ledger()
    assert {await server.add(ledger, number) for number in range(3)} == {Status.OK}
    await server.fence(ledger)
    assert await server.add(ledger, 3) is Status.FENCED


async def test_a_read_only_bookie_refuses_also_a_ledger_that_it_took(server: ServerLab) -> None:
    ledger = await server.ledger()
    assert {await server.add(ledger, number) for number in range(3)} == {Status.OK}
    server.bookie.state.switch_read_only(ReadOnlyReason.PERSON, True)
    assert await server.add(ledger, 3) is Status.READ_ONLY


async def test_adds_that_were_taken_give_another_key_no_right(server: ServerLab) -> None:
    ledger = await server.ledger()
    assert {await server.add(ledger, number) for number in range(3)} == {Status.OK}
    assert await server.send(frame(ledger, 3), key=WRONG_KEY) is Status.UNAUTHORIZED


async def test_an_add_is_answered_once_the_key_that_it_taught_is_durable(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    with disk.held_syncs() as waiting:
        added = asyncio.create_task(idle_server.add(ledger, 0))
        await asyncio.to_thread(waiting.wait)
        assert await idle_server.held(ledger, 0, 5) == [0]
        assert not added.done()
    assert await added is Status.OK


async def test_a_ledger_never_seen_is_fenced_too(server: ServerLab) -> None:
    ledger = await server.ledger()
    status, reply = await server.read(ledger, 0, 0, fence=True)
    assert status is Status.OK and reply is not None and reply.absent is Status.NO_SUCH_ENTRY
    assert await server.add(ledger, 0) is Status.FENCED


async def test_a_plain_read_fences_nothing(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.read(ledger, 0, 0)
    await server.lac(ledger)
    assert await server.add(ledger, 0) is Status.OK


async def test_s44_a_fence_is_told_only_once_it_is_on_the_disk(idle_server: ServerLab) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    await idle_server.add(ledger, 0)
    with disk.held_syncs() as waiting:
        asked = [
            asyncio.create_task(idle_server.read(ledger, 0, 0, fence=True)),
            asyncio.create_task(idle_server.lac(ledger, fence=True)),
        ]
        await asyncio.to_thread(waiting.wait)
        assert await idle_server.add(ledger, 1) is Status.FENCED  # it counts, but is not told
        assert await idle_server.held(ledger, 0, 5) == [0]
        assert not any(task.done() for task in asked)
    assert [status for status, _reply in await asyncio.gather(*asked)] == [Status.OK, Status.OK]


async def test_s44_a_fence_that_cannot_be_synced_is_an_error_and_ends_the_bookie(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    disk.fail("sync", pattern="*.jnl*", error=errno.EIO)
    assert not (await idle_server.lac(ledger, fence=True))[0].is_known
    assert await idle_server.ended() is ExitCode.DISK_FAILED
    assert all(disk.exists(path / MARKER_NAME) for path in idle_server.directories)


async def test_a_fence_refused_by_a_full_disk_is_not_told_later_as_if_it_were_written(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    idle_server.sizes |= {"journal_file_bytes": 16 * KIB}
    await idle_server.start()
    ledger = await idle_server.ledger()
    capacity, disk.capacity_bytes = disk.capacity_bytes, 0
    while await idle_server.fence(await idle_server.ledger()) is Status.OK:
        """Until nothing more fits."""
    assert await idle_server.fence(ledger) is Status.READ_ONLY
    assert await idle_server.fence(ledger) is Status.READ_ONLY
    assert (await idle_server.read(ledger, 0, 0, fence=True))[0] is Status.READ_ONLY
    disk.capacity_bytes = capacity
    await idle_server.flush()
    await idle_server.until_status(lambda: idle_server.fence(ledger), Status.OK)
    await idle_server.kill()
    await idle_server.start()
    assert await idle_server.add(ledger, 0) is Status.FENCED


async def test_fences_outlive_a_kill_although_entries_do_not(server: ServerLab) -> None:
    ledger = await server.ledger(ensemble=(ME, ME, ME))
    await server.add(ledger, 0)
    await server.lac(ledger, fence=True)
    await server.close_ledger(ledger, 0)
    await server.restart()
    assert await server.add(ledger, 1) is Status.FENCED
    assert await server.held(ledger, 0, 0) == []


# ---- LAC ----------------------------------------------------------------------------------------


async def test_the_lac_is_the_highest_seen(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 4, lac=-1)
    await server.add(ledger, 4, lac=2)
    _status, reply = await server.lac(ledger)
    assert reply is not None and (reply.lac, reply.last_entry_id) == (2, 4)


async def test_a_ledger_that_is_not_here_has_no_lac(server: ServerLab) -> None:
    assert (await server.lac(99))[0] is Status.NO_SUCH_LEDGER


async def test_an_explicit_lac_outlives_a_kill(server: ServerLab) -> None:
    ledger = await server.ledger(closed_at=3)
    await server.add(ledger, 0, 4)
    assert await server.pool.write_lac(ME, server.lac_request(ledger, lac=3)) is Status.OK
    assert await server.pool.write_lac(ME, server.lac_request(ledger, lac=1)) is Status.OK
    await server.restart()
    _status, reply = await server.read(ledger, 0, 0)
    assert reply is not None and reply.lac == 3


async def test_a_long_poll_is_answered_by_the_advance(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    request = server.lac_request(ledger, lac=-1, timeout_ms=60_000)
    polls = [asyncio.create_task(server.pool.wait_lac(ME, request)) for _ in range(2)]
    await server.until(lambda: server.traffic.long_polls == 2)
    await server.add(ledger, 1, lac=0)
    for status, reply in await asyncio.gather(*polls):
        assert status is Status.OK and reply is not None and reply.lac == 0


async def test_an_entry_that_moves_no_lac_answers_no_long_poll(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    request = server.lac_request(ledger, lac=-1, timeout_ms=60_000)
    poll = asyncio.create_task(server.pool.wait_lac(ME, request))
    await server.until(lambda: server.traffic.long_polls == 1)
    await server.add(ledger, 1, lac=-1)
    assert server.traffic.long_polls == 1
    await server.add(ledger, 2, lac=1)
    _status, reply = await poll
    assert reply is not None and reply.lac == 1


@pytest.mark.parametrize("known", range(-1, 4))
async def test_an_explicit_lac_answers_the_long_polls_of_those_who_know_less(
    server: ServerLab, known: int
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    request = server.lac_request(ledger, lac=known, timeout_ms=60_000)
    poll = asyncio.create_task(server.pool.wait_lac(ME, request))
    await server.until(lambda: server.traffic.long_polls == 1)
    for lac in (2, 4):
        waits = server.traffic.long_polls
        assert await server.pool.write_lac(ME, server.lac_request(ledger, lac=lac)) is Status.OK
        assert server.traffic.long_polls == (waits and known >= lac)
    _status, reply = await poll
    assert reply is not None and reply.lac == (2 if known < 2 else 4)


async def test_a_long_poll_ends_with_what_is_known_at_its_timeout(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    request = server.lac_request(ledger, lac=-1, timeout_ms=1)
    status, reply = await server.pool.wait_lac(ME, request)
    assert status is Status.OK and reply is not None and reply.lac == -1


async def test_a_client_that_hangs_up_leaves_no_long_poll(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    poll = asyncio.create_task(
        server.pool.wait_lac(ME, server.lac_request(ledger, timeout_ms=60_000))
    )
    await server.until(lambda: server.traffic.long_polls == 1)
    await server.pool.close()
    assert (await poll)[0] is Status.UNREACHABLE
    await server.until(lambda: server.traffic.long_polls == 0)


# ---- force --------------------------------------------------------------------------------------


async def test_what_was_forced_outlives_a_kill(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 3)
    assert await server.pool.force(ME, server.lac_request(ledger)) is Status.OK
    await server.restart()
    assert await server.held(ledger, 0, 5) == [0, 1, 2]


async def test_nothing_is_promised_for_a_ledger_that_is_not_here(server: ServerLab) -> None:
    assert await server.pool.force(ME, server.lac_request(99)) is Status.NO_SUCH_LEDGER


# ---- limbo --------------------------------------------------------------------------------------


async def test_s42_in_limbo_nothing_is_denied_on_any_path(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.restart()
    request = server.lac_request(ledger, timeout_ms=1)
    assert await server.absent(ledger, 0) is Status.UNKNOWN
    fenced, reply = await server.read(ledger, 0, 0, fence=True)
    assert fenced is Status.OK and reply is not None and reply.absent is Status.UNKNOWN
    assert (await server.lac(ledger))[0] is Status.UNKNOWN
    assert (await server.lac(ledger, fence=True))[0] is Status.UNKNOWN
    assert (await server.pool.wait_lac(ME, request))[0] is Status.UNKNOWN
    assert await server.pool.force(ME, request) is Status.UNKNOWN


async def test_in_limbo_recovery_adds_alone_are_taken_and_served(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.restart()
    assert await server.add(ledger, 0) is Status.READ_ONLY
    assert await server.add(ledger, 0, 2, recovery=True) is Status.OK
    assert await server.held(ledger, 0, 5) == [0, 1]
    assert await server.absent(ledger, 2) is Status.UNKNOWN


async def test_s42_a_ledger_it_never_saw_but_existed_is_unknown_after_an_unclean_boot(
    server: ServerLab,
) -> None:
    ledger = await server.ledger(closed_at=5)
    await server.restart()
    assert await server.absent(ledger, 0) is Status.UNKNOWN
    assert (await server.lac(ledger))[0] is Status.UNKNOWN
    assert await server.absent(await server.ledger(), 0) is Status.NO_SUCH_LEDGER


async def test_s40_a_collected_ledger_takes_nothing_any_more(idle_server: ServerLab) -> None:
    server = idle_server
    server.tree["storage"] = {"collectIntervalSeconds": 0.01, "collectGraceSeconds": 0.01}
    await server.start()
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.store.delete_ledger(ledger)
    await server.until_status(lambda: server.absent_now(ledger, 0), Status.NO_SUCH_LEDGER)
    for recovery in (False, True):
        assert await server.add(ledger, 1, recovery=recovery) is Status.FENCED
    await server.restart()
    assert await server.add(ledger, 1) is Status.FENCED


async def test_a_read_that_was_answered_leaves_its_place_to_the_next(
    idle_server: ServerLab,
) -> None:
    idle_server.tree["limits"] = {"readsInFlight": 2}
    await idle_server.start()
    ledger = await idle_server.ledger()
    await idle_server.add(ledger, 0)
    for _ in range(10):
        assert await idle_server.held(ledger, 0, 0) == [0]
