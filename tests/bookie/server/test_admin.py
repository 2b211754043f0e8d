"""The control plane of a whole bookie over gRPC: who is asked, what is answered, and when."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.server import admin_requests
from bookie.server.admin_requests import LEDGERS_MAX
from bookie.server.lifecycle import ExitCode
from bookie.server.state import Phase
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity
from server_lab import ME, UNTIL_SECONDS_MAX, ServerLab

CODES = grpc.StatusCode


async def code_of(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), str(caught.value.details())


async def health(lab: ServerLab) -> pb.Health:
    found: pb.Health = await lab.call("GetHealth", pb.GetHealthRequest())
    return found


# ---- whom a call means --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("GetHealth", pb.GetHealthRequest()),
        ("ListLimbo", pb.ListLimboRequest()),
        ("ClearLimbo", pb.ClearLimboRequest(ledger_ids=[1])),
        ("Drain", pb.DrainRequest()),
    ],
)
async def test_a_call_for_another_bookie_is_refused(
    server: ServerLab, name: str, request_: Any
) -> None:
    own = identity(server)
    for other, said in (
        (replace(own, bookie="bookie-9"), "this is bookie bookie-0, not bookie-9"),
        (replace(own, cluster="another"), "not of another: look up the address again"),
        (replace(own, epoch=own.epoch + 1), "its boot 2 is known: an older process"),
    ):
        code, words = await code_of(server.call(name, request_, meant=other))
        assert code is CODES.FAILED_PRECONDITION and said in words
    assert (await health(server)).phase == pb.SERVING


def identity(lab: ServerLab) -> Identity:
    assert lab.bookie is not None
    return lab.bookie.control.identity()


async def test_a2_a_call_that_names_a_later_boot_is_looked_into(server: ServerLab) -> None:
    later = replace(identity(server), epoch=7)
    await code_of(server.call("GetHealth", pb.GetHealthRequest(), meant=later))
    assert server.bookie is not None and server.bookie.state.epoch_heard == 7


async def test_every_reply_says_who_made_it(server: ServerLab) -> None:
    async with server.admin() as stub:
        call = stub.GetHealth(pb.GetHealthRequest())
        await call
        assert Identity.from_metadata(await call.initial_metadata()) == identity(server)


async def test_a_call_for_more_than_a_health_says_whom_it_means(server: ServerLab) -> None:
    for metadata in ((), (("bookie-id", ME),), (("bookie-id", ME), ("boot-epoch", "x"))):
        async with server.admin() as stub:
            code, words = await code_of(stub.Drain(pb.DrainRequest(), metadata=metadata))
        assert code is CODES.FAILED_PRECONDITION and ("upgraded" in words or "epoch" in words)
    assert server.bookie is not None and server.bookie.state.phase is Phase.SERVING


async def test_while_it_boots_who_names_the_cluster_is_heard(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: bool(bookie.state.message))
    meant = Identity("cluster", ME, 5)
    found = await idle_server.call("GetHealth", pb.GetHealthRequest(), meant=meant)
    assert found.phase == pb.BOOTING and bookie.state.epoch_heard == 0


async def test_who_does_not_know_the_id_asks_whoever_is_there(server: ServerLab) -> None:
    async with server.admin() as stub:
        assert (await stub.GetHealth(pb.GetHealthRequest())).bookie_id == ME


# ---- health -------------------------------------------------------------------------------------


async def test_health_tells_boot_disks_and_marks(server: ServerLab) -> None:
    await server.ledger()
    await server.ledger(closed_at=3)
    await server.restart()
    found = await health(server)
    boot = found.boot
    assert (boot.boot_epoch, boot.clean, boot.reason) == (2, False, "UncleanShutdown")
    assert (boot.mode, boot.previous_mode) == ("memory", "memory")
    assert (boot.ledgers_fenced, boot.ledgers_in_limbo, boot.ledgers_unchecked) == (2, 1, 1)
    assert (found.limbo_ledgers, found.unchecked_ledgers) == (1, 1)
    assert [(d.role, d.index, d.verdict) for d in found.disks] == [
        ("journal", 0, "ok"), ("ledger", 0, "ok"), ("ledger", 1, "ok"),
    ]  # fmt: skip
    assert len({d.disk_id for d in found.disks}) == 3 and found.instance_id
    assert [d.volume_uid for d in found.disks] == [*map(str, server.directories)]


async def test_while_it_boots_health_answers_and_all_else_is_unavailable(
    idle_server: ServerLab,
) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: bool(bookie.state.message))
    assert (await health(idle_server)).phase == pb.BOOTING
    for name, request in (
        ("ListLimbo", pb.ListLimboRequest()),
        ("GetAvailability", pb.GetAvailabilityRequest(ledger_ids=[1])),
        ("ClearLimbo", pb.ClearLimboRequest(ledger_ids=[1])),
        ("RecordLoss", pb.RecordLossRequest(ledger_id=1, ranges=[pb.EntryRange(first=0, last=0)])),
        ("SetReadOnly", pb.SetReadOnlyRequest(read_only=True)),
        ("Drain", pb.DrainRequest()),
        ("Flush", pb.FlushRequest()),
    ):
        code, words = await code_of(idle_server.call(name, request))
        assert code is CODES.UNAVAILABLE and "bookie bookie-0 is BOOTING" in words


async def test_a_long_sentence_is_cut_since_it_is_sent_in_a_header(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: bool(bookie.state.message))
    bookie.state.message = "x" * 50_000
    code, words = await code_of(idle_server.call("Flush", pb.FlushRequest()))
    assert code is CODES.UNAVAILABLE and "bookie-0 is BOOTING: xxx" in words
    assert len(words) <= 2000


async def test_a_caller_that_stays_connected_is_asked_to_connect_again(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no authority that is trusted newly, or no more, would ever judge it."""
    monkeypatch.setattr(admin_requests, "CONNECTION_AGE_MS", 100)
    bookie = await idle_server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{bookie.ports['admin']}") as channel:
        async with asyncio.timeout(UNTIL_SECONDS_MAX):
            await channel.channel_ready()
            await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)


