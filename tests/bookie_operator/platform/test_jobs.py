"""Job processes: create-only, found again, reports read but never trusted to be there."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from bookie.cli.summary import SUMMARY_BYTES_MAX
from bookie.ids import BookieId
from bookie_operator.model.reports import AuditReport, LossReport, RetractionReport
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import LossDecision, StartJob
from bookie_operator.platform import jobs as module
from bookie_operator.platform.folders import LocalFolders, write_json
from bookie_operator.platform.job_command import job_words
from bookie_operator.platform.job_facts import facts_of, started_job
from bookie_operator.platform.jobs import (
    JOBS_MAX,
    RESULT_BYTES_MAX,
    JobCommand,
    JobProcesses,
    engine_command,
)
from bookie_operator.platform.processes import Children, identify
from fake_processes import endless, engine_like, until
from operator_scenes import T0

pytestmark = pytest.mark.process
URL = "zk://127.0.0.1:2181/ledgers"
REPAIR = StartJob("demo-bookie-0-2-1", JobKind.REPAIR, "inline", 1, BookieId("bookie-0"), 2)
AUDIT = StartJob("demo-audit-1", JobKind.AUDIT, "auto", 1)
DECISION = LossDecision("7", 5, "--power cut", "ann")
ACCEPT = StartJob("demo-loss-1", JobKind.ACCEPT_LOSS, "", 1, decision=DECISION)


def jobs_in(root: Path, command: JobCommand, children: Children | None = None) -> JobProcesses:
    folders = LocalFolders(root)
    folders.make()
    return JobProcesses(folders, children or Children(lambda: None), command=command)


async def ended(jobs: JobProcesses) -> Job:
    await until(lambda: not jobs.jobs()[0].running)
    return jobs.jobs()[0]


async def test_a_repairs_report_is_read_from_its_result(tmp_path: Path) -> None:
    report = {"entries_copied": 5, "entries_copied_closed": 2, "engine": "inline"}
    jobs = jobs_in(tmp_path, engine_like(json.dumps(report)))
    assert jobs.start(REPAIR, metadata_url=URL)
    job = await ended(jobs)
    assert job.exit_code == 0 and job.boot_epoch == 2
    assert job.report is not None and job.report.entries_copied == 5


async def test_a_job_of_the_same_name_is_not_started_twice(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, engine_like("{}"))
    assert jobs.start(REPAIR, metadata_url=URL)
    assert not jobs.start(REPAIR, metadata_url=URL)
    await ended(jobs)


async def test_the_next_operator_finds_ended_jobs_with_their_reports(tmp_path: Path) -> None:
    report = {"audit": {"ledgers": 3, "entries": 9, "ok": 9, "missing": 0}}
    jobs = jobs_in(tmp_path, engine_like(json.dumps(report)))
    jobs.start(AUDIT, metadata_url=URL)
    before = await ended(jobs)
    later = jobs_in(tmp_path, engine_like("{}"))
    later.adopt()
    assert list(later.jobs()) == [before]
    report = before.reported(AuditReport)
    assert report is not None and report.clean and report.entries == 9


@pytest.mark.parametrize("more", [0, 1])
async def test_a_report_is_read_up_to_the_size_that_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    report = json.dumps({"entries_copied": 5, "engine": "x" * 5000})
    monkeypatch.setattr(module, "RESULT_BYTES_MAX", len(report) - more)
    jobs = jobs_in(tmp_path, engine_like(report))
    jobs.start(REPAIR, metadata_url=URL)
    assert ((await ended(jobs)).report is None) is bool(more)


def test_a_report_may_be_far_larger_than_those_of_every_day() -> None:
    assert RESULT_BYTES_MAX >= 1000 * SUMMARY_BYTES_MAX


async def test_of_a_job_that_has_ended_no_process_is_kept(tmp_path: Path) -> None:
    children = Children(lambda: None)
    jobs = jobs_in(tmp_path, engine_like("{}"), children)
    jobs.start(AUDIT, metadata_url=URL)
    [process] = jobs.running()
    await ended(jobs)
    assert children.exit_code(process) is None and not jobs.running()


@pytest.mark.parametrize("report", ["{}", "[]", '{"audit": 3}'])
async def test_an_audit_without_findings_is_no_audit(tmp_path: Path, report: str) -> None:
    jobs = jobs_in(tmp_path, engine_like(report, code=1))
    jobs.start(AUDIT, metadata_url=URL)
    assert (await ended(jobs)).report is None


async def test_a_running_repair_says_how_far_it_is(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, endless)
    jobs.start(REPAIR, metadata_url=URL)
    assert jobs.jobs()[0].progress == ""
    told = LocalFolders(tmp_path).jobs / REPAIR.name / "progress.txt"
    told.write_text("37 ledgers looked at\n")
    assert jobs.jobs()[0].progress == "37 ledgers looked at"
    told.write_bytes(b"\xff 37 ledgers")
    assert jobs.jobs()[0].progress == ""
    jobs.stop(REPAIR.name)
    assert (await ended(jobs)).progress == ""


async def test_a_stopped_job_ends_without_a_report(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, endless)
    jobs.start(REPAIR, metadata_url=URL)
    jobs.stop(REPAIR.name)
    job = await ended(jobs)
    assert job.report is None and "SIGKILL" in job.message


async def test_a_job_has_no_report_of_one_that_had_its_name_before(tmp_path: Path) -> None:
    """A person moved the record of that one away."""
    jobs = jobs_in(tmp_path, engine_like('{"audit": {"ok": 9}}'))
    jobs.start(AUDIT, metadata_url=URL)
    assert (await ended(jobs)).report is not None
    (LocalFolders(tmp_path).jobs / AUDIT.name / "job.json").unlink()
    later = jobs_in(tmp_path, endless)
    later.start(AUDIT, metadata_url=URL)
    later.stop(AUDIT.name)
    assert (await ended(later)).report is None


def test_the_engines_command_line() -> None:
    command = engine_command(REPAIR, URL, Path("/r.json"))
    assert command[1:] == [
        *("-m", "bookie", "repair", "--metadata", URL, "--engine", "inline"),
        *("--result", "/r.json", "--progress-file", "/progress.txt", "--bookie", "bookie-0"),
    ]
    audit = engine_command(replace(AUDIT, options=("--one", "2")), URL, Path("/r.json"))
    assert "--bookie" not in audit and audit[6:8] == ["--one", "2"]
    assert audit[-2:] == ["--progress-file", "/progress.txt"]


async def test_an_accepted_losss_summary_is_its_result(tmp_path: Path) -> None:
    answer = {"ledger_id": 7, "last_entry_id": 4, "lost_from": 5, "recorded_on": ["bookie-0"]}
    jobs = jobs_in(tmp_path, engine_like(json.dumps(answer)))
    assert jobs.start(ACCEPT, metadata_url=URL) and not jobs.start(ACCEPT, metadata_url=URL)
    assert (await ended(jobs)).report == LossReport(
        ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=("bookie-0",)
    )
    later = jobs_in(tmp_path, engine_like(""))
    later.adopt()
    assert list(later.jobs()) == list(jobs.jobs())


async def test_a_refused_decision_leaves_its_complaint(tmp_path: Path) -> None:
    refused = {"kind": "accept-loss", "exit_code": 5, "message": "members are away"}
    jobs = jobs_in(tmp_path, engine_like(json.dumps(refused), code=5))
    jobs.start(ACCEPT, metadata_url=URL)
    job = await ended(jobs)
    assert job.report is None and job.exit_code == 5
    assert job.message == "members are away"


def test_the_command_line_of_a_decision() -> None:
    command = engine_command(ACCEPT, URL, Path("/r.json"))
    assert command[1:] == [
        *("-m", "bookie", "ledger", "accept-loss", "7"),
        *("--reason=--power cut (approved by ann)", "--entry", "5"),
        *("--yes", "--metadata", URL, "--summary", "/r.json"),
    ]
    unnamed = replace(ACCEPT, decision=replace(DECISION, entry_id=None))
    assert "--entry" not in engine_command(unnamed, URL, Path("/r.json"))


def test_the_command_line_of_a_retraction() -> None:
    wanted = replace(ACCEPT, kind=JobKind.RETRACT_LOSS, decision=replace(DECISION, entry_id=None))
    assert engine_command(wanted, URL, Path("/r.json"))[1:] == [
        *("-m", "bookie", "ledger", "retract-loss", "7"),
        *("--reason=--power cut (approved by ann)", "--by=ann"),
        *("--yes", "--metadata", URL, "--summary", "/r.json"),
    ]


async def test_a_retraction_that_was_refused_somewhere_says_where(tmp_path: Path) -> None:
    answer = {"ledger_id": 7, "retracted_on": {"bookie-0": 3}, "in_limbo_on": [], "silent": []}
    answer |= {"refused": {"bookie-1": "the ledger is OPEN"}}
    jobs = jobs_in(tmp_path, engine_like(json.dumps(answer), code=5))
    jobs.start(replace(ACCEPT, kind=JobKind.RETRACT_LOSS), metadata_url=URL)
    assert (await ended(jobs)).report == RetractionReport(
        ledger_id=7, retracted_on={"bookie-0": 3}, refused={"bookie-1": "the ledger is OPEN"}
    )


def with_ended(root: Path, names: Sequence[str]) -> JobProcesses:
    """Jobs that have ended, in the order in which they began."""
    for number, name in enumerate(names):
        facts = facts_of(started_job(replace(AUDIT, name=name), at=T0 + timedelta(hours=number)))
        ended = {"endedAt": T0.isoformat(), "exitCode": 0, "process": {"pid": 1, "created": 0.0}}
        write_json(LocalFolders(root).jobs / name / "job.json", {"name": name} | facts | ended)
    jobs = jobs_in(root, endless)
    jobs.adopt()
    return jobs


async def test_a_job_starts_though_somebody_removed_the_folder_of_the_oldest(
    tmp_path: Path,
) -> None:
    jobs = with_ended(tmp_path, [f"job-{number}" for number in range(JOBS_MAX)])
    shutil.rmtree(tmp_path / "jobs" / "job-0")
    assert jobs.start(AUDIT, metadata_url=URL)
    assert {job.name for job in jobs.jobs()} >= {AUDIT.name, "job-1"}
    jobs.stop(AUDIT.name)
    await until(lambda: not any(job.running for job in jobs.jobs()))


async def test_of_too_many_jobs_those_that_began_first_go_and_none_that_runs(
    tmp_path: Path,
) -> None:
    folders = LocalFolders(tmp_path)
    count = JOBS_MAX + 2
    jobs = with_ended(tmp_path, [f"job-{number * 7 % count}" for number in range(count)])
    before = sorted(jobs.jobs(), key=lambda job: job.started_at)
    for name in ("new-1", "new-2"):
        assert jobs.start(replace(AUDIT, name=name), metadata_url=URL)
    left = {job.name for job in before[3:]} | {"new-1", "new-2"}
    assert {job.name for job in jobs.jobs()} == left
    assert {one.name for one in folders.jobs.iterdir()} == left
    for name in ("new-1", "new-2"):
        jobs.stop(name)
    await until(lambda: not any(job.running for job in jobs.jobs()))


async def test_a_stopped_job_takes_all_that_it_started_along(tmp_path: Path) -> None:
    child = tmp_path / "child"
    words = f"sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait"
    jobs = jobs_in(tmp_path, lambda job, url, result: ["sh", "-c", words])
    jobs.start(AUDIT, metadata_url=URL)
    await until(child.exists)
    jobs.stop(AUDIT.name)
    await until(lambda: identify(int(child.read_text())) is None)
    await ended(jobs)


def test_a_dry_run_is_given_no_consent() -> None:
    many = LossDecision("7@5,9-12", None, "power cut", "ann", is_dry_run=True)
    words = job_words(replace(ACCEPT, decision=many), URL, [])
    assert words[:3] == ["ledger", "accept-loss", "7@5,9-12"]
    assert "--dry-run" in words and "--yes" not in words
    assert "--yes" in job_words(ACCEPT, URL, []) and "--dry-run" not in job_words(ACCEPT, URL, [])
