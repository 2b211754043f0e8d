"""Decides which deleted ledgers a bookie may drop, from looks at the metadata store; pure.

Dropping entries cannot be undone, and a metadata store may be wrong for a while: a deposed leader
may still answer, or somebody has restored a backup. So a bookie drops a ledger's entries only when

1. it was missing in two looks at least `grace_s` apart, and in every look between them; each look
   lists what is held here, then makes a write barrier, then lists what exists;
2. those that would go are not a named share of all that is held here: else nothing goes until a
   person has approved the very plan (`plan_id`) that names them;
3. nothing says that the store must not be believed now (`CollectionLook.refusal`): then what was
   noted before is forgotten, and the grace begins again from zero.

A tombstone gives way as soon as a look has its ledger: whatever happened, it exists.
"""

import hashlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from bookie.ids import LedgerId

BATCH_MAX: Final = 10_000
"""How many ledgers a bookie drops in one pass."""


@dataclass(frozen=True, slots=True)
class CollectionRules:
    """Limits of collection. `grace_s`: seconds between the two looks. `share_max`: share of the
    held ledgers that one pass may drop without approval; fewer than `brake_from` ledgers need none.
    """

    grace_s: float = 900.0
    share_max: float = 0.25
    brake_from: int = 20


@dataclass(frozen=True, slots=True)
class CollectionLook:
    """One look at the store, with times of one monotonic clock. `held` was listed before the
    barrier and `existing` after it. `refusal`: why nothing may be dropped now, empty = no reason is
    known.
    """

    began_s: float
    ended_s: float
    held: Sequence[LedgerId]
    """Ledgers of which the bookie holds more than a tombstone."""
    tombstones: Sequence[LedgerId]
    """Deleted ledgers; of some of them more may be here, as their deletion found a disk full."""
    existing: AbstractSet[LedgerId]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class CollectionVerdict:
    """What to do after a look: ledgers whose entries to `drop`, and tombstones to `revive`."""

    drop: tuple[LedgerId, ...]
    revive: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """Ledgers that a person must approve to drop. `held`: how many ledgers the bookie held when the
    plan was made.
    """

    plan_id: str
    ledgers: frozenset[LedgerId]
    held: int


class Collection:
    """The state of a bookie's collection, in memory only: a restart begins with a first look."""

    def __init__(self, rules: CollectionRules) -> None:
        self._rules = rules
        """Grace and limits; they never change."""
        self._missing_since: dict[LedgerId, float] = {}
        """By held ledger: when the first look that lacked it ended, in seconds. Every look since
        then lacked it as well."""
        self._approved: frozenset[LedgerId] = frozenset()
        """Ledgers that a person allowed to drop; a subset of the missing ones, since a look that
        finds one again removes it here."""
        self.plan: HeldPlan | None = None
        """The ledgers that need approval, None = none do; stays the same object while all of them
        stay missing and unapproved."""

    @property
    def missing(self) -> int:
        """How many held ledgers the last look lacked."""
        return len(self._missing_since)

    def judge(self, look: CollectionLook) -> CollectionVerdict:
        """Take one look and decide; a ledger to drop was missing in an earlier look as well."""
        revive = tuple(i for i in look.tombstones if i in look.existing)
        if look.refusal:
            self._missing_since.clear()
            self._approved, self.plan = frozenset(), None
            return CollectionVerdict((), revive)
        before = self._missing_since
        self._missing_since = {
            i: before.get(i, look.ended_s) for i in look.held if i not in look.existing
        }
        due = [
            ledger_id
            for ledger_id, since in self._missing_since.items()
            if look.began_s - since >= self._rules.grace_s
        ]
        self._approved &= frozenset(due)
        # What is under a tombstone was to go before: its deletion only found a disk full.
        settled = self._approved | frozenset(look.tombstones)
        waiting = [ledger_id for ledger_id in due if ledger_id not in settled]
        if self._is_too_much(len(waiting), held=len(look.held)):
            self.plan = self._plan_for(waiting, held=len(look.held))
            due = [ledger_id for ledger_id in due if ledger_id in settled]
        else:
            self.plan = None
        self._check()
        return CollectionVerdict(tuple(due[:BATCH_MAX]), revive)

    def refuse(self, plan_id: str) -> str:
        """Why this plan cannot be approved now; empty when it can."""
        if self.plan is None:
            return "no collection waits for approval"
        if plan_id != self.plan.plan_id:
            return (
                f"the collection that waits is {self.plan.plan_id} with "
                f"{len(self.plan.ledgers)} ledgers, not {plan_id}: look again, then approve"
            )
        return ""

    def approve(self, plan_id: str) -> str:
        """Allow the ledgers of this plan to be dropped if they stay missing; returns why not, or an
        empty text.
        """
        if refusal := self.refuse(plan_id):
            return refusal
        assert self.plan is not None, "else it was refused"
        self._approved |= self.plan.ledgers
        self.plan = None
        self._check()
        return ""

    def _check(self) -> None:
        missing = self._missing_since.keys()
        assert self._approved <= missing
        if self.plan is not None:
            assert self.plan.ledgers and self.plan.ledgers <= missing
            assert self.plan.ledgers.isdisjoint(self._approved)
            assert len(self.plan.ledgers) >= self._rules.brake_from

    def _is_too_much(self, going: int, *, held: int) -> bool:
        return going >= self._rules.brake_from and going > self._rules.share_max * held

    def _plan_for(self, waiting: Sequence[LedgerId], *, held: int) -> HeldPlan:
        """The plan for these ledgers: the present one, which people may be looking at, unless one
        of its ledgers exists again.
        """
        ledgers = frozenset(waiting)
        if self.plan is not None and self.plan.ledgers <= ledgers:
            return self.plan
        text = ",".join(map(str, sorted(ledgers)))
        return HeldPlan(hashlib.sha256(text.encode()).hexdigest()[:12], ledgers, held)
