"""The crash benchmark: what it makes of its writers' answers, and when the stock client writes."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from bookie.errors import LedgerFencedError
from bookie.ids import LedgerId

from benchmarks.__main__ import names_of
from benchmarks.apache_fleet import ApacheError, StockProgram
from benchmarks.bench_crash import stock_rows
from benchmarks.crash_writers import Crowd, OurWriters, StockWriters
from benchmarks.rows import Options


class _Ledger:
    """Takes so many entries, and is fenced then."""

    def __init__(self, takes: int) -> None:
        self.left = takes
        self.asked = 0

    async def append(self, _payload: bytes) -> int:
        self.asked += 1
        if self.asked > self.left:
            raise LedgerFencedError(LedgerId(1))
        return self.asked


class _Program:
    """Answers as it was told to."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)
        self.asked: list[str] = []

    def ask(self, words: str) -> str:
        self.asked.append(words)
        return next(self._lines)


def _our_writers(**takes: list[int]) -> tuple[OurWriters, dict[str, list[_Ledger]]]:
    ledgers = {kind: [_Ledger(count) for count in counts] for kind, counts in takes.items()}
    return OurWriters(**cast(Any, ledgers)), ledgers


async def test_a_writer_that_was_refused_is_counted_once_and_left_out_from_then_on() -> None:
    writers, ledgers = _our_writers(active=[9, 0], slow=[9], idle=[1, 0, 9])
    assert await writers.append_each() == Crowd(active=1, slow=0, idle=1)
    assert await writers.append_each() == Crowd(active=0, slow=0, idle=1)
    assert await writers.append_each() == Crowd(active=0, slow=0, idle=0)
    assert [ledger.asked for ledger in ledgers["idle"]] == [2, 1, 3]


async def test_only_the_active_ones_are_timed() -> None:
    writers, ledgers = _our_writers(active=[9, 0], slow=[9], idle=[9])
    await writers.write_on()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(await writers.rest()) == ledgers["active"][0].asked == 1
    assert [ledgers[kind][0].asked for kind in ("slow", "idle")] == [1, 0]


async def test_the_stock_client_is_asked_line_by_line() -> None:
    program = _Program(
        '{"opened": 6}\n',
        "{}\n",
        '{"waits_ms": [2.5, 40]}\n',
        '{"active": 0, "slow": 2, "idle": 1}\n',
    )
    writers = StockWriters(cast(StockProgram, program))
    await writers.open(Crowd(active=1, slow=2, idle=3))
    await writers.write_on()
    assert await writers.rest() == [0.0025, 0.04]
    assert await writers.append_each() == Crowd(active=0, slow=2, idle=1)
    assert program.asked == ["open 1 2 3", "write 100 3000", "rest", "append"]


async def test_a_stock_client_that_says_anything_else_has_failed() -> None:
    with pytest.raises(ApacheError, match="said 'what\\?"):
        await StockWriters(cast(StockProgram, _Program("what?\n"))).rest()


def test_two_counts_add_up_kind_by_kind() -> None:
    assert Crowd(1, 2, 3) + Crowd(0, 1, 0) == Crowd(active=1, slow=3, idle=3)
    assert Crowd(1, 2, 3).total == 6


@pytest.mark.parametrize("absent", ["mvn", "javac", "java"])
def test_a_machine_without_maven_or_a_jdk_has_no_stock_writers_and_a_line_says_so(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == absent else f"/bin/{tool}")
    options = Options(tmp_path, rounds=1, is_full=False, loop=asyncio.new_event_loop)
    assert list(stock_rows(options)) == []
    said = capsys.readouterr().out
    assert said == f"crash: the stock client is left out, {absent} not on PATH\n"


def test_the_stock_client_is_a_part_of_the_crashes_and_not_of_what_gates_look_at() -> None:
    assert names_of("crash", is_full=False) == ["crash", "crash-stock"]
    assert names_of("crash-stock", is_full=False) == ["crash-stock"]
    assert "crash" in names_of("", is_full=False)
    assert "crash-stock" not in names_of("", is_full=False)
    assert "crash-stock" in names_of("", is_full=True)
