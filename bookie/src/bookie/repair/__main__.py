"""`python -m bookie.repair run|audit|drain|rereplicate`: one such piece of work; result, exit code.

The operator starts it as a job, people through the commands of `bookie`. Exit codes: 0 clean; 1
error; 2 bad usage or settings; 3 damage found (entries missing or lost); 4 nothing known to be
wrong, but not all is known (bookies silent, ledgers undecidable, marks that stay) or, of a drain,
ledgers are left; 5 refused, or stopped: limbo somewhere, a bookie that does not drain, one that is
said to be gone and is not, or re-replication that is switched off.
Progress goes to stderr when a person watches or with --progress, the result to stdout and --result,
its few counts to --summary, also when the work fails.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from bookie.errors import BookieError, SettingsError
from bookie.ids import BookieId
from bookie.repair.audit_options import audit_arguments, audit_options
from bookie.repair.engine.choice import AUTO
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.evacuation import EvacuationSettings
from bookie.repair.jobs.rereplication_job import RereplicateRequest
from bookie.repair.repair_options import (
    digest_settings,
    digests_options,
    rate_option,
    repair_options,
    repair_request,
)
from bookie.repair.reports.printing import Printer, ProgressFile
from bookie.repair.reports.result import EXIT_ERROR, EXIT_USAGE, Document, write_result
from bookie.repair.runs import (
    audit_cluster,
    drain_cluster,
    repair_cluster,
    rereplicate_cluster,
)
from bookie.repair.summary import failure_of, summary_of, write_summary

metadata_option = click.option(
    "--metadata",
    envvar="BOOKIE_METADATA",
    required=True,
    metavar="URL",
    help="Metadata store, such as zk://127.0.0.1:2181/ledgers (or BOOKIE_METADATA).",
)
engine_option = click.option(
    "--engine",
    default=AUTO,
    show_default=True,
    metavar="NAME",
    help="inline, spark-local, spark-kubernetes (in a Job's pod) or auto (by number of ledgers).",
)
result_option = click.option(
    "--result",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result object here, and a page for people beside it (.html).",
)
output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
summary_option = click.option(
    "--summary",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the counts here in at most 4096 bytes of JSON, or what went wrong.",
)
progress_option = click.option(
    "--progress", is_flag=True, help="Progress lines on stderr, also without a terminal."
)
progress_file_option = click.option(
    "--progress-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the last line of progress here.",
)


@click.group(help="Audit and repair of ledgers.")
def main() -> None:
    """Parsing only; `jobs` do the work."""


def endings(command: Callable[..., None]) -> Callable[..., None]:
    """The options about what becomes of the result."""
    options = (progress_file_option, progress_option, summary_option, output_option, result_option)
    for option in options:
        command = option(command)
    return command


@main.command(name="run", help="Repair: recover limbo ledgers, bring back copies, clear marks.")
@metadata_option
@repair_options
@engine_option
@endings
def run(
    metadata: str,
    engine: str,
    output: str,
    result: Path | None,
    summary: Path | None,
    progress: bool,
    progress_file: Path | None,
    **options: Any,
) -> None:
    end = Ending("repair", output, result, summary, progress, progress_file)
    request = repair_request(engine, **options)
    _finish(repair_cluster(metadata, request, say=end.say), end)


@main.command(help="Audit: what must be there against what bookies hold. Changes nothing.")
@metadata_option
@engine_option
@audit_options
@digests_options
@endings
def audit(
    metadata: str,
    engine: str,
    output: str,
    result: Path | None,
    summary: Path | None,
    progress: bool,
    progress_file: Path | None,
    verify_digests: bool,
    read_rate: int | None,
    **options: Any,
) -> None:
    end = Ending("audit", output, result, summary, progress, progress_file)
    digests = digest_settings(verify_digests=verify_digests, read_rate=read_rate)

    async def work() -> Document:
        arguments = audit_arguments(**options)
        return await audit_cluster(
            metadata, engine=engine, digests=digests, say=end.say, **arguments
        )

    _finish(work(), end)


@main.command(help="Drain: move every ledger off a bookie that has been told to drain.")
@metadata_option
@click.option("--bookie", required=True, metavar="ID", help="The bookie that is to leave.")
@rate_option
@engine_option
@endings
def drain(metadata: str, bookie: str, rate: int | None, engine: str, **ending: Any) -> None:
    end = Ending("drain", **ending)
    request = DrainRequest(
        BookieId(bookie), engine=engine, settings=EvacuationSettings.at_rate(rate)
    )
    _finish(drain_cluster(metadata, request, say=end.say), end)


@main.command(
    name="rereplicate",
    help="Re-replicate: new members for ledgers of lost bookies, and what marks name.",
)
@metadata_option
@click.option(
    "--bookie",
    "bookies",
    multiple=True,
    metavar="ID",
    help="Gone for good; may be given again. Without it: only what marks name.",
)
@click.option("--force", is_flag=True, help="Also while re-replication is switched off.")
@rate_option
@engine_option
@endings
def rereplication(
    metadata: str,
    bookies: tuple[str, ...],
    force: bool,
    rate: int | None,
    engine: str,
    **ending: Any,
) -> None:
    end = Ending("rereplication", **ending)
    request = RereplicateRequest(
        tuple(map(BookieId, bookies)),
        engine,
        force=force,
        settings=EvacuationSettings.at_rate(rate),
    )
    _finish(rereplicate_cluster(metadata, request, say=end.say), end)


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of the result of this kind of work."""

    kind: str
    output: str
    result: Path | None
    summary: Path | None
    progress: bool
    progress_file: Path | None

    @property
    def say(self) -> Callable[[str], None]:
        teller = Printer(sys.stderr, always=self.progress, stamped=True)
        return teller if self.progress_file is None else ProgressFile(self.progress_file, teller)

    def succeeded(self, document: Document) -> None:
        if self.result is not None:
            write_result(document, self.result)
        if self.summary is not None:
            write_summary(summary_of(document), self.summary)

    def failed(self, error: Exception, exit_code: int) -> None:
        """Tell what is known; a summary that cannot be written must not hide the error."""
        click.echo(f"error: {error}", err=True)
        if self.summary is not None:
            told = failure_of(self.kind, exit_code=exit_code, message=str(error) or repr(error))
            try:
                write_summary(told, self.summary)
            except OSError as unwritten:
                click.echo(f"error: no summary: {unwritten}", err=True)


