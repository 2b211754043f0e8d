"""What a person asks of a cluster: the wish in words first, then the task and how it ended."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import click

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
from bookie_operator.model.cluster import BookieCluster, DiskRole
from bookie_operator.model.status import AttemptStatus, BookieState, ClusterStatus
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
"""Kinds of tasks that may succeed and find something: where the status says so."""


def wish(cluster: BookieCluster, kind: TaskType, *, bookie: str = "", **rest: Any) -> Wish:
    """The spec of a task, as a manifest spells it."""
    made: Wish = {"cluster": cluster.metadata.name, "type": kind.value, **rest}
    return made | ({"bookie": the_bookie(cluster, bookie)} if bookie else {})


def approval(cluster: BookieCluster, bookie: str, *, plan_id: str | None, by: str) -> Wish:
    """Approve the fix that waits on `bookie`, after saying what it is."""
    made = wish(cluster, TaskType.APPROVE_COOKIE_FIX, bookie=bookie)
    one = cluster.status.bookie(bookie)
    fix = pending_fix(cluster.status, one) if one is not None else None
    if one is None or fix is None:
        raise KubectlError(_nothing_pending(cluster, bookie))
    if plan_id not in (None, fix.plan_id):
        raise KubectlError(
            f"found plan {fix.plan_id} waiting on {bookie}, expected {plan_id}: the disks have "
            "changed since; look again (kubectl bookie status)"
        )
    screen.tell(f"{bookie} waits with plan {fix.plan_id} ({fix.predicate}): {fix.message}")
    for disk in fix.disks:
        screen.tell(f"  {disk_text(disk).plain}")
    screen.tell(
        "With your word it fences every ledger that exists, marks what it may have forgotten as "
        "limbo, and takes the disks as its own; a repair brings the copies back."
    )
    return made | {"planId": fix.plan_id, "approvedBy": by}


def collection_approval(
    cluster: BookieCluster, bookie: str, *, plan_id: str | None, by: str
) -> Wish:
    """Approve the collection that waits on `bookie`, after saying what it is."""
    made = wish(cluster, TaskType.APPROVE_COLLECTION, bookie=bookie)
    found = held_collections(cluster.status)
    held = next((one for one in found if one.bookie == bookie), None)
    if held is None:
        others = ", ".join(one.bookie for one in found) or "none"
        raise KubectlError(
            f"found no collection that waits on {bookie}, expected one that its brake holds; "
            f"waiting for a person: {others}"
        )
    if plan_id not in (None, held.plan_id):
        raise KubectlError(
            f"found plan {held.plan_id} waiting on {bookie}, expected {plan_id}: other ledgers are "
            "gone since; look again (kubectl bookie status)"
        )
    screen.tell(f"{bookie}: {held.message}")
    screen.tell(
        "With your word it drops the entries of these ledgers, as long as they stay missing. What "
        "is collected cannot be brought back; ledgers that are deleted later are not in the plan."
    )
    return made | {"planId": held.plan_id, "approvedBy": by}


def _nothing_pending(cluster: BookieCluster, bookie: str) -> str:
    one = cluster.status.bookie(bookie)
    state = one.state if one is not None else BookieState.PENDING
    others = ", ".join(fix.bookie for fix in pending_fixes(cluster.status)) or "none"
    if state is BookieState.AWAITING_APPROVAL:
        return f"{bookie} waits for the operator, which approves it by itself; nothing to do"
    return (
        f"found {bookie} {state.value}, expected AwaitingApproval; waiting for a person: {others}"
    )


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
        "The bookie is stopped, its volume deleted and a new one made, within the loss budget; "
        "until the repair has ended, other copies serve."
    )
    return made


def bookie_replacement(cluster: BookieCluster, bookie: str) -> Wish:
    """All disks of a bookie that is away for good."""
    made = wish(cluster, TaskType.REPLACE_BOOKIE, bookie=bookie)
    one = cluster.status.bookie(bookie)
    if one is None or one.gone_since is None:
        raise ManifestError(
            f"found {bookie} {one.state.value if one else 'unknown'} and not away, expected one "
            "that is not registered; of one that serves use replace-disk"
        )
    screen.tell(f"{bookie} is away since {one.gone_since:%Y-%m-%d %H:%M:%S} UTC: {one.message}")
    screen.tell(
        "All its volumes are deleted, within the loss budget, and its pod with them, by force if "
        "its node is lost; it starts with empty ones wherever there is room."
    )
    return made


def rebuild(cluster: BookieCluster, bookie: str, disk: str) -> Wish:
    made = wish(cluster, TaskType.INDEX_REBUILD, bookie=bookie)
    disks = cluster.spec.storage.disks
    names = [one.name for one in disks if one.role is DiskRole.LEDGER]
    if disk and disk not in names:
        raise ManifestError(f"found disk {disk}, expected one of {', '.join(names)}, or none")
    screen.tell(
        f"{bookie} is stopped, a job scans the logs of {disk or 'all its ledger disks'}, and it "
        "boots again. Nothing is deleted."
    )
    return made | ({"disk": disk} if disk else {})


def rereplication(cluster: BookieCluster, bookie: str) -> Wish:
    """Give the ledgers of `bookie` (empty = what marks name) new members; another's as well."""
    made = wish(cluster, TaskType.REREPLICATE)
    if not bookie:
        return made
    if bookie in cluster.spec.bookie_ids:
        raise ManifestError(
            f"found {bookie}, which the spec of {cluster.metadata.name} asks for, expected a "
            "bookie that is gone for good: the operator makes this one anew and repairs it; to be "
            "rid of it, add its number to spec.excludedOrdinals"
        )
    screen.tell(
        f"Every ledger that names {bookie} gets a new member, copied from the others, and those "
        "that were still written to it are closed. What only its disks held is not made up."
    )
    return made | {"bookie": bookie}


