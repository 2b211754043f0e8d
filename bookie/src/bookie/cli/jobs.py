"""Jobs on a whole cluster: the options that they share, how one runs, what becomes of its result.

People run them, and the operator runs the same command lines: `--summary` and `--progress-file` are
for whoever starts a job and is not there to read what it says.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from bookie.cli.common import code_of, fail, keep_libraries_quiet
from bookie.cli.option_groups import option
from bookie.cli.output import FORMATS, show_fields
from bookie.cli.results import show_result
from bookie.cli.summary import failure_of, summary_of, write_summary
from bookie.errors import BookieError
from bookie.exit_codes import Exit
from bookie.repair.engine.choice import AUTO, CHOICES
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports.progress_lines import LineWriter, ProgressFile, Say
from bookie.repair.reports.result import Document, write_page, write_result

Work = Callable[[Say], Coroutine[Any, Any, Document]]
"""A job, given where its lines for people go; its result object."""
FILE: Final = click.Path(path_type=Path, dir_okay=False)

engine_option = click.option(
    "--engine",
    type=click.Choice(CHOICES),
    default=AUTO,
    show_default=True,
    help="What does the work; auto: by the number of ledgers. spark-kubernetes: in a Job's pod.",
)
rate_option = click.option(
    "--bytes-per-second-per-bookie",
    "rate",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Copy at most so many bytes a second from and to each bookie.",
)


@dataclass(frozen=True, slots=True)
class Digests:
    """Whether a job reads every copy, and how fast."""

    verify_digests: bool = option(
        "--verify-digests", is_flag=True, help="Read every copy and verify its digest: bit rot."
    )
    read_rate: int | None = option(
        "--read-rate",
        type=click.IntRange(1),
        metavar="BYTES",
        help="With --verify-digests: read at most so many bytes a second from each bookie.",
    )

    def settings(self) -> DigestSettings | None:
        """None: trust the indexes."""
        if self.read_rate is not None and not self.verify_digests:
            raise click.UsageError("--read-rate needs --verify-digests")
        return DigestSettings(bytes_per_second=self.read_rate) if self.verify_digests else None


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command answers: people, programs, and a starter that reads only a summary."""

    output: str = option(
        "--output",
        type=FORMATS,
        default="table",
        show_default=True,
        help="A table for people or JSON for programs.",
    )
    summary: Path | None = option(
        "--summary",
        type=FILE,
        help="Write the counts here in at most 4096 bytes of JSON, or what went wrong.",
    )


@dataclass(frozen=True, slots=True)
class JobOutput(Answer):
    """What becomes of a job's result, and who hears how far it is."""

    result: Path | None = option(
        "--result",
        type=FILE,
        help="Write the result object here, and a page for people beside it (.html).",
    )
    page: Path | None = option(
        "--html",
        type=FILE,
        help="Write the page for people here: one file, nothing loaded from elsewhere.",
    )
    progress: bool = option(
        "--progress", is_flag=True, help="Progress lines on stderr, also without a terminal."
    )
    progress_file: Path | None = option(
        "--progress-file", type=FILE, help="Keep the last line of progress here."
    )

    @property
    def say(self) -> Say:
        """Where the job's lines for people go; stamped with the time where a log keeps them."""
        printer = LineWriter(sys.stderr, always=self.progress, stamped=self.progress)
        return printer if self.progress_file is None else ProgressFile(self.progress_file, printer)


def run_job(kind: str, work: Work, ending: JobOutput, *, tables: Path | None = None) -> NoReturn:
    """Run a job to its end: its result goes where `ending` says, its exit code is the command's.

    `tables`: where findings and copies go as Parquet.
    """
    document = outcome(kind, lambda: work(ending.say), ending)
    if ending.output == "json":
        show_fields(document, output=ending.output)
    else:
        show_result(document)
    for path, write in (
        (ending.result, write_result),
        (ending.page, write_page),
        (tables, _write_tables),
        (ending.summary, lambda found, path: write_summary(summary_of(found), path)),
    ):
        if path is not None:
            write_answer(kind, write, document, path, ending)
    raise click.exceptions.Exit(int(document["exit_code"]))


def outcome(
    kind: str,
    work: Callable[[], Coroutine[Any, Any, Document]],
    answer: Answer,
    *,
    code: Callable[[BookieError], Exit] = code_of,
) -> Document:
    """What the work comes to. When it fails, that is said and left in the summary as well."""
    keep_libraries_quiet()
    try:
        return asyncio.run(work())
    except BookieError as error:
        _leave_failure(kind, error, code(error), answer)
        fail(error, code(error))
    except OSError as error:
        _leave_failure(kind, error, Exit.ERROR, answer)
        fail(str(error))
    except Exception as defect:
        _leave_failure(kind, defect, Exit.ERROR, answer)
        raise


def write_answer(
    kind: str,
    write: Callable[[Document, Path], None],
    document: Document,
    path: Path,
    answer: Answer,
) -> None:
    """Write a job's result to a file; one that cannot be written fails the job."""
    try:
        write(document, path)
    except OSError as error:
        _leave_failure(kind, error, Exit.ERROR, answer)
        fail(f"cannot write the result to {path}: {error.strerror}")


def _leave_failure(kind: str, error: Exception, code: Exit, answer: Answer) -> None:
    """In the summary; one that cannot be written must not hide the error."""
    if answer.summary is None:
        return
    message = str(error) or repr(error)
    try:
        write_summary(failure_of(kind, exit_code=code, message=message), answer.summary)
    except OSError as unwritten:
        click.echo(f"error: no summary: {unwritten}", err=True)


def _write_tables(document: Document, path: Path) -> None:
    try:
        from bookie.repair.reports.parquet import write_parquet
    except ImportError:
        fail("--parquet needs pyarrow (the extra `repair` has it)", Exit.USAGE)
    write_parquet(document, path)
