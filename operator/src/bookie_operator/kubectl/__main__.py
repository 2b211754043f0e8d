"""`kubectl bookie`: parsing and exit codes; reading, showing and asking are in the other files.

kubectl finds the plugin as `kubectl-bookie` on PATH. Exit codes: 0 done, 1 it failed, 2 wrong
usage, 3 limbo or damage found, 4 not known now, 130 interrupted.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
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
from bookie_operator.status_tree.tree import cluster_tree


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
@kubectl_flags
def plugin() -> None:
    """BookieClusters: what they are up to, and what needs a person."""


@plugin.command()
@cluster_option
@click.option("--watch", "-w", is_flag=True, help="Go on showing it as it changes.")
@output_option("tree", "wide")
@with_kubectl
def status(kubectl: Kubectl, name: str | None, watch: bool, output: str) -> None:
    """A cluster as a tree; -o wide: with every disk."""
    found = find(kubectl, name)
    if watch:
        _watch(kubectl, found, output)
    elif output == "json":
        _print_json(found)
    else:
        screen.show(*_drawn(kubectl, read(BookieCluster, found), output))


def _drawn(
    kubectl: Kubectl, cluster: BookieCluster, output: str
) -> tuple[RenderableType, list[Text]]:
    tree = cluster_tree(cluster, now=screen.now(), wide=output == "wide")
    return tree, hint_lines(hints(cluster), flags=kubectl.flags)


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
    """The object whenever it has changed; a watch that the API server ends is begun again."""
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
@timeout_option("Of --wait, such as 90s or 5m; default: for ever.")
@output_option("table")
@with_kubectl
def limbo(
    kubectl: Kubectl, name: str | None, wait: bool, timeout: float | None, output: str
) -> int:
    """Limbo of every bookie. Exit code 0: none, 3: some, 4: not known now."""
    found = find(kubectl, name)
    cluster = read(BookieCluster, found)
    if wait:
        cluster = wait_for_none(
            kubectl, cluster.metadata.name, seconds=timeout, tell=task_requests.LimboProgress().tell
        )
    if output == "json":
        totals = cluster.status.limbo.as_dict()
        bookies = {
            one.id: {"limbo": one.limbo_ledgers, "unchecked": one.unchecked_ledgers}
            for one in cluster.status.bookies
        }
        _print_json({"known": limbo_of(cluster).name.lower(), "totals": totals, "bookies": bookies})
    else:
        screen.show(limbo_view(cluster, now=screen.now()))
    return limbo_of(cluster)


@plugin.command()
@cluster_option
@output_option("table")
@with_kubectl
def events(kubectl: Kubectl, name: str | None, output: str) -> None:
    """What the operator reported, newest last."""
    cluster = the_cluster(kubectl, name)
    found = events_of(kubectl, cluster.metadata.name)
    if output == "json":
        _print_json(found)
    elif found:
        screen.show(event_table(found, now=screen.now()))
    else:
        screen.tell("no events are kept (an API server forgets them after an hour)")


@plugin.command()
@cluster_option
@output_option("table")
@with_kubectl
def tasks(kubectl: Kubectl, name: str | None, output: str) -> None:
    """What people asked, and what came of it."""
    cluster = the_cluster(kubectl, name)
    found = tasks_of(kubectl, cluster.metadata.name)
    if output == "json":
        _print_json(found)
    elif found:
        screen.show(task_table(found, now=screen.now()))
    else:
        screen.tell(f"nobody has asked anything of {cluster.metadata.name}")


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
    """Let BOOKIE take its changed disks as its own.

    What was on the old ones is given up; copies on other bookies bring it back.
    """
    wish = task_requests.approval(
        the_cluster(kubectl, name), bookie, plan_id=plan_id, by=by or kubectl.user()
    )
    return _ask_once_confirmed(
        kubectl, wish, "Is the old content gone for good, and may it be given up?", yes=yes, **how
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
    """Let BOOKIE drop what so many deleted ledgers left that it asks first.

    Only for ledgers that were deleted on purpose: their entries go from its disks.
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

    What was on the old one comes back from its copies on other bookies.
    """
    wish = task_requests.replacement(the_cluster(kubectl, name), bookie, disk)
    question = f"Delete this volume of {bookie} with what is on it?"
    return _ask_once_confirmed(kubectl, wish, question, yes=yes, **how)


@plugin.command("replace-bookie")
@click.argument("bookie")
@cluster_option
@yes_option
@following
@output_option("text")
@with_kubectl
def replace_bookie(kubectl: Kubectl, bookie: str, name: str | None, yes: bool, **how: Any) -> int:
    """Give up all volumes of BOOKIE, whose node or disks are gone for good.

    It starts with empty ones; what was on the old ones comes back from its copies.
    """
    wish = task_requests.bookie_replacement(the_cluster(kubectl, name), bookie)
    question = f"Delete all volumes of {bookie} with what is on them?"
    return _ask_once_confirmed(kubectl, wish, question, yes=yes, **how)


@plugin.command("index-rebuild")
@click.argument("bookie")
@click.argument("disk", default="")
@cluster_option
@following
@output_option("text")
@with_kubectl
def index_rebuild(kubectl: Kubectl, bookie: str, disk: str, name: str | None, **how: Any) -> int:
    """Build the index of BOOKIE's DISK again from its log, or all of its indexes.

    For a bookie that refuses to boot since an index is lost or damaged. Nothing that is in the log
    is lost; the next boot puts into limbo what only the index knew, and a repair follows.
    """
    wish = task_requests.rebuild(the_cluster(kubectl, name), bookie, disk)
    return task_requests.ask(kubectl, wish, **how)


@plugin.command("accept-loss")
@click.argument("ledger", type=int)
@click.argument("reason")
@cluster_option
@click.option("--entry", type=int, help="Refuse unless this is the entry in question.")
@by_option("Who accepts; goes into the loss record.")
@yes_option
@following
@output_option("text")
@with_kubectl
def accept_loss(
    kubectl: Kubectl,
    ledger: int,
    reason: str,
    name: str | None,
    entry: int | None,
    by: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Close LEDGER at a possible loss.

    For a ledger that no recovery can end: it is closed before the entry that nobody can decide. The
    REASON is kept on record.
    """
    cluster = the_cluster(kubectl, name)
    wish = task_requests.acceptance(
        cluster, ledger, entry=entry, reason=reason, by=by or kubectl.user()
    )
    return _ask_once_confirmed(
        kubectl, wish, "Give up what may have been acknowledged there?", yes=yes, **how
    )


