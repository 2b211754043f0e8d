"""Where clients elsewhere reach a bookie, by its settings or by a file that comes when it comes."""

import logging
from pathlib import Path

import pytest
from bookie.metadata.store import Endpoint
from bookie.server.advertised import Advertised

STOCK = Endpoint("bookie-rpc-advertised", "books.example.org", 31811, "bookie-rpc")
RUN = Endpoint("bookie-run-advertised", "2001:db8::7", 31812, "bookie-run")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stock=books.example.org:31811", (STOCK,)),
        ("run=[2001:db8::7]:31812 stock=books.example.org:31811\n", (STOCK, RUN)),
        ("", ()),
        ("admin=books.example.org:3183", ()),
        ("stock=a:1 stock=b:2", ()),
        ("stock=books.example.org", ()),
        ("stock=books.example.org:0", ()),
        ("stock=books.example.org:65536", ()),
        ("stock=2001:db8::7:31811", ()),
        ("stock=a b:1", ()),
        (f"stock={'a' * 502}:31811 run={'a' * 502}:31812", ()),
    ],
)
def test_the_file_names_the_endpoints(
    tmp_path: Path, text: str, expected: tuple[Endpoint, ...]
) -> None:
    (tmp_path / "advertised").write_text(text)
    assert Advertised({}, tmp_path / "advertised").read() == expected


def test_no_file_is_no_endpoint(tmp_path: Path) -> None:
    assert Advertised({}, tmp_path / "advertised").read() == ()
    (tmp_path / "advertised").write_bytes(b"stock=\xff:1")
    assert Advertised({}, tmp_path / "advertised").read() == ()


def test_settings_outweigh_the_file(tmp_path: Path) -> None:
    (tmp_path / "advertised").write_text("stock=other:1")
    found = Advertised({"stock": "books.example.org:31811"}, tmp_path / "advertised").read()
    assert found == (STOCK,)


def test_what_is_no_address_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "advertised"
    advertised = Advertised({}, file)
    with caplog.at_level(logging.WARNING):
        for text in ("stock=a", "stock=a", "stock=b"):
            file.write_text(text)
            advertised.read()
    assert len(caplog.records) == 2
    assert "found 'a', expected host:port" in caplog.text