def acceptance(
    cluster: BookieCluster, ledger: int, *, entry: int | None, reason: str, by: str
) -> Wish:
    """Accept a ledger's possible loss, after saying what that means."""
    which = f" before entry {entry}" if entry is not None else ""
    screen.tell(
        f"Every bookie is asked again first; a copy that turns up is kept. Otherwise ledger "
        f"{ledger} is closed{which}, and what came after is given up for good. {by} stays on "
        f"record with the reason: {reason}"
    )
    made = wish(cluster, TaskType.ACCEPT_LOSS, ledger=ledger, reason=reason, approvedBy=by)
    return made | ({"entry": entry} if entry is not None else {})


def retraction(cluster: BookieCluster, ledger: int, *, reason: str, by: str) -> Wish:
    """Take back what is recorded as lost of a ledger, after saying what that means."""
    screen.tell(
        f"Each bookie with a record of a loss of ledger {ledger} forgets it. What may have been "
        "denied on its word is unknown from then on, until a repair has looked; the end of a "
        f"closed ledger stays. {by} stays on record with the reason: {reason}"
    )
    return wish(cluster, TaskType.RETRACT_LOSS, ledger=ledger, reason=reason, approvedBy=by)


def ask(
    kubectl: Kubectl, wished: Wish, *, no_wait: bool, timeout: float | None, output: str
) -> int:
    """Hand the task in and follow it; the exit code tells how it ended."""
    task = hand_in(kubectl, wished)
    name = task.metadata.name
    screen.tell(f"task {name} created")
    if not no_wait:
        try:
            ended = follow(kubectl, task, seconds=timeout, tell=screen.tell)
        except KeyboardInterrupt:
            screen.tell(f"task {name} goes on in the cluster: kubectl bookie tasks")
            raise
        if ended is None:
            raise KubectlError(
                f"task {name} has not ended in time; it goes on: kubectl bookie tasks"
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
        is_clean = found is None or found(status_after(kubectl, task)).clean
        return Exit.DONE if is_clean else Exit.DAMAGE
    if task.spec.type is TaskType.REPAIR:
        bookie = task.spec.bookie
        is_left = not bookie or marks_left(status_after(kubectl, task), bookie)
        return Exit.DAMAGE if is_left else Exit.FAILED
    return Exit.FAILED


def set_paused(kubectl: Kubectl, cluster: BookieCluster, *, paused: bool) -> None:
    """Patch spec.paused, and say what that stops and what goes on."""
    name, limbo = cluster.metadata.name, cluster.status.limbo
    if cluster.spec.paused is paused:
        click.echo(f"{name} was {'paused already' if paused else 'not paused'}: nothing changed")
        return
    kubectl.patch(CLUSTERS, name, merge={"spec": {"paused": paused}})
    if not paused:
        click.echo(f"{name} goes on: what was held back is taken up with the next look")
        return
    click.echo(f"{name} is paused")
    click.echo(
        "  stops:    new repairs, audits, scrubs and re-replications, cookie fixes, restarts, "
        "replaced disks, new volumes\n"
        "  goes on:  bookies serve and are restarted by the kubelet, jobs that run now end, "
        "the status is kept up"
    )
    if limbo.ledgers or limbo.unchecked:
        click.echo(
            f"  limbo:    {count(limbo.ledgers, 'ledger')} in limbo and {limbo.unchecked} "
            f"unchecked stay so until: kubectl bookie resume --cluster {name}"
        )


def restart(kubectl: Kubectl, cluster: BookieCluster, *, now: datetime) -> None:
    """Patch spec.restartedAt, and say how to see what comes of it."""
    name = cluster.metadata.name
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    kubectl.patch(CLUSTERS, name, merge={"spec": {"restartedAt": moment}})
    click.echo(
        f"{name}: every bookie will be restarted, one after the other; to see it:\n"
        f"  kubectl bookie status --watch --cluster {name}"
    )
    if cluster.spec.paused:
        click.echo(f"{name} is paused, and none will be before: kubectl bookie resume")


class LimboProgress:
    """A line whenever the counts have changed while they are waited for."""

    def __init__(self) -> None:
        self._told = ""
        """The last line, which is not said twice."""

    def tell(self, cluster: BookieCluster) -> None:
        limbo = cluster.status.limbo
        line = f"{count(limbo.ledgers, 'ledger')} in limbo, {limbo.unchecked} unchecked"
        if limbo_of(cluster) is Limbo.UNKNOWN:
            line = "not known yet: not every bookie has booted, or the operator has not looked"
        if line != self._told:
            self._told = line
            screen.tell(line)
