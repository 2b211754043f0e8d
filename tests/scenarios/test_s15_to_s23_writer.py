"""Scenarios S15-S23, S41 and S43: the writer against recoverers, failing bookies and a slow store.

Every ack is checked by the cluster against what the store says at that moment (`writer_sim`).
"""

import pytest
from bookie.errors import LedgerFencedError, MetadataConflictError
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState, changed_ensemble
from bookie.protocol.status import Status
from bookie.protocol.writer import CONFLICTS_MAX, Phase
from writer_sim import Cluster, bookies


def with_acked(count: int, *quorums: int) -> Cluster:
    """A cluster with `count` acknowledged entries on every member."""
    cluster = Cluster.of(*quorums)
    cluster.append(*[b"x"] * count)
    for bookie in range(quorums[0]):
        cluster.answer(f"b{bookie}")
    assert cluster.acked == count - 1
    return cluster


def error_of(cluster: Cluster) -> Exception:
    assert cluster.failed is not None
    return cluster.failed.error


def test_s15_close_loses_against_a_recovery_under_way() -> None:
    cluster = with_acked(10, 3, 3, 2)
    cluster.append(b"e10")
    cluster.others_write(LedgerMetadata.in_recovery)
    cluster.perform(cluster.writer.close())
    assert cluster.failed is not None, "e10 is reported as unknown"
    cluster.apply_write()
    assert isinstance(error_of(cluster), LedgerFencedError)
    assert cluster.closed is None and cluster.store.state is LedgerState.IN_RECOVERY


def test_s16_close_succeeds_when_a_recoverer_closed_at_the_same_end() -> None:
    cluster = with_acked(10, 3, 3, 2)
    cluster.others_write(lambda value: value.in_recovery().closed(EntryId(9), length=10))
    cluster.perform(cluster.writer.close())
    cluster.apply_write()
    assert cluster.closed is not None and cluster.closed.last == 9


def test_s16_close_fails_when_a_recoverer_closed_at_another_end() -> None:
    cluster = with_acked(10, 3, 3, 2)
    cluster.others_write(lambda value: value.in_recovery().closed(EntryId(10), length=11))
    cluster.perform(cluster.writer.close())
    cluster.apply_write()
    assert isinstance(error_of(cluster), LedgerFencedError)
    assert cluster.closed is None


def test_s17_acks_nothing_while_the_store_stalls_and_members_fail_one_after_another() -> None:
    cluster = with_acked(2, 3, 3, 2)
    cluster.append(b"e2", b"e3")
    cluster.answer("b0", Status.UNREACHABLE, entry=2)
    cluster.choose(p0="b3")
    cluster.answer("b1", entry=2)
    cluster.answer("b2", entry=2)
    assert cluster.acked == 1, "e2 is on two members, but its fragment is not committed"
    cluster.answer("b1", Status.UNREACHABLE, entry=3)
    cluster.answer("b2", Status.UNREACHABLE, entry=3)
    cluster.reread()  # the attempt's outcome is unknown: the same value is written again
    assert cluster.acked == 1
    cluster.apply_write()
    assert cluster.acked == 2, "e2 is on the committed b1 and b2"
    cluster.choose(p1="b4", p2="b5")
    cluster.apply_write()
    for bookie in ("b3", "b4", "b5"):
        cluster.answer(bookie)
    assert cluster.acked == 3
    assert cluster.store.last_fragment.first_entry_id == 3


def test_s17_an_attempt_of_unknown_outcome_may_still_land() -> None:
    cluster = with_acked(1, 3, 3, 2)
    cluster.append(b"e1")
    cluster.answer("b1")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    late = cluster.writes[0]
    cluster.reread()
    assert cluster.writes == [late], "only the same value keeps the start that was frozen"
    cluster.store, cluster.version = late.metadata, cluster.version + 1
    cluster.apply_write()
    cluster.answer("b3")
    assert cluster.acked == 1


