"""One word per thing: names are made of words that the glossary has, and docstrings are plain."""

import pytest
from words import (
    LEFT,
    SHARED_NAMES,
    explained,
    forms,
    grown,
    left,
    now,
    shared_names,
    stale,
    words_of,
)


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    return now()


def test_no_name_and_no_docstring_has_a_word_that_is_new_to_the_house(
    found: dict[str, int],
) -> None:
    """A noun goes into docs/glossary.md, a verb or an adjective into tests/house/plain_words.txt.

    Two modules that share a name and mean one thing go into SHARED_NAMES, with the reason.
    """
    assert grown(found, left()) == []


def test_what_is_left_of_words_only_shrinks(found: dict[str, int]) -> None:
    """`python tests/house/words.py --write` drops the lines that are not true any more."""
    assert stale(found, left()) == []


def test_every_reason_for_a_shared_name_is_still_needed() -> None:
    shared = {line.split()[1] for line in shared_names()}
    assert [name for name in SHARED_NAMES if name not in shared] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LedgerIdsV3", ["ledger", "ids"]),
        ("_NeedsConsent", ["needs", "consent"]),
        ("ZooKeeperStore", ["zookeeper", "store"]),
        ("frame_buffers", ["frame", "buffers"]),
        ("HTTPApi", ["http", "api"]),
    ],
)
def test_names_are_taken_apart_in_either_style(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("plural", "word"), [("copies", "copy"), ("classes", "class"), ("bookies", "bookie")]
)
def test_a_plural_is_its_singular(plural: str, word: str) -> None:
    assert word in forms(plural)


def test_the_glossary_has_words_in_both_tables() -> None:
    assert {"limbo", "znode", "boundary", "pod"} <= explained()
    assert not {"told", "where", "meaning"} & explained()


def test_a_ratchet_that_has_grown_names_what_is_new() -> None:
    assert grown({"word foo": 1, "banned told in a": 3}, {"banned told in a": 2}) == [
        "banned told in a 3",
        "word foo 1",
    ]
    assert stale({}, {"word foo": 1}) == ["word foo 1"] and LEFT.exists()
