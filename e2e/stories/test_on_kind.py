"""docs/kubernetes.md, *On kind*, followed as it is written, in a namespace of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.operator import Operator
from harness.reader import ALL_SERVE, Reader, commands_of
from harness.settings import ROOT
from harness.story import Story


@pytest.fixture
def reader(operator: Operator, bare_story: Story, tmp_path: Path) -> Iterator[Reader]:
    """Someone with a shell whose kubectl works in the story's namespace."""
    operator.remove()
    reader = Reader(bare_story, tmp_path)
    yield reader
    reader.give_back()
    operator.remove()


@pytest.mark.story("a", "docs/kubernetes.md on kind, line by line")
def test_the_page_holds(reader: Reader, bare_story: Story) -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    lines = commands_of(text, "### On kind")
    assert any(ALL_SERVE in line for line in lines)
    for line in lines:
        reader.follow(line)
    claims = bare_story.kube.items("pvc")
    assert any("bookie-2" in claim["metadata"]["name"] for claim in claims), "volumes stay"