@pytest.mark.parametrize("late_ok", ["before", "after"])
def test_s18_an_ack_of_a_replaced_member_does_not_count(late_ok: str) -> None:
    cluster = with_acked(5, 2, 2, 1)
    cluster.append(b"e5", b"e6", b"e7")
    sends = [send for send in cluster.sends if send.to.bookie_id == "b0" and send.run_id != 8]
    for send in sends:
        cluster.arrive(send)
    cluster.answer("b0", Status.UNREACHABLE, entry=7)
    cluster.choose(p0="b3")
    if late_ok == "before":
        cluster.reply()
    cluster.answer("b1", Status.UNREACHABLE, entry=7)
    cluster.apply_write()
    cluster.choose(p1="b4")
    cluster.apply_write()
    while cluster.replies:
        cluster.reply()
    assert cluster.acked == 4
    cluster.answer("b4")
    assert cluster.acked == 7


def test_s19_overlapping_replacements_with_striped_acks_pending() -> None:
    cluster = Cluster.of(6, 2, 2)
    cluster.append(*[b"x"] * 12)
    for entry_id in (0, 1, 3, 4, 6, 7):
        for bookie in range(6):
            cluster.answer(f"b{bookie}", entry=entry_id)
    assert cluster.acked == 1
    cluster.answer("b2", Status.UNREACHABLE, entry=2)
    cluster.choose(p2="b6")
    cluster.answer("b3", Status.UNREACHABLE, entry=2)
    cluster.apply_write()
    cluster.choose(p3="b7")
    for member in ("b0", "b1", "b4", "b5", "b6"):
        cluster.answer(member)
    cluster.apply_write()
    assert cluster.acked == 1, "e2 is on b6 alone until b7 stored it"
    cluster.answer("b7")
    assert cluster.acked == 11


def test_s19_members_replaced_in_one_change_lose_all_their_acks() -> None:
    cluster = Cluster.of(3, 3, 3)
    cluster.append(b"e0", b"e1")
    for bookie in ("b0", "b1"):
        cluster.answer(bookie, entry=0)
        cluster.answer(bookie, Status.UNREACHABLE, entry=1)
    cluster.choose()
    cluster.perform(cluster.writer.retry_change())
    cluster.choose(p0="b3", p1="b4")
    cluster.apply_write()
    for bookie, acked in (("b2", -1), ("b3", -1), ("b4", 1)):
        cluster.answer(bookie)
        assert cluster.acked == acked


def test_s20_a_change_that_lands_acks_nothing_by_the_members_it_replaced() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"e0", b"e1")
    cluster.answer("b0", entry=0)
    cluster.answer("b0", Status.UNREACHABLE, entry=1)
    cluster.choose(p0="b3")
    cluster.answer("b1", entry=0)  # the second ack, while the change is under way
    cluster.apply_write()
    assert cluster.acked == -1
    cluster.answer("b3", entry=0)
    assert cluster.acked == 0


def test_s20_callbacks_only_after_all_pending_were_evaluated_again_in_order() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(*[b"x"] * 10)
    for entry_id in range(1, 10):
        cluster.answer("b0", entry=entry_id)
        cluster.answer("b1", entry=entry_id)
    cluster.answer("b2", entry=0)
    cluster.answer("b0", Status.UNREACHABLE, entry=0)
    cluster.choose(p0="b3")
    cluster.apply_write()
    assert cluster.acked == -1
    cluster.answer("b1")
    assert cluster.acked == 0, "the others lost the ack of b0"
    cluster.answer("b3")
    assert cluster.acked == 9


def test_s21_an_ensemble_change_that_meets_a_recovery_stops_the_writer() -> None:
    cluster = with_acked(1, 3, 3, 2)
    cluster.append(b"e1")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    cluster.others_write(LedgerMetadata.in_recovery)
    cluster.apply_write()
    assert isinstance(error_of(cluster), LedgerFencedError)
    cluster.answer("b1")
    cluster.answer("b2")
    assert cluster.acked == 0 and not cluster.writes


