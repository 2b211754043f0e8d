"""What is installed: the product whole, and the test kit not at all."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from code_lines import ROOT, SOURCES

KIT = "bookie/testing/"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Files of the wheel, made without a network from the tree as it is."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


def modules_of(source: Path) -> set[str]:
    return {path.relative_to(source).as_posix() for path in source.rglob("*.py")}


def test_the_wheel_has_every_module_but_the_test_kit(installed: frozenset[str]) -> None:
    modules = set().union(*map(modules_of, SOURCES))
    assert {name for name in installed if name.endswith(".py")} == {
        name for name in modules if not name.startswith(KIT)
    }


def test_manual_pages_go_where_man_looks(installed: frozenset[str]) -> None:
    pages = {name.rpartition("/")[2] for name in installed if "/share/man/man1/" in name}
    assert pages == {path.name for path in (ROOT / "docs" / "man").iterdir()}


def test_nothing_of_the_test_kit_is_installed(installed: frozenset[str]) -> None:
    assert [name for name in installed if name.startswith(KIT)] == []
