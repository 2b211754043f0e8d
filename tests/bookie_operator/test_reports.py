"""The engine's result objects, and what is made of broken ones."""

import json
from dataclasses import fields
from typing import Any, TypeVar

import pytest
from bookie.cli.summary import summary_bytes, summary_of
from bookie.ids import LedgerId
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.look.audit import Audit
from bookie.repair.reports.result import audit_json
from bookie.storage.decisions import now_ms
from bookie_operator.model.audit_status import CLASSES_MAX, ClassCounts, QuorumsStatus
from bookie_operator.model.reports import (
    AuditReport,
    ClosedLedger,
    DrainReport,
    LossesReport,
    LossReport,
    MendReport,
    RepairReport,
    Report,
    RereplicationReport,
    ScrubReport,
    message_of,
)
from bookie_operator.observed import JobKind
from bookie_operator.reports import REPORTS, report_of
from pydantic import AliasPath
from repair_lab import AUDIT, SETTINGS, RepairLab

ReportType = TypeVar("ReportType", bound=Report)


def read(model: type[ReportType], tree: dict[str, Any]) -> ReportType | None:
    """The report of a job of the kind that leaves such a one."""
    [kind] = [kind for kind, one in REPORTS.items() if one is model]
    report = report_of(kind, tree)
    assert report is None or isinstance(report, model)
    return report


def test_a_repairs_counts() -> None:
    report = read(
        RepairReport,
        {
            "engine": "spark-local",
            "spark_app_id": "local-1",
            "entries_copied": 7,
            "entries_copied_closed": 3,
            "ledgers": {"recovered": 2},
        },
    )
    assert (report.entries_copied, report.entries_copied_closed) == (7, 3)
    assert report.ledgers_recovered == 2 and report.spark_app_id == "local-1"


def test_an_audits_classes() -> None:
    found = read(AuditReport, {"audit": {"ledgers": 2, "entries": 5, "ok": 4, "no_copy": 1}})
    assert found is not None and found.no_copy == 1 and not found.clean


async def test_an_audit_that_left_a_ledger_out_or_could_not_read_one_is_not_clean() -> None:
    lab = await RepairLab().start()
    ledger = (await lab.ledger(entries=4, last=3)).ledger_id
    lab.fleet[1].lose(ledger, [2])
    await lab.store.underreplication.mark(ledger, [lab.ids[1]], now_ms=now_ms())
    told = await audit(lab.cluster, AuditRequest(settings=AUDIT, checks=Checks(grace_s=3600)))
    skipped = read(AuditReport, told)
    assert skipped is not None and not skipped.clean
    assert (skipped.exit_code, skipped.missing, skipped.underreplicated_skipped) == (4, 0, 1)
    lab.garble(ledger)
    unreadable = read(AuditReport, await audit(lab.cluster, AuditRequest(settings=AUDIT)))
    assert unreadable is not None and not unreadable.clean and unreadable.exit_code == 4


@pytest.mark.parametrize("model", [AuditReport, ScrubReport, MendReport])
def test_what_a_job_itself_does_not_call_whole_is_not_clean(model: type[Report]) -> None:
    tree = {name: {"entries": 1, "ok": 1} for name in ("audit", "audit_after")}
    found = [read(model, tree | {"exit_code": code}) for code in (0, 4)]
    assert [getattr(one, "clean", None) for one in found] == [True, False]


def test_classes_of_any_name_are_counted_and_bounded() -> None:
    classes: dict[str, object] = {"corrupt": {"findings": 2, "entries": 9}, "new_one": {}}
    bad = {"Bad Name": {"findings": 1}, "odd": 3, "minus": {"findings": -1}}
    found = read(AuditReport, {"audit": {"ok": 1}, "classes": classes | bad})
    assert found is not None and found.classes["corrupt"] == ClassCounts(findings=2, entries=9)
    assert found.classes["minus"] == found.classes["odd"] == found.classes["new_one"]
    assert "Bad Name" not in found.classes
    many = {f"c{'x' * n}": {} for n in range(39)}
    found = read(AuditReport, {"audit": {"ok": 1}, "classes": many})
    assert found is not None and len(found.classes) == CLASSES_MAX


