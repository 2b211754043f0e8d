"""DIGEST-MD5 by RFC 2831: its own examples, what a response must say, and hostile tokens."""

from collections.abc import Mapping

import pytest
from bookie.wire.stock.digest_directives import DirectiveError, parse_directives, quoted
from bookie.wire.stock.digest_md5 import (
    TOKEN_BYTES_MAX,
    Accepted,
    Challenge,
    Denied,
    Exchange,
    Service,
    Step,
    response,
    user_key,
)
from hypothesis import given
from hypothesis import strategies as st

NONCE = b"b7f3"
USER, PASSWORD = "hd", "testpwd"
SERVICE = Service()
KEYS = {USER: user_key(USER, SERVICE.realm, PASSWORD)}

RFC_USER, RFC_REALM = "chris", "elwood.innosoft.com"
RFC_KEYS = {RFC_USER: user_key(RFC_USER, RFC_REALM, "secret")}
IMAP = (
    b"imap/elwood.innosoft.com", b"OA6MG9tEQGm2hh", b"OA6MHXh6VqTrRk",
    b"d388dad90d4bbd760a152321f2143af7", b"ea40f60335c427b5527b84dbabcdfffd",
)  # fmt: skip
ACAP = (
    b"acap/elwood.innosoft.com", b"OA9BSXrbuRhWay", b"OA9BSuZWMSpW8m",
    b"6084c6db3fede7352c551284490fd0fc", b"2f0b3d7c3c2e486600ef710726aa2eae",
)  # fmt: skip


def begun(service: Service = SERVICE, nonce: bytes = NONCE) -> Exchange:
    exchange = Exchange(service, nonce)
    assert isinstance(exchange.step(b"", {}), Challenge)
    return exchange


def said(password: str = PASSWORD, **changes: bytes | None) -> dict[str, bytes]:
    """What a client says that knows the password; `changes`: before it computes its response."""
    parts = {
        "charset": b"utf-8", "username": USER.encode(), "realm": SERVICE.realm.encode(),
        "nonce": NONCE, "nc": b"00000001", "cnonce": b"c1", "qop": b"auth",
        "digest-uri": SERVICE.uri.encode(), **changes,
    }  # fmt: skip
    kept = {name: value for name, value in parts.items() if value is not None}
    if {"nonce", "cnonce", "nc", "digest-uri", "username"} <= kept.keys():
        key = user_key(kept["username"].decode(), SERVICE.realm, password)
        kept.setdefault("response", response(key, kept, b"AUTHENTICATE:"))
    kept.setdefault("response", b"0" * 32)
    return kept


def token(parts: Mapping[str, bytes]) -> bytes:
    return b",".join(name.encode() + b"=" + quoted(value) for name, value in parts.items())


def judged(parts: Mapping[str, bytes]) -> Step:
    return begun().step(token(parts), KEYS)


# ---- the RFC ------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", [IMAP, ACAP], ids=["imap", "acap"])
def test_the_examples_of_the_rfc_are_accepted_and_answered(example: tuple[bytes, ...]) -> None:
    uri, nonce, cnonce, proof, rspauth = example
    client = (
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="%b",nc=00000001,'
        b'cnonce="%b",digest-uri="%b",response=%b,qop=auth' % (nonce, cnonce, uri, proof)
    )
    step = begun(Service(RFC_REALM, uri.decode()), nonce).step(client, RFC_KEYS)
    assert step == Accepted(b"rspauth=" + rspauth, "chris")


def test_the_challenge_is_what_a_stock_client_expects() -> None:
    step = Exchange(SERVICE, NONCE).step(b"", {})
    assert isinstance(step, Challenge)
    assert parse_directives(step.token) == {
        "realm": b"bookkeeper", "nonce": NONCE, "qop": b"auth", "charset": b"utf-8",
        "algorithm": b"md5-sess",
    }  # fmt: skip


def test_a_key_is_what_htdigest_writes() -> None:
    assert user_key("hd", "bookkeeper", "testpwd").hex() == "27b2d0184edcba8cf451f2e92582f2aa"


def test_texts_of_latin_1_are_hashed_as_latin_1() -> None:
    assert user_key("müller", "r", "ß") == user_key("m\xfcller", "r", "\xdf")
    name = "müller"
    step = begun().step(
        token(said(username=name.encode())), {name: user_key(name, SERVICE.realm, PASSWORD)}
    )
    assert isinstance(step, Accepted) and step.user == name


# ---- who is accepted ----------------------------------------------------------------------------


def test_a_user_with_the_password_is_accepted() -> None:
    assert isinstance(judged(said()), Accepted)


def test_java_names_the_user_as_its_authorization_id() -> None:
    assert isinstance(judged(said(authzid=USER.encode())), Accepted)


