"""Jobs on a whole cluster: the options that they share, how they run, where their results go.

People run them, and the operator runs the same command lines. `--summary` and `--progress-file` are
for a program that starts a job and reads later what came of it.
"""

import asyncio
import os
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
"""A job: it gets the function that prints lines for people, and returns its result object."""
Write = Callable[[Document, Path], None]
"""Writes a result object to a path."""
FILE: Final = click.Path(path_type=Path, dir_okay=False)

engine_option = click.option(
    "--engine",
    type=click.Choice(CHOICES),
    default=AUTO,
    show_default=True,
    help="What does the work. auto chooses by the number of ledgers; spark-kubernetes works only "
    "in the pod of a Job.",
)
rate_option = click.option(
    "--bytes-per-second-per-bookie",
    "rate",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Copy at most this many bytes per second from and to each bookie.",
)


@dataclass(frozen=True, slots=True)
class Digests:
    """Whether a job reads every copy, and how fast."""

    verify_digests: bool = option(
        "--verify-digests",
        is_flag=True,
        help="Read every copy and verify its digest, to find bit rot.",
    )
    read_rate: int | None = option(
        "--read-rate",
        type=click.IntRange(1),
        metavar="BYTES",
        help="With --verify-digests: read at most this many bytes per second from each bookie.",
    )

    def settings(self) -> DigestSettings | None:
        """The settings of that reading; None: no copies are read, the indexes are trusted."""
        if self.read_rate is not None and not self.verify_digests:
            raise click.UsageError("--read-rate needs --verify-digests")
        return DigestSettings(bytes_per_second=self.read_rate) if self.verify_digests else None


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command answers: for people, for programs, and in a short summary file."""

    output: str = option(
        "--output",
        type=FORMATS,
        default="table",
        show_default=True,
        help="Print a table for people or JSON for programs.",
    )
    summary: Path | None = option(
        "--summary",
        type=FILE,
        help="Write the counts, or what went wrong, to this file: at most 4096 bytes of JSON.",
    )


@dataclass(frozen=True, slots=True)
class JobOutput(Answer):
    """Where a job's result goes, and how it reports its progress."""

    result: Path | None = option(
        "--result",
        type=FILE,
        help="Write the result object to this file (JSON), and a page for people beside it (HTML).",
    )
    page: Path | None = option(
        "--html",
        type=FILE,
        help="Write the page for people to this file; it loads nothing from elsewhere.",
    )
    progress: bool = option(
        "--progress", is_flag=True, help="Write progress lines to stderr even without a terminal."
    )
    progress_file: Path | None = option(
        "--progress-file", type=FILE, help="Keep the latest line of progress in this file."
    )

    @property
    def say(self) -> Say:
        """The function that prints the job's lines; each gets the time with --progress, for
        logs."""
        printer = LineWriter(sys.stderr, always=self.progress, stamped=self.progress)
        return printer if self.progress_file is None else ProgressFile(self.progress_file, printer)


def run_job(kind: str, work: Work, ending: JobOutput, *, tables: Path | None = None) -> NoReturn:
    """Run a job, write its result where `ending` says, print it, and exit with the job's exit code.
    Nothing is printed if a file cannot be written.

    `tables`: path for the findings and copies as Parquet.
    """
    _check_apart(ending, tables)
    writes: list[tuple[Path | None, Write]] = [
        (ending.result, write_result),
        (ending.page, write_page),
    ]
    if tables is not None:
        writes.append((tables, _parquet()))
    writes.append((ending.summary, lambda found, path: write_summary(summary_of(found), path)))
    document = outcome(kind, lambda: work(ending.say), ending)
    for path, write in writes:
        if path is not None:
            write_answer(kind, write, document, path, ending)
    if ending.output == "json":
        show_fields(document, output=ending.output)
    else:
        show_result(document)
    raise click.exceptions.Exit(int(document["exit_code"]))


def _check_apart(ending: JobOutput, tables: Path | None) -> None:
    """UsageError if one file would replace another one, which nobody would notice after hours."""
    beside = ending.result.with_suffix(".html") if ending.result is not None else None
    named = [("--result", ending.result)]
    if ending.page is None or beside is None or _absolute(beside) != _absolute(ending.page):
        named.append(("the page beside --result", beside))  # else both are the same page
    named += [("--html", ending.page), ("--parquet", tables)]
    named += [("--summary", ending.summary), ("--progress-file", ending.progress_file)]
    owners: dict[Path, str] = {}
    for option_name, path in named:
        if path is None:
            continue
        other = owners.setdefault(_absolute(path), option_name)
        if other != option_name:
            raise click.UsageError(f"{other} and {option_name} are both {path}, expected two files")


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def outcome(
    kind: str,
    work: Callable[[], Coroutine[Any, Any, Document]],
    answer: Answer,
    *,
    code: Callable[[BookieError], Exit] = code_of,
) -> Document:
    """Run the work and return its result. An error is printed, and written to the summary as
    well."""
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
    write: Write,
    document: Document,
    path: Path,
    answer: Answer,
) -> None:
    """Write a job's result to a file; if the file cannot be written, the job fails."""
    try:
        write(document, path)
    except OSError as error:
        _leave_failure(kind, error, Exit.ERROR, answer)
        fail(f"cannot write the result to {path}: {error.strerror}")


def _leave_failure(kind: str, error: Exception, code: Exit, answer: Answer) -> None:
    """Write the error to the summary; if that fails too, the first error must stay visible."""
    if answer.summary is None:
        return
    message = str(error) or repr(error)
    try:
        write_summary(failure_of(kind, exit_code=code, message=message), answer.summary)
    except OSError as unwritten:
        click.echo(f"error: cannot write the summary: {unwritten}", err=True)


def _parquet() -> Write:
    """What writes tables. A job does not begin without it: an audit may take hours."""
    try:
        from bookie.repair.reports.parquet import write_parquet
    except ImportError:
        fail("--parquet needs pyarrow (the extra `repair` has it)", Exit.USAGE)
    return write_parquet