def test_a_drains_counts() -> None:
    report = read(
        DrainReport,
        {
            "engine": "spark-kubernetes",
            "engine_reason": "asked for",
            "executors": 2,
            "ledgers": {"moved": 5, "recovered": 1, "blocked": 2},
            "ledgers_left": 3,
            "entries_copied": 70,
        },
    )
    assert (report.ledgers_moved, report.ledgers_left, report.ledgers_blocked) == (5, 3, 2)
    assert (report.engine_reason, report.executors, report.entries_copied) == ("asked for", 2, 70)


def test_a_person_accepted_loss_is_counted() -> None:
    found = read(AuditReport, {"audit": {"ok": 1}, "accepted_losses": [{"ledger_id": 4}]})
    assert found is not None and found.accepted_losses == 1


@pytest.mark.parametrize("release_0_1_0", [False, True])
def test_accepted_losses_are_counted_whose_ids_found_no_room(release_0_1_0: bool) -> None:
    losses = [{"ledger_id": 100_000 + number, "record": "{}"} for number in range(900)]
    summary = summary_of({"kind": "audit", "audit": {"ok": 1}, "accepted_losses": losses})
    if release_0_1_0:
        del summary["accepted_loss_count"]
    cut = json.loads(summary_bytes(summary))
    found = read(AuditReport, cut)
    counted = len(cut["accepted_losses"]) if release_0_1_0 else 900
    assert found is not None and found.accepted_losses == counted
    assert len(cut["accepted_losses"]) < 900


def test_accepted_losses_are_counted_that_had_no_place_in_the_result() -> None:
    accepted = tuple((LedgerId(number), b"{}") for number in range(1500))
    result = {"kind": "audit", **audit_json(Audit(AuditCounts(ledgers=1500), accepted=accepted))}
    for tree in (result, json.loads(summary_bytes(summary_of(result)))):
        found = read(AuditReport, tree)
        assert found is not None and found.accepted_losses == 1500


def test_a_scrub_is_clean_when_all_that_was_corrupt_is_replaced() -> None:
    tree = {"audit_after": {"entries": 9, "ok": 9}, "corrupt_found": 2, "corrupt_replaced": 2}
    found = read(ScrubReport, tree)
    assert found is not None and found.clean and found.entries == 9
    resumed = read(ScrubReport, tree | {"ledgers": {"considered": 2, "done_before": 5}})
    assert resumed is not None and resumed.ledgers == 7
    left = read(ScrubReport, tree | {"corrupt_replaced": 1})
    lost = read(ScrubReport, tree | {"audit_after": {"entries": 9, "missing": 1}})
    assert left is not None and lost is not None and not left.clean and not lost.clean


def test_a_scrub_without_its_closing_audit_is_no_report() -> None:
    assert read(ScrubReport, {"corrupt_found": 2}) is None


def test_a_re_replications_counts() -> None:
    blocked = [{"bookie_id": "b", "reason": "StillRegistered", "message": "stop it first"}]
    ledgers = {"moved": 5, "blocked": 1}
    marks = {"found": 3, "cleared": 2}
    tree = {"ledgers": ledgers, "marks": marks, "ledgers_left": 1, "refused": "stop it first"}
    found = read(RereplicationReport, tree | {"blocked": blocked})
    assert found is not None and not found.clean and found.refused == "stop it first"
    assert (found.ledgers_moved, found.blocked, found.marks_found, found.marks_cleared) == (
        5,
        1,
        3,
        2,
    )
    assert "StillRegistered: stop it first" in found.message
    assert read(RereplicationReport, {"message": "no metadata store"}) is None


@pytest.mark.parametrize(
    "tree", [{}, *({"audit": none} for none in (None, [], {}, ["ok"], "ok", 1))]
)
def test_no_findings_no_report(tree: dict[str, object]) -> None:
    assert read(AuditReport, tree) is None


