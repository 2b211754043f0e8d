"""Counts, rates and lines for people, without a clock of their own."""

import io
from pathlib import Path

from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.ledger_progress import LedgerProgress, Progress
from bookie.repair.reports.progress_lines import LineWriter, ProgressFile, ProgressLine
from clock import Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def done(count: int, *, size: int = 0) -> list[Outcome]:
    return [Outcome(i, "CLOSED", entries_copied=3, bytes_copied=size) for i in range(count)]


def test_a_line_has_counts_rate_and_time_left() -> None:
    progress = Progress(total=400, began_at=0.0)
    progress.add(done(100, size=1024))
    assert progress.line(20.0) == (
        "100 of 400 ledgers, 300 entries, 100.0 KiB copied, 5.0 KiB/s, 5.0 ledgers/s, 60 s left"
    )
    assert progress.json(20.0)["seconds_left"] == 60.0


def test_before_anything_is_done_nobody_knows_how_long() -> None:
    progress = Progress(total=4, began_at=0.0)
    assert progress.seconds_left(10.0) is None and "left" not in progress.line(10.0)


def test_a_follower_says_little_and_always_the_end() -> None:
    clock, said = Clock(), list[str]()
    follower = LedgerProgress(10, said.append, clock=clock)
    for _ in range(10):
        clock.now += 0.1
        follower.count(done(1))
    assert len(said) == 3 and said[-1].startswith("10 of 10 ledgers")


def test_what_was_found_later_is_expected_too() -> None:
    said = list[str]()
    follower = LedgerProgress(2, said.append, clock=Clock())
    follower.expect(1)
    follower.count(done(3))
    assert said[-1].startswith("3 of 3 ledgers") and follower.json()["of"] == 3


def test_without_a_terminal_lines_are_plain_and_few() -> None:
    clock, stream = Clock(), io.StringIO()
    teller = LineWriter(stream, always=True, clock=clock)
    for second in range(10):
        clock.now = second
        teller(ProgressLine(f"{second} of 10"))
    teller("said")
    teller(ProgressLine("10 of 10", is_last=True))
    assert stream.getvalue().splitlines() == ["0 of 10", "5 of 10", "said", "10 of 10"]


def test_on_a_terminal_a_progress_line_is_replaced() -> None:
    stream = Terminal()
    teller = LineWriter(stream)
    teller(ProgressLine("1 of 2"))
    teller(ProgressLine("2 of 2", is_last=True))
    teller("done")
    assert stream.getvalue() == "1 of 2\r\x1b[K2 of 2\ndone\n"


def test_the_last_line_of_progress_lies_in_a_file(tmp_path: Path) -> None:
    said, path = list[str](), tmp_path / "progress.txt"
    say = ProgressFile(path, said.append)
    say("starting")
    assert not path.exists()
    say(ProgressLine("1 of 2"))
    say(ProgressLine("2 of 2"))
    assert path.read_text() == "2 of 2\n" and len(said) == 3


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    ProgressFile(tmp_path / "gone" / "progress.txt", said.append)(ProgressLine("1 of 2"))
    assert said == ["1 of 2"]


def test_nobody_is_told_where_nobody_watches() -> None:
    stream = io.StringIO()
    LineWriter(stream)("line")
    assert stream.getvalue() == ""
