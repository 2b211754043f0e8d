"""The writer's core: gathering, order of acks, striping, and its invariants under any schedule."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from bookie.errors import BadRequestError, LedgerClosedError
from bookie.frames.entry import (
    DIGEST_BYTES,
    ENTRY_BYTES_MAX,
    ENTRY_HEADER_BYTES,
    DigestType,
    EntryCodec,
)
from bookie.frames.frame import RUN_ENTRIES_MAX, parse_run
from bookie.ids import EntryId
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.protocol.writer import CONFLICTS_MAX, Phase, Writer
from hypothesis import given, settings
from hypothesis import strategies as st
from writer_sim import Cluster, bookies, metadata, step

PAYLOAD_BYTES_MAX = ENTRY_BYTES_MAX - ENTRY_HEADER_BYTES - DIGEST_BYTES[DigestType.CRC32C]


def test_acks_when_an_ack_quorum_stored_the_run() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a")
    cluster.answer("b0")
    assert cluster.acked == -1
    cluster.answer("b2")
    assert cluster.acked == 0


def test_acks_in_order_of_ids() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a", b"b")
    for bookie in ("b0", "b1", "b2"):
        cluster.answer(bookie, entry=1)
    assert cluster.acked == -1
    cluster.answer("b0", entry=0)
    cluster.answer("b1", entry=0)
    assert cluster.acked == 1


def test_gathers_payloads_while_two_batches_are_in_flight() -> None:
    cluster = Cluster.of(3, 3, 2, limits=WriterLimits())
    for index in range(10):
        cluster.append(b"%d" % index)
    assert [parse_run(s.frame).count for s in cluster.sends if s.to.position == 0] == [1, 1]
    cluster.answer("b0")
    cluster.answer("b1")
    assert cluster.writer.last_appended == 9
    assert [parse_run(s.frame).count for s in cluster.sends if s.to.position == 0] == [8]


def waiting_for_each() -> Cluster:
    """A writer whose caller waits for each entry; the first is acknowledged."""
    cluster = Cluster.of(3, 3, 2, limits=WriterLimits())
    assert not cluster.writer.goes_at_once, "nothing is known of the caller yet"
    cluster.append(b"a")
    assert not cluster.writer.goes_at_once, "the first entry is under way"
    for bookie in ("b0", "b1", "b2"):
        cluster.answer(bookie)
    return cluster


def test_where_each_entry_is_waited_for_the_next_one_goes_to_all_members_at_once() -> None:
    cluster = waiting_for_each()
    assert cluster.writer.goes_at_once
    cluster.append(b"b")
    assert [send.to.bookie_id for send in cluster.sends] == ["b0", "b1", "b2"]
    assert {parse_run(send.frame).first_entry_id for send in cluster.sends} == {1}
    assert len({id(send.frame) for send in cluster.sends}) == 1
    cluster.answer("b1")
    cluster.answer("b2")
    assert cluster.acked == 1 and cluster.writer.goes_at_once


def test_after_several_entries_in_one_batch_the_next_ones_are_gathered() -> None:
    cluster = waiting_for_each()
    cluster.append(b"b", b"c")
    for bookie in ("b0", "b1", "b2"):
        cluster.answer(bookie)
    assert cluster.acked == 2 and not cluster.writer.goes_at_once


def test_nothing_is_sent_during_an_ensemble_change_or_after_the_end() -> None:
    cluster = waiting_for_each()
    cluster.append(b"b")
    for bookie, status in (("b1", Status.OK), ("b2", Status.OK), ("b0", Status.UNREACHABLE)):
        cluster.answer(bookie, status)
    assert cluster.acked == 1 and cluster.needs
    cluster.append(b"c")
    assert not cluster.sends
    cluster = waiting_for_each()
    cluster.perform(cluster.writer.close())
    with pytest.raises(LedgerClosedError):
        cluster.writer.append_one(b"c")


@pytest.mark.parametrize("payload", [bytes(PAYLOAD_BYTES_MAX + 1), bytearray(b"b")])
def test_what_is_no_payload_is_not_queued(payload: bytes) -> None:
    cluster = waiting_for_each()
    with pytest.raises(BadRequestError):
        cluster.writer.append_one(payload)
    assert cluster.writer.last_appended == 0


def test_full_batches_go_beyond_the_gathering_limit_up_to_the_flight_limit() -> None:
    limits = WriterLimits(batch_bytes=100, gather_batches=2, in_flight_batches=5)
    cluster = Cluster.of(3, 3, 2, limits=limits)
    cluster.append(*[b"x" * 50] * 100)
    assert [parse_run(s.frame).count for s in cluster.sends if s.to.position == 0] == [2] * 5
    assert cluster.writer.unacked_bytes == 100 * 50


def test_batches_keep_the_entry_limit_of_a_run() -> None:
    cluster = Cluster.of(1, 1, 1, limits=WriterLimits())
    cluster.append(*[b""] * (RUN_ENTRIES_MAX + 1))
    assert [parse_run(s.frame).count for s in cluster.sends] == [RUN_ENTRIES_MAX, 1]


def test_a_batch_never_exceeds_the_frame_limit() -> None:
    cluster = Cluster.of(1, 1, 1, limits=WriterLimits(batch_bytes=100 * 1024 * 1024))
    cluster.append(bytes(PAYLOAD_BYTES_MAX), bytes(70_000))
    assert [parse_run(s.frame).count for s in cluster.sends] == [1, 1]


def test_an_oversize_payload_is_refused_and_nothing_is_queued() -> None:
    cluster = Cluster.of(3, 3, 2)
    with pytest.raises(BadRequestError, match="nothing was sent"):
        cluster.writer.append([b"fine", bytes(PAYLOAD_BYTES_MAX + 1)])
    assert cluster.writer.last_appended == -1
    assert not cluster.writer.pump()


def test_members_of_a_run_get_the_same_bytes() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a")
    assert len({id(send.frame) for send in cluster.sends}) == 1


@pytest.mark.parametrize("quorums", [(3, 2, 2), (4, 2, 1), (5, 3, 2), (6, 2, 2), (3, 1, 1)])
def test_a_striped_batch_reaches_each_entrys_write_set_in_one_run_per_set(
    quorums: tuple[int, int, int],
) -> None:
    cluster = Cluster.of(*quorums, limits=WriterLimits())
    cluster.append(b"first")
    cluster.append(*[b"%d" % index for index in range(20)])
    assert len({send.run_id for send in cluster.sends}) == 1 + quorums[0]
    for bookie in bookies(quorums[0]):
        cluster.answer(bookie)
    for entry_id in range(21):
        members = write_set(
            EntryId(entry_id), ensemble=bookies(quorums[0]), write_quorum=quorums[1]
        )
        holders = {bookie for bookie in bookies(quorums[0]) if entry_id in cluster.stored(bookie)}
        assert holders == set(members)
    assert cluster.acked == 20


def test_entries_carry_the_lac_of_their_sending_and_the_length_so_far() -> None:
    cluster = Cluster.of(1, 1, 1)
    cluster.append(b"abc")
    cluster.answer("b0")
    cluster.append(b"de")
    cluster.answer("b0")
    codec = EntryCodec(metadata(1, 1, 1).ledger_id, metadata(1, 1, 1).digest_type, b"")
    header, payload = codec.decode(cluster.held[bookies(1)[0]][1], entry_id=EntryId(1))
    assert (header.lac, header.length, payload) == (0, 5, b"de")


def test_the_slowest_member_bounds_what_is_kept_for_it() -> None:
    limits = WriterLimits(lag_bytes_max=2000)
    cluster = Cluster.of(3, 3, 2, limits=limits)
    for _ in range(100):
        cluster.append(b"x" * 100)
        cluster.answer("b0")
        cluster.answer("b1")
    assert cluster.acked < 99
    cluster.answer("b2")
    cluster.answer("b0")
    cluster.answer("b1")
    assert cluster.acked == 99


def test_goes_on_with_the_ack_quorum_when_no_replacement_is_to_be_had() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.answer("b1")
    cluster.answer("b2")
    assert cluster.acked == -1, "the LAC is frozen while a change is open"
    cluster.choose()
    assert cluster.acked == 0
    assert cluster.writer.is_degraded and not cluster.writer.is_stalled
    cluster.append(b"b")
    assert {send.to.bookie_id for send in cluster.sends} == {"b1", "b2"}


@pytest.mark.parametrize("members", [("b0", "b1", "b2"), ("b1", "b2", "b0"), ("b2", "b0", "b1")])
def test_what_a_member_answers_after_it_failed_does_not_count(members: Sequence[str]) -> None:
    failed, one, other = members
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.answer(failed, Status.UNREACHABLE, entry=1)
    cluster.choose()
    cluster.answer(failed, entry=0)
    cluster.answer(one, entry=0)
    assert cluster.acked == -1
    cluster.answer(other, entry=0)
    assert cluster.acked == 0


def test_is_stalled_without_an_ack_quorum_of_reachable_members() -> None:
    cluster = Cluster.of(2, 2, 2)
    cluster.append(b"a")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose()
    assert cluster.writer.is_stalled
    assert cluster.acked == -1


@pytest.mark.parametrize(
    ("quorums", "stored", "is_stalled"),
    [
        ((3, 3, 2), (), False),
        ((3, 3, 2), ("b1",), False),
        ((3, 3, 3), ("b1",), True),
        ((3, 3, 3), ("b1", "b2"), True),
        ((4, 4, 3), ("b1", "b2"), False),
        ((4, 4, 3), ("b3",), False),
    ],
)
def test_members_that_have_stored_a_run_count_as_those_that_may_yet(
    quorums: tuple[int, int, int], stored: Sequence[str], is_stalled: bool
) -> None:
    cluster = Cluster.of(*quorums)
    cluster.append(b"a")
    for member in stored:
        cluster.answer(member)
    cluster.answer("b0", Status.UNREACHABLE)
    assert cluster.writer.is_stalled is is_stalled


def test_readmits_a_member_without_touching_metadata_and_sends_to_it_again() -> None:
    cluster = Cluster.of(2, 2, 2)
    cluster.append(b"a")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose()
    cluster.perform(cluster.writer.retry_change())
    cluster.choose(p0="b0")
    assert not cluster.writes
    cluster.answer("b0")
    cluster.answer("b1")
    assert cluster.acked == 0


def test_a_change_of_its_own_is_no_conflict_however_many_there_are() -> None:
    cluster = Cluster.of(3, 3, 2)
    for number in range(3, 3 + 2 * CONFLICTS_MAX):
        cluster.append(b"a")
        cluster.answer(f"b{number - 1}", Status.UNREACHABLE)
        cluster.choose(p2=f"b{number}")
        cluster.apply_write()
        for bookie in ("b0", "b1", f"b{number}"):
            cluster.answer(bookie)
    assert cluster.failed is None and cluster.acked == 2 * CONFLICTS_MAX - 1


def test_changes_by_others_are_borne_however_many_while_its_own_succeed_in_between() -> None:
    cluster = Cluster.of(3, 3, 2)
    for number in range(3, 3 + 2 * CONFLICTS_MAX):
        cluster.append(b"a")
        cluster.answer(f"b{number - 1}", Status.UNREACHABLE)
        cluster.others_write(lambda found, n=number: replace(found, ctime_ms=n))  # type: ignore[misc]
        for _lost_then_won in range(2):
            cluster.choose(p2=f"b{number}")
            cluster.apply_write()
        for bookie in ("b0", "b1", f"b{number}"):
            cluster.answer(bookie)
    assert cluster.failed is None and cluster.acked == 2 * CONFLICTS_MAX - 1


def test_close_fails_what_is_pending_and_ends_the_ledger_at_the_lac() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"abc", b"d")
    cluster.answer("b0", entry=0)
    cluster.answer("b1", entry=0)
    cluster.perform(cluster.writer.close())
    cluster.apply_write()
    assert cluster.failed is not None and cluster.closed is not None
    assert (cluster.store.state, cluster.store.last_entry_id) == (LedgerState.CLOSED, 0)
    assert cluster.store.length == 3


def test_append_after_close_is_refused() -> None:
    cluster = Cluster.of(1, 1, 1)
    cluster.perform(cluster.writer.close())
    with pytest.raises(LedgerClosedError):
        cluster.writer.append([b"late"])


def test_close_waits_for_the_ensemble_change_under_way() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"a")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    cluster.perform(cluster.writer.close())
    assert cluster.writes[0].metadata.state is LedgerState.OPEN
    cluster.apply_write()
    cluster.apply_write()
    assert cluster.closed is not None and cluster.store.last_entry_id == -1


def test_a_writer_needs_an_open_ledger() -> None:
    with pytest.raises(LedgerClosedError):
        Writer(metadata(1, 1, 1).closed(EntryId(-1), length=0), version=0)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    quorums=st.sampled_from([(1, 1, 1), (2, 2, 1), (3, 3, 2), (3, 2, 2), (4, 3, 2), (6, 2, 2)]),
    batch_bytes=st.sampled_from([1, 3, 100]),
)
def test_acks_form_a_prefix_held_by_the_committed_ensemble_under_any_schedule(
    seed: int, quorums: tuple[int, int, int], batch_bytes: int
) -> None:
    rng = random.Random(seed)
    limits = WriterLimits(batch_bytes=batch_bytes, gather_batches=4, in_flight_batches=8)
    cluster = Cluster.of(*quorums, limits=limits)
    spare = bookies(quorums[0] + 3)
    for _ in range(120):
        if rng.random() < 0.15:
            cluster.append(*[b"x" * rng.randint(0, 3) for _ in range(rng.randint(1, 4))])
        step(cluster, rng, spare)
    if rng.random() < 0.5:
        cluster.perform(cluster.writer.close())
        for _ in range(20):
            step(cluster, rng, spare)
    if cluster.closed is not None:
        assert cluster.writer.phase is Phase.CLOSED
        assert cluster.closed.last == cluster.acked == cluster.store.last_entry_id
