"""Creates BookieTasks for the command line, and follows them to their end.

A task continues in the cluster when the command that created it ends early.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from bookie.rows import Cell, Rows
from rich.text import Text

from bookie_operator.kubectl.client import CLUSTERS, TASKS, Kubectl, KubectlError, Tree
from bookie_operator.kubectl.clusters import read
from bookie_operator.model.base import API_VERSION
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.manifest import parse
from bookie_operator.model.status import COLLECT, Blocked, ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase, TaskSpec, TaskType
from bookie_operator.status_tree.ages import span

STEM_MAX: Final = 34
"""Characters of a task's name before its five random letters; the name has at most 40."""
LOOK_SECONDS: Final = 5.0
"""While nothing changes, the reasons why a task waits are read this often."""
ACTIONS: Final = {
    TaskType.REPAIR: "Repair",
    TaskType.AUDIT: "Audit",
    TaskType.SCRUB: "Scrub",
    TaskType.REREPLICATE: "Rereplicate",
    TaskType.APPROVE_COOKIE_FIX: "CookieFix",
    TaskType.APPROVE_COLLECTION: COLLECT,
    TaskType.REPLACE_DISK: "ReplaceDisk",
    TaskType.REPLACE_BOOKIE: "ReplaceBookie",
    TaskType.INDEX_REBUILD: "RebuildIndex",
    TaskType.RESTART: "Restart",
    TaskType.ACCEPT_LOSS: "AcceptLoss",
    TaskType.RETRACT_LOSS: "RetractLoss",
}
"""The action in `status.blocked` that each kind of task asks for."""
PROGRESS_SECONDS: Final = 30.0
"""How often the progress of a task's job is shown while it is followed."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]")
_PHASE_STYLES: Final = {
    TaskPhase.RUNNING: "cyan",
    TaskPhase.SUCCEEDED: "green",
    TaskPhase.FAILED: "red",
}
Tell = Callable[[str], None]


def hand_in(kubectl: Kubectl, wish: dict[str, Any]) -> BookieTask:
    """Create the task; a wrong wish raises an error before the API server is asked."""
    spec = parse(TaskSpec, wish, source="the task")
    stem = "-".join(filter(None, (spec.type.value, _NOT_IN_NAMES.sub("-", spec.bookie.lower()))))
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "BookieTask",
        "metadata": {"generateName": f"{stem[: STEM_MAX - 1]}-"},
        "spec": wish,
    }
    return read(BookieTask, kubectl.create(manifest))


def follow(
    kubectl: Kubectl, task: BookieTask, *, seconds: float | None, tell: Tell
) -> BookieTask | None:
    """Wait until the task has ended and return it; None when the time is up before."""
    name = task.metadata.name
    end = None if seconds is None else time.monotonic() + seconds
    said, reached = "", Reached(tell)
    while True:  # each turn runs a new kubectl: if a watch fails, the next one finds out why
        left = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - time.monotonic())
        if left <= 0:
            return None
        for change in kubectl.watch(TASKS, name, seconds=left):
            if change.type == "DELETED":
                raise KubectlError(f"task {name} was deleted before it had ended")
            task = read(BookieTask, change.found)
            if task.status.phase.is_final:
                return task
            if task.status.phase is TaskPhase.RUNNING:
                said = _tell_once(f"Running {task.status.target}", said, tell)
                reached.say(task.status.message)
        if task.status.phase is TaskPhase.PENDING:
            why = why_pending(_cluster_of(kubectl, task), task)
            said = _tell_once(why, said, tell)


class Reached:
    """Prints how far a job is, at most once in PROGRESS_SECONDS."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._told_at = float("-inf")
        """When a line was printed last, by `clock`; -inf: none yet."""

    def say(self, message: str) -> None:
        if message and self._clock() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = self._clock()
            self._tell(f"  {message}")


