"""Where a bookie is, by its settings or by a file that comes when it comes."""

import logging
from pathlib import Path

import pytest
from bookie.server.rack import Rack


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/zone-a", "/zone-a"),
        ("/zone-a\n", "/zone-a"),
        ("/region/zone-a", "/region/zone-a"),
        ("", None),
        ("zone-a", None),
        ("/a//b", None),
        ("/" + "a" * 99, None),
        ("/" + "a" * 98, "/" + "a" * 98),
        ("/zone a", None),
    ],
)
def test_the_file_names_the_rack(tmp_path: Path, text: str, expected: str | None) -> None:
    (tmp_path / "rack").write_text(text)
    assert Rack(None, tmp_path / "rack").read() == expected


def test_no_file_and_no_text_is_no_rack(tmp_path: Path) -> None:
    assert Rack(None, tmp_path / "rack").read() is None
    assert Rack(None, tmp_path).read() is None
    (tmp_path / "rack").write_bytes(b"/\xff")
    assert Rack(None, tmp_path / "rack").read() is None


def test_settings_outweigh_the_file(tmp_path: Path) -> None:
    (tmp_path / "rack").write_text("/zone-a")
    assert Rack("/mine", tmp_path / "rack").read() == "/mine"


def test_what_is_no_rack_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rack, file = Rack(None, tmp_path / "rack"), tmp_path / "rack"
    with caplog.at_level(logging.WARNING):
        for text in ("zone-a", "zone-a", "", "zone b"):
            file.write_text(text)
            rack.read()
    assert [record.args[1] for record in caplog.records if record.args] == ["zone-a", "zone b"]
