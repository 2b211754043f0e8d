"""Which deleted ledgers a bookie may drop: a pure judge of looks at the metadata store.

Dropping entries cannot be taken back, and a metadata store may be wrong for a while: behind a
leader that was deposed, or after a restore. So a ledger's entries go only when

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
"""Ledgers that go in one pass."""


@dataclass(frozen=True, slots=True)
class CollectionRules:
    """`grace_s`: between the two looks. `share_max`: of the ledgers held here that one pass may
    drop; fewer than `brake_from` ledgers may always go."""

    grace_s: float = 900.0
    share_max: float = 0.25
    brake_from: int = 20


@dataclass(frozen=True, slots=True)
class CollectionLook:
    """One look. Times of one clock that never goes back; `held` was listed before the barrier, and
    `existing` after it. `refusal`: why nothing may be dropped now, empty = nothing is known."""

    began_s: float
    ended_s: float
    held: Sequence[LedgerId]
    """Ledgers with anything but a tombstone."""
    tombstones: Sequence[LedgerId]
    existing: AbstractSet[LedgerId]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class CollectionVerdict:
    """What to do after a look: drop the entries of some, let the tombstones of others give way."""

    drop: tuple[LedgerId, ...]
    revive: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """Ledgers that wait for a person; `held`: all that were here when it was made."""

    plan_id: str
    ledgers: frozenset[LedgerId]
    held: int


class Collection:
    """The one state of collection. It lives in memory: a restart begins with a first look."""

    def __init__(self, rules: CollectionRules) -> None:
        self._rules = rules
        """Grace and brake; never change."""
        self._missing_since: dict[LedgerId, float] = {}
        """End of the first look that lacked a ledger, in seconds; held ledgers only. Every look
        since lacked it as well."""
        self._approved: frozenset[LedgerId] = frozenset()
        """Ledgers a person lets go; a subset of those missing, since a look that has one again
        takes it out."""
        self.plan: HeldPlan | None = None
        """What the brake holds, not empty; the same value while all of it stays missing and is
        not approved."""

    @property
    def missing(self) -> int:
        """Ledgers that the last look lacked and that are still here."""
        return len(self._missing_since)

    def judge(self, look: CollectionLook) -> CollectionVerdict:
        """Takes one look; what is to be dropped was missing in an earlier one as well."""
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
        waiting = [ledger_id for ledger_id in due if ledger_id not in self._approved]
        if self._is_too_much(len(waiting), held=len(look.held)):
            self.plan = self._plan_for(waiting, held=len(look.held))
            due = [ledger_id for ledger_id in due if ledger_id in self._approved]
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
        """Lets the ledgers of this plan go, if they stay missing; a sentence why not otherwise."""
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
        """The plan that people are looking at, unless some of it is there again."""
        ledgers = frozenset(waiting)
        if self.plan is not None and self.plan.ledgers <= ledgers:
            return self.plan
        text = ",".join(map(str, sorted(ledgers)))
        return HeldPlan(hashlib.sha256(text.encode()).hexdigest()[:12], ledgers, held)
