"""Jobs of the local platform: child processes with a record, a log and a result file.

A job outlives the operator that started it; the next one finds it by its record. The result file
is written by the command; what is not there, or not readable, is no report, and never an error
here: completion is for the bookies to tell.
"""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bookie.progress import last_progress

from bookie_operator.model.reports import message_of
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.platform.folders import LocalFolders, read_json, write_json
from bookie_operator.platform.job_command import job_words, rebuild_words, reports_progress
from bookie_operator.platform.job_facts import facts_of, job_of_facts, started_job
from bookie_operator.platform.processes import NO_MORE, Children, ProcessId, exit_reason, send
from bookie_operator.reports import with_report

JOBS_MAX: Final = 100
"""Ended jobs beyond this are removed, oldest first."""
RESULT_BYTES_MAX: Final = 64 * 1024 * 1024

BOOKIE: Final = (sys.executable, "-m", "bookie")
RESULT: Final = "result.json"
PROGRESS: Final = "progress.txt"
"""File beside the result of a job, with its last line of progress."""

JobCommand = Callable[[StartJob, str, Path], list[str]]
"""Job, metadata URL, result file -> command line."""


def engine_command(job: StartJob, metadata_url: str, result: Path) -> list[str]:
    ending = ["--summary", str(result)]
    if reports_progress(job):
        progress = result.with_name(PROGRESS)
        ending = ["--result", str(result), "--progress-file", str(progress)]
    return [*BOOKIE, *job_words(job, metadata_url, ending)]


@dataclass(frozen=True, slots=True)
class _Record:
    job: Job
    process: ProcessId


class JobProcesses:
    """All jobs of one directory; for one thread at a time."""

    def __init__(
        self,
        folders: LocalFolders,
        children: Children,
        *,
        command: JobCommand = engine_command,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folders = folders
        self._children = children
        self._command = command
        self._clock = clock
        self._records: dict[str, _Record] = {}
        """Jobs that run or ended recently, by name; as stored on the disk."""

    def adopt(self) -> None:
        """Take over what a former operator left. Blocking."""
        for path in sorted(self._folders.jobs.glob("*/job.json")):
            tree = read_json(path)
            if tree is None:
                continue
            record = _record_of(tree)
            if record.job.running:
                self._children.watch(record.process)
            else:
                record = replace(record, job=self._with_report(record.job))
            self._records[record.job.name] = record

    def start(
        self, wanted: StartJob, *, metadata_url: str, environment: Mapping[str, str] = NO_MORE
    ) -> bool:
        """Create-only; False = a job of this name exists. `environment`: variables of its own.
        Blocking."""
        if wanted.name in self._records:
            return False
        self._prune()
        folder = self._folders.jobs / wanted.name
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / RESULT
        for left in (RESULT, PROGRESS):  # of a job whose record was lost
            (folder / left).unlink(missing_ok=True)
        command = self._rebuild(wanted) or self._command(wanted, metadata_url, result)
        process = self._children.spawn(
            command, log=folder / "log.txt", folder=folder, environment=environment
        )
        self._save(_Record(started_job(wanted, at=self._clock()), process))
        return True

    def _rebuild(self, wanted: StartJob) -> list[str]:
        """Of a job on disks of a bookie; empty for any other."""
        if wanted.kind is not JobKind.INDEX_REBUILD or wanted.bookie_id is None:
            return []
        folders = (str(self._folders.volume(wanted.bookie_id, disk)) for disk in wanted.disks)
        return [*BOOKIE, *rebuild_words(folders)]

    def stop(self, name: str) -> None:
        """End it with all it started; its end shows in the next look at jobs. Blocking."""
        record = self._records.get(name)
        if record is not None and record.job.running:
            send(record.process, signal.SIGKILL, group=True)

    def running(self) -> list[ProcessId]:
        return [record.process for record in self._records.values() if record.job.running]

    def jobs(self) -> Sequence[Job]:
        """All that are known, with the reports of those that have ended. Blocking."""
        for record in list(self._records.values()):
            if record.job.running and not self._children.is_alive(record.process):
                self._note_end(record)
        return [self._with_progress(record.job) for record in self._records.values()]

    def _with_progress(self, job: Job) -> Job:
        """How far it is by its own word, as long as it works."""
        if not job.running:
            return job
        try:
            said = (self._folders.jobs / job.name / PROGRESS).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return job
        return replace(job, progress=last_progress(said))

    def _note_end(self, record: _Record) -> None:
        code = self._children.exit_code(record.process)
        self._children.forget(record.process)
        job = replace(record.job, running=False, ended_at=self._clock(), exit_code=code)
        self._save(replace(record, job=self._with_report(job)))

    def _with_report(self, job: Job) -> Job:
        """The job as ended, with its report or the last lines of its log. Blocking."""
        tree = _result(self._folders.jobs / job.name / RESULT)
        if tree is None:
            return replace(job, message=self._last_words(job))
        return replace(with_report(job, tree), message=message_of(tree))

    def _last_words(self, job: Job) -> str:
        """How it ended and the last line of its log, for people."""
        log = self._folders.jobs / job.name / "log.txt"
        try:
            lines = log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        ended = exit_reason(job.exit_code)
        return f"{ended}: {lines[-1][:500]}" if lines else ended

    def _save(self, record: _Record) -> None:
        """Write the job's record to the disk before anything acts on it. Blocking."""
        write_json(self._folders.jobs / record.job.name / "job.json", _tree_of(record))
        self._records[record.job.name] = record

    def _prune(self) -> None:
        ended = [record.job for record in self._records.values() if not record.job.running]
        ended.sort(key=lambda job: job.started_at)
        for job in ended[: max(0, len(ended) - JOBS_MAX + 1)]:
            # A person may have removed it, or some of it: nothing waits for a tidy folder.
            shutil.rmtree(self._folders.jobs / job.name, ignore_errors=True)
            del self._records[job.name]


def _result(path: Path) -> dict[str, Any] | None:
    """The report that a job left. Blocking, and parsed under the interpreter's lock: one of the
    largest size stops every other thread for seconds, once, while the usual few KB stop nobody."""
    try:
        if path.stat().st_size > RESULT_BYTES_MAX:
            return None
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _tree_of(record: _Record) -> dict[str, Any]:
    job = record.job
    return {
        "name": job.name,
        **facts_of(job),
        "process": record.process.as_dict(),
        "endedAt": job.ended_at.isoformat() if job.ended_at else None,
        "exitCode": job.exit_code,
    }


def _record_of(tree: Mapping[str, Any]) -> _Record:
    ended = tree["endedAt"]
    job = replace(
        job_of_facts(tree["name"], tree),
        running=ended is None,
        ended_at=datetime.fromisoformat(ended) if ended else None,
        exit_code=tree["exitCode"],
    )
    return _Record(job, ProcessId.of(tree["process"]))
