"""A5: what may be dropped after which looks, judged without a store or a disk."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from bookie.ids import LedgerId
from bookie.protocol.collection import (
    BATCH_MAX,
    Collection,
    CollectionLook,
    CollectionRules,
    CollectionVerdict,
)
from hypothesis import event, given, settings
from hypothesis import strategies as st

GRACE_S = 900.0
MANY = range(100)


def ids(numbers: Iterable[int]) -> tuple[LedgerId, ...]:
    return tuple(LedgerId(number) for number in numbers)


def look(
    at: float,
    held: Iterable[int] = (1, 2),
    existing: Iterable[int] = (),
    *,
    tombstones: Iterable[int] = (),
    refusal: str = "",
) -> CollectionLook:
    return CollectionLook(at, at + 1, ids(held), ids(tombstones), frozenset(ids(existing)), refusal)


def dropped(collection: Collection, *looks: CollectionLook) -> list[tuple[LedgerId, ...]]:
    return [collection.judge(each).drop for each in looks]


def collection() -> Collection:
    return Collection(CollectionRules(GRACE_S))


def braked() -> tuple[Collection, str]:
    """All of many ledgers are missing: the plan that waits."""
    held = collection()
    assert dropped(held, look(0, MANY), look(1000, MANY)) == [(), ()]
    assert held.plan is not None and held.plan.ledgers == set(MANY) and held.plan.held == 100
    return held, held.plan.plan_id


def test_a5_a_ledger_goes_when_it_is_missing_in_two_looks_a_grace_apart() -> None:
    assert dropped(collection(), look(0, existing=[2]), look(901, existing=[2])) == [(), (1,)]


def test_a5_two_looks_too_close_to_each_other_are_one() -> None:
    # The first has ended at 1 s, so this one comes a second too early.
    assert dropped(collection(), look(0), look(900)) == [(), ()]


def test_a5_a_ledger_that_was_there_in_between_is_missing_anew() -> None:
    looks = [look(0), look(600, existing=[1]), look(1200, existing=[2]), look(2200, existing=[2])]
    assert dropped(collection(), *looks) == [(), (), (), (1,)]


def test_a5_nothing_goes_while_the_store_is_not_believed_and_the_grace_begins_anew() -> None:
    looks = [look(0), look(1000, refusal="rolled back"), look(2000), look(3000)]
    assert dropped(collection(), *looks) == [(), (), (), (1, 2)]


@pytest.mark.parametrize("was_approved", [False, True])
def test_a5_neither_plan_nor_approval_outlives_a_look_at_a_store_that_is_not_believed(
    was_approved: bool,
) -> None:
    held, plan_id = braked()
    assert not was_approved or not held.approve(plan_id)
    assert dropped(held, look(2000, MANY, refusal="rolled back")) == [()]
    assert held.plan is None and "no collection waits" in held.approve(plan_id)
    assert dropped(held, look(3000, MANY), look(4000, MANY)) == [(), ()]
    assert held.plan is not None, "a person is asked anew"


def test_a5_the_brake_holds_a_pass_that_would_drop_too_large_a_share() -> None:
    held, _plan = braked()
    assert dropped(held, look(2000, MANY)) == [()]
    assert dropped(held, look(3000, MANY, range(25, 100))) == [ids(range(25))]
    assert held.plan is None


def test_a5_what_is_left_of_deleted_ledgers_needs_no_second_approval() -> None:
    collected = collection()
    looks = [look(at, MANY, range(30, 100), tombstones=range(20)) for at in (0, 1000)]
    assert dropped(collected, *looks) == [(), ids(range(30))]
    held, _plan = braked()
    assert dropped(held, look(2000, MANY, tombstones=range(20))) == [ids(range(20))]


def test_a5_few_ledgers_need_nobody_however_large_their_share() -> None:
    assert dropped(collection(), look(0, range(19)), look(1000, range(19)))[1] == ids(range(19))


def test_a5_the_brake_begins_where_its_rules_say() -> None:
    held = collection()
    assert dropped(held, look(0, range(20)), look(1000, range(20))) == [(), ()]
    assert held.plan is not None and len(held.plan.plan_id) == 12


def test_a5_the_usual_rules_are_those_of_the_pages() -> None:
    assert CollectionRules() == CollectionRules(grace_s=900.0, share_max=0.25, brake_from=20)
    assert BATCH_MAX == 10_000


def test_a5_a_plan_says_how_many_were_here_when_it_was_made() -> None:
    held, _plan = braked()
    held.judge(look(2000, range(120), range(100, 120)))
    assert held.plan is not None and held.plan.held == 100


def test_a5_who_approves_a_second_plan_takes_the_first_one_not_back() -> None:
    held, plan_id = braked()
    held.approve(plan_id)
    more = range(150)
    held.judge(look(2000, more))
    held.judge(look(3000, more))
    assert held.plan is not None and not held.approve(held.plan.plan_id)
    assert dropped(held, look(4000, more)) == [ids(more)]


def test_a5_a_share_is_not_made_small_by_dropping_it_in_parts() -> None:
    held, many = collection(), range(3 * BATCH_MAX)
    assert dropped(held, look(0, many), look(1000, many), look(2000, many)) == [(), (), ()]


def test_a5_a_person_approves_the_plan_that_they_saw_and_no_other() -> None:
    held, plan_id = braked()
    more = range(150)
    held.judge(look(2000, more))
    held.judge(look(3000, more))
    assert held.plan is not None and held.plan.plan_id == plan_id, "it stays what was looked at"
    assert "100 ledgers, not 0123" in held.approve("0123") and not held.approve(plan_id)
    assert "no collection waits" in held.approve(plan_id)
    assert dropped(held, look(4000, more)) == [ids(MANY)]
    assert held.plan is not None and held.plan.ledgers == set(range(100, 150))


def test_a5_what_came_back_after_the_approval_does_not_go() -> None:
    held, plan_id = braked()
    held.approve(plan_id)
    back = look(2000, MANY, range(50))
    few = range(50)
    assert dropped(held, back, look(4000, few), look(5000, few)) == [ids(range(50, 100)), (), ()]
    assert held.plan is not None and held.plan.ledgers == set(few)


def test_a5_a_plan_of_which_something_came_back_is_another_plan() -> None:
    held, plan_id = braked()
    held.judge(look(2000, MANY, [7]))
    assert held.plan is not None and held.plan.plan_id != plan_id
    assert "look again" in held.approve(plan_id)


def test_a5_an_approved_plan_of_many_goes_in_bounded_parts() -> None:
    held, many = collection(), range(BATCH_MAX + 5)
    dropped(held, look(0, many), look(1000, many))
    assert held.plan is not None and not held.approve(held.plan.plan_id)
    assert dropped(held, look(2000, many)) == [ids(many)[:BATCH_MAX]]
    assert dropped(held, look(3000, many[BATCH_MAX:])) == [ids(many)[BATCH_MAX:]]


@pytest.mark.parametrize("refusal", ["", "the cluster is paused"])
def test_a5_a_tombstone_gives_way_as_soon_as_its_ledger_is_there(refusal: str) -> None:
    seen = look(0, [], [7], tombstones=[7, 8], refusal=refusal)
    assert collection().judge(seen) == CollectionVerdict((), (LedgerId(7),))


@dataclass
class World:
    """A store, a bookie, and their clients. Ids are given once; a ledger is created before its
    first add, and an add of a writer who has not heard of the deletion may come at any time."""

    now: float = 0.0
    here: set[int] = field(default_factory=set)
    created: set[int] = field(default_factory=set)
    deleted_at: dict[int, float] = field(default_factory=dict)

    def do(self, moves: Iterable[tuple[str, int]]) -> None:
        for move, number in moves:
            self.now += 1
            if move == "create" and number not in self.deleted_at:
                self.created.add(number)
            elif move == "delete" and number in self.created:
                self.created.discard(number)
                self.deleted_at[number] = self.now
            elif move == "add" and (number in self.created or number in self.deleted_at):
                self.here.add(number)


LEDGERS = st.integers(0, 3)
MOVES = st.lists(st.tuples(st.sampled_from(["create", "delete", "add"]), LEDGERS), max_size=6)
PASSES = st.lists(st.tuples(MOVES, MOVES, MOVES, st.sampled_from([60, 880, 900, 1200])), max_size=6)


@settings(deadline=None, max_examples=400)
@given(PASSES)
def test_a5_collection_beside_adds_never_drops_a_ledger_that_existed_throughout(
    passes: list[tuple[list[tuple[str, int]], list[tuple[str, int]], list[tuple[str, int]], int]],
) -> None:
    """Whatever happens before and between the two lists of a look and before it is judged."""
    judge, world = Collection(CollectionRules(GRACE_S, brake_from=99)), World()
    for before, between, after, pause in passes:
        world.do(before)
        began, held = world.now, ids(world.here)
        world.do(between)
        existing = frozenset(ids(world.created))
        world.do(after)
        verdict = judge.judge(CollectionLook(began, world.now, held, (), existing))
        assert not set(verdict.drop) & world.created
        assert all(began - world.deleted_at[i] >= GRACE_S for i in verdict.drop)
        event("drops" if verdict.drop else "drops nothing")
        world.here.difference_update(verdict.drop)
        world.now += pause
