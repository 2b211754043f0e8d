"""What a person decided, and when; how much of it is kept and shown."""

import sqlite3
import time
from collections.abc import Iterator

import pytest
from bookie.storage.decisions import (
    CREATE,
    KEPT_MAX,
    SHOWN_MAX,
    TEXT_MAX,
    PersonDecision,
    newest,
    now_ms,
    read_decisions,
    write_decisions,
)


@pytest.fixture
def index() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(CREATE)
    yield connection
    connection.close()


def decisions(*numbers: int) -> list[PersonDecision]:
    return [PersonDecision(number, "LossAccepted", "ann", "why") for number in numbers]


def test_a_decision_is_dated_in_milliseconds_of_the_wall_clock() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= now_ms() <= time.time_ns() // 1_000_000 + 1


@pytest.mark.parametrize("together", [1, 7, KEPT_MAX + 3])
def test_of_many_decisions_an_index_keeps_the_newest(
    index: sqlite3.Connection, together: int
) -> None:
    written = decisions(*range(KEPT_MAX + 3))
    for start in range(0, len(written), together):
        write_decisions(index, written[start : start + together])
    assert read_decisions(index) == written[3:]


@pytest.mark.parametrize("characters", [TEXT_MAX - 1, TEXT_MAX, TEXT_MAX + 1])
def test_words_are_cut_where_they_are_too_long(index: sqlite3.Connection, characters: int) -> None:
    write_decisions(index, [PersonDecision(1, "LossAccepted", "b" * characters, "a" * characters)])
    (found,) = read_decisions(index)
    kept = min(characters, TEXT_MAX)
    assert (found.by, found.about) == ("b" * kept, "a" * kept)


def test_of_several_directories_the_newest_are_shown_each_once() -> None:
    every = decisions(*range(SHOWN_MAX + 5))
    assert newest([every[:9], every[3:], every]) == tuple(every[5:])
    assert newest([[], every[:2]]) == tuple(every[:2])