# ---- marks --------------------------------------------------------------------------------------


async def test_marks_are_listed_in_pages_limbo_and_unchecked_apart(server: ServerLab) -> None:
    limbo = [await server.ledger() for _ in range(3)]
    closed = await server.ledger(closed_at=0)
    await server.restart()
    first = await server.call("ListLimbo", pb.ListLimboRequest(after_ledger_id=-1, limit=2))
    assert [m.ledger_id for m in first.ledgers] == limbo[:2] and first.more
    after = pb.ListLimboRequest(after_ledger_id=limbo[1], limit=2, include_unchecked=True)
    second = await server.call("ListLimbo", after)
    assert [(m.ledger_id, m.limbo, m.boot_epoch) for m in second.ledgers] == [
        (limbo[2], True, 2), (closed, False, 2),
    ]  # fmt: skip
    assert not second.more


async def test_availability_in_limbo_is_what_is_there_and_unknown(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 3)
    await server.flush()
    await server.restart()
    await server.add(ledger, 5, recovery=True)
    asked = pb.GetAvailabilityRequest(ledger_ids=[ledger, 999])
    known, unseen = (await server.call("GetAvailability", asked)).ledgers
    assert EntrySet.decode(known.entries) == EntrySet.from_ranges([(0, 2), (5, 5)])
    assert (known.status, known.limbo, known.fenced) == (Status.UNKNOWN, True, False)
    assert (unseen.status, unseen.limbo) == (Status.NO_SUCH_LEDGER, False)


async def test_a_mark_is_cleared_only_once_the_ledger_is_closed_and_whole(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 3)
    await server.restart()
    assert await cleared(server, ledger) == ("NotClosed", 0)
    await server.close_ledger(ledger, 2)
    assert await cleared(server, ledger) == ("EntriesMissing", 3)
    await server.add(ledger, 0, 2, recovery=True)
    assert await cleared(server, ledger) == ("EntriesMissing", 1)
    assert await server.absent(ledger, 2) is Status.UNKNOWN
    await server.add(ledger, 2, recovery=True)
    assert await cleared(server, ledger) == ("Cleared", 0)
    assert await cleared(server, ledger) == ("NotMarked", 0)
    assert await server.absent(ledger, 3) is Status.NO_SUCH_ENTRY


