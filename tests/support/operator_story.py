"""A story about one cluster and its operator, written down pass by pass.

The real pass (observe, plan, publish, act) over fakes of what surrounds it, and a clock that the
story sets. Written down are the time, what was done in its order with every field, what was said,
and all that is other in the status and in the tasks.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final

from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import MetadataStore
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.reports import message_of
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.storage_spec import Disk
from bookie_operator.model.task import BookieTask
from bookie_operator.observe import Observer
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import (
    Action,
    BookieTemplate,
    Event,
    RestartBookie,
    StartBookie,
)
from bookie_operator.reconcile import Reconciler
from bookie_operator.reports import report_of
from operator_scenes import at, manifest, task
from story_bookies import StoryBookie
from story_platform import StoryControl, StoryPlatform
from story_reports import Tree, audit
from story_views import all_views
from story_words import Lines, changes, flat, in_full

IMAGE: Final = "example.org/bookie:1"
"""Named in each story: the default has the number of a release."""
QUIET: Final = "(nothing new)"


class _Session(MemoryStore):
    """The operator's, which lives on while nobody answers."""

    def __init__(self, cluster: MemoryCluster, is_up: Callable[[], bool]) -> None:
        super().__init__(cluster)
        self._is_up = is_up

    def open_cluster(self) -> MemoryCluster:
        if not self._is_up():
            raise UnavailableError("connection loss")
        return super().open_cluster()


