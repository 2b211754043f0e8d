"""Reads the result objects of the repair library into reports, by the kind of the job."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from bookie_operator.model.reports import (
    AuditReport,
    DrainReport,
    LossesReport,
    LossReport,
    MendReport,
    RepairReport,
    Report,
    RereplicationReport,
    RetractionReport,
    ScrubReport,
    message_of,
)
from bookie_operator.observed import Job, JobKind

REPORTS: Final[Mapping[JobKind, type[Report]]] = {
    JobKind.REPAIR: RepairReport,
    JobKind.AUDIT: AuditReport,
    JobKind.DRAIN: DrainReport,
    JobKind.SCRUB: ScrubReport,
    JobKind.REREPLICATE: RereplicationReport,
    JobKind.MEND: MendReport,
    JobKind.ACCEPT_LOSS: LossReport,
    JobKind.RETRACT_LOSS: RetractionReport,
}
"""An index rebuild reports nothing: the bookie's next boot shows what came of it."""


def with_report(job: Job, tree: Mapping[str, Any]) -> Job:
    """The job with what its result says."""
    return replace(job, report=report_of(job.kind, tree))


def report_of(kind: JobKind, tree: Mapping[str, Any]) -> Report | None:
    """The job's report; None if the kind has none, or the job did not complete."""
    model = REPORTS.get(kind)
    if model is LossReport and "decisions" in tree:
        model = LossesReport
    if model is None:
        return None
    part = tree.get(model.needs)
    if model.needs and not (isinstance(part, Mapping) and part):
        return None
    try:
        return model.model_validate({**tree, "message": message_of(tree)})
    except ValidationError:
        return None
