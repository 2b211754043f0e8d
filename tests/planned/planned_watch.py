"""What must hold of the operator at every moment, whatever it was told.

It sees the bookies as they are, the operator as they answer. So it counts only what has been so
since the operator began to look: an action on what was so then, and still is, is a wrong one.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.simulation.history import History
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import Action, ApproveCookieFix
from planned_bookie import HostedBookie
from planned_platform import SimPlatform

IN_LIMBO: Final = "in limbo"
DOWN: Final = "down"


class Watch:
    """See the module."""

    def __init__(
        self,
        platform: SimPlatform,
        bookies: Sequence[HostedBookie],
        history: History,
        now: Callable[[], datetime],
    ) -> None:
        self._platform = platform
        self._bookies = bookies
        self._history = history
        self._now = now
        self._before: Mapping[BookieId, tuple[int, str]] = {}
        platform.watch_pass = self._look
        platform.watch_action = self._takes
        platform.watch_status = self._judge_status
        self._closed_at: dict[LedgerId, datetime] = {}

    def ledger_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        """The store holds this from now on."""
        if metadata is None:
            self._closed_at.pop(ledger_id, None)
        elif metadata.is_closed:
            self._closed_at.setdefault(ledger_id, self._now())

    def _out(self) -> dict[BookieId, tuple[int, str]]:
        """Wanted bookies that are in limbo or down, in which life."""
        wanted = self._platform.cluster.spec.bookie_ids
        found = {}
        for bookie in self._bookies:
            if bookie.name not in wanted or bookie.template is None:
                continue
            if bookie.marks:
                found[BookieId(bookie.name)] = (bookie.lives, IN_LIMBO)
            elif not bookie.is_up:
                found[BookieId(bookie.name)] = (bookie.lives, DOWN)
        return found

    @property
    def _limit(self) -> int:
        """How many may be out at most, whatever audits say."""
        return self._platform.cluster.spec.quorum.ack - 1

    def _look(self) -> None:
        self._before = self._out()

    def _still_out(self) -> dict[BookieId, str]:
        """Since before the operator looked."""
        now = self._out()
        return {one: why[1] for one, why in self._before.items() if now.get(one) == why}

    def _takes(self, what: str, candidate: BookieId) -> None:
        """Nobody is taken out of service while anybody is in limbo, or beyond the loss budget: one
        that is out itself, or silent, may go within it. Of the candidate itself the operator must
        have been told that it is in limbo.
        """
        out = self._still_out()
        told = self._platform.cluster.status.bookie(candidate)
        is_known = told is not None and told.limbo_ledgers + told.unchecked_ledgers > 0
        limbo = [one for one, why in out.items() if why == IN_LIMBO]
        marked = [one for one in limbo if one != candidate or is_known]
        if marked or len({*out, candidate}) > max(1, self._limit):
            self._history.violate(f"the operator came to {what} {candidate} while out is {out}")

    def did(self, action: Action) -> None:
        """A cookie fix gives a disk's content up: that has to be within the loss budget."""
        if not isinstance(action, ApproveCookieFix) or action.approved_by:
            return
        out = {*self._still_out(), action.bookie_id}
        if len(out) > self._limit:
            self._history.violate(
                f"the operator approved a cookie fix of {action.bookie_id} while out is "
                f"{', '.join(sorted(out))}, and {self._limit} may be"
            )

    # What the status says
    def _judge_status(self, status: ClusterStatus) -> None:
        """Verified is what no bookie gives the lie to that the operator knows, in its life of now
        or since before the audit."""
        began = status.audit.started_at
        if began is None or not status.is_true(ConditionType.DURABILITY_VERIFIED):
            return
        self._check_restarts(status, began)
        ledgers = [i for i, closed_at in self._closed_at.items() if closed_at < began]
        known = {one.instance for one in status.bookies}
        for bookie in self._bookies:
            is_old = bookie.started_at is not None and bookie.started_at < began
            if bookie.is_serving and (is_old or bookie.instance in known):
                for ledger_id in ledgers:
                    self._check_share(bookie, ledger_id)

    def _check_restarts(self, status: ClusterStatus, began: datetime) -> None:
        """However clean a restart was: an audit from before it says nothing."""
        booted = {one.instance for one in status.bookies if one.boot_epoch > 1}
        for bookie in self._bookies:
            was_there = bookie.hired_at is not None and bookie.hired_at < began
            is_new = bookie.started_at is not None and bookie.started_at > began
            if was_there and is_new and bookie.instance in booted:
                self._history.violate(
                    f"the status says DurabilityVerified by an audit of {began}, and "
                    f"{bookie.instance} was restarted at {bookie.started_at}"
                )

    def _check_share(self, bookie: HostedBookie, ledger_id: LedgerId) -> None:
        metadata = self._history.ledger(ledger_id).metadata
        if metadata is None:
            return
        share = assigned(metadata, BookieId(bookie.name), through=metadata.last_entry_id)
        missing = share - (bookie.held(ledger_id) | bookie.lost(ledger_id))
        if missing:
            self._history.violate(
                f"the status says DurabilityVerified, and {bookie.name} has no copy of "
                f"{missing.first} of ledger {ledger_id}"
            )