def test_quality_and_realm_have_defaults() -> None:
    assert isinstance(judged(said(qop=None, charset=None)), Accepted)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (said("wrong"), "another password"),
        (said(username=b"nobody"), "no such user"),
        (said(nonce=b"b7f4"), "another nonce"),
        (said(nc=b"00000002"), "another nc"),
        (said(qop=b"auth-int"), "another qop"),
        (said(realm=b"elsewhere"), "another realm"),
        (said(authzid=b"root"), "another authzid"),
        (said(cnonce=b""), "cnonce is empty"),
        (said(**{"digest-uri": b"bookkeeper/elsewhere"}), "another digest-uri"),
        (said(response=b""), "another password"),
        *((said(**{name: None}), f"{name} is missing")
          for name in ("username", "nonce", "cnonce", "nc", "digest-uri")),
    ],
)  # fmt: skip
def test_everything_else_is_denied(parts: dict[str, bytes], why: str) -> None:
    step = judged(parts)
    assert isinstance(step, Denied) and why in step.why


def test_an_unknown_user_is_denied_whatever_key_it_guesses() -> None:
    parts = said(username=b"nobody")
    parts["response"] = response(bytes(16), parts, b"AUTHENTICATE:")
    assert isinstance(judged(parts), Denied)


# ---- one exchange -------------------------------------------------------------------------------


def test_nobody_speaks_before_the_challenge() -> None:
    assert isinstance(Exchange(SERVICE, NONCE).step(token(said()), KEYS), Denied)


def test_a_response_is_judged_once() -> None:
    exchange = begun()
    assert isinstance(exchange.step(token(said("wrong")), KEYS), Denied)
    assert isinstance(exchange.step(token(said()), KEYS), Denied)


def test_a_response_is_accepted_once() -> None:
    exchange = begun()
    assert isinstance(exchange.step(token(said()), KEYS), Accepted)
    assert isinstance(exchange.step(token(said()), KEYS), Denied)


def test_a_response_to_another_connection_is_denied() -> None:
    assert isinstance(begun(nonce=b"of another").step(token(said()), KEYS), Denied)


def test_a_longer_token_than_the_rfc_allows_is_denied() -> None:
    step = begun().step(token(said()) + b"," * TOKEN_BYTES_MAX, KEYS)
    assert isinstance(step, Denied) and "expected 4096" in step.why


# ---- hostile ------------------------------------------------------------------------------------

PIECES = st.lists(
    st.one_of(
        st.sampled_from([name.encode() for name in said()] + [b"rspauth", b"maxbuf", b"authzid"]),
        st.sampled_from([b"=", b",", b'"', b"\\", b" ", b"\r\n", b"\0", b"\xff"]),
        st.sampled_from([value for name, value in said().items() if name != "response"]),
        st.binary(max_size=8),
    ),
    max_size=60,
).map(b"".join)


@given(st.lists(st.one_of(st.binary(max_size=200), PIECES, st.just(b"")), max_size=4))
def test_no_token_without_the_password_authenticates_or_raises(tokens: list[bytes]) -> None:
    exchange = Exchange(SERVICE, NONCE)
    steps = [exchange.step(token, KEYS) for token in tokens]
    assert not any(isinstance(step, Accepted) for step in steps)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_good_token_with_another_byte_says_the_same_or_is_denied(at: int, byte: int) -> None:
    good = bytearray(token(said()))
    good[at % len(good)] = byte
    step = begun().step(bytes(good), KEYS)
    same = {name: value for name, value in _parsed(bytes(good)).items() if name in said()}
    assert isinstance(step, Denied) or same == {n: v for n, v in said().items() if n in same}


def _parsed(blob: bytes) -> Mapping[str, bytes]:
    try:
        return parse_directives(blob)
    except DirectiveError:
        return {}


@given(st.dictionaries(st.from_regex(r"\A[a-z-]{1,9}\Z"), st.binary(max_size=20), max_size=9))
def test_directives_come_back_as_they_were(parts: dict[str, bytes]) -> None:
    assert parse_directives(token(parts)) == parts


@pytest.mark.parametrize(
    "blob", [b"a=1,a=2", b"a=1,A=2", b"a", b"a=", b'a="', b'a="\\"', b"a=1 b=2", b"=1", b"\xff=1"]
)
def test_what_is_no_list_of_directives_is_refused(blob: bytes) -> None:
    with pytest.raises(DirectiveError):
        parse_directives(blob)


def test_empty_elements_and_spaces_mean_nothing() -> None:
    assert parse_directives(b' ,\r\n A = "1" , , b=2,\t') == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("piece", [b"\\", b'"', b"a", b"a=", b",", b" ", b'a="', b'\\"'])
def test_a_long_token_costs_no_more_than_its_length(piece: bytes) -> None:
    begun().step((b'a="' + piece * TOKEN_BYTES_MAX)[:TOKEN_BYTES_MAX], KEYS)
    begun().step((piece * TOKEN_BYTES_MAX)[:TOKEN_BYTES_MAX], KEYS)
