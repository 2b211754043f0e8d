"""Profiles: which samples count, and where their tables go."""

from collections import Counter

import pytest

from benchmarks.profiles import BEGIN, END, Profile, published, samples_of

LOOP = 'thread (0x1): "MainThread";main (a.py:1)'


def test_lines_of_one_function_count_together() -> None:
    raw = [f"{LOOP};add (src/runs.py:3) 2", f"{LOOP};add (src/runs.py:9) 3"]
    assert samples_of(raw) == Counter({"`add`, runs.py": 5})


def test_waiting_for_sockets_and_other_threads_do_not_count() -> None:
    other = 'thread (0x2): "flush";run (stream.py:1) 7'
    assert not samples_of([f"{LOOP};epoll_pwait (libc.so.6) 4", other])


def test_an_address_without_a_name_is_said_to_be_one() -> None:
    assert list(samples_of([f"{LOOP};0x7f00 (libc.so.6) 1"])) == ["copies, no symbol, libc.so.6"]


def test_a_table_adds_up_to_all_samples() -> None:
    profile = Profile("client", "depth 1", Counter({"a": 3, "b": 1}))
    assert "| 75.0% | a |\n| 25.0% | b |\n| 0.0% | all others |" in profile.table()


def test_tables_replace_those_between_the_markers() -> None:
    page = published(f"before {BEGIN} old {END} after", [Profile("client", "x", Counter(a=1))])
    assert "old" not in page and page.startswith("before") and page.endswith("after")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for profiles"):
        published("page", [])
