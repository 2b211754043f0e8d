"""One deep look at many ledgers: every copy read and verified, what is wholly ok only counted.

The first look of a deep audit on Spark: tasks do it, ledger by ledger, where `survey` judges
columns at once. Whatever is not ok comes out as `doubtful`, and the driver reads it again with the
same auditor as in process, so that the result is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bookie.protocol.ids import LedgerId
from bookie.repair.audit import Auditor, AuditSettings, Look, audit_of, batches_of
from bookie.repair.cluster import Cluster
from bookie.repair.digests import DigestReader, DigestSettings
from bookie.repair.steps import deep_auditor
from bookie.repair.survey import BulkAudit


@dataclass(frozen=True, slots=True)
class DeepSettings:
    """How to look, and how to read; the rate of reading is of each bookie, for all readers."""

    audit: AuditSettings
    digests: DigestSettings


async def deep_survey(
    cluster: Cluster, ledger_ids: Sequence[LedgerId], settings: DeepSettings
) -> BulkAudit:
    """One deep look at each of these; deleted ones are none. UnavailableError: no metadata."""
    reader = DigestReader(cluster.peers, settings.digests)
    auditor = deep_auditor(Auditor(cluster.store, cluster.control, settings.audit), reader)
    found = BulkAudit()
    async for batch in batches_of(ledger_ids, auditor.settings.ledgers_per_batch):
        found += counted(await auditor.for_report(batch))
    return found + BulkAudit(bytes_read=reader.bytes_read)


def counted(looks: dict[LedgerId, Look]) -> BulkAudit:
    """Counts of what is wholly ok and has nothing to be told of, and the ids of the rest."""
    fine = {ledger_id: look for ledger_id, look in looks.items() if look.verdict.is_ok}
    audit = audit_of(fine)
    told = {ledger_id for ledger_id, _record in audit.accepted}
    told |= {i for i, look in fine.items() if not _have_all_answered(look)}
    plain = audit_of({i: look for i, look in fine.items() if i not in told}) if told else audit
    return BulkAudit(
        counts=plain.counts,
        marked=plain.marked,
        doubtful=tuple(sorted(told | (looks.keys() - fine.keys()))),
        copies={bookie_id: tally.held for bookie_id, tally in plain.tallies.items() if tally.held},
    )


def _have_all_answered(look: Look) -> bool:
    return all(holding.has_searched for holding in look.holdings.values())
