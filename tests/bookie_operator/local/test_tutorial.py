"""docs/tutorial.md, followed as it is written, by somebody with a shell of their own.

What the page says that a command prints is held against what it prints, word by word; numbers,
folders and keys are everybody's own.
"""

from collections.abc import Iterator
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from bookie.metadata.embedded import free_port
from page_shell import Shell, begun_of, steps_of
from pages import ROOT

PORT = "8088"
TOUR_S = 900

pytestmark = [pytest.mark.process, pytest.mark.timeout(TOUR_S)]


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("tutorial"))
    yield shell
    shell.run("bookie-operator local down --dir fleet")
    shell.close()


def test_the_tutorial_holds(shell: Shell) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    port = str(free_port())
    for step in steps_of(text)[len(begun_of(text)) :]:
        code, printed = shell.run(step.command.replace(PORT, port))
        assert code == 0, f"{step.command}: {printed}"
        assert not step.lacks(printed), f"{step.command}: {printed}"
        if " local page " in step.command:
            browser = build_opener(HTTPCookieProcessor())  # the key becomes a cookie
            with browser.open(printed.strip()) as page:
                assert b"bookie-3" in page.read()
