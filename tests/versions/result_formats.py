"""Result objects of each kind of job, and their summaries, which the operator reads on Kubernetes.

Made by the real jobs, on a fleet in memory with something to find, to move and to lose.
"""

import asyncio
from typing import Any, Final

from bookie.cli.summary import failure_of, summary_of
from bookie.ids import EntryId
from bookie.protocol.availability import EntrySet
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.drain_job import DrainRequest, drain
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.jobs.rereplication_job import RereplicateRequest, rereplicate
from bookie.repair.mend.accept_loss import accept_loss
from bookie.repair.mend.retract_loss import retract_loss
from bookie.repair.reports.progress_lines import say_nothing
from bookie_operator.observed import JobKind
from format_tables import Table, of_shape
from repair_lab import AUDIT, SETTINGS, RepairLab

Document = dict[str, Any]
MOVES: Final = EvacuationSettings(grace_s=0.0, repair=SETTINGS)


async def _struck() -> RepairLab:
    """Closed and open ledgers, an entry that nobody has any more, two bookies in limbo."""
    lab = await RepairLab(5).start()
    await lab.ledger(entries=5, last=5)
    await lab.ledger(entries=8, last=7)
    lab.write(await lab.ledger(entries=5), [5], on=(0, 1))
    await lab.crash(0, 1)
    return lab


async def _repaired() -> tuple[Document, Document]:
    lab = await _struck()
    looked = await audit(lab.cluster, AuditRequest(engine="inline", settings=AUDIT))
    return looked, await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))


async def _drained() -> Document:
    lab = await RepairLab(5).start()
    await lab.ledger(entries=5, last=4)
    request = DrainRequest(lab.ids[0], engine="inline", begin=True, settings=MOVES)
    return await drain(lab.cluster, request, say=say_nothing)


async def _rereplicated() -> Document:
    lab = await RepairLab(5).start()
    await lab.ledger(entries=5, last=4)
    lab.fleet[0].down = True
    await lab.store.unregister(lab.ids[0])
    request = RereplicateRequest((lab.ids[0],), engine="inline", settings=MOVES)
    return await rereplicate(lab.cluster, request, say=say_nothing)


async def _lost() -> Document:
    lab = await RepairLab(4).start()
    ledger = await lab.ledger(entries=5)
    lab.write(ledger, [5], on=(0, 1))
    await lab.crash(0, 1)
    decision = await accept_loss(
        lab.cluster, ledger.ledger_id, by="jo", reason="power cut", first_entry_id=EntryId(5)
    )
    return decision.json()


async def _retracted() -> Document:
    """Taken back by two; one does not answer."""
    lab = await RepairLab(5).start()
    ledger = (await lab.ledger(entries=5)).ledger_id
    third = EntrySet.from_ranges([(EntryId(3), EntryId(3))])
    lab.control.lost |= {(lab.ids[0], ledger): third, (lab.ids[2], ledger): third}
    lab.fleet[1].down = True
    done = await retract_loss(lab.cluster, ledger, by="jo", reason="a mistake")
    return done.json()


async def _all() -> dict[JobKind, Document]:
    looked, repaired = await _repaired()
    return {
        JobKind.AUDIT: looked,
        JobKind.REPAIR: repaired,
        JobKind.MEND: repaired,
        JobKind.SCRUB: repaired,
        JobKind.DRAIN: await _drained(),
        JobKind.REREPLICATE: await _rereplicated(),
        JobKind.ACCEPT_LOSS: await _lost(),
        JobKind.RETRACT_LOSS: await _retracted(),
    }


def documents_of_jobs() -> dict[JobKind, Document]:
    """By the kind of the job, as plain JSON; needs a thread without an event loop."""
    return asyncio.run(_all())


def shapes(found: dict[JobKind, Document]) -> Table:
    """Of the objects and of their summaries."""
    table = of_shape("failure", failure_of("audit", exit_code=1, message="why"))
    for kind, document in found.items():
        table |= of_shape(kind.value, document)
        if kind not in (JobKind.ACCEPT_LOSS, JobKind.RETRACT_LOSS):
            table |= of_shape(f"{kind.value} summary", summary_of(document))
    return table
