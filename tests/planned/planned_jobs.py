"""Jobs of the operator as simulated processes: its own words, the real parsing, the real work.

A job gets what the platforms write behind `bookie` (`job_command`); the commands' own options parse
it, and the functions behind them do it. Only what small logs need is other than there: frames that
they take, and shorter waits.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import click
from bookie.cli.audit import AuditOptions
from bookie.cli.jobs import Digests
from bookie.cli.main import main as command_line
from bookie.cli.option_groups import taken
from bookie.cli.repair import RepairOptions
from bookie.errors import BookieError, SettingsError
from bookie.exit_codes import Exit
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.repair_job import repair
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.reports.finding_history import METADATA, InStore
from bookie.repair.reports.progress_lines import say_nothing
from bookie.testing.simulation.clients import REPAIR, Shared, cluster_of, note_losses
from bookie.testing.simulation.visitors import EVACUATION
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision, StartJob
from bookie_operator.platform.job_command import job_words

URL: Final = "memory://simulation"
MOVERS: Final = {JobKind.DRAIN: "drainer", JobKind.REREPLICATE: "replicator"}
"""What the history calls those who may give closed ledgers other members."""
REPAIRER: Final = "repair"
"""What the wiretap calls those who read what they copy."""
Tree = dict[str, Any]
Answer = Callable[[int, Tree | None, str], None]
"""Hears of the end: exit code, result, last words."""


def process_name(job: StartJob) -> str:
    return f"{MOVERS.get(job.kind, REPAIRER)} {job.name}"


async def run_job(job: StartJob, shared: Shared, store: MetadataStore, *, told: Answer) -> None:
    """From its words to its result, with the exit codes of the command."""
    try:
        async with cluster_of(shared, store) as cluster:
            document = await _work(job, cluster)
    except (SettingsError, click.ClickException) as error:
        told(Exit.USAGE, None, str(error))
    except BookieError as error:
        told(Exit.ERROR, None, str(error))
    else:
        if job.kind in (JobKind.REPAIR, JobKind.MEND, JobKind.SCRUB):
            note_losses(shared, document)
        told(int(document.get("exit_code", 0)), json.loads(json.dumps(document)), "")


async def _work(job: StartJob, cluster: Cluster) -> Tree:
    if job.decision is not None:
        assert job.kind is JobKind.ACCEPT_LOSS, "nobody takes a loss back here"
        return await _accept(job.decision, cluster)
    name, *words = job_words(job, URL, ())
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    return await _COMMANDS[name](cluster, command.make_context(name, words).params)


async def _repair(cluster: Cluster, options: Tree) -> Tree:
    digests, asked = taken(Digests, options), taken(RepairOptions, options)
    request = asked.request(options["engine"], digests, rate=options["rate"])
    settings = replace(REPAIR, digests=request.settings.digests)
    return dict(await repair(cluster, replace(request, settings=settings)))


async def _audit(cluster: Cluster, options: Tree) -> Tree:
    asked = taken(AuditOptions, options)
    assert asked.history == METADATA, "the operator's audits remember in the store"
    request = AuditRequest(
        engine=options["engine"],
        digests=taken(Digests, options).settings(),
        settings=AuditSettings(grace_s=REPAIR.audit.grace_s, recheck_s=asked.recheck_s),
        checks=asked.checks(),
    )
    return dict(await audit(cluster, request, history=InStore(cluster.store)))


async def _drain(cluster: Cluster, options: Tree) -> Tree:
    assert options["if_draining"], "the operator tells the bookie itself"
    bookie_id = BookieId(options["bookie"])
    request = DrainRequest(bookie_id, engine=options["engine"], settings=EVACUATION)
    return dict(await drain(cluster, request, say=say_nothing))


async def _rereplicate(cluster: Cluster, options: Tree) -> Tree:
    bookies: Sequence[str] = options["bookies"]
    request = RereplicateRequest(
        tuple(map(BookieId, bookies)),
        options["engine"],
        force=options["force"],
        settings=EVACUATION,
    )
    return dict(await rereplicate(cluster, request, say=say_nothing))


async def _accept(wish: LossDecision, cluster: Cluster) -> Tree:
    decision = await accept_loss(
        cluster, LedgerId(wish.ledger_id), by=wish.approved_by, reason=wish.reason
    )
    return asdict(decision)


_COMMANDS: Final[dict[str, Callable[[Cluster, Tree], Awaitable[Tree]]]] = {
    "repair": _repair,
    "audit": _audit,
    "drain": _drain,
    "rereplicate": _rereplicate,
}
