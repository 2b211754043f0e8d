"""What a job runs: the words behind the interpreter, the same on every platform. Pure.

The platform adds where the result goes. A loss is accepted, and an index built anew, by the command
line that people use too; all else is done by the repair library's own (`python -m bookie.repair`).
"""

from collections.abc import Iterable
from typing import Final

from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision, StartJob

ENGINE_MODULE: Final = "bookie.repair"
_SCRUB: Final = ("run", "--every-ledger", "--verify-digests")
_WORDS: Final = {
    JobKind.REPAIR: ("run",),
    JobKind.AUDIT: ("audit",),
    JobKind.DRAIN: ("drain",),
    JobKind.SCRUB: _SCRUB,
    JobKind.MEND: ("run", "--every-ledger"),
    JobKind.REREPLICATE: ("rereplicate",),
}


def engine_words(job: StartJob, metadata_url: str) -> list[str]:
    """Of every job but those that are commands of people."""
    words = ["-m", ENGINE_MODULE, *_WORDS[job.kind], "--metadata", metadata_url]
    if job.bookie_id is not None:
        words += ["--bookie", job.bookie_id]
    return [*words, *job.options, "--engine", job.engine]


def accept_loss_words(wish: LossDecision, metadata_url: str) -> list[str]:
    """Behind `bookie`; its answer, on stdout, is the result."""
    # One argument with its value, so that no text of a person's is taken for an option.
    reason = f"--reason={wish.reason} (approved by {wish.approved_by})"
    words = ["ledger", "accept-loss", str(wish.ledger_id), reason]
    if wish.entry_id is not None:
        words += ["--entry", str(wish.entry_id)]
    return [*words, "--yes", "--output", "json", "--metadata", metadata_url]


def rebuild_words(directories: Iterable[str]) -> list[str]:
    """Behind `bookie`, whose other processes are away; it locks these folders nevertheless."""
    return ["index", "rebuild", "--yes", *directories]
