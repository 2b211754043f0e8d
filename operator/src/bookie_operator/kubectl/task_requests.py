"""Creates the tasks that a person asks for: explains each first, then follows it to its end."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import click
from bookie.ledger_selector import LedgerSelector

from bookie_operator.errors import ManifestError
from bookie_operator.kubectl import screen
from bookie_operator.kubectl.client import CLUSTERS, Kubectl, KubectlError
from bookie_operator.kubectl.clusters import the_bookie
from bookie_operator.kubectl.limbo import Limbo, limbo_of
from bookie_operator.kubectl.options import Exit
from bookie_operator.kubectl.tasks import (
    follow,
    hand_in,
    marks_left,
    status_after,
)
from bookie_operator.model.attempt_status import AttemptStatus
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.model.task import BookieTask, TaskPhase, TaskType
from bookie_operator.status_tree.ages import count
from bookie_operator.status_tree.bookies import disk_text
from bookie_operator.status_tree.pending import held_collections, pending_fix, pending_fixes

Wish = dict[str, Any]
_FOUND: Final[Mapping[TaskType, Callable[[ClusterStatus], AttemptStatus]]] = {
    TaskType.AUDIT: lambda status: status.audit,
    TaskType.SCRUB: lambda status: status.scrub,
    TaskType.REREPLICATE: lambda status: status.rereplication,
}
"""Kinds of tasks that may succeed and still find damage, and where the status says so."""


def wish(cluster: BookieCluster, kind: TaskType, *, bookie: str = "", **rest: Any) -> Wish:
    """The spec of a task, with the field names of a manifest."""
    made: Wish = {"cluster": cluster.metadata.name, "type": kind.value, **rest}
    return made | ({"bookie": the_bookie(cluster, bookie)} if bookie else {})


def approval(cluster: BookieCluster, bookie: str, *, plan_id: str | None, by: str) -> Wish:
    """Make the approval of the cookie fix that waits on `bookie`, and print what it does."""
    made = wish(cluster, TaskType.APPROVE_COOKIE_FIX, bookie=bookie)
    one = cluster.status.bookie(bookie)
    fix = pending_fix(cluster.status, one) if one is not None else None
    if fix is None:
        raise KubectlError(_nothing_pending(cluster, bookie))
    if plan_id not in (None, fix.plan_id):
        raise KubectlError(
            f"found plan {fix.plan_id} waiting on {bookie}, expected {plan_id}: the disks have "
            "changed since; look at the new plan (kubectl bookie status)"
        )
    screen.tell(f"{bookie} waits with plan {fix.plan_id} ({fix.predicate}): {fix.message}")
    for disk in fix.disks:
        screen.tell(f"  {disk_text(disk).plain}")
    screen.tell(
        "With your approval it fences every existing ledger, marks those that it may have "
        "forgotten entries of as limbo, and uses the disks; a repair copies the entries."
    )
    return made | {"planId": fix.plan_id, "approvedBy": by}


def collection_approval(
    cluster: BookieCluster, bookie: str, *, plan_id: str | None, by: str
) -> Wish:
    """Make the approval of the collection that waits on `bookie`, and print what it does."""
    made = wish(cluster, TaskType.APPROVE_COLLECTION, bookie=bookie)
    found = held_collections(cluster.status)
    held = next((one for one in found if one.bookie == bookie), None)
    if held is None:
        others = ", ".join(one.bookie for one in found) or "none"
        raise KubectlError(
            f"found no collection that waits on {bookie}, expected one that waits for a person; "
            f"bookies with one: {others}"
        )
    if plan_id not in (None, held.plan_id):
        raise KubectlError(
            f"found plan {held.plan_id} waiting on {bookie}, expected {plan_id}: other ledgers are "
            "missing now; look at the new plan (kubectl bookie status)"
        )
    screen.tell(f"{bookie}: {held.message}")
    screen.tell(
        "With your approval it removes the entries of these ledgers, if they are still missing "
        "then. Nobody can bring them back. Ledgers that are deleted later are not in the plan."
    )
    return made | {"planId": held.plan_id, "approvedBy": by}


def _nothing_pending(cluster: BookieCluster, bookie: str) -> str:
    one = cluster.status.bookie(bookie)
    state = one.state if one is not None else BookieState.PENDING
    others = ", ".join(fix.bookie for fix in pending_fixes(cluster.status)) or "none"
    if state is BookieState.AWAITING_APPROVAL:
        return f"{bookie} waits for the operator, which approves by itself: there is nothing to do"
    return f"found {bookie} {state.value}, expected AwaitingApproval; bookies that wait: {others}"


def replacement(cluster: BookieCluster, bookie: str, disk: str) -> Wish:
    made = wish(cluster, TaskType.REPLACE_DISK, bookie=bookie, disk=disk)
    names = [wanted.name for wanted in cluster.spec.storage.disks]
    if disk not in names:
        raise ManifestError(f"found disk {disk}, expected one of {', '.join(names)}")
    one = cluster.status.bookie(bookie)
    for found in one.disks if one is not None else ():
        if found.name == disk:
            screen.tell(f"{bookie}: {disk_text(found).plain}")
    screen.tell(
        "Once the loss budget allows it, the operator stops the bookie, deletes its volume and "
        "makes a new one. Until the repair has ended, other bookies serve the entries."
    )
    return made


def bookie_replacement(cluster: BookieCluster, bookie: str) -> Wish:
    """Make the request to replace all disks of a permanently lost bookie, and print what it
    does."""
    made = wish(cluster, TaskType.REPLACE_BOOKIE, bookie=bookie)
    one = cluster.status.bookie(bookie)
    if one is None or one.gone_since is None:
        raise ManifestError(
            f"found {bookie} {one.state.value if one else 'unknown'} and not away, expected a "
            "bookie that is not registered; for one that serves use replace-disk"
        )
    screen.tell(
        f"{bookie} has been away since {one.gone_since:%Y-%m-%d %H:%M:%S} UTC: {one.message}"
    )
    screen.tell(
        "Once the loss budget allows it, the operator deletes all its volumes and its pod, by "
        "force if its node is lost. The bookie starts with empty volumes on any node with room."
    )
    return made


def rebuild(cluster: BookieCluster, bookie: str, disk: str) -> Wish:
    made = wish(cluster, TaskType.INDEX_REBUILD, bookie=bookie)
    disks = cluster.spec.storage.disks
    names = [one.name for one in disks if one.role is DiskRole.LEDGER]
    if disk and disk not in names:
        raise ManifestError(f"found disk {disk}, expected one of {', '.join(names)}, or none")
    screen.tell(
        f"The operator stops {bookie}, a job scans the logs of {disk or 'all its ledger disks'}, "
        "and the bookie boots again. Nothing is deleted."
    )
    return made | ({"disk": disk} if disk else {})


def rereplication(cluster: BookieCluster, bookie: str) -> Wish:
    """Make the request to replace `bookie` in its ledgers (empty: restore marked ledgers).

    `bookie` may be one that no operator runs.
    """
    made = wish(cluster, TaskType.REREPLICATE)
    if not bookie:
        return made
    one = cluster.status.bookie(bookie)
    if bookie in cluster.spec.bookie_ids and (one is None or one.gone_since is None):
        raise ManifestError(
            f"found {bookie}, which the spec of {cluster.metadata.name} asks for and which is not "
            "away, expected a bookie that is permanently lost; to remove this one, add its number "
            "to spec.excludedOrdinals"
        )
    screen.tell(
        f"Every ledger that names {bookie} gets another bookie in its place, with copies from the "
        "other bookies; ledgers still being written to it are closed. Entries that only its "
        "disks held stay lost."
    )
    return made | {"bookie": bookie}


def acceptance(
    cluster: BookieCluster, selector: LedgerSelector, *, reason: str, by: str, dry_run: bool
) -> Wish:
    """Make the request to accept the possible loss of ledgers, and print what it does."""
    made = wish(cluster, TaskType.ACCEPT_LOSS, reason=reason, approvedBy=by)
    if dry_run:
        screen.tell("The job asks every bookie, shows where each ledger would end, and closes none")
        return made | {"ledgers": str(selector), "dryRun": True}
    screen.tell(
        "First the job asks every bookie again; if a copy turns up, it is kept. Otherwise "
        f"{_described(selector)}, and later entries are permanently lost. The bookies keep "
        f"the name {by} and the reason: {reason}"
    )
    return made | _which(selector)


def _which(selector: LedgerSelector) -> Wish:
    """Of one ledger as operators of every version read it."""
    one = selector.single
    if one is None:
        return {"ledgers": str(selector)}
    return {"ledger": one.first} | ({} if one.entry is None else {"entry": one.entry})


def _described(selector: LedgerSelector) -> str:
    one = selector.single
    if one is None:
        return f"each of the ledgers {selector} is closed before its entry in question"
    which = "" if one.entry is None else f" before entry {one.entry}"
    return f"ledger {one.first} is closed{which}"


def retraction(cluster: BookieCluster, ledger: int, *, reason: str, by: str) -> Wish:
    """Make the request to withdraw a ledger's loss records, and print what it does."""
    screen.tell(
        f"Each bookie that has a record of a loss of ledger {ledger} deletes it. If it may have "
        "denied entries because of the record, the ledger goes into limbo there until a repair "
        "has checked it. The end of a closed ledger does not change. The bookies keep the name "
        f"{by} and the reason: {reason}"
    )
    return wish(cluster, TaskType.RETRACT_LOSS, ledger=ledger, reason=reason, approvedBy=by)