class Story:
    """See the module."""

    def __init__(self, **spec: Any) -> None:
        self.seconds = 0.0
        self.is_store_up = True
        self.metadata = MemoryCluster()
        self.platform = StoryPlatform(clock=self._now, metadata=self.metadata, url="zk://zk:2181/l")
        self._heard = len(self.platform.events)
        self.cluster = BookieCluster.model_validate(
            manifest(**({"replicas": 3, "image": IMAGE} | spec))
        )
        self._lines: list[str] = []
        self._done: list[Action] = []
        self._was: Lines = {}
        self._tasks: dict[str, Lines] = {}
        self._authorities: dict[str, str] = {}
        self._templates: list[tuple[BookieTemplate, str]] = []
        self.restart_operator()

    def restart_operator(self) -> None:
        """Another process: it knows the objects alone."""
        control = StoryControl(self.platform)
        self.observer = Observer(self.platform, control, opener=self._open, clock=self._now)
        self.reconciler = Reconciler(
            self.platform, self.observer, control, on_done=self._done.append
        )

    def _now(self) -> datetime:
        return at(self.seconds)

    async def _open(self, url: str) -> MetadataStore:
        if not self.is_store_up:
            raise UnavailableError("nobody answers")
        return _Session(self.metadata, lambda: self.is_store_up)

    # What people and the world do
    def note(self, text: str) -> None:
        self._lines.append(f"\n# {text}")

    def change(self, text: str, **spec: Any) -> None:
        """A person writes another spec."""
        self.note(text)
        whole = self.cluster.spec.as_dict() | spec
        metadata = self.cluster.metadata
        metadata = metadata.model_copy(update={"generation": metadata.generation + 1})
        changed = BookieCluster.model_validate(manifest(**whole))
        update = {"spec": changed.spec, "metadata": metadata}
        self.cluster = self.cluster.model_copy(update=update)

    def ask(self, kind: str, name: str = "", **spec: Any) -> None:
        """A person creates a task."""
        asked = task(kind, name or f"{kind}-please", **spec)
        self.note(f"task {asked.metadata.name}: {', '.join(f'{k} {v}' for k, v in spec.items())}")
        self.platform.tasks_seen = [*self.platform.tasks_seen, asked]
        self._tasks[asked.metadata.name] = _task_lines(asked)

    def bookie(self, ordinal: int) -> StoryBookie:
        return self.platform.actors[BookieId(f"bookie-{ordinal}")]

    @property
    def disks(self) -> tuple[Disk, ...]:
        return self.cluster.spec.storage.disks

    @property
    def instance_id(self) -> str:
        """Of the cluster; the store may have another one by now."""
        return self.cluster.status.metadata.instance_id or self.metadata.instance_id or ""

    def job(self, kind: JobKind) -> Job:
        """The one that runs."""
        [found] = [
            one for one in self.platform.jobs_seen.values() if one.running and one.kind is kind
        ]
        return found

    def update_job(self, kind: JobKind, **facts: Any) -> None:
        job = self.job(kind)
        self.platform.jobs_seen[job.name] = replace(job, **facts)

    def end_job(
        self, kind: JobKind, result: Tree | None = None, *, exit_code: int | None = 0, **facts: Any
    ) -> None:
        """The one that runs ends now; `result`: what it wrote, None: nothing."""
        name = self.job(kind).name
        self.note(f"job {name} ends with exit code {exit_code}")
        if result is not None:
            facts = {"report": report_of(kind, result), "message": message_of(result)} | facts
        self.platform.end_job(name, exit_code=exit_code, **facts)

    # Passes
    async def go_on(self, passes: int = 1, *, every: float = 1.0) -> None:
        """So many passes, each written down."""
        for _ in range(passes):
            self.seconds += every
            await self._pass()

    async def _pass(self) -> None:
        await self.platform.step()
        self._done.clear()
        status = await self.reconciler.run_pass(self.cluster)
        assert self.platform.published[-1].status == status, "the world knows another status"
        self.cluster = self.cluster.model_copy(update={"status": status})
        self._write(status)

    async def is_running(self) -> None:
        """All are up and the first audit has found nothing; none of that is written down."""
        await self.go_on(5)
        if any(one.running for one in self.platform.jobs_seen.values()):
            self.end_job(JobKind.AUDIT, audit())
        await self.go_on(2)
        self._lines.clear()

    def _write(self, status: ClusterStatus) -> None:
        said = self.platform.events[self._heard :]
        self._heard = len(self.platform.events)
        now = flat(_tree(status))
        for one in status.tls.authorities if status.tls is not None else ():
            self._authorities.setdefault(one.fingerprint, f"AUTHORITY-{len(self._authorities) + 1}")
        lines = [
            *(f"do: {self._action(action)}" for action in self._done),
            *(f"say: {_event(event)}" for event in said),
            *self._changed_tasks(),
            *changes(self._was, now),
        ]
        self._was = now
        self._lines.append(f"{self._now():%m-%d %H:%M:%S}" + ("" if lines else f" {QUIET}"))
        self._lines += [f"    {line}" for line in lines]

    def _changed_tasks(self) -> list[str]:
        found = {one.metadata.name: _task_lines(one) for one in self.platform.tasks_seen}
        lines = []
        for name in sorted({*found, *self._tasks}):
            before, after = self._tasks.get(name, {}), found.get(name, {})
            lines += [f"task {name} {line}" for line in changes(before, after)]
        self._tasks = found
        return lines

    def _action(self, action: Action) -> str:
        if not isinstance(action, StartBookie | RestartBookie):
            return in_full(action, self._named)
        shown = self._template(action.template)
        rest = [
            f"{one.name}={getattr(action, one.name)}"
            for one in fields(action)
            if one.name != "template"
        ]
        return f"{type(action).__name__}({', '.join([shown, *rest])})"

    def _template(self, template: BookieTemplate) -> str:
        """In full when it is seen first; later by the name of the bookie that first had it."""
        for known, name in self._templates:
            if replace(template, bookie_id=known.bookie_id) == known:
                return f"{template.bookie_id} with the template of {name}"
        name = f"{template.bookie_id} at {template.revision}"
        self._templates.append((template, name))
        return f"{name} with {in_full(template, self._named)}"

    def _named(self, text: str) -> str:
        """Ids of this run alone have names instead: of the metadata store, and of authorities,
        whose keys are made at random."""
        text = text.replace(self.instance_id or "INSTANCE", "INSTANCE")
        for fingerprint, name in self._authorities.items():
            text = text.replace(fingerprint, name)
        return text

    # What is written down
    @property
    def shown(self) -> str:
        """All views of the present status."""
        return self._named(all_views(self.cluster, now=self._now()))

    @property
    def text(self) -> str:
        return self._named("\n".join(self._lines).lstrip("\n") + "\n")


def _tree(status: ClusterStatus) -> Tree:
    """The status as it is published. Conditions name their generation where it is not that of the
    whole status: else each change of the spec would change every line."""
    tree = status.as_dict()
    for one in tree["conditions"]:
        if one["observedGeneration"] == tree["observedGeneration"]:
            del one["observedGeneration"]
    return tree


def _task_lines(one: BookieTask) -> Lines:
    return flat(one.status.as_dict())


def _event(event: Event) -> str:
    once = f" (once: {event.once})" if event.once else ""
    whose = f" {event.bookie}" if event.bookie else ""
    return f"{event.type} {event.reason}{whose}: {event.message}{once}"
