"""Jobs of the operator as simulated processes: its own words, the real parsing, the real work.

What a job is told is what the platforms write behind the interpreter (`job_command`); it is read by
the command line of `bookie.repair` itself, and done by the functions behind it. Only what small
logs need is other than there: frames that they take, and shorter waits.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import click
from bookie.errors import BookieError, SettingsError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.repair.__main__ import main as command_line
from bookie.repair.audit_options import audit_arguments
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.repair_job import repair
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.repair_options import digest_settings, repair_request
from bookie.repair.reports.history import METADATA, InStore
from bookie.repair.reports.printing import say_nothing
from bookie.repair.reports.result import EXIT_ERROR, EXIT_USAGE
from bookie.testing.simulation.clients import REPAIR, Shared, cluster_of, note_losses
from bookie.testing.simulation.visitors import EVACUATION
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision, StartJob
from bookie_operator.platform.job_command import engine_words

URL: Final = "memory://simulation"
MOVERS: Final = {JobKind.DRAIN: "drainer", JobKind.REREPLICATE: "replicator"}
"""What the history calls those who may give closed ledgers other members."""
REPAIRER: Final = "repair"
"""What the wiretap calls those who read what they copy."""
Tree = dict[str, Any]
Told = Callable[[int, Tree | None, str], None]
"""Hears of the end: exit code, result, last words."""


def process_name(job: StartJob) -> str:
    return f"{MOVERS.get(job.kind, REPAIRER)} {job.name}"


async def run_job(job: StartJob, shared: Shared, store: MetadataStore, *, told: Told) -> None:
    """From its words to its result; as `bookie.repair` ends, so does this."""
    try:
        async with cluster_of(shared, store) as cluster:
            document = await _work(job, cluster)
    except (SettingsError, click.ClickException) as error:
        told(EXIT_USAGE, None, str(error))
    except BookieError as error:
        told(EXIT_ERROR, None, str(error))
    else:
        if job.kind in (JobKind.REPAIR, JobKind.MEND, JobKind.SCRUB):
            note_losses(shared, document)
        told(int(document.get("exit_code", 0)), json.loads(json.dumps(document)), "")


async def _work(job: StartJob, cluster: Cluster) -> Tree:
    if job.decision is not None:
        return await _accept(job.decision, cluster)
    _module, command, *options = engine_words(job, URL)[1:]
    made = command_line.commands[command].make_context(command, options)
    return await _COMMANDS[command](cluster, made.params)


async def _repair(cluster: Cluster, options: Tree) -> Tree:
    names = ("bookies", "every_ledger", "rate", "checkpoint", "verify_digests", "read_rate")
    request = repair_request(options["engine"], **{name: options[name] for name in names})
    settings = replace(REPAIR, digests=request.settings.digests)
    return dict(await repair(cluster, replace(request, settings=settings)))


async def _audit(cluster: Cluster, options: Tree) -> Tree:
    digests = digest_settings(
        verify_digests=options["verify_digests"], read_rate=options["read_rate"]
    )
    names = ("recheck_delay", "grace_s", "racks", "min_racks", "ack_quorum", "history")
    asked = audit_arguments(**{name: options[name] for name in names})
    assert asked.pop("history") == METADATA, "the operator's audits remember in the store"
    asked["settings"] = replace(asked["settings"], grace_s=REPAIR.audit.grace_s)
    history = InStore(cluster.store)
    request = AuditRequest(engine=options["engine"], digests=digests, **asked)
    return dict(await audit(cluster, request, history=history))


async def _drain(cluster: Cluster, options: Tree) -> Tree:
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
    "run": _repair,
    "audit": _audit,
    "drain": _drain,
    "rereplicate": _rereplicate,
}