def ask(
    kubectl: Kubectl, wished: Wish, *, no_wait: bool, timeout: float | None, output: str
) -> int:
    """Create the task and follow it to its end; return the exit code."""
    task = hand_in(kubectl, wished)
    name = task.metadata.name
    screen.tell(f"task {name} created")
    if not no_wait:
        try:
            ended = follow(kubectl, task, seconds=timeout, tell=screen.tell)
        except KeyboardInterrupt:
            screen.tell(f"task {name} continues in the cluster; see kubectl bookie tasks")
            raise
        if ended is None:
            raise KubectlError(
                f"task {name} has not ended in time; it continues: see kubectl bookie tasks"
            )
        task = ended
    if output == "json":
        click.echo(json.dumps(task.as_dict(), indent=2))
    elif not no_wait:
        click.echo(f"{task.metadata.name} {task.status.phase.value}: {task.status.message}")
    else:
        click.echo(task.metadata.name)
    return Exit.DONE if no_wait else _judged(kubectl, task)


def _judged(kubectl: Kubectl, task: BookieTask) -> int:
    if task.status.phase is TaskPhase.SUCCEEDED:
        found = _FOUND.get(task.spec.type)
        report = found(status_after(kubectl, task)) if found is not None else None
        if report is None or report.clean:
            return Exit.DONE
        return Exit.UNKNOWN if report.is_unsure else Exit.DAMAGE
    if task.spec.type is TaskType.REPAIR:
        bookie = task.spec.bookie
        is_left = not bookie or marks_left(status_after(kubectl, task), bookie)
        return Exit.DAMAGE if is_left else Exit.FAILED
    return Exit.FAILED


