"""What a scale-down leaves behind is listed as what it is, for as long as it is there."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie_operator.model.left_over import LEFT_OVER_MAX, LeftOverStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import LeftOver, MetadataView, Observed
from bookie_operator.plan.planner import plan
from operator_scenes import bookie, cluster, observed

B3, B4 = BookieId("bookie-3"), BookieId("bookie-4")
CLAIMS = ("demo-bookie-4-journal", "demo-bookie-4-ledger-0")
KEPT = LeftOver(CLAIMS, has_cookie=True)
DOWN = MetadataView(url="zk://here:2181/ledgers", message="nobody answers")


def listed(
    seen: Observed, previous: ClusterStatus | None = None, **spec: object
) -> tuple[LeftOverStatus, ...]:
    return plan(cluster(**spec), seen, previous or ClusterStatus()).status.left_over


def with_left(one: LeftOver, bookie_id: BookieId = B4) -> Observed:
    return replace(observed(), left_over={bookie_id: one})


def test_d9_kept_claims_and_a_cookie_are_listed_with_their_bookie() -> None:
    [one] = listed(with_left(KEPT))
    assert (one.bookie, one.claims, one.has_cookie) == ("bookie-4", CLAIMS, True)
    assert "With 5 replicas or more it gets its volumes back" in one.message
    assert "no ledger named it" in one.message and "delete the claims" in one.message


def test_one_whose_number_is_excluded_says_how_it_would_come_back() -> None:
    b1 = BookieId("bookie-1")
    [one] = listed(
        replace(observed(of=cluster(excludedOrdinals=[1])), left_over={b1: KEPT}),
        excludedOrdinals=[1],
    )
    assert "Once spec.excludedOrdinals no longer names 1 it gets its volumes back" in one.message
    [far] = listed(with_left(KEPT, BookieId("bookie-9")), excludedOrdinals=[1, 9])
    assert "no longer names 9, and with 9 replicas or more, it gets" in far.message


def test_d9_a_cookie_alone_says_how_the_bookie_would_come_back() -> None:
    [one] = listed(with_left(LeftOver(has_cookie=True)), cookieFix={"policy": "Approve"})
    assert one.claims == () and "new disks, by a cookie fix (policy Approve)" in one.message


def test_d9_a_cookie_alone_does_not_prove_that_its_bookie_was_drained() -> None:
    [one] = listed(with_left(LeftOver(has_cookie=True)))
    assert "no ledger named it" not in one.message and "re-replicate" in one.message


def test_d9_a_bookie_of_which_nothing_is_left_is_not_listed() -> None:
    assert listed(with_left(LeftOver(has_cookie=False))) == ()


def test_what_has_a_name_that_no_bookie_gets_hides_nobody() -> None:
    left = dict.fromkeys((BookieId("bookie-03"), B4), KEPT)
    assert [one.bookie for one in listed(replace(observed(), left_over=left))] == ["bookie-4"]


def test_d9_a_quiet_cluster_has_no_such_section() -> None:
    assert "leftOver" not in plan(cluster(), observed(), ClusterStatus()).status.as_dict()


def test_d9_a_bookie_that_is_wanted_again_or_leaves_yet_has_left_nothing_over() -> None:
    assert listed(with_left(KEPT), replicas=5) == ()
    leaving = replace(observed(bookie(B4)), left_over={B4: KEPT})
    assert listed(leaving) == ()


def test_d9_what_a_silent_store_says_nothing_of_stays_listed() -> None:
    before = plan(cluster(), with_left(LeftOver(has_cookie=True)), ClusterStatus()).status
    silent = replace(observed(metadata=DOWN), left_over={})
    assert listed(silent, before) == before.left_over


def test_d9_what_the_store_knows_no_more_is_not_listed_any_more() -> None:
    before = plan(cluster(), with_left(KEPT), ClusterStatus()).status
    assert listed(observed(), before) == ()


def test_d9_the_list_is_in_the_order_of_numbers_and_bounded() -> None:
    many = {BookieId(f"bookie-{number}"): KEPT for number in range(99, 3, -1)}
    found = listed(replace(observed(), left_over=many))
    assert [one.bookie for one in found[:7:6]] == ["bookie-4", "bookie-10"]
    assert len(found) == LEFT_OVER_MAX


def test_d9_it_is_information_and_no_trouble() -> None:
    calm, told = (plan(cluster(), one, ClusterStatus()) for one in (observed(), with_left(KEPT)))
    assert (told.status.conditions, told.actions) == (calm.status.conditions, calm.actions)


def test_d9_while_the_store_is_silent_nobody_new_is_listed() -> None:
    assert listed(replace(with_left(KEPT), metadata=DOWN)) == (), "it may be registered elsewhere"


def test_d9_a_name_that_no_number_of_replicas_brings_back_is_not_listed() -> None:
    assert not listed(with_left(KEPT, BookieId("odd"))) + listed(
        with_left(KEPT, BookieId("bookie-\N{SUPERSCRIPT TWO}"))
    )


@pytest.mark.parametrize("claims", [(), CLAIMS])
@pytest.mark.parametrize("known", [True, False, None])
def test_d9_no_answer_about_a_cookie_is_no_answer_that_there_is_none(
    claims: tuple[str, ...], known: bool | None
) -> None:
    before = plan(cluster(), with_left(LeftOver(claims, has_cookie=known)), ClusterStatus()).status
    unheard = with_left(LeftOver(claims, has_cookie=None))
    assert listed(unheard, before) == before.left_over
