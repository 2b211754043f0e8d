"""Cookies in BookKeeper's text format."""

from dataclasses import replace

import pytest
from bookie.errors import BadRequestError, MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.cookie import decode_cookie, encode_cookie
from bookie.metadata.store import Cookie

COOKIE = Cookie(
    bookie_id=BookieId("bookie-0:3181"),
    journal_dirs=("/data/journal",),
    ledger_dirs=("/data/ledger-0", "/data/ledger-1"),
    instance_id="8cd6a2c1-7a0c-4a0e-9a0b-000000000001",
    index_dirs=("/data/index",),
)
TEXT = (
    b"5\n"
    b'bookieHost: "bookie-0:3181"\n'
    b'journalDir: "/data/journal"\n'
    b'ledgerDirs: "2\\t/data/ledger-0\\t/data/ledger-1"\n'
    b'instanceId: "8cd6a2c1-7a0c-4a0e-9a0b-000000000001"\n'
    b'indexDirs: "1\\t/data/index"\n'
)


def test_the_text_is_the_stock_bookies_text() -> None:
    assert encode_cookie(COOKIE) == TEXT
    assert decode_cookie(TEXT) == COOKIE


@pytest.mark.parametrize("layout", [3, 4, 5])
def test_a_cookie_comes_back_in_its_own_layout(layout: int) -> None:
    index_dirs = COOKIE.index_dirs if layout == 5 else ()
    instance_id = COOKIE.instance_id if layout > 3 else ""
    cookie = replace(COOKIE, layout_version=layout, index_dirs=index_dirs, instance_id=instance_id)
    assert decode_cookie(encode_cookie(cookie)) == cookie


@pytest.mark.parametrize(
    "cookie",
    [
        replace(COOKIE, journal_dirs=("/j0", "/j1")),
        replace(COOKIE, ledger_dirs=('/päth with "quotes" and \\',)),
        replace(COOKIE, instance_id="", index_dirs=()),
    ],
)
def test_any_cookie_comes_back(cookie: Cookie) -> None:
    assert decode_cookie(encode_cookie(cookie)) == cookie


def test_a_cookie_with_tabs_as_such_is_read_too() -> None:
    raw = b'4\nbookieHost: "b"\njournalDir: "/j"\nledgerDirs: "1\t/l"\n'
    assert decode_cookie(raw).ledger_dirs == ("/l",)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"2\nb\n/j\n1\t/l\n",
        b"6\n",
        b"3\nb\n",
        b"5\nbookieHost: ",
        b'5\nbookieHost: "b"\n',
        b'5\nbookieHost: "b"\njournalDir: "/j"\nledgerDirs: "2\\t/l"\n',
        b"5\n\xff\xfe",
    ],
)
def test_what_is_no_cookie_is_never_taken_for_one(raw: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="cookie"):
        decode_cookie(raw)


@pytest.mark.parametrize(
    "cookie",
    [
        replace(COOKIE, journal_dirs=("/a,b",)),
        replace(COOKIE, ledger_dirs=("/a\tb",)),
        replace(COOKIE, ledger_dirs=("",)),
        replace(COOKIE, layout_version=2),
    ],
)
def test_a_cookie_that_would_read_differently_is_not_written(cookie: Cookie) -> None:
    with pytest.raises(BadRequestError):
        encode_cookie(cookie)
