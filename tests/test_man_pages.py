"""docs/man is what the programs' help says now, and reads as manual pages."""

import shutil
import subprocess

import click
import pytest
from code_lines import ROOT
from man_pages import PROGRAMS, pages

FOLDER = ROOT / "docs" / "man"
PAGES = dict(pages())


def test_the_pages_are_those_of_the_programs_as_they_are() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert written == PAGES, "run `make man`"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_page_names_the_pages_of_the_commands_below(program: str) -> None:
    name = program.replace(" ", "-")
    for below in PROGRAMS[program].list_commands(click.Context(PROGRAMS[program])):
        assert f"See \\fB{name}-{below}(1)" in PAGES[f"{name}.1"]
        assert f"{name}-{below}.1" in PAGES


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on PATH")
@pytest.mark.parametrize("name", PAGES)
def test_troff_has_nothing_to_say_of_a_page(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-K", "utf-8"],
        input=PAGES[name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
