"""The first words where there is TLS: START_TLS and a greeting, in any order and in any pieces."""

import struct
from typing import Any

import pytest
from bookie.errors import FrameError
from bookie.wire.stock.opening import Opening, TooEarlyError, Word
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3
from hypothesis import given
from hypothesis import strategies as st
from stock_client import V2Client, V3Client

NOBODY: Any = None
V2_CLIENT, V3_CLIENT = V2Client(NOBODY, NOBODY), V3Client(NOBODY, NOBODY)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


START_TLS = framed(V3_CLIENT.start_tls())
GREETINGS = {
    "v2": framed(V2_CLIENT.auth(b"", plugin="sasl")),
    "v3": framed(V3_CLIENT.auth(b"", plugin="sasl")),
}
TOKEN = framed(V3_CLIENT.auth(b"x", plugin="sasl"))
READ = framed(V2_CLIENT.read(1, 1))


def heard(blob: bytes, sizes: list[int]) -> tuple[Opening, Word | None]:
    """What an opening makes of bytes that come in pieces; its last word."""
    opening, held, at, word = Opening(), b"", 0, None
    for size in [*sizes, len(blob)]:
        held, at = held + blob[at : at + size], at + size
        word = opening.step(memoryview(held))
        held = held[word.bytes_taken :]
        if word.asked or word.is_over:
            break
    return opening, word


@pytest.mark.parametrize("version", GREETINGS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_greeting_may_come_before_start_tls_or_with_it(version: str, is_first: bool) -> None:
    blob = GREETINGS[version] + START_TLS if is_first else START_TLS + GREETINGS[version]
    opening, word = heard(blob, [])
    assert word is not None and word.asked is not None and word.bytes_taken == len(blob)
    assert opening.greeting is not None
    assert isinstance(opening.greeting.wire, V2 if version == "v2" else V3)


@given(st.sampled_from(sorted(GREETINGS)), st.lists(st.integers(1, 40), max_size=6))
def test_pieces_make_no_difference_up_to_start_tls(version: str, sizes: list[int]) -> None:
    opening, word = heard(GREETINGS[version] + START_TLS, sizes)
    assert word is not None and word.asked is not None and not word.is_over
    assert opening.greeting is not None


def test_start_tls_alone_has_no_greeting() -> None:
    opening, word = heard(START_TLS, [])
    assert word is not None and word.asked is not None and opening.greeting is None


@pytest.mark.parametrize(
    "behind", [READ, TOKEN, b"\0", GREETINGS["v3"] + READ, GREETINGS["v3"] * 2, START_TLS]
)
def test_nothing_but_a_greeting_comes_with_start_tls(behind: bytes) -> None:
    with pytest.raises(TooEarlyError):
        heard(START_TLS + behind, [])


def test_nothing_comes_with_start_tls_where_the_greeting_came_before() -> None:
    with pytest.raises(TooEarlyError):
        heard(GREETINGS["v3"] + START_TLS + GREETINGS["v3"], [])


@pytest.mark.parametrize("first", [READ, TOKEN, framed(b"\xff garbage"), GREETINGS["v2"] + READ])
def test_whoever_says_something_else_first_does_not_want_tls(first: bytes) -> None:
    opening, word = heard(first + START_TLS, [])
    assert word is not None and word.is_over and word.asked is None
    assert (opening.greeting is not None) == first.startswith(GREETINGS["v2"])


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40), st.sampled_from([START_TLS, READ, TOKEN, *GREETINGS.values()])
        ),
        max_size=5,
    ).map(b"".join),
    st.lists(st.integers(1, 60), max_size=5),
)
def test_whatever_comes_one_greeting_at_most_is_kept_and_it_says_nothing(
    blob: bytes, sizes: list[int]
) -> None:
    try:
        opening, word = heard(blob, sizes)
    except FrameError:
        return
    assert word is None or not (word.asked and word.is_over)
    assert opening.greeting is None or opening.greeting.request.payload == b""


def test_a_second_greeting_ends_the_opening() -> None:
    _opening, word = heard(GREETINGS["v3"] * 2, [])
    assert word == Word(len(GREETINGS["v3"]), is_over=True)
