"""One pass over a cluster: what is wanted, what was seen, what the last pass concluded.

Every concern of the planner gets this one object, and nothing in it changes while the pass lasts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from bookie.ids import BookieId
from bookie.wire.admin.health import Health

from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskType
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.set_back import put_right
from bookie_operator.plan.states import Judged, judge_all
from bookie_operator.plan.tls_modes import spec_in_force


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass knows: the wanted cluster, the observed one, and the status of before."""

    cluster: BookieCluster
    """The object; its spec is what is wanted."""
    observed: Observed
    """What is there, all of it seen at one moment."""
    previous: ClusterStatus
    """What the last pass published: all memory that the operator has."""
    judged: Mapping[BookieId, Judged]
    """Every bookie that is wanted, was known, or is there; in numeric order."""
    spec: ClusterSpec
    """What is wanted now: the cluster's spec, but that TLS comes, and goes, in steps."""

    @classmethod
    def of(cls, cluster: BookieCluster, observed: Observed, previous: ClusterStatus) -> "Pass":
        """Judges every bookie first, as all concerns rest on that."""
        previous = put_right(previous, observed.now)
        spec = spec_in_force(cluster, observed, previous)
        return cls(cluster, observed, previous, judge_all(spec, observed, previous), spec)

    def without_tasks(self, names: Collection[str]) -> "Pass":
        """This pass as if nobody had created these tasks."""
        tasks = tuple(one for one in self.observed.tasks if one.metadata.name not in names)
        return replace(self, observed=replace(self.observed, tasks=tasks))

    @property
    def name(self) -> str:
        """The cluster's name, with which the names of its jobs begin."""
        return self.cluster.metadata.name

    @property
    def now(self) -> datetime:
        """When the fleet was observed: the only clock of the planner."""
        return self.observed.now

    @property
    def is_new_generation(self) -> bool:
        """The spec is another one than the last pass had; a first pass has nothing to compare."""
        return self.previous.observed_generation not in (0, self.cluster.metadata.generation)

    @property
    def is_settled(self) -> bool:
        """Whether jobs on all ledgers may begin: all bookies serve, and none has marks."""
        return self.is_settled_without(())

    @property
    def has_own_store(self) -> bool:
        """The metadata store answers, and is no other one than before: its word counts."""
        return self.observed.metadata.reachable and not self.is_other_store

    @property
    def is_other_store(self) -> bool:
        """The metadata store that answers is not the one that this cluster has had."""
        known, found = self.previous.metadata.instance_id, self.observed.metadata
        return bool(known) and found.reachable and found.instance_id != known

    def has_booted(self, bookie_id: BookieId) -> bool:
        """Somebody saw a boot of it: it may hold entries, and has settings that it ran with."""
        before = self.previous.bookie(bookie_id)
        return before is not None and before.boot_epoch > 0

    def is_settled_without(self, away: Collection[str]) -> bool:
        """Like `is_settled`, but without counting the bookies in `away`, such as those that are to
        be given up or give no answer."""
        if not self.has_own_store or self.observed.metadata.instance_id is None:
            return False
        others = (one for bookie_id, one in self.judged.items() if bookie_id not in away)
        return all(one.is_booted and not one.has_marks for one in others)

    @property
    def marks(self) -> int:
        """Ledgers in limbo or unchecked, of all bookies."""
        return sum(one.limbo + one.unchecked for one in self.judged.values())

    @property
    def silent(self) -> list[BookieId]:
        """Bookies whose boot has not ended, so that their word is not known."""
        return [bookie_id for bookie_id, one in self.judged.items() if not one.is_booted]

    @property
    def healths(self) -> dict[BookieId, Health]:
        """What each bookie said, now or a short while ago."""
        return {
            bookie_id: one.bookie.health
            for bookie_id, one in self.judged.items()
            if one.bookie.health is not None
        }

    def running(self, kind: JobKind) -> list[Job]:
        """Jobs of this kind that run now."""
        return [job for job in self.observed.jobs if job.kind is kind and job.running]

    def unfinished(self, kind: TaskType) -> list[BookieTask]:
        """Tasks of this kind that have not ended."""
        return [
            task
            for task in self.observed.tasks
            if task.spec.type is kind and not task.status.phase.is_final
        ]

    def waiting(self, kind: TaskType, next_job: str) -> list[BookieTask]:
        """Tasks of this kind that have had no job. `next_job`: the name of the next one, which a
        task's status may have already: the job was refused, or the operator ended before it."""
        return [task for task in self.unfinished(kind) if task.status.target in ("", next_job)]
