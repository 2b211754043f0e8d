"""One pass: observe, plan, publish, act. The only writer of a cluster's status.

It is level-triggered: events only wake it, and a pass needs only the object that it is given. So it
may be killed anywhere and started again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bookie.errors import BookieError

from bookie_operator.apply import Applier
from bookie_operator.control import Control
from bookie_operator.errors import ForbiddenError, NameTakenError, PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observe import Observer
from bookie_operator.observed import Failure, Observed
from bookie_operator.plan.actions import (
    Action,
    Event,
    ReplaceBookie,
    ReplaceVolume,
    RestartBookie,
    StartJob,
    StopJob,
    bookie_of,
)
from bookie_operator.plan.failures import (
    ACTION_FAILED,
    NAME_TAKEN,
    NAMED_FROM,
    failed_again,
    may_start,
)
from bookie_operator.plan.invalid import FORBIDDEN, forbidden_status, hindrance_event
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.restarts import REQUESTED
from bookie_operator.platform import Platform

SETTLE_FAILED: Final = "SettleFailed"
log = logging.getLogger(__name__)


class Reconciler:
    """The loop body of one cluster."""

    def __init__(
        self,
        platform: Platform,
        observer: Observer,
        control: Control,
        *,
        on_done: Callable[[Action], None] = lambda action: None,
        names_proved: bool = False,
    ) -> None:
        """`names_proved`: see `Applier`."""
        self._platform = platform
        self._observer = observer
        self._on_done = on_done
        self._applier = Applier(platform, control, names_proved=names_proved)
        self._has_published = False
        """Whether this loop has published a status; until then, the former status is not
        trusted."""
        self._forbidden = ""
        """What the platform refused in this pass; the next pass puts it into the status."""
        self._failures: dict[Action | str, Failure] = {}
        """Failures by action, or by the name of an object that could not be restored."""
        self.could_look = True
        """Whether the last pass could observe the fleet; otherwise its status has no new facts."""
        self.has_news = False
        """Whether something failed in this pass for the first time; the next pass reports it."""

    async def run_pass(self, cluster: BookieCluster) -> ClusterStatus:
        """The status after one pass over `cluster` (whose status is the previous pass's)."""
        try:
            observed = await self._observer.observe(cluster)
        except ForbiddenError as error:
            self.could_look = False
            return await self._cannot_look(cluster, error)
        self.could_look = True
        observed = replace(
            observed, forbidden=self._forbidden, failures=tuple(self._failures.values())
        )
        self._forbidden, self.has_news = "", False
        made = plan(cluster, observed, cluster.status)
        # An event that comes once is written before the status that remembers it: after a crash it
        # is written again, and the platform drops the double. The others may be lost, not doubled.
        await self._tell([event for event in made.events if event.once])
        # Status before actions: an incident must be on record before anything is done about it.
        await self._publish(cluster, made.status)
        await self._settle(cluster, made.status)
        unwritten = [
            task.metadata.name
            for task in observed.tasks
            if (status := made.tasks.get(task.metadata.name)) is not None
            and not await self._publish_task(task.model_copy(update={"status": status}))
        ]
        await self._tell([event for event in made.events if not event.once])
        done = await self._act(_without(made, unwritten, observed), observed)
        was, now = cluster.status.phase, made.status.phase
        if done or was != now:
            what = "; ".join(done) or f"it was {was}"
            log.info(
                "%s/%s is %s: %s", cluster.metadata.namespace, cluster.metadata.name, now, what
            )
        return made.status

    async def _act(self, made: Plan, observed: Observed) -> list[str]:
        """Carry out every action independently; a failed one is tried again after a wait.

        Returns texts for the log: what was done and what failed.
        """
        words: list[str] = []
        known = {*made.actions, *made.resting}
        self._failures = {
            subject: one
            for subject, one in self._failures.items()
            if isinstance(subject, str) or subject in known
        }
        not_stopped = [one for one in made.resting if isinstance(one, StopJob)]
        # Stops first: what must end before a job begins may not be stopped.
        for action in sorted(made.actions, key=lambda one: not isinstance(one, StopJob)):
            if not may_start(action, not_stopped):
                continue
            is_done, event = await self._carry_out(action, observed)
            if event is not None:
                words.append(f"{event.bookie} {event.reason}: {event.message}".lstrip())
            if isinstance(action, StopJob) and not is_done:
                not_stopped.append(action)
        return words

    async def _carry_out(self, action: Action, observed: Observed) -> tuple[bool, Event | None]:
        """Carry out one action; return whether it succeeded, and its event."""
        bookie, is_done = bookie_of(action), False
        try:
            store = self._observer.store
            event = await self._applier.apply(action, observed=observed, store=store)
            is_done = True
        except PreconditionError as error:  # no failure: the next pass has seen what is new
            event = Event("PlannedAnew", str(error), bookie)
        except ForbiddenError as error:  # the status says so, and that is an event
            event = None
            self._failed(action, error)
        except BookieError as error:
            event = Event(ACTION_FAILED, f"{type(action).__name__}: {error}", bookie, "Warning")
            self._failed(action, error)
        await self._tell([event] if event is not None else [])
        if is_done:
            self._failures.pop(action, None)
            self._on_done(action)
        return is_done, event

    def _failed(self, subject: Action | str, error: BookieError) -> None:
        before = self._failures.get(subject)
        self.has_news = self.has_news or before is None or before.count < NAMED_FROM
        self._failures[subject] = failed_again(
            subject, str(error), before, now=self._observer.now, reason=_reason_of(error)
        )

    async def _publish(self, cluster: BookieCluster, status: ClusterStatus) -> None:
        if status != cluster.status or not self._has_published:
            await self._platform.publish(cluster.model_copy(update={"status": status}))
            self._has_published = True

    async def _settle(self, cluster: BookieCluster, status: ClusterStatus) -> None:
        """Settle the objects around bookies. A failure does not stop the pass; the next one
        retries."""
        try:
            failed = await self._platform.settle(cluster, status)
        except ForbiddenError as error:
            self._forbidden, failed = str(error), {}
        except BookieError as error:
            await self._tell([Event(SETTLE_FAILED, str(error), type="Warning")])
            return
        self._failures = {
            subject: one
            for subject, one in self._failures.items()
            if subject in failed or not isinstance(subject, str)
        }
        for name, why in failed.items():
            self._failed(name, why)
            if not isinstance(why, ForbiddenError):
                await self._tell([Event(SETTLE_FAILED, f"{name}: {why}", type="Warning")])

    async def _publish_task(self, task: BookieTask) -> bool:
        """Write a task's status; False if that failed. The next pass tries again, and other tasks
        do not wait for it."""
        try:
            await self._platform.publish_task(task)
            return True
        except ForbiddenError as error:
            self._forbidden = str(error)
        except BookieError as error:
            log.warning("the status of task %s is not written: %s", task.metadata.name, error)
        return False

    async def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            try:
                await self._platform.record(event)
            except ForbiddenError as error:
                self._forbidden = str(error)
            except BookieError as error:  # a quota, a webhook: an event is worth less than a repair
                log.warning("event not written: %s (%s: %s)", error, event.reason, event.message)

    async def _cannot_look(self, cluster: BookieCluster, error: ForbiddenError) -> ClusterStatus:
        before, generation = cluster.status, cluster.metadata.generation
        status = forbidden_status(before, generation, str(error), self._observer.now)
        event = hindrance_event(status, before)
        await self._publish(cluster, status)
        await self._tell([event] if event is not None else [])
        return status


def _reason_of(error: BookieError) -> str:
    if isinstance(error, ForbiddenError):
        return FORBIDDEN
    return NAME_TAKEN if isinstance(error, NameTakenError) else ACTION_FAILED


def _without(made: Plan, unwritten: Sequence[str], observed: Observed) -> Plan:
    """The plan without actions for tasks whose status could not be written.

    The status names the disk or process to replace: without it, the next pass would replace the new
    one too. It also names the job: without it, another job would start after that one.
    """
    tasks = {task.metadata.name: task.spec.bookie for task in observed.tasks}
    bookies = {tasks.get(name, "") for name in unwritten}
    kept = [
        action
        for action in made.actions
        if not (_takes_what_is_named(action) and bookie_of(action) in bookies)
        and not _begins_only_for(action, unwritten)
    ]
    return replace(made, actions=tuple(kept))


def _begins_only_for(action: Action, tasks: Sequence[str]) -> bool:
    """Whether the action starts a job only because of these tasks."""
    if not isinstance(action, StartJob) or not action.asked_by:
        return False
    return set(action.asked_by) <= set(tasks)


def _takes_what_is_named(action: Action) -> bool:
    """Whether only a task's status shows that the action was done."""
    if isinstance(action, RestartBookie):
        return action.reason == REQUESTED
    return isinstance(action, ReplaceVolume | ReplaceBookie)
