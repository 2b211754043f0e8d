"""After the faults: first the operator alone has to bring everything back; then the judge judges.

The judge's own repair comes after: what it would find missing by then is a violation already.
"""

import asyncio
from datetime import datetime
from typing import Any, Final

from bookie.metadata.store import MetadataStore
from bookie.testing.simulation import clients
from bookie.testing.simulation.judge import Judge
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from planned_person import Person
from planned_platform import SimPlatform

WELL_S: Final = 900.0
"""After healing, the operator says that all is well within so long."""


class PlannedJudge(Judge):
    """See the module."""

    def __init__(self, *args: Any, platform: SimPlatform, person: Person) -> None:
        super().__init__(*args)
        self._platform = platform
        self._person = person
        self._scrubbed: set[int] = set()

    async def run(self, store: MetadataStore) -> None:
        async with clients.cluster_of(self._shared, store) as cluster:
            await self._close_all(cluster)
            await self._until_verified()
            self._nobody_else_is_named()
            await self._ask_every_replica(cluster)
        self._began = asyncio.get_running_loop().time()
        await super().run(store)

    async def _until_verified(self) -> None:
        """Somebody asks for an audit now that all is closed; the rest is the operator's."""
        asked_at = self._platform.now()
        self._person.hand_in("audit")
        while why := self._why_not_well(asked_at):
            self._ask_for_another_scrub()
            if (self._platform.now() - asked_at).total_seconds() > WELL_S:
                self._history.violate(f"not well {WELL_S:.0f} s after healing: {why}")
                return
            await asyncio.sleep(1.0)
        waited = (self._platform.now() - asked_at).total_seconds()
        self._history.note(f"the operator says that all is well after {waited:.1f} s")

    def _ask_for_another_scrub(self) -> None:
        """One that was cut off by a fault stays Degraded until somebody asks for another."""
        scrub = self._platform.cluster.status.scrub
        if scrub.clean is False and scrub.attempt not in self._scrubbed:
            self._scrubbed.add(scrub.attempt)
            self._person.hand_in("scrub")

    def _nobody_else_is_named(self) -> None:
        """Who left was emptied before."""
        there = {bookie.name for bookie in self._bookies}
        for ledger_id, known in self._history.ledgers.items():
            fragments = known.metadata.fragments if known.metadata is not None else ()
            gone = {one for fragment in fragments for one in fragment.ensemble} - there
            if gone:
                self._history.violate(f"ledger {ledger_id} names {gone}, which have left")

    def _why_not_well(self, asked_at: datetime) -> str:
        cluster = self._platform.cluster
        status = cluster.status
        if status.observed_generation != cluster.metadata.generation:
            return "the spec was not looked at yet"
        audit = status.audit
        if audit.started_at is None or audit.started_at < asked_at or audit.running:
            return f"no audit since: {audit.message} {_conditions(status)}"
        if not status.is_true(ConditionType.DURABILITY_VERIFIED) or status.phase != "Running":
            return f"{status.phase}: {_conditions(status)}"
        if status.blocked or status.drain is not None:
            blocked = [f"{b.action} {b.predicate} {b.message}" for b in status.blocked]
            return f"blocked: {blocked} {status.drain}"
        wanted = cluster.spec.bookie_ids
        missing = {b.name: b.marks for b in self._bookies if not b.is_serving or b.marks}
        if missing or len(self._bookies) != len(wanted):
            return f"status says well, and these do not serve or have marks: {missing}"
        return ""

    def _approve(self, bookie: Any) -> None:
        """That is for the operator to do."""


def _conditions(status: ClusterStatus) -> str:
    return ", ".join(
        f"{one.type}={one.status} {one.reason} {one.message}"
        for one in status.conditions
        if one.status != "False" or one.type == ConditionType.DURABILITY_VERIFIED.value
    )
