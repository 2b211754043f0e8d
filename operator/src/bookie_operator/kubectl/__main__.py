"""`kubectl bookie`: its commands and exit codes; other files read, show and create objects.

kubectl finds the plugin as `kubectl-bookie` on PATH. Exit codes: 0 done, 1 failed, 2 wrong usage, 3
limbo or damage found, 4 not known now, 130 interrupted.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
from bookie.errors import BadRequestError
from bookie.ledger_selector import LedgerSelector, parse_selector
from bookie.program import Program
from rich.console import RenderableType
from rich.text import Text

from bookie_operator.kubectl import screen, task_requests
from bookie_operator.kubectl.client import CLUSTERS, Kubectl, KubectlError, Tree
from bookie_operator.kubectl.clusters import find, read, the_cluster
from bookie_operator.kubectl.events import event_table, events_of
from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.kubectl.limbo import limbo_of, limbo_view
from bookie_operator.kubectl.limbo import wait as wait_for_none
from bookie_operator.kubectl.options import (
    Exit,
    by_option,
    cluster_option,
    following,
    kubectl_flags,
    output_option,
    timeout_option,
    with_kubectl,
    yes_option,
)
from bookie_operator.kubectl.tasks import task_table, tasks_of
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.task import TaskType
from bookie_operator.status_tree.answers import show
from bookie_operator.status_tree.tree import cluster_tree


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
@kubectl_flags
def plugin() -> None:
    """Show BookieClusters, and ask their operator for repairs, audits and other work."""


@plugin.command()
@cluster_option
@click.option("--watch", "-w", is_flag=True, help="Keep showing the cluster as it changes.")
@output_option("tree", "wide")
@with_kubectl
def status(kubectl: Kubectl, name: str | None, watch: bool, output: str) -> None:
    """Show a cluster as a tree; -o wide adds every disk."""
    found = find(kubectl, name)
    if watch:
        _watch(kubectl, found, output)
    elif output == "json":
        _print_json(found)
    else:
        show(*_drawn(kubectl, read(BookieCluster, found), output))


def _drawn(
    kubectl: Kubectl, cluster: BookieCluster, output: str
) -> tuple[RenderableType, list[Text]]:
    now = screen.now()
    tree = cluster_tree(cluster, now=now, wide=output == "wide")
    return tree, hint_lines(hints(cluster, now=now), flags=kubectl.flags)


def _watch(kubectl: Kubectl, found: Tree, output: str) -> None:
    name = found["metadata"]["name"]
    if output == "json":
        for change in _changes(kubectl, name):
            click.echo(json.dumps(change))
        return
    with screen.Watched() as watched:
        for change in _changes(kubectl, name):
            watched.show(partial(_drawn, kubectl, read(BookieCluster, change), output))


def _changes(kubectl: Kubectl, name: str) -> Iterator[Tree]:
    """Yield the object whenever it has changed; start a new watch when the API server ends one."""
    version = ""
    while True:
        for change in kubectl.watch(CLUSTERS, name):
            if change.type == "DELETED":
                raise KubectlError(f"BookieCluster {name} was deleted while it was watched")
            if change.found["metadata"].get("resourceVersion", "") != version:
                version = change.found["metadata"].get("resourceVersion", "")
                yield change.found


@plugin.command()
@cluster_option
@click.option("--wait", is_flag=True, help="Wait until nothing is in limbo.")
@timeout_option("How long --wait waits, such as 90s or 5m. Default: without limit.")
@output_option("table")
@with_kubectl
def limbo(
    kubectl: Kubectl, name: str | None, wait: bool, timeout: float | None, output: str
) -> int:
    """Show how many ledgers are in limbo on each bookie.

    A ledger is in limbo on a bookie that may have forgotten entries of it. Exit code 0: none is, 3:
    some are, 4: not known now.
    """
    found = find(kubectl, name)
    cluster = read(BookieCluster, found)
    if wait:
        cluster = wait_for_none(
            kubectl,
            cluster.metadata.name,
            seconds=timeout,
            tell=task_requests.LimboProgress().tell,
            clock=screen.now,
        )
    known = limbo_of(cluster, now=screen.now())
    if output == "json":
        totals = cluster.status.limbo.as_dict()
        bookies = {
            one.id: {"limbo": one.limbo_ledgers, "unchecked": one.unchecked_ledgers}
            for one in cluster.status.bookies
        }
        _print_json({"known": known.name.lower(), "totals": totals, "bookies": bookies})
    else:
        show(limbo_view(cluster, now=screen.now()))
    return known


@plugin.command()
@cluster_option
@output_option("table")
@with_kubectl
def events(kubectl: Kubectl, name: str | None, output: str) -> None:
    """Show the events that the operator recorded, newest last."""
    cluster = the_cluster(kubectl, name)
    found = events_of(kubectl, cluster.metadata.name)
    if output == "json":
        _print_json(found)
    elif found:
        show(event_table(found, now=screen.now()))
    else:
        screen.tell("there are no events (the API server deletes them after an hour)")


@plugin.command()
@cluster_option
@output_option("table")
@with_kubectl
def tasks(kubectl: Kubectl, name: str | None, output: str) -> None:
    """Show the tasks that people created, and how they ended."""
    cluster = the_cluster(kubectl, name)
    found = tasks_of(kubectl, cluster.metadata.name)
    if output == "json":
        _print_json(found)
    elif found:
        show(task_table(found, now=screen.now()))
    else:
        screen.tell(f"there are no tasks of {cluster.metadata.name}")


def _ask_once_confirmed(
    kubectl: Kubectl, wish: task_requests.Wish, question: str, *, yes: bool, **how: Any
) -> int:
    if not screen.confirmed(question, yes=yes):
        return Exit.FAILED
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@click.argument("bookie")
@cluster_option
@click.option("--plan", "plan_id", help="Approve only if this is the plan that waits.")
@by_option("Who approves.")
@yes_option
@following
@output_option("text")
@with_kubectl
def approve(
    kubectl: Kubectl,
    bookie: str,
    name: str | None,
    plan_id: str | None,
    by: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Let BOOKIE use its changed disks.

    The content of the old disks is given up; a repair copies the entries from other bookies.
    """
    wish = task_requests.approval(
        the_cluster(kubectl, name), bookie, plan_id=plan_id, by=by or kubectl.user()
    )
    return _ask_once_confirmed(
        kubectl,
        wish,
        "Is the content of the old disks permanently lost, and may it be given up?",
        yes=yes,
        **how,
    )