@plugin.command("retract-loss")
@click.argument("ledger", type=int)
@click.argument("reason")
@cluster_option
@by_option("Who decides; kept by the bookies.")
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
    """Take back that entries of LEDGER are lost: the record was wrong.

    What may have been denied on its word goes into limbo, until a repair has looked. The REASON is
    kept by the bookies.
    """
    cluster = the_cluster(kubectl, name)
    wish = task_requests.retraction(cluster, ledger, reason=reason, by=by or kubectl.user())
    return _ask_once_confirmed(
        kubectl, wish, f"Call what is recorded of ledger {ledger} lost no more?", yes=yes, **how
    )


@plugin.command()
@click.argument("bookie", required=False)
@cluster_option
@following
@output_option("text")
@with_kubectl
def repair(kubectl: Kubectl, bookie: str | None, name: str | None, **how: Any) -> int:
    """Repair BOOKIE now, or every ledger.

    Repairs come by themselves; this one does not wait for the next attempt. Without a BOOKIE also
    copies are made again that are missing where nothing is in limbo. Exit code 3: limbo, or
    something missing, is left.
    """
    wish = task_requests.wish(the_cluster(kubectl, name), TaskType.REPAIR, bookie=bookie or "")
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@following
@output_option("text")
@with_kubectl
def audit(kubectl: Kubectl, name: str | None, **how: Any) -> int:
    """Compare every copy with what must be there.

    Exit code 3: some are not as they must be.
    """
    wish = task_requests.wish(the_cluster(kubectl, name), TaskType.AUDIT)
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@following
@output_option("text")
@with_kubectl
def scrub(kubectl: Kubectl, name: str | None, **how: Any) -> int:
    """Read every copy, verify its digest, and replace corrupt ones.

    Reads at spec.scrub.readBytesPerSecond from each bookie. Exit code 3: not all are good now.
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
    """Give ledgers that lost copies for good new members.

    Those of BOOKIE, which is gone for good and not run by the operator (any more): any id of
    BookKeeper's, such as 10.0.0.7:3181. Without BOOKIE: what is marked as under-replicated. Exit
    code 3: some are left.
    """
    wish = task_requests.rereplication(the_cluster(kubectl, name), bookie)
    question = f"Is {bookie} gone for good, with all that was on its disks?"
    if bookie and not screen.confirmed(question, yes=yes):
        return Exit.FAILED
    return task_requests.ask(kubectl, wish, **how)


@plugin.command()
@cluster_option
@with_kubectl
def pause(kubectl: Kubectl, name: str | None) -> None:
    """Keep the operator from changing anything.

    Bookies go on serving; repairs wait.
    """
    task_requests.set_paused(kubectl, the_cluster(kubectl, name), paused=True)


@plugin.command()
@cluster_option
@with_kubectl
def resume(kubectl: Kubectl, name: str | None) -> None:
    """Let the operator go on."""
    task_requests.set_paused(kubectl, the_cluster(kubectl, name), paused=False)


@plugin.command()
@click.argument("bookie", required=False)
@cluster_option
@following
@output_option("text")
@with_kubectl
def restart(kubectl: Kubectl, bookie: str | None, name: str | None, **how: Any) -> int:
    """Restart BOOKIE, or every bookie, one after the other.

    Within the loss budget. One BOOKIE is followed until it serves again; all are restarted as for a
    new image, no further than the first that does not come back, and nobody waits for that here.
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
    """The console script; people call it through kubectl, and its help says so."""
    plugin(prog_name="kubectl bookie")


if __name__ == "__main__":
    main()