@pytest.mark.parametrize("value", [-1, "5", None, 2.5])
def test_what_is_no_count_counts_as_nothing(value: object) -> None:
    assert read(RepairReport, {"entries_copied": value}).entries_copied == 0


def test_the_first_block_is_told() -> None:
    blocked = [{"ledger_id": 7, "reason": "Undecidable", "message": "bookie-1 is down"}]
    assert message_of({"blocked": blocked}) == "1 blocked; 7 Undecidable: bookie-1 is down"


def test_a_decisions_outcome() -> None:
    tree = {"ledger_id": 7, "last_entry_id": 4, "lost_from": 5, "recorded_on": ["bookie-0"]}
    assert read(LossReport, tree) == LossReport(
        ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=("bookie-0",)
    )


def test_a_decision_about_many_is_read_as_far_as_its_rows_go() -> None:
    row = {"ledger_id": 7, "last_entry_id": 4, "lost_from": 5}
    refusals = [{"ledger_id": 9, "message": "away"}]
    tree = {"closed": 3, "given_up": 2, "refused": 1, "decisions": [row], "refusals": refusals}
    found = report_of(JobKind.ACCEPT_LOSS, tree)
    closed = (ClosedLedger(ledger_id=7, last_entry_id=4, lost_from=5),)
    assert found == LossesReport(closed=3, given_up=2, refused=1, decisions=closed, refusals="away")


def test_a_look_is_read_with_the_bookies_that_it_waits_for() -> None:
    row = {"ledger_id": 7, "closes_at": 4, "first_in_question": 5, "away": ["bookie-2"]}
    tree = {"dry_run": True, "closed": 0, "refused": 1, "decisions": [row]}
    found = report_of(JobKind.ACCEPT_LOSS, tree)
    assert isinstance(found, LossesReport) and found.dry_run
    assert (found.decisions[0].last_entry_id, found.decisions[0].away) == (4, ("bookie-2",))


async def test_what_a_repair_could_not_decide_reaches_the_operator() -> None:
    lab = await RepairLab().start()
    for _ in range(30):
        await lab.ledger(entries=5)
    await lab.crash(0, 1)
    document = await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))
    for tree in (document, json.loads(summary_bytes(summary_of(document)))):
        found = read(RepairReport, tree).undecided
        assert (found.ledgers, found.through, found.waiting) == (30, 29, 0)
        assert [row.ledger for row in found.first] == list(range(20))
        first = (found.first[0].entry, found.first[0].last_confirmed, found.first[0].forgotten_by)
        assert first == (5, 3, ("bookie-0", "bookie-1"))


@pytest.mark.parametrize(("reported", "known"), [(0, 0), (3, 3), (-1, -1), (None, -1), ("3", -1)])
def test_what_was_acknowledged_for_certain_is_an_entry_or_none(
    reported: object, known: int
) -> None:
    row = {"ledger": 4, "entry": 5, "last_confirmed": reported, "forgotten_by": []}
    found = read(RepairReport, {"undecided": {"ledgers": 1, "through": 4, "first": [row]}})
    assert found is not None and found.undecided is not None
    assert found.undecided.first[0].last_confirmed == known


async def test_what_waits_for_a_bookie_is_counted_apart() -> None:
    lab = await RepairLab().start()
    await lab.ledger(entries=5)
    await lab.crash(0)
    lab.fleet[1].down = True
    document = await repair(
        lab.cluster, RepairRequest((lab.ids[0],), engine="inline", settings=SETTINGS)
    )
    found = read(RepairReport, document).undecided
    assert (found.ledgers, found.waiting, found.away) == (0, 1, ("bookie-1",))


@pytest.mark.parametrize("tree", [{}, {"ledger_id": 7}, {"ledger_id": "7", "last_entry_id": 4}])
def test_a_decision_without_an_end_is_none(tree: dict[str, object]) -> None:
    assert read(LossReport, tree) is None