def set_paused(kubectl: Kubectl, cluster: BookieCluster, *, paused: bool) -> None:
    """Set spec.paused, and print what that stops and what continues."""
    name, limbo = cluster.metadata.name, cluster.status.limbo
    if cluster.spec.paused is paused:
        click.echo(f"{name} was {'paused already' if paused else 'not paused'}: nothing changed")
        return
    kubectl.patch(CLUSTERS, name, merge={"spec": {"paused": paused}})
    if not paused:
        click.echo(f"{name} is no longer paused: the operator now does what it held back")
        return
    click.echo(f"{name} is paused")
    click.echo(
        "  stops:      new repairs, audits, scrubs and re-replications, cookie fixes, restarts, "
        "replaced disks, new volumes\n"
        "  continues:  bookies serve and the kubelet restarts them, running jobs go on to their "
        "end, the operator updates the status"
    )
    if limbo.ledgers or limbo.unchecked:
        click.echo(
            f"  limbo:      {count(limbo.ledgers, 'ledger')} in limbo and {limbo.unchecked} "
            f"unchecked stay so until you run: kubectl bookie resume --cluster {name}"
        )


def restart(kubectl: Kubectl, cluster: BookieCluster, *, now: datetime) -> None:
    """Set spec.restartedAt, and print how to watch the restarts."""
    name = cluster.metadata.name
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    kubectl.patch(CLUSTERS, name, merge={"spec": {"restartedAt": moment}})
    click.echo(
        f"{name}: the operator will restart every bookie, one after the other; to watch it:\n"
        f"  kubectl bookie status --watch --cluster {name}"
    )
    if cluster.spec.paused:
        click.echo(f"{name} is paused: it restarts none before you run kubectl bookie resume")


class LimboProgress:
    """Prints a line whenever the counts of limbo have changed."""

    def __init__(self) -> None:
        self._told = ""
        """The last line printed, so that it is not printed twice."""

    def tell(self, cluster: BookieCluster) -> None:
        limbo = cluster.status.limbo
        line = f"{count(limbo.ledgers, 'ledger')} in limbo, {limbo.unchecked} unchecked"
        if limbo_of(cluster, now=screen.now()) is Limbo.UNKNOWN:
            line = "not known yet: not every bookie has booted, or the operator has not looked"
        if line != self._told:
            self._told = line
            screen.tell(line)