def _tell_once(text: str, said: str, tell: Tell) -> str:
    if text != said:
        tell(text.strip())
    return text


def why_pending(cluster: BookieCluster, task: BookieTask) -> str:
    """Why a task waits, as far as the cluster's status tells."""
    asked, status = task.spec, cluster.status
    for item in status.blocked:
        if _holds_up(item, task):
            return f"Pending, refused by {item.predicate}: {item.message}"
    if cluster.spec.paused:
        return "Pending: the cluster is paused (kubectl bookie resume)"
    if asked.type is TaskType.REPAIR and not asked.bookie:
        return "Pending: it begins once every bookie serves, none has marks and no other job runs"
    if asked.type is TaskType.AUDIT and status.is_true(ConditionType.REPAIR_RUNNING):
        return "Pending: it begins after the repair that runs now"
    if asked.type is TaskType.AUDIT and status.audit.running:
        return "Pending: it begins after the audit that runs now"
    if asked.type is TaskType.SCRUB and status.scrub.running:
        return "Pending: it begins after the scrub that runs now"
    if asked.type is TaskType.SCRUB:
        return "Pending: a scrub begins once every bookie serves, none has marks and none drains"
    if asked.type is TaskType.REREPLICATE and status.rereplication.running:
        return "Pending: it begins after the re-replication that runs now"
    if asked.type is TaskType.REREPLICATE:
        return "Pending: it begins once every bookie serves, none has marks and none drains"
    return "Pending: the operator has not started it yet (see kubectl bookie events)"


def _holds_up(refusal: Blocked, task: BookieTask) -> bool:
    """Decisions about losses name no bookie: where several wait, the message names its task."""
    if (refusal.action, refusal.bookie) != (ACTIONS[task.spec.type], task.spec.bookie):
        return False
    names_a_task = refusal.message.startswith("task ")
    return not names_a_task or refusal.message.startswith(f"task {task.metadata.name},")


def _cluster_of(kubectl: Kubectl, task: BookieTask) -> BookieCluster:
    return read(BookieCluster, kubectl.get(CLUSTERS, task.spec.cluster))


def status_after(kubectl: Kubectl, task: BookieTask) -> ClusterStatus:
    """The cluster's status; the operator published it before the task ended."""
    return _cluster_of(kubectl, task).status


def marks_left(status: ClusterStatus, bookie: str) -> int:
    found = status.bookie(bookie)
    return found.limbo_ledgers + found.unchecked_ledgers if found is not None else 0


def tasks_of(kubectl: Kubectl, cluster: str) -> list[Tree]:
    """Every task of the cluster, oldest first."""
    mine = [tree for tree in kubectl.get_all(TASKS) if tree["spec"].get("cluster") == cluster]
    return sorted(mine, key=lambda tree: str(tree["metadata"].get("creationTimestamp", "")))


def task_table(trees: Iterable[Tree], *, now: datetime) -> Rows:
    rows: list[Sequence[Cell]] = []
    for tree in trees:
        task = read(BookieTask, tree)
        status = task.status
        created = datetime.fromisoformat(tree["metadata"]["creationTimestamp"])
        took = ""
        if status.started_at is not None:
            took = span((status.finished_at or now) - status.started_at)
        rows.append(
            (
                task.metadata.name,
                about(task.spec),
                Text(status.phase.value, _PHASE_STYLES.get(status.phase, "yellow")),
                span(now - created),
                took,
                status.message or (f"job {status.target}" if status.target else ""),
            )
        )
    return Rows(("TASK", "ABOUT", "PHASE", "AGE", "TOOK", "OUTCOME"), rows)


def about(spec: TaskSpec) -> str:
    """What a task acts on, in a few words."""
    if spec.ledger is not None:
        return f"ledger {spec.ledger}"
    if spec.ledgers:
        return f"ledgers {spec.ledgers}"
    return " ".join(word for word in (spec.bookie, spec.disk, spec.plan_id) if word)