async def cleared(lab: ServerLab, ledger_id: int) -> tuple[str, int]:
    reply = await lab.call("ClearLimbo", pb.ClearLimboRequest(ledger_ids=[ledger_id]))
    (result,) = reply.results
    assert result.cleared == (result.reason == "Cleared")
    return result.reason, result.entries_missing


async def test_s31_what_was_cleared_outlives_a_kill_with_its_copies(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.restart()
    await server.close_ledger(ledger, 0)
    await server.add(ledger, 0, recovery=True)
    assert (await cleared(server, ledger))[0] == "Cleared"
    await server.restart()
    assert await server.held(ledger, 0, 0) == [0]
    assert (await health(server)).limbo_ledgers == 0
    assert (await health(server)).unchecked_ledgers == 1, "S31: the next unclean stop checks again"


async def test_a_deleted_ledger_needs_no_copies(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.restart()
    await server.store.delete_ledger(ledger)
    assert await cleared(server, ledger) == ("Cleared", 0)


async def test_nothing_is_cleared_while_the_metadata_store_is_away(server: ServerLab) -> None:
    ledger = await server.ledger(closed_at=-1)
    await server.restart()
    server.metadata.is_out = True
    assert await cleared(server, ledger) == ("MetadataUnavailable", 0)
    server.metadata.is_out = False
    assert await cleared(server, ledger) == ("Cleared", 0)


async def test_too_many_ledgers_at_once_are_refused(server: ServerLab) -> None:
    many = range(LEDGERS_MAX + 1)
    code, words = await code_of(server.call("ClearLimbo", pb.ClearLimboRequest(ledger_ids=many)))
    assert code is CODES.INVALID_ARGUMENT and f"at most {LEDGERS_MAX}" in words


# ---- losses -------------------------------------------------------------------------------------


async def lose(lab: ServerLab, ledger_id: int, first: int, last: int, **fields: Any) -> Any:
    ranges = [pb.EntryRange(first=first, last=last)]
    request = pb.RecordLossRequest(ledger_id=ledger_id, ranges=ranges, reason="test", **fields)
    return await lab.call("RecordLoss", request)


async def test_a_loss_is_recorded_when_all_members_answered_and_then_clears(
    server: ServerLab,
) -> None:
    ledger = await server.ledger(closed_at=1)
    await server.add(ledger, 0)
    await server.flush()
    await server.restart()
    members = [ME, "bookie-1", "bookie-2"]
    assert "did not answer" in (await lose(server, ledger, 1, 1, answered_by=members[:2])).message
    assert "are here: not lost" in (await lose(server, ledger, 0, 1, answered_by=members)).message
    assert (await lose(server, ledger, 1, 1, answered_by=members)).recorded
    assert (await cleared(server, ledger))[0] == "Cleared"
    assert (await health(server)).losses_recorded == 1


async def test_a10_a_persons_word_does_not_turn_unknown_into_a_denial(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 1)
    await server.kill()
    await server.start()
    await server.close_ledger(ledger, 1)
    refused = await lose(server, ledger, 0, 1, by_person=True)
    assert not refused.recorded and "CLOSED at 1" in refused.message
    assert await cleared(server, ledger) == ("EntriesMissing", 2)


async def test_s33_a_person_may_accept_a_loss_in_recovery_but_not_of_what_is_here(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    current = await server.store.read_ledger(ledger)
    await server.store.write_ledger(current.value.in_recovery(), version=current.version)
    assert not (await lose(server, ledger, 0, 3, by_person=True)).recorded
    assert (await lose(server, ledger, 1, 3, by_person=True)).recorded
    await server.flush()
    await server.restart()
    asked = pb.GetAvailabilityRequest(ledger_ids=[ledger])
    (found,) = (await server.call("GetAvailability", asked)).ledgers
    assert EntrySet.decode(found.lost) == EntrySet.from_ranges([(1, 3)])


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 2)])
async def test_a_loss_of_no_range_is_refused(server: ServerLab, first: int, last: int) -> None:
    ledger = await server.ledger()
    code, _words = await code_of(lose(server, ledger, first, last, by_person=True))
    assert code is CODES.INVALID_ARGUMENT


