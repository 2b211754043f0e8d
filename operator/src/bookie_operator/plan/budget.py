"""The loss budget: how many bookies may be out at once with no acknowledged entry at risk.

So many copies of an acknowledged entry are certain (`copies`), perhaps only in their bookies'
memory. The bookies that are down, booting or in limbo, plus the candidate of an action, must stay
below that number; and none may go that may hold the last known copy of an entry with fewer. Every
voluntary disruption and every cookie fix asks here; what is not known refuses.

A stop that forgets nothing costs no copy: where acks come from a synced disk, a restart that leaves
the disks alone needs only that all others serve. What takes a disk's content away never is such.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.bookie_status import BOOKIES_MAX, BookieState
from bookie_operator.model.status import LAST_COPY, ClusterStatus, LossBudgetStatus
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.copies import Copies
from bookie_operator.plan.other_store import store_refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rollback import rolled_back, rolled_back_refusal
from bookie_operator.plan.states import Impairment, Judged, brokenness

EXCEEDED: Final = "LossBudgetExceeded"
_DURABLE: Final = frozenset({"journal", "sync"})
"""Modes in which an add is on a synced disk before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Says of one pass which bookies may be taken out, or lose what they hold, and why not.

    `bookies`: all there are. `forgetful`: those whose stop may forget entries.
    """

    copies: Copies
    bookies: tuple[BookieId, ...]
    impaired: Mapping[BookieId, Impairment | BookieState]
    forgetful: frozenset[BookieId]
    no_store: Refusal | None
    """Why the metadata store's word does not count, whoever asks; None = it does."""
    is_paused: bool
    is_loss_possible: bool
    rolled_back: str = ""
    """What shows that the metadata store was put back to an earlier state; empty = nothing."""

    @property
    def limit(self) -> int:
        """How many may be out, or lose what they hold."""
        return self.copies.certain - 1

    def refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        """Why `candidate`, which is out already, may not give up what it held; or None."""
        general = self._general_refusal(action, candidate, without_marks=False)
        return general or self._loss_refusal(action, candidate)

    def taking_refusal(
        self, action: str, candidate: BookieId, *, keeps_disks: bool
    ) -> Refusal | None:
        """Why `candidate` may not be stopped now, or None: any bookie in limbo refuses, and while
        others are out only the most broken of all is touched, which is out itself.
        """
        general = self._general_refusal(action, candidate, without_marks=True)
        if general is not None:
            return general
        if keeps_disks and self.impaired.get(candidate) is BookieState.REFUSED:
            return None  # it is out already, and what refused to boot has nothing to forget
        others = self._others(candidate)
        if others and not self._is_most_broken(candidate):
            why = f"a bookie is stopped only while all others serve; out: {others}"
            return _refuse(action, candidate, EXCEEDED, why)
        if keeps_disks and candidate not in self.forgetful:
            return self._limit_refusal(action, candidate, limit=max(1, self.limit))
        return self._loss_refusal(action, candidate)

    def _is_most_broken(self, candidate: BookieId) -> bool:
        if candidate not in self.impaired:
            return False
        return brokenness(self.impaired[candidate]) >= max(map(brokenness, self.impaired.values()))

    def leaving_refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        """Why `candidate` may not leave now: no limbo anywhere, and nobody else out.

        It is not counted itself: it serves what it has until no ledger names it.
        """
        general = self._general_refusal(action, candidate, without_marks=True)
        others = self._others(candidate)
        if general is None and others:
            why = f"a bookie leaves only while all others serve; out: {others}"
            return _refuse(action, candidate, EXCEEDED, why)
        return general

    def given_up_refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        """Why `candidate`, which is away and whose ledgers others hold, may not be given up now.

        Its own marks of before count no more than in a re-replication, which needs nothing of it.
        """
        return (
            self._general_refusal(action, candidate, without_marks=False)
            or self._limbo_refusal(action, candidate, but=candidate)
            or self._limit_refusal(action, candidate, limit=max(1, self.limit))
        )

    def last_copy_refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        """Why what `candidate` holds may not be taken away, whatever the limit is; or None."""
        taken = self.copies.taken_with(candidate, self.impaired)
        return _refuse(action, candidate, LAST_COPY, taken) if taken else None

    def _loss_refusal(self, action: str, candidate: BookieId) -> Refusal | None:
        last = self.last_copy_refusal(action, candidate)
        return last or self._limit_refusal(action, candidate, limit=self.limit)

    def _limit_refusal(self, action: str, candidate: BookieId, *, limit: int) -> Refusal | None:
        out = {*self.impaired, candidate}
        if len(out) <= limit:
            return None
        others = self._others(candidate)
        already = f"; already out {others}" if others else ""
        bookies = "1 bookie" if len(out) == 1 else f"{len(out)} bookies"
        why = f"{bookies} would be out, {limit} may be ({self.copies.message}){already}"
        return _refuse(action, candidate, EXCEEDED, why)

    def _others(self, candidate: BookieId) -> str:
        out = {name: why for name, why in self.impaired.items() if name != candidate}
        return ", ".join(f"{name} ({why})" for name, why in out.items())

    def _general_refusal(
        self, action: str, candidate: BookieId, *, without_marks: bool
    ) -> Refusal | None:
        if self.is_paused:
            return _refuse(action, candidate, "Paused", "spec.paused is true")
        if self.no_store is not None:
            return replace(self.no_store, action=action, bookie=candidate)
        if self.rolled_back:
            return rolled_back_refusal(action, self.rolled_back, candidate)
        if self.is_loss_possible:
            why = "acknowledged entries may be lost; nothing is changed until a person has looked"
            return _refuse(action, candidate, "PossibleDataLoss", why)
        return self._limbo_refusal(action, candidate) if without_marks else None

    def _limbo_refusal(
        self, action: str, candidate: BookieId, *, but: BookieId | None = None
    ) -> Refusal | None:
        """Because of anybody in limbo, `but` one that does not count."""
        in_limbo = [
            name
            for name, why in self.impaired.items()
            if why is Impairment.IN_LIMBO and name != but
        ]
        if not in_limbo:
            return None
        return _refuse(action, candidate, "LimboPresent", f"{', '.join(in_limbo)} in limbo")

    # Status

    @property
    def disruptions_allowed(self) -> int:
        """Evictions that the PodDisruptionBudget allows.

        0 while any bookie is in limbo, down, not ready or unknown, or may hold a last copy, and if
        an entry may be only in one bookie's memory.
        """
        if self.is_loss_possible or self.rolled_back or self.impaired:
            return 0
        if self.no_store is not None:
            return 0
        if self._last_copies():
            return 0
        return 0 if self.limit < 1 and self.forgetful else 1

    def _last_copies(self) -> dict[BookieId, str]:
        taken = {one: self.copies.taken_with(one, self.impaired) for one in self.bookies}
        return {one: words for one, words in taken.items() if words}

    def status(self) -> LossBudgetStatus:
        """How many may be out, and why, for people."""
        last, reason = self._last_copies(), self.copies.reason
        messages = [self.copies.message]
        if self.limit < 1:
            reason = "SingleCopy"
            messages.append(self._single_copy())
        if last:
            reason = LAST_COPY
            messages += dict.fromkeys(last.values())
        return LossBudgetStatus(
            limit=self.limit,
            reason=reason,
            message="; ".join(messages)[:1024],
            last_copies_on=tuple(last)[:BOOKIES_MAX],
        )

    def _single_copy(self) -> str:
        """What goes on, and what is refused by design, where one copy may be all there is."""
        by_hand = "disks are not replaced, and a person decides on every cookie fix"
        if not self.forgetful:
            return f"restarts and evictions go on, one at a time, since acks are synced; {by_hand}"
        names = ", ".join(sorted(self.forgetful)[:BOOKIES_MAX])
        return (
            f"no restart or eviction of those that may acknowledge from memory ({names}); {by_hand}"
        )


def budget_of(pass_: Pass, *, copies: Copies, is_loss_possible: bool) -> Budget:
    impaired = {
        bookie_id: one.impairment
        for bookie_id, one in pass_.judged.items()
        if one.impairment is not None
    }
    return Budget(
        copies=copies,
        bookies=tuple(pass_.judged),
        impaired=impaired,
        forgetful=frozenset(
            b for b, one in pass_.judged.items() if _may_forget(one, pass_.previous)
        ),
        no_store=store_refusal(pass_, action=""),
        is_paused=pass_.spec.paused,
        is_loss_possible=is_loss_possible,
        rolled_back=rolled_back(pass_),
    )


def _may_forget(one: Judged, previous: ClusterStatus) -> bool:
    """Whether a stop of this very process may forget: by its own word, now or before."""
    health, process = one.bookie.health, one.bookie.process
    if health is not None and health.boot is not None:
        return health.boot.mode not in _DURABLE
    before = previous.bookie(one.bookie.id)
    is_same = before is not None and process is not None and before.instance == process.instance
    return before is None or not is_same or before.mode not in _DURABLE


def _refuse(action: str, candidate: BookieId, predicate: str, message: str) -> Refusal:
    return Refusal(action=action, predicate=predicate, message=message, bookie=candidate)
