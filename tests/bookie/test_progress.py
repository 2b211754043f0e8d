"""Lines of progress: what is said can be read back to the letter, and nothing else is progress."""

import pytest
from bookie.progress import AuditStep, last_progress, progress_of, size_text
from bookie.repair.reports.ledger_progress import Progress
from hypothesis import given
from hypothesis import strategies as st

COUNTS = st.integers(0, 2**63 - 1)
SECONDS = st.floats(0.001, 1e7)
SAID = "100 of 400 ledgers, 300 entries, 100.0 KiB copied, 5.0 KiB/s, 5.0 ledgers/s, 60 s left"


@given(st.integers(0, 10**9), st.integers(0, 10**9), COUNTS, COUNTS, SECONDS)
def test_what_a_job_says_is_read_back_to_the_letter(
    ledgers: int, more: int, entries: int, size: int, seconds: float
) -> None:
    progress = Progress(ledgers + more, 0.0, ledgers, entries, size)
    read = progress_of(progress.line(seconds))
    assert read == progress.reached(seconds) and read.line() == progress.line(seconds)


@given(COUNTS, st.none() | COUNTS, st.booleans(), st.none() | COUNTS)
def test_what_an_audit_says_is_read_back_to_the_letter(
    ledgers: int, total: int | None, again: bool, left: int | None
) -> None:
    said = AuditStep(ledgers, total, again, left)
    assert progress_of(said.line()) == said


@given(st.text() | st.from_regex(r"[0-9]+ of [0-9]+ ledgers, .*|[0-9]+ ledgers looked at.*"))
def test_whatever_is_read_is_what_was_said(text: str) -> None:
    read = progress_of(text)
    assert read is None or read.line() == text


@pytest.mark.parametrize(
    "line",
    [
        "",
        "done",
        f"{SAID} ",
        f"said {SAID}",
        SAID.replace("100 of", "0100 of"),
        "\u0663 ledgers looked at",
    ],
)
def test_anything_else_is_no_progress(line: str) -> None:
    assert progress_of(line) is None


def test_the_last_line_of_progress_is_found_in_a_log() -> None:
    log = f"12:00:00 7 ledgers looked at\n12:00:05 {SAID}\n26/11/22 INFO SparkContext: up\n12:00"
    assert last_progress(log) == SAID
    assert last_progress("12:00:00 starting Spark\nTraceback") == ""


def test_sizes_are_told_in_the_unit_that_fits() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 3 << 29)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
    ]