async def test_a_loss_in_a_ledger_that_does_not_exist_is_refused(server: ServerLab) -> None:
    assert "does not exist" in (await lose(server, 77, 0, 0, by_person=True)).message


# ---- modes --------------------------------------------------------------------------------------


async def test_read_only_is_registered_and_spares_recovery(server: ServerLab) -> None:
    ledger = await server.ledger()
    reply = await server.call("SetReadOnly", pb.SetReadOnlyRequest(read_only=True))
    assert reply.phase == pb.READ_ONLY
    assert (await server.store.bookies())[ME].read_only
    assert await server.add(ledger, 0) is Status.READ_ONLY
    assert await server.add(ledger, 0, recovery=True) is Status.OK
    explicit = server.lac_request(ledger, lac=0)
    assert await server.pool.write_lac(ME, explicit) is Status.READ_ONLY
    reply = await server.call("SetReadOnly", pb.SetReadOnlyRequest(read_only=False))
    assert reply.phase == pb.SERVING and not (await server.store.bookies())[ME].read_only
    assert await server.add(ledger, 1) is Status.OK


async def test_read_only_counts_also_while_it_cannot_be_registered(
    server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.stop()
    monkeypatch.setattr("bookie.server.housekeeping.ANNOUNCE_INTERVAL_S", 0.01)
    await server.start()
    server.metadata.is_out = True
    reply = await server.call("SetReadOnly", pb.SetReadOnlyRequest(read_only=True))
    assert reply.phase == pb.READ_ONLY
    assert await server.add(await server.ledger(), 0) is Status.READ_ONLY
    assert "not registered as it is" in (await health(server)).message
    server.metadata.is_out = False
    while not (await server.store.bookies())[ME].read_only:  # noqa: ASYNC110
        await asyncio.sleep(0.002)


async def test_draining_outlives_read_only_off_and_tells_what_is_left(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    reply = await server.call("Drain", pb.DrainRequest())
    assert (reply.phase, reply.ledgers_held) == (pb.DRAINING, 1)
    await server.call("SetReadOnly", pb.SetReadOnlyRequest(read_only=False))
    assert await server.add(ledger, 1) is Status.READ_ONLY
    reply = await server.call("Drain", pb.DrainRequest(cancel=True))
    assert reply.phase == pb.SERVING
    assert await server.add(ledger, 1) is Status.OK


async def test_what_was_flushed_outlives_a_kill(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 3)
    await server.flush()
    await server.add(ledger, 3)
    await server.restart()
    held = await server.held(ledger, 0, 9)
    assert held[:3] == [0, 1, 2], "the next one may be durable by now as well: nobody promised"


async def test_a_flush_that_fails_is_an_error_and_the_end(idle_server: ServerLab) -> None:
    disk = idle_server.disk
    await idle_server.start()
    await idle_server.add(await idle_server.ledger(), 0)
    disk.fail("sync", pattern="*.log*")
    code, _words = await code_of(idle_server.call("Flush", pb.FlushRequest()))
    assert code is CODES.DATA_LOSS
    assert await idle_server.stop() is ExitCode.DISK_FAILED


# ---- approvals ----------------------------------------------------------------------------------


async def test_a_replaced_disk_waits_for_its_approval_and_then_serves(
    idle_server: ServerLab,
) -> None:
    lab = idle_server
    lab.tree["cookieFix"] = {"policy": "Approve"}
    await lab.start()
    await lab.ledger()
    await lab.stop()
    lab.wipe(1)
    bookie = lab.begin()
    await lab.until(lambda: bookie.state.phase is Phase.AWAITING_APPROVAL)
    found = await health(lab)
    asked = found.cookie_fix
    assert (list(asked.disk_indexes), asked.policy) == ([1], "Approve")
    assert [disk.verdict for disk in found.disks] == ["ok", "empty", "ok"]
    wrong = pb.ApproveCookieFixRequest(plan_id="another", approved_by="me")
    assert not (await lab.call("ApproveCookieFix", wrong)).accepted
    right = pb.ApproveCookieFixRequest(plan_id=asked.plan_id, approved_by="me")
    assert (await lab.call("ApproveCookieFix", right)).accepted
    await lab.until_registered()
    found = await health(lab)
    assert found.boot.cookie_fixed and found.boot.reason == "DiskReplaced"
    assert found.limbo_ledgers == 1 and not found.HasField("cookie_fix")


async def test_an_approval_outlives_an_outage_of_the_metadata_store(
    idle_server: ServerLab,
) -> None:
    lab = idle_server
    lab.tree["cookieFix"] = {"policy": "Approve"}
    await lab.start()
    await lab.stop()
    lab.wipe(1)
    bookie = lab.begin()
    await lab.until(lambda: bookie.state.phase is Phase.AWAITING_APPROVAL)
    lab.metadata.is_out = True
    plan = (await health(lab)).cookie_fix.plan_id
    approval = pb.ApproveCookieFixRequest(plan_id=plan, approved_by="ann")
    await lab.call("ApproveCookieFix", approval)
    await lab.until(lambda: "waiting for the metadata store" in bookie.state.message)
    lab.metadata.is_out = False
    await lab.until_registered()
    found = await health(lab)
    assert found.boot.cookie_fixed and [one.decided_by for one in found.decisions] == ["ann"]


async def test_there_is_nothing_to_approve_on_a_serving_bookie(server: ServerLab) -> None:
    request = pb.ApproveCookieFixRequest(plan_id="p", approved_by="me")
    reply = await server.call("ApproveCookieFix", request)
    assert not reply.accepted and "no cookie fix waits" in reply.message


# ---- collection ---------------------------------------------------------------------------------


async def test_a5_a_collection_that_the_brake_holds_is_told_and_goes_on_when_approved(
    idle_server: ServerLab,
) -> None:
    server = idle_server
    state = await server.hold_collection()
    told = await health(server)
    assert "3 of 3 ledgers here are gone" in told.collection_held
    wrong = await server.call("ApproveCollection", pb.ApproveCollectionRequest(plan_id="another"))
    assert not wrong.accepted and "look again" in wrong.message
    request = pb.ApproveCollectionRequest(plan_id=told.collection_plan_id, approved_by="ann")
    assert (await server.call("ApproveCollection", request)).accepted
    await server.until(lambda: state.tombstones == 3)
    assert not (await health(server)).collection_held


async def test_a5_what_was_collected_too_soon_is_put_back_by_a_repair(
    idle_server: ServerLab,
) -> None:
    server = idle_server
    server.tree["storage"] = {"collectIntervalSeconds": 0.01, "collectGraceSeconds": 0.01}
    await server.start()
    ledger = await server.ledger(closed_at=0)
    await server.add(ledger, 0)
    before = (await server.store.read_ledger(ledger)).value
    await server.store.delete_ledger(ledger)
    await server.until_status(lambda: server.absent_now(ledger, 0), Status.NO_SUCH_LEDGER)
    _, told = await server.read(ledger, 0, 0, fence=True)
    assert told is not None and told.absent is Status.UNKNOWN
    assert (await server.lac(ledger, fence=True))[0] is Status.UNKNOWN
    await server.store.create_ledger(before)
    await server.until_status(lambda: server.absent_now(ledger, 0), Status.UNKNOWN)
    assert await server.add(ledger, 0) is Status.FENCED
    assert (await health(server)).limbo_ledgers == 1
    assert await cleared(server, ledger) == ("EntriesMissing", 1)
    assert await server.add(ledger, 0, recovery=True) is Status.OK
    assert await cleared(server, ledger) == ("Cleared", 0)
    await server.restart()
    assert (await server.absent_now(ledger, 1)) is not Status.NO_SUCH_LEDGER
