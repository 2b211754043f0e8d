"""RFC 4752 without Kerberos: an exchange goes forward, and ends by one verdict."""

import re

import pytest
from bookie.wire.stock.digest_md5 import Accepted, Challenge, Denied
from bookie.wire.stock.tickets import OFFER, TICKET_BYTES_MAX, TicketError, TicketExchange
from hypothesis import given
from hypothesis import strategies as st

USER = "hd@REALM"


class PlainContext:
    """A ticket is `T`, or `A` of who wants an answer; a seal is `#`."""

    initiator = USER
    is_established = False

    def accept(self, token: bytes) -> bytes:
        if token not in (b"T", b"A", b"half"):
            raise TicketError("no ticket")
        self.is_established = token != b"half"
        return b"answer" if token == b"A" else b""

    def seal(self, message: bytes) -> bytes:
        return b"#" + message

    def unseal(self, token: bytes) -> bytes:
        if token[:1] != b"#":
            raise TicketError("no seal")
        return token[1:]


def exchange(allowed: str = ".*") -> TicketExchange:
    return TicketExchange(PlainContext(), re.compile(allowed))


LAST = b"#\1\0\0\0" + USER.encode()


def test_a_ticket_an_offer_and_the_last_word_let_in() -> None:
    one = exchange()
    assert one.step(b"T") == Challenge(b"#" + OFFER)
    assert one.step(LAST) == Accepted(b"", USER)


def test_the_offer_comes_behind_an_answer_that_the_client_wants() -> None:
    one = exchange()
    assert one.step(b"A") == Challenge(b"answer")
    assert one.step(b"") == Challenge(b"#" + OFFER)
    assert one.step(b"#\1\0\0\0") == Accepted(b"", USER)


def test_the_size_that_java_names_with_no_layer_does_no_harm() -> None:
    one = exchange()
    one.step(b"T")
    assert isinstance(one.step(b"#\1\1\0\0" + USER.encode()), Accepted)


@pytest.mark.parametrize(
    "choice", [b"", b"\1", b"\1\0", b"\1\0\0", b"\0\0\0\0", b"\4\0\0\0", b"\5\0\0\0"]
)
@pytest.mark.parametrize("name", [b"", USER.encode()])
def test_half_a_choice_and_one_with_a_layer_are_denied(choice: bytes, name: bytes) -> None:
    one = exchange()
    one.step(b"T")
    assert isinstance(one.step(b"#" + choice + name * (len(choice) == 4)), Denied)


@pytest.mark.parametrize(
    "other", [USER[:2], USER[:-1], USER[1:], USER + "M", USER.upper(), " " + USER, "\0", "eve"]
)
def test_whoever_acts_for_another_principal_is_denied_however_alike(other: str) -> None:
    one = exchange()
    one.step(b"T")
    denied = Denied(USER, "it acts for another principal")
    assert one.step(b"#\1\0\0\0" + other.encode()) == denied


def test_all_of_a_principal_must_match() -> None:
    assert isinstance(exchange("hd").step(b"T"), Denied)
    assert isinstance(exchange("hd@.*").step(b"T"), Challenge)


def test_nothing_is_accepted_behind_a_verdict() -> None:
    one = exchange()
    one.step(b"T")
    for token in (b"#\2\0\0\0", LAST):
        assert isinstance(one.step(token), Denied)
    assert isinstance(exchange().step(b"x" * (TICKET_BYTES_MAX + 1)), Denied)


TOKENS = [b"T", b"A", b"half", b"", LAST, b"#\1\0\0\0", b"#\1", b"#\4\0\0\0", b"#\1\0\0\0eve"]


@given(st.lists(st.one_of(st.binary(max_size=9), st.sampled_from(TOKENS)), max_size=6))
def test_whatever_comes_the_only_way_in_is_ticket_offer_last_word(said: list[bytes]) -> None:
    one = exchange()
    for number, token in enumerate(said):
        if isinstance(one.step(token), Accepted):
            assert said[:number] in ([b"T"], [b"A", b""]) and token[:5] == b"#\1\0\0\0"[:5]
            assert token[5:] in (b"", USER.encode())