def test_s22_a_member_that_returns_to_its_position_stores_what_is_attributed_to_it() -> None:
    cluster = with_acked(1, 3, 3, 2)
    cluster.append(b"e1")
    old = next(send for send in cluster.sends if send.to.bookie_id == "b0")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    cluster.apply_write()
    cluster.answer("b3", Status.UNREACHABLE)
    cluster.choose(p0="b0")
    cluster.others_write(lambda value: value.with_fragments(value.fragments))
    cluster.apply_write()  # lost: versions conflict; adopted, planned again
    cluster.choose(p0="b0")
    cluster.apply_write()
    # The first life of b0 at position 0.
    cluster.perform(cluster.writer.replied(old.run_id, old.to, Status.OK))
    cluster.answer("b1")
    assert cluster.acked == 0
    cluster.answer("b0")
    assert cluster.acked == 1 and 1 in cluster.stored("b0")
    assert cluster.store.last_fragment == Fragment(EntryId(1), bookies(3))


def test_s22_adopts_a_replacement_someone_else_made_and_sends_to_it() -> None:
    cluster = with_acked(1, 3, 3, 2)
    cluster.append(b"e1")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    cluster.others_write(
        lambda value: value.with_fragments(
            changed_ensemble(
                value.fragments, first_entry_id=EntryId(0), replacements={1: BookieId("b5")}
            )
        )
    )
    cluster.held[BookieId("b5")] = dict(cluster.held[BookieId("b1")])
    cluster.apply_write()
    assert {send.to.bookie_id for send in cluster.sends} >= {"b5"}
    cluster.answer("b1")
    cluster.choose()
    cluster.answer("b2")
    assert cluster.acked == 0, "b1 is a member no more"
    cluster.answer("b5")
    assert cluster.acked == 1


def test_a_store_that_keeps_changing_stops_the_writer() -> None:
    cluster = with_acked(1, 3, 3, 2)
    cluster.append(b"e1")
    cluster.answer("b0", Status.UNREACHABLE)
    for _ in range(CONFLICTS_MAX + 1):
        cluster.choose(p0="b3")
        cluster.others_write(lambda value: value)
        cluster.apply_write()
    assert isinstance(error_of(cluster), MetadataConflictError)


def test_a_foreign_fragment_stops_the_writer() -> None:
    cluster = with_acked(3, 3, 3, 2)
    cluster.append(b"e3")
    cluster.answer("b0", Status.UNREACHABLE)
    cluster.choose(p0="b3")
    cluster.others_write(
        lambda value: value.with_fragments(
            changed_ensemble(
                value.fragments, first_entry_id=EntryId(1), replacements={1: BookieId("b5")}
            )
        )
    )
    cluster.apply_write()
    assert isinstance(error_of(cluster), MetadataConflictError)


def test_s23_fenced_keeps_what_is_acked_fails_the_rest_and_replaces_nobody() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"e0", b"e1")
    cluster.answer("b0", entry=0)
    cluster.answer("b1", entry=0)
    cluster.answer("b2", Status.FENCED, entry=0)
    assert cluster.acked == 0
    assert isinstance(error_of(cluster), LedgerFencedError)
    assert not cluster.needs and not cluster.writes
    cluster.answer("b0")
    cluster.answer("b1")
    assert cluster.acked == 0 and cluster.writer.phase is Phase.STOPPED
    with pytest.raises(LedgerFencedError):
        cluster.writer.append([b"e2"])


def test_s41_an_ok_that_comes_twice_counts_once() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"e0")
    cluster.arrive(cluster.sends[0])
    cluster.reply(keep=True)
    cluster.reply()
    assert cluster.acked == -1


def test_s43_a_slow_ok_counts_for_its_own_entry_only() -> None:
    cluster = Cluster.of(3, 3, 2)
    cluster.append(b"e3")
    slow = cluster.sends[0]
    cluster.answer("b1")
    cluster.answer("b2")
    cluster.append(b"e4")
    cluster.answer("b1")
    cluster.perform(cluster.writer.replied(slow.run_id, slow.to, Status.OK))
    assert cluster.acked == 0
    cluster.answer("b2")
    assert cluster.acked == 1
