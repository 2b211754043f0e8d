"""The first words where there is TLS: START_TLS and a greeting, in any order and in any pieces."""

import struct
from typing import Any

import pytest
from bookie.errors import FrameError
from bookie.wire.stock.opening import GREETING_BYTES_MAX, Opening, TooEarlyError, Word
from bookie.wire.stock.v2 import V2
from bookie.wire.stock.v3 import V3
from hypothesis import given
from hypothesis import strategies as st
from stock_client import V2Client, V3Client

NOBODY: Any = None
V2_CLIENT, V3_CLIENT = V2Client(NOBODY, NOBODY), V3Client(NOBODY, NOBODY)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


HELLO = b"\x16\x03\x01\x02\x00"
START_TLS = framed(V3_CLIENT.start_tls())
GREETINGS = {
    "v2": framed(V2_CLIENT.auth(b"", plugin="sasl")),
    "v3": framed(V3_CLIENT.auth(b"", plugin="sasl")),
}
TOKEN = framed(V3_CLIENT.auth(b"x", plugin="sasl"))
READ = framed(V2_CLIENT.read(1, 1))
TICKET_BYTES_MAX = 9
TICKETS = {
    "v2": framed(V2_CLIENT.auth(b"a ticket!", plugin="sasl")),
    "v3": framed(V3_CLIENT.auth(b"a ticket!", plugin="sasl")),
}
GARBAGE = framed(b"\xff garbage")


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


# ---- between the answer to START_TLS and the handshake ------------------------------------------


def asked(token_bytes_max: int = 0, before: bytes = b"") -> Opening:
    """One whose START_TLS came, and is answered."""
    opening = Opening(token_bytes_max)
    word = opening.step(memoryview(before + START_TLS))
    assert word.asked is not None
    return opening


def until_hello(opening: Opening, blob: bytes, sizes: list[int]) -> bytes:
    """What is left of these pieces once a handshake begins in them; nothing: none does."""
    held, at = b"", 0
    for size in [*sizes, len(blob)]:
        held, at = held + blob[at : at + size], at + size
        while (word := opening.step(memoryview(held))).bytes_taken:
            held = held[word.bytes_taken :]
        assert word.asked is None and not word.is_over, "START_TLS is asked once"
        if word.is_hello:
            return held + blob[at:]
    return b""


def test_the_handshake_is_not_taken_whatever_comes_with_it() -> None:
    opening = asked()
    assert opening.step(memoryview(HELLO + READ)) == Word(0, is_hello=True)
    assert opening.greeting is None


@pytest.mark.parametrize("version", GREETINGS)
def test_a_client_that_looks_up_a_name_greets_behind_the_answer(version: str) -> None:
    opening = asked()
    assert opening.step(memoryview(GREETINGS[version])) == Word(len(GREETINGS[version]))
    assert opening.step(memoryview(HELLO)).is_hello
    assert opening.greeting is not None and opening.greeting.request.payload == b""


@pytest.mark.parametrize("version", GREETINGS)
def test_a_greeting_behind_the_answer_may_come_with_the_handshake(version: str) -> None:
    opening = asked()
    assert until_hello(opening, GREETINGS[version] + HELLO, []) == HELLO
    assert opening.greeting is not None


@pytest.mark.parametrize("tokens", [0, TICKET_BYTES_MAX])
@pytest.mark.parametrize("behind", [READ, GARBAGE, START_TLS, b"\x15\x03", b"\x17", b"\xff"])
def test_nothing_else_comes_between_them(behind: bytes, tokens: int) -> None:
    with pytest.raises(TooEarlyError):
        asked(tokens).step(memoryview(behind))


@pytest.mark.parametrize("size", [1, 4, 9])
@pytest.mark.parametrize("version", GREETINGS)
def test_where_there_are_no_tickets_the_first_byte_of_less_than_a_greeting_is_one_too_many(
    version: str, size: int
) -> None:
    begun = GREETINGS[version][:size]
    with pytest.raises(TooEarlyError):
        Opening().step(memoryview(START_TLS + begun))
    with pytest.raises(TooEarlyError):
        asked().step(memoryview(begun))


