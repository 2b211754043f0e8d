"""How work ends: its exit code, what is printed, and the files that programs read later."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from bookie.cli.accept import DECISION_COLUMNS, refusal_code, show_many
from bookie.cli.jobs import Answer, Digests, JobOutput, outcome, run_job, write_answer
from bookie.cli.repair import RepairOptions
from bookie.errors import (
    BadRequestError,
    BookieError,
    NoSuchLedgerError,
    SettingsError,
    StorageError,
    UnavailableError,
    UndecidableError,
)
from bookie.exit_codes import Exit
from bookie.ids import LedgerId
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.judge.counts import COUNT_NAMES
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.reports.progress_lines import ProgressLine, Say
from bookie.repair.reports.result import Document
from click import UsageError
from click.exceptions import Exit as Ended

NOWHERE: Final = JobOutput("json", None, None, None, progress=False, progress_file=None)
RUN: Final = {"run_id": "r", "seconds": 1, "engine": "inline", "engine_reason": "why"}
LISTS: Final[Document] = {"findings": [], "blocked": [], "unreachable": [], "spark_app_id": None}


def document(code: int) -> Document:
    counts = dict.fromkeys(COUNT_NAMES, 7)
    return RUN | LISTS | {"kind": "audit", "exit_code": code, "audit": counts}


def ended(code: int, ending: JobOutput, **more: Any) -> int:
    """The exit code of a program whose job ends with this one."""

    async def work(say: Say) -> Document:
        say(ProgressLine("a line"))
        return document(code)

    with pytest.raises(Ended) as end:
        run_job("audit", work, ending, **more)
    return end.value.exit_code


@pytest.mark.parametrize("code", [0, 3, 4, 5])
def test_a_job_ends_with_the_code_of_its_result(
    capsys: pytest.CaptureFixture[str], code: int
) -> None:
    assert ended(code, NOWHERE) == code
    assert json.loads(capsys.readouterr().out) == document(code)
    assert ended(code, replace(NOWHERE, output="table")) == code
    assert capsys.readouterr().out.startswith("verdict  ")


@pytest.mark.parametrize(
    ("option", "files"),
    [
        ({}, []),
        ({"result": "a.json"}, ["a.html", "a.json"]),
        ({"page": "a.html"}, ["a.html"]),
        ({"summary": "a"}, ["a"]),
        ({"progress_file": "a"}, ["a"]),
    ],
)
def test_each_file_is_written_that_is_asked_for_and_no_other(
    tmp_path: Path, option: dict[str, str], files: list[str]
) -> None:
    chosen: dict[str, Any] = {name: tmp_path / path for name, path in option.items()}
    assert ended(3, replace(NOWHERE, **chosen)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    "files",
    [
        {"result": "a.html"},
        {"result": "a.json", "summary": "a.json"},
        {"result": "a.json", "progress_file": "./a.html"},
        {"page": "a.html", "progress_file": "a.html"},
        {"result": "b.parquet"},
    ],
)
def test_no_file_of_a_job_replaces_another_one(tmp_path: Path, files: dict[str, str]) -> None:
    """It is said before the work begins, which may take hours."""
    ending = replace(NOWHERE, **{name: tmp_path / file for name, file in files.items()})
    with pytest.raises(UsageError, match=r"are both .*, expected two files"):
        run_job("audit", lambda say: pytest.fail("begun"), ending, tables=tmp_path / "b.parquet")


def test_the_page_beside_a_result_may_be_named(tmp_path: Path) -> None:
    named = {"result": tmp_path / "a.json", "page": tmp_path / "a.html"}
    assert ended(0, replace(NOWHERE, **named)) == 0
    assert json.loads((tmp_path / "a.json").read_text())["kind"] == "audit"


def test_a_summary_and_a_result_say_the_same(tmp_path: Path) -> None:
    ended(3, replace(NOWHERE, summary=tmp_path / "s", result=tmp_path / "r.json"))
    summary, result = (json.loads((tmp_path / name).read_text()) for name in ("s", "r.json"))
    assert result == document(3)
    assert {name: summary[name] for name in ("kind", "exit_code", "run_id", "audit")} == {
        name: result[name] for name in ("kind", "exit_code", "run_id", "audit")
    }


@pytest.mark.parametrize(("progress", "said"), [(True, True), (False, False)])
def test_lines_are_for_who_watches_or_asks_for_them(
    capsys: pytest.CaptureFixture[str], progress: bool, said: bool
) -> None:
    ended(0, replace(NOWHERE, progress=progress))
    assert ("a line\n" in capsys.readouterr().err) is said


@pytest.mark.parametrize("option", ["result", "page", "summary"])
def test_a_file_that_cannot_be_written_is_an_error_that_the_summary_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (tmp_path / "file").touch()
    lost: dict[str, Any] = {option: tmp_path / "file" / "a"}
    assert ended(0, replace(NOWHERE, **({"summary": tmp_path / "s"} | lost))) == Exit.ERROR
    told = capsys.readouterr()
    assert told.out == "" and f"cannot write the result to {lost[option]}: " in told.err
    assert ("cannot write the summary" in told.err) is (option == "summary")
    if option != "summary":
        summary = json.loads((tmp_path / "s").read_text())
        assert (summary["kind"], summary["exit_code"]) == ("audit", 1)
        assert str(tmp_path / "file") in summary["message"]


ERRORS: Final[list[tuple[Exception, Exit, Exit]]] = [
    (SettingsError("why"), Exit.USAGE, Exit.USAGE),
    (BadRequestError("why"), Exit.USAGE, Exit.REFUSED),
    (UndecidableError("why"), Exit.UNDECIDED, Exit.REFUSED),
    (UnavailableError("why"), Exit.UNDECIDED, Exit.UNDECIDED),
    (NoSuchLedgerError(LedgerId(7)), Exit.ERROR, Exit.ERROR),
    (StorageError("why"), Exit.ERROR, Exit.ERROR),
    (OSError(13, "why", "file"), Exit.ERROR, Exit.ERROR),
]
"""Each with the exit code of a job, and of a decision about losses."""


@pytest.mark.parametrize(("error", "code", "refusal"), ERRORS)
@pytest.mark.parametrize("decides", [True, False])
def test_an_error_has_one_code_and_one_sentence_everywhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: Exit,
    refusal: Exit,
    decides: bool,
) -> None:
    async def work() -> Document:
        raise error

    judge: dict[str, Any] = {"code": refusal_code} if decides else {}
    with pytest.raises(Ended) as end:
        outcome("audit", work, Answer("json", tmp_path / "s"), **judge)
    expected = refusal if decides else code
    assert end.value.exit_code == expected
    assert capsys.readouterr() == ("", f"error: {error}\n")
    summary = json.loads((tmp_path / "s").read_text())
    assert summary == {"kind": "audit", "exit_code": expected, "message": str(error)}
    if isinstance(error, BookieError) and decides:
        assert refusal_code(error) == refusal


@pytest.mark.parametrize(
    ("defect", "message"), [(ValueError(), "ValueError()"), (ValueError("why"), "why")]
)
def test_a_defect_without_words_is_named_in_the_summary(
    tmp_path: Path, defect: Exception, message: str
) -> None:
    async def work() -> Document:
        raise defect

    with pytest.raises(ValueError):
        outcome("drain", work, Answer("json", tmp_path / "s"))
    summary = json.loads((tmp_path / "s").read_text())
    assert summary == {"kind": "drain", "exit_code": 1, "message": message}


def test_where_no_summary_is_asked_for_an_error_is_only_printed(tmp_path: Path) -> None:
    def failing(_found: Document, path: Path) -> None:
        raise OSError(28, "no room", str(path))

    with pytest.raises(Ended):
        write_answer("audit", failing, {}, tmp_path / "a", Answer("json", None))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("verify", "rate", "settings"),
    [
        (False, None, None),
        (True, None, DigestSettings(bytes_per_second=None)),
        (True, 5, DigestSettings(bytes_per_second=5)),
    ],
)
def test_copies_are_read_only_when_asked_and_as_fast_as_asked(
    verify: bool, rate: int | None, settings: DigestSettings | None
) -> None:
    assert Digests(verify, rate).settings() == settings


def test_a_rate_of_nothing_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="--read-rate needs --verify-digests"):
        Digests(verify_digests=False, read_rate=5).settings()


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (RepairOptions((), every_ledger=False, writer_grace=3, checkpoint=None), {}),
        (
            RepairOptions(("a", "b"), every_ledger=False, writer_grace=3, checkpoint=None),
            {"bookies": ("a", "b")},
        ),
        (
            RepairOptions((), every_ledger=True, writer_grace=3, checkpoint=None),
            {"every_ledger": True},
        ),
        (
            RepairOptions((), every_ledger=False, writer_grace=3, checkpoint="metadata"),
            {"checkpoint": True},
        ),
    ],
)
def test_a_repair_is_asked_for_what_its_options_say(
    options: RepairOptions, changed: dict[str, Any]
) -> None:
    digests = DigestSettings(bytes_per_second=6)
    copy = CopySettings(bytes_per_second=5)
    settings = RepairSettings(copy=copy, digests=digests, writer_grace_s=3)
    asked = RepairRequest((), "inline", every_ledger=False, settings=settings, checkpoint=False)
    assert options.request("inline", Digests(True, 6), rate=5) == replace(asked, **changed)


DECISION: Final = {"ledger_id": 1, "last_entry_id": 2, "lost_from": 3, "recorded_on": ["a"]}
REFUSAL: Final = {"ledger_id": 4, "message": "why"}
NOTHING: Final = "no ledger of these is in a recovery that could not end: nothing was done"


@pytest.mark.parametrize(
    ("closed", "given_up", "refused", "dry_run", "told", "code"),
    [
        (2, 1, 0, False, "2 of 2 ledgers closed, 1 with entries given up", 0),
        (1, 0, 0, False, "1 of 1 ledger closed, 0 with entries given up", 0),
        (1, 1, 2, False, "1 of 3 ledgers closed, 1 with entries given up", 5),
        (0, 0, 1, False, "0 of 1 ledger closed, 0 with entries given up", 5),
        (1, 1, 2, True, "1 of 3 ledgers would be closed, 1 with entries given up", 0),
        (0, 0, 1, True, "0 of 1 ledger would be closed, 0 with entries given up", 0),
        (0, 0, 0, False, NOTHING, 0),
        (0, 0, 0, True, NOTHING, 0),
    ],
)
@pytest.mark.parametrize("output", ["json", "table"])
def test_decisions_are_counted_and_any_refusal_ends_with_five(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    closed: int,
    given_up: int,
    refused: int,
    dry_run: bool,
    told: str,
    code: int,
    output: str,
) -> None:
    found: Document = {"closed": closed, "given_up": given_up, "refused": refused}
    found |= {"decisions": [DECISION] * closed, "refusals": [REFUSAL] * refused}
    found |= {"dry_run": True} if dry_run else {}
    answer = Answer(output, tmp_path / "s")
    if code:
        with pytest.raises(Ended) as end:
            show_many(found, DECISION_COLUMNS, answer)
        assert end.value.exit_code == code
    else:
        show_many(found, DECISION_COLUMNS, answer)
    printed = capsys.readouterr()
    tables = ["1 2 3 a"] * closed + ["4 why"] * refused
    headings = ["LEDGER ID LAST ENTRY ID LOST FROM RECORDED ON"] if closed else []
    if output == "json":
        assert json.loads(printed.out) == found
    else:
        lines = [" ".join(line.split()) for line in printed.out.splitlines()]
        assert [line for line in lines if "LEDGER ID" not in line] == [*tables, told]
        assert lines[: len(headings)] == headings
    total = closed + refused
    assert printed.err == (
        f"error: {refused} of {total} ledgers could not be decided\n" * (code > 0)
    )
    assert json.loads((tmp_path / "s").read_text()) == found