@plugin.command("approve-collection")
@click.argument("bookie")
@cluster_option
@click.option("--plan", "plan_id", help="Approve only if this is the plan that waits.")
@by_option("Who approves.")
@yes_option
@following
@output_option("text")
@with_kubectl
def approve_collection(
    kubectl: Kubectl,
    bookie: str,
    name: str | None,
    plan_id: str | None,
    by: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Let BOOKIE remove the entries of unusually many deleted ledgers.

    So many of its ledgers are missing in the metadata store that BOOKIE asks first. Approve only if
    they were deleted on purpose: removed entries cannot be brought back.
    """
    wish = task_requests.collection_approval(
        the_cluster(kubectl, name), bookie, plan_id=plan_id, by=by or kubectl.user()
    )
    return _ask_once_confirmed(
        kubectl, wish, "Were these ledgers deleted on purpose?", yes=yes, **how
    )


@plugin.command("replace-disk")
@click.argument("bookie")
@click.argument("disk")
@cluster_option
@yes_option
@following
@output_option("text")
@with_kubectl
def replace_disk(
    kubectl: Kubectl, bookie: str, disk: str, name: str | None, yes: bool, **how: Any
) -> int:
    """Give BOOKIE a new, empty volume for DISK.

    A repair copies the entries of the old volume from other bookies.
    """
    wish = task_requests.replacement(the_cluster(kubectl, name), bookie, disk)
    question = f"Delete this volume of {bookie} with everything on it?"
    return _ask_once_confirmed(kubectl, wish, question, yes=yes, **how)


@plugin.command("replace-bookie")
@click.argument("bookie")
@cluster_option
@yes_option
@following
@output_option("text")
@with_kubectl
def replace_bookie(kubectl: Kubectl, bookie: str, name: str | None, yes: bool, **how: Any) -> int:
    """Replace all volumes of BOOKIE, whose node or disks are permanently lost.

    BOOKIE starts with empty volumes; a repair copies its entries from other bookies.
    """
    wish = task_requests.bookie_replacement(the_cluster(kubectl, name), bookie)
    question = f"Delete all volumes of {bookie} with everything on them?"
    return _ask_once_confirmed(kubectl, wish, question, yes=yes, **how)


@plugin.command("index-rebuild")
@click.argument("bookie")
@click.argument("disk", default="")
@cluster_option
@following
@output_option("text")
@with_kubectl
def index_rebuild(kubectl: Kubectl, bookie: str, disk: str, name: str | None, **how: Any) -> int:
    """Rebuild the index of BOOKIE's DISK from its log; without DISK, all its indexes.

    Use it when BOOKIE refuses to boot because an index is lost or damaged. Nothing that is in the
    log is lost. The next boot puts ledgers whose entries may be missing into limbo, and a repair
    follows.
    """
    wish = task_requests.rebuild(the_cluster(kubectl, name), bookie, disk)
    return task_requests.ask(kubectl, wish, **how)


@plugin.command("accept-loss")
@click.argument("ledgers")
@click.argument("reason")
@cluster_option
@click.option(
    "--entry",
    type=int,
    help="Of one ledger, the entry that you expect to be undecided; refuse if it is another one. "
    "Of several: LEDGER@ENTRY.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show where each ledger would be closed, and change nothing."
)
@by_option("Who accepts; kept in the loss record.")
@yes_option
@following
@output_option("text")
@with_kubectl
def accept_loss(
    kubectl: Kubectl,
    ledgers: str,
    reason: str,
    name: str | None,
    entry: int | None,
    dry_run: bool,
    by: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Close LEDGERS, which no recovery can close, and accept that entries may be lost.

    LEDGERS are ids, with commas between them: 4, or 40@7 if entry 7 is the one that you expect to
    be undecided, or 9-12 for those from 9 to 12 whose recovery was begun and could not end.

    Each ledger is closed before the first entry of which nobody can say whether it was
    acknowledged. The bookies keep REASON with the loss record.
    """
    cluster = the_cluster(kubectl, name)
    wish = task_requests.acceptance(
        cluster,
        _selector(ledgers, entry),
        reason=reason,
        by=by or kubectl.user(),
        dry_run=dry_run,
    )
    return _ask_once_confirmed(
        kubectl,
        wish,
        "Give up entries of these ledgers that may have been acknowledged?",
        yes=yes or dry_run,
        **how,
    )


def _selector(text: str, entry: int | None) -> LedgerSelector:
    try:
        return parse_selector(text, entry=entry)
    except BadRequestError as error:
        raise click.UsageError(str(error)) from None


@plugin.command("retract-loss")
@click.argument("ledger", type=int)
@click.argument("reason")
@cluster_option
@by_option("Who decides; the bookies keep it.")
@yes_option
@following
@output_option("text")
@with_kubectl
def retract_loss(
    kubectl: Kubectl,
    ledger: int,
    reason: str,
    name: str | None,
    by: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Withdraw a wrong record that entries of LEDGER are lost.

    Because of the record, bookies may have denied that the entries exist; then the ledger goes into
    limbo there until a repair has checked it. The bookies keep REASON.
    """
    cluster = the_cluster(kubectl, name)
    wish = task_requests.retraction(cluster, ledger, reason=reason, by=by or kubectl.user())
    return _ask_once_confirmed(
        kubectl,
        wish,
        f"Withdraw the records that entries of ledger {ledger} are lost?",
        yes=yes,
        **how,
    )


@plugin.command()
@click.argument("bookie", required=False)
@cluster_option
@following
@output_option("text")
@with_kubectl
def repair(kubectl: Kubectl, bookie: str | None, name: str | None, **how: Any) -> int:
    """Repair the ledgers that BOOKIE has marked; without BOOKIE, every ledger.

    The operator repairs by itself; this command does not wait for its next attempt. Without BOOKIE,
    it also makes copies again that are missing outside of limbo. Exit code 3: limbo or missing
    copies are left.
    """
    wish = task_requests.wish(the_cluster(kubectl, name), TaskType.REPAIR, bookie=bookie or "")
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@following
@output_option("text")
@with_kubectl
def audit(kubectl: Kubectl, name: str | None, **how: Any) -> int:
    """Compare what every bookie holds with what it must hold.

    Exit code 3: the audit found damage, 4: it found none, but could not judge every copy.
    """
    wish = task_requests.wish(the_cluster(kubectl, name), TaskType.AUDIT)
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@following
@output_option("text")
@with_kubectl
def scrub(kubectl: Kubectl, name: str | None, **how: Any) -> int:
    """Read every copy, verify its digest, and replace corrupt copies.

    It reads spec.scrub.readBytesPerSecond bytes per second from each bookie. Exit code 3: corrupt
    copies are left, 4: none is known, but not every copy could be read.
    """
    wish = task_requests.wish(the_cluster(kubectl, name), TaskType.SCRUB)
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@click.argument("bookie", default="")
@cluster_option
@yes_option
@following
@output_option("text")
@with_kubectl
def rereplicate(kubectl: Kubectl, bookie: str, name: str | None, yes: bool, **how: Any) -> int:
    """Replace a permanently lost BOOKIE in all its ledgers, copying from other bookies.

    BOOKIE is one that is away, or one that the operator does not run: give its BookKeeper id, such
    as 10.0.0.7:3181.
    Without BOOKIE: restore the ledgers that are marked as under-replicated. Exit code 3: some
    ledgers are left.
    """
    wish = task_requests.rereplication(the_cluster(kubectl, name), bookie)
    question = f"Is {bookie} permanently lost, with everything on its disks?"
    if bookie and not screen.confirmed(question, yes=yes):
        return Exit.FAILED
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@with_kubectl
def pause(kubectl: Kubectl, name: str | None) -> None:
    """Stop the operator from changing anything.

    Bookies keep serving; repairs wait.
    """
    task_requests.set_paused(kubectl, the_cluster(kubectl, name), paused=True)


@plugin.command()
@cluster_option
@with_kubectl
def resume(kubectl: Kubectl, name: str | None) -> None:
    """Let the operator work again after `pause`."""
    task_requests.set_paused(kubectl, the_cluster(kubectl, name), paused=False)


@plugin.command()
@click.argument("bookie", required=False)
@cluster_option
@following
@output_option("text")
@with_kubectl
def restart(kubectl: Kubectl, bookie: str | None, name: str | None, **how: Any) -> int:
    """Restart BOOKIE, or every bookie, one after the other.

    The operator restarts a bookie only while the loss budget allows it. With BOOKIE, the command
    waits until it serves again. Without, it returns at once; the operator restarts all bookies as
    for a new image, and stops if one does not come back.
    """
    cluster = the_cluster(kubectl, name)
    if bookie is None:
        task_requests.restart(kubectl, cluster, now=datetime.now(UTC))
        return Exit.DONE
    wish = task_requests.wish(cluster, TaskType.RESTART, bookie=bookie)
    return task_requests.ask(kubectl, wish, **how)


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2))


def main() -> None:
    """The console script. People call it through kubectl, so its help says `kubectl bookie`."""
    plugin(prog_name="kubectl bookie")


if __name__ == "__main__":
    main()