@pytest.mark.parametrize("again", [*GREETINGS.values(), *TICKETS.values(), b"\0"])
@pytest.mark.parametrize("is_before", [True, False])
def test_there_is_one_greeting(again: bytes, is_before: bool) -> None:
    opening = asked(TICKET_BYTES_MAX, before=GREETINGS["v3"] if is_before else b"")
    if not is_before:
        opening.step(memoryview(GREETINGS["v3"]))
    with pytest.raises(TooEarlyError):
        opening.step(memoryview(again))


@pytest.mark.parametrize("first", [b"", GREETINGS["v2"], TICKETS["v3"]])
def test_the_handshake_begins_behind_the_answer_not_with_start_tls(first: bytes) -> None:
    for blob in (first + START_TLS + HELLO, START_TLS + first + HELLO):
        with pytest.raises(TooEarlyError):
            Opening(TICKET_BYTES_MAX).step(memoryview(blob))


# ---- where tickets are a way in -----------------------------------------------------------------


@pytest.mark.parametrize("version", TICKETS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_greeting_with_a_ticket_may_come_before_start_tls_or_with_it(
    version: str, is_first: bool
) -> None:
    blob = TICKETS[version] + START_TLS if is_first else START_TLS + TICKETS[version]
    opening = Opening(TICKET_BYTES_MAX)
    assert opening.step(memoryview(blob)).bytes_taken == len(blob)
    assert until_hello(opening, HELLO, []) == HELLO
    assert opening.greeting is not None and opening.greeting.request.payload == b"a ticket!"


@given(
    st.sampled_from([*TICKETS.values(), *GREETINGS.values()]), st.lists(st.integers(1, 30)),
    st.integers(0, 90),
)  # fmt: skip
def test_a_greeting_with_a_ticket_comes_in_pieces_also_with_start_tls(
    greeting: bytes, sizes: list[int], with_start: int
) -> None:
    opening, rest = Opening(TICKET_BYTES_MAX), greeting[:with_start]
    word = opening.step(memoryview(START_TLS + rest))
    assert word.asked is not None
    behind = (START_TLS + rest)[word.bytes_taken :] + greeting[with_start:]
    assert until_hello(opening, behind + HELLO, sizes) == HELLO
    assert opening.greeting is not None


@pytest.mark.parametrize(("size", "is_kept"), [(TICKET_BYTES_MAX, True), (10, False)])
def test_a_ticket_has_so_many_bytes(size: int, is_kept: bool) -> None:
    greeting = memoryview(framed(V2_CLIENT.auth(bytes(size), plugin="sasl")))
    opening = Opening(TICKET_BYTES_MAX)
    word = opening.step(greeting)
    assert (opening.greeting is not None, word.is_over) == (is_kept, not is_kept)
    if not is_kept:
        with pytest.raises(TooEarlyError):
            asked(TICKET_BYTES_MAX).step(greeting)


def test_a_longer_frame_than_a_greeting_ends_with_its_length() -> None:
    longest = TICKET_BYTES_MAX + GREETING_BYTES_MAX - 4
    for length in (longest + 1, 1 << 20, -1, 22 << 16):
        with pytest.raises(TooEarlyError):
            asked(TICKET_BYTES_MAX).step(memoryview(struct.pack(">i", length)))
    assert asked(TICKET_BYTES_MAX).step(memoryview(struct.pack(">i", longest))) == Word(0)


def test_a_name_of_a_plugin_is_none_that_fills_the_memory() -> None:
    greeting = framed(V3_CLIENT.auth(b"", plugin="x" * GREETING_BYTES_MAX))
    assert Opening().step(memoryview(greeting)).is_over
    with pytest.raises(TooEarlyError):
        asked().step(memoryview(greeting))


@given(
    st.sampled_from([0, TICKET_BYTES_MAX]),
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from([START_TLS, READ, HELLO, *TICKETS.values(), *GREETINGS.values()]),
        ),
        max_size=4,
    ).map(b"".join),
    st.lists(st.integers(1, 60), max_size=5),
)
def test_whatever_comes_nothing_but_one_greeting_is_taken_before_the_handshake(
    tokens: int, blob: bytes, sizes: list[int]
) -> None:
    opening = asked(tokens)
    try:
        rest = until_hello(opening, blob, sizes)
    except TooEarlyError:
        return
    taken = blob[: len(blob) - len(rest)] if rest else b""
    assert taken == b"" or taken in (*TICKETS.values(), *GREETINGS.values())
    assert opening.greeting is None or len(opening.greeting.request.payload) <= tokens