async def audited(lab: RepairLab) -> dict[str, Any]:
    """What an audit of this cluster leaves in a pod's termination message."""
    document = await audit(lab.cluster, AuditRequest(settings=AUDIT, checks=Checks(ack_quorum=2)))
    told: dict[str, Any] = json.loads(summary_bytes(summary_of(document)))
    return told


async def test_what_an_audit_says_of_copies_arrives() -> None:
    lab = await RepairLab(4).start()
    thin = await lab.ledger(entries=4, last=3)
    open_one = await lab.ledger(ack=1)
    lab.fleet[1].lose(thin.ledger_id, [0, 1])
    lab.fleet[2].down = True
    found = read(AuditReport, await audited(lab))
    assert found is not None and found.last_copies is not None and found.last_copies.is_complete
    [held] = found.last_copies.held_by
    assert (held.known, held.perhaps, held.entries) == ((lab.ids[0],), (lab.ids[2],), 2)
    assert held.first_ledgers == (thin.ledger_id,)
    assert found.quorums == QuorumsStatus(
        ack_asked=2, ack_lowest=1, copies_lowest=1, ledgers_lowest=(open_one.ledger_id,)
    )
    assert found.classes["low_ack_quorum"] == ClassCounts(findings=1, entries=0)


ROW: dict[str, object] = {"known": ["bookie-0"], "perhaps": [], "entries": 2, "ledgers": 1}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        None,
        [ROW | {"known": None}],
        [ROW | {"known": ["x" * 300]}],
        [{name: value for name, value in ROW.items() if name != "perhaps"}],
        [ROW | {"known": [f"b{n}" for n in range(200)]}],
    ],
)
def test_holders_that_cannot_be_read_are_missing_and_not_nobody(rows: object) -> None:
    told = {"groups": 1, "entries_left_out": 0, "held_by": rows}
    found = read(AuditReport, {"audit": {"missing": 1}, "last_copies": told})
    assert found is not None and found.last_copies is not None
    assert not found.last_copies.is_complete
    whole = read(AuditReport, {"audit": {"missing": 1}, "last_copies": told | {"held_by": [ROW]}})
    assert whole is not None and whole.last_copies is not None and whole.last_copies.is_complete


@pytest.mark.parametrize("told", [None, {}, {"groups": 1}, {"groups": "1", "entries_left_out": 0}])
def test_of_an_engine_that_does_not_count_them_nothing_is_known(told: object) -> None:
    found = read(AuditReport, {"audit": {"missing": 1}, "last_copies": told, "quorums": {}})
    assert found is not None and found.last_copies is None and found.quorums is None


def test_a_scrub_tells_who_holds_what_it_could_not_replace() -> None:
    told = {"groups": 1, "entries_left_out": 0, "held_by": [ROW]}
    found = read(
        ScrubReport, {"audit_after": {"entries": 9}, "corrupt_found": 1, "last_copies": told}
    )
    assert found is not None and found.last_copies is not None
    assert found.last_copies.held_by[0].known == ("bookie-0",)


@pytest.mark.parametrize(
    "model",
    [RepairReport, AuditReport, DrainReport, ScrubReport, RereplicationReport, MendReport],
)
def test_every_name_that_a_report_reads_is_in_the_jobs_summary(model: type[Report]) -> None:
    found = [one.validation_alias or name for name, one in model.model_fields.items()]
    names = {str(one.path[0]) if isinstance(one, AliasPath) else str(one) for one in found}
    if model is AuditReport:
        names -= {one.name for one in fields(AuditCounts)}  # they are in its part `audit`
    names |= {model.needs} - {""}
    assert names <= summary_of(dict.fromkeys(names)).keys()


@pytest.mark.parametrize("kind", REPORTS)
def test_only_who_accepts_a_loss_decides_about_many(kind: JobKind) -> None:
    report = report_of(kind, {"decisions": [], REPORTS[kind].needs: {"ledgers": 1}})
    assert isinstance(report, LossesReport) is (kind is JobKind.ACCEPT_LOSS)
