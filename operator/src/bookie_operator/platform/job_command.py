"""What a job runs: the words behind `bookie`, the same on every platform. Pure.

They are the commands that people use too (docs/cli.md). The platform adds where the result goes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision, StartJob

_WORDS: Final = {
    JobKind.REPAIR: ("repair",),
    JobKind.AUDIT: ("audit",),
    JobKind.DRAIN: ("drain", "--if-draining"),
    JobKind.SCRUB: ("repair", "--every-ledger", "--verify-digests"),
    JobKind.MEND: ("repair", "--every-ledger"),
    JobKind.REREPLICATE: ("rereplicate", "--yes"),
}
_LEAVING: Final = (JobKind.DRAIN, JobKind.REREPLICATE)
"""Kinds whose commands take the bookie as an argument."""


def reports_progress(job: StartJob) -> bool:
    """Whether its command reports progress and writes a whole result object."""
    return job.kind in _WORDS


def job_words(job: StartJob, metadata_url: str, ending: Sequence[str]) -> list[str]:
    """The command of every job except an index rebuild; `ending`: options about the result."""
    if job.decision is not None:
        return [*_decision_words(job.kind, job.decision), "--metadata", metadata_url, *ending]
    words = [*_WORDS[job.kind], "--metadata", metadata_url, *job.options, "--engine", job.engine]
    words += ending
    if job.bookie_id is None:
        return words
    return [*words, "--" if job.kind in _LEAVING else "--bookie", job.bookie_id]


def _decision_words(kind: JobKind, wish: LossDecision) -> list[str]:
    # One argument with its value, so that no text of a person's is taken for an option.
    words = ["ledger", kind.value, wish.ledgers]
    words.append(f"--reason={wish.reason} (approved by {wish.approved_by})")
    if kind is JobKind.RETRACT_LOSS:
        words.append(f"--by={wish.approved_by}")
    if wish.entry_id is not None:
        words += ["--entry", str(wish.entry_id)]
    return [*words, "--dry-run" if wish.is_dry_run else "--yes"]


def rebuild_words(directories: Iterable[str]) -> list[str]:
    """Behind `bookie`, whose other processes are away; it locks these folders nevertheless."""
    return ["index", "rebuild", "--yes", *directories]
