"""Families of plans: a log, a metadata store that is wrong, a bookie that is two processes."""

from dataclasses import replace

import pytest
from bookie.protocol.collection import Collection, CollectionLook, CollectionVerdict
from bookie.testing.simulation.families import FAMILIES, family_of
from bookie.testing.simulation.history import History
from bookie.testing.simulation.identity_watch import IdentityWatch
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.plan_choice import SECOND_FROM, plan_of
from bookie.testing.simulation.world import simulate
from bookie.wire.identity import Identity

SEEDS = range(SECOND_FROM, SECOND_FROM + 600)
KINDS = {
    "own-now", "slow-store", "lost-values", "vanish", "vanish-many", "found-again", "bad-znode",
    "put-store-back", "deposed", "claim-loss", "wrong-key", "marker-lost",
}  # fmt: skip


def test_every_family_and_every_kind_of_its_faults_comes_up() -> None:
    assert {family_of(seed) for seed in SEEDS} == {None, *(draw for _share, draw in FAMILIES)}
    assert {fault.kind for seed in SEEDS for fault in plan_of(seed).faults} >= KINDS


STORE = Scale(
    writers=2, burst=2, entries=10, collect_s=0.8, lease_s=2.0, load_s=9.0, patience_s=0.3
)
VANISH = Plan(1, STORE, (Fault(2.0, "vanish", size=0.5),))
FOUND_AGAIN = Plan(2, STORE, (Fault(2.0, "found-again", lasts_s=2.8),))
DEPOSED = Plan(3, STORE, (Fault(2.0, "deposed", 0, lasts_s=4.0),))
WRONG = Plan(
    4,
    STORE,
    (
        Fault(2.0, "claim-loss"),
        Fault(3.0, "wrong-key"),
    ),
)
UNREADABLE = Plan(5, STORE, (Fault(2.0, "bad-znode", 0, lasts_s=3.0), Fault(2.2, "kill", 0)))
UNMARKED = Plan(6, STORE, (Fault(3.0, "marker-lost", 0, lasts_s=0.1),))


@pytest.mark.parametrize(
    "plan",
    [VANISH, FOUND_AGAIN, DEPOSED, WRONG, UNREADABLE, UNMARKED],
    ids=lambda plan: plan.faults[0].kind,
)
def test_what_is_wrong_with_the_store_or_the_disks_breaks_no_promise(plan: Plan) -> None:
    assert simulate(plan).violations == ()


def test_a_collection_of_what_exists_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Collection.judge

    def hasty(self: Collection, look: CollectionLook) -> CollectionVerdict:
        verdict = judge(self, look)
        return CollectionVerdict(tuple(self._missing_since), verdict.revive)

    monkeypatch.setattr(Collection, "judge", hasty)
    assert "has dropped ledger" in str(simulate(VANISH).violations)


def test_a_tombstone_that_stays_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Collection.judge

    def stubborn(self: Collection, look: CollectionLook) -> CollectionVerdict:
        return CollectionVerdict(judge(self, look).drop, ())

    monkeypatch.setattr(Collection, "judge", stubborn)
    assert "keeps a tombstone" in str(simulate(FOUND_AGAIN).violations)


ROLLED_BACK = Plan(
    7,
    replace(STORE, collect_s=2.0, load_s=13.0),
    (Fault(2.0, "put-store-back", 0, 1, 8.0),),
)


def test_a_store_that_was_put_back_is_noticed() -> None:
    verdict = simulate(ROLLED_BACK, with_lines=True)
    assert verdict.violations == ()
    assert any("vanished: [" in line for line in verdict.lines)


@pytest.mark.parametrize(
    ("meant", "is_heard"),
    [
        (Identity("ours", "bookie-0", 3), False),
        (Identity("", "bookie-0"), False),
        (Identity("theirs", "bookie-0"), True),
        (Identity("ours", "bookie-1"), True),
        (Identity("ours", "bookie-0", 4), True),
    ],
)
def test_who_answers_for_another_is_heard(meant: Identity, is_heard: bool) -> None:
    history = History(lambda: 1.0)
    IdentityWatch(history).check(meant, Identity("ours", "bookie-0", 3), "greeted a client")
    assert bool(history.violations) is is_heard