def _finish(work: Coroutine[Any, Any, Document], ending: Ending) -> NoReturn:
    try:
        document = asyncio.run(work)
        ending.succeeded(document)
    except SettingsError as error:
        ending.failed(error, EXIT_USAGE)
        sys.exit(EXIT_USAGE)
    except (BookieError, OSError) as error:
        ending.failed(error, EXIT_ERROR)
        sys.exit(EXIT_ERROR)
    except Exception as defect:
        ending.failed(defect, EXIT_ERROR)
        raise
    told = json.dumps(document, indent=2) if ending.output == "json" else words_of(document)
    click.echo(told)
    sys.exit(int(document["exit_code"]))


def words_of(document: Document) -> str:
    """The few lines a person wants to read."""
    counts = document.get("audit_after") or document["audit"]
    lines = [
        f"{document['kind']} {document['run_id']}: {document['seconds']} s, "
        f"engine {document['engine']} ({document['engine_reason']})"
    ]
    if document["kind"] == "repair":
        ledgers = document["ledgers"]
        lines.append(
            f"ledgers: {ledgers['considered']} looked after, {ledgers['recovered']} recovered, "
            f"{ledgers['cleared']} cleared, {ledgers['blocked']} blocked"
        )
        lines.append(
            f"copied: {document['entries_copied']} entries, {document['bytes_copied']} bytes"
        )
        if document["corrupt_found"]:
            found, replaced = document["corrupt_found"], document["corrupt_replaced"]
            lines.append(f"corrupt: {found} copies found, {replaced} replaced")
    if document["kind"] in ("drain", "rereplication"):
        lines += _move_lines(document)
    lines.append(
        f"audit: {counts['ledgers']} ledgers, {counts['entries']} entries: {counts['ok']} ok, "
        f"{counts['missing']} missing, {counts['unknown']} unknown, {counts['lost']} lost"
    )
    lines += [
        f"blocked: {row.get('bookie_id', 'ledger')} {row.get('ledger_id', '')} "
        f"{row['reason']}: {row['message']}"
        for row in document.get("blocked", ())[:20]
    ]
    return "\n".join(lines)


def _move_lines(document: Document) -> list[str]:
    ledgers = document["ledgers"]
    whose = document.get("bookie_id") or ", ".join(document["lost_bookies"]) or "marks"
    return [
        f"ledgers of {whose}: {ledgers['moved']} moved, "
        f"{ledgers['recovered']} recovered, {ledgers['blocked']} blocked, "
        f"{document['ledgers_left']} left",
        f"copied: {document['entries_copied']} entries, {document['bytes_copied']} bytes",
    ]


if __name__ == "__main__":
    main(prog_name="python -m bookie.repair")
