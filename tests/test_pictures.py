"""The drawings of docs/pictures: plain files, readable on light and on dark paper."""

import re
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from built_site import Addresses
from pages import ROOT, text_of
from site_hooks import on_page_content

PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {f"{SVG}{name}" for name in ("svg", "title", "desc", "style", "text", "rect", "path")}
PALETTE = re.compile(r"\.picture \{ (--[^}]+)\}")
PAPERS = ("paper", "box", "mem", "disk")
INKS = ("ink", "soft", "good", "warn")

each_picture = pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)


def style_of(picture: Path) -> str:
    return str(ElementTree.parse(picture).getroot().findtext(f"{SVG}style"))


def palettes(style: str) -> list[dict[str, str]]:
    """Colours by name: light and dark by the browser's wish, then by the site's."""
    return [dict(re.findall(r"--(\w+):(#\w{6})", found)) for found in PALETTE.findall(style)]


def light(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@each_picture
def test_a_drawing_is_shapes_and_words_and_says_what_it_shows(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert {one.tag for one in root.iter()} <= DRAWN
    assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
    assert len(list(root.iter(f"{SVG}text"))) > 5


@each_picture
def test_a_drawing_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    found = Addresses(text)
    assert not found.loads and not found.links and "url(" not in text and "@import" not in text


@each_picture
def test_words_can_be_read_on_light_and_on_dark_paper(picture: Path) -> None:
    found = palettes(style_of(picture))
    assert len(found) == 4 and found[0] == found[2] and found[1] == found[3] != found[0]
    for colours in found:
        pairs = product(INKS, PAPERS)
        assert min(contrast(colours[ink], colours[paper]) for ink, paper in pairs) >= 4.5


def test_all_drawings_have_one_style() -> None:
    assert len({style_of(picture) for picture in PICTURES}) == 1


@each_picture
def test_a_drawing_is_on_the_page_that_explains_it(picture: Path) -> None:
    assert f"](pictures/{picture.name})" in text_of(ROOT / "docs/concepts.md")


def test_on_the_site_a_drawing_is_part_of_its_page() -> None:
    page = '<p><img alt="a" src="pictures/boot.svg" /> <img alt="b" src="plot.svg" /></p>'
    assert on_page_content(page).startswith("<p><svg ") and "plot.svg" in on_page_content(page)
