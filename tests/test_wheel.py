"""What is installed: the product whole, the test kit not at all, and each time the same bytes."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from code_lines import ROOT, SOURCES
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import text_of

KIT = "bookie/testing/"
PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKED: Final = (
    *(one.strip("/") for one in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]),
    "pyproject.toml",
    ".gitignore",
)
EXTRAS: Final[dict[str, list[str]]] = PYPROJECT["project"]["optional-dependencies"]
USERS: Final = sorted(EXTRAS.keys() - {"dev"})
BARE: Final = ("bookie_operator.kubectl.completion", "bookie.cli.audit", "bookie.client.writer")
"""What there is without an extra: the plugin, a command of a client, a client."""


def copied(folder: Path, *, changed_at: int) -> Path:
    """What the packages are made of, as another clone has it: other times, nothing of git's."""
    for name in PACKED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, target)
    for path in folder.rglob("*"):
        os.utime(path, (changed_at, changed_at))
    return folder


def build(tree: Path, out: Path, *kinds: str) -> dict[str, bytes]:
    """Name and bytes of what hatchling makes of the tree, without a network."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    command += [word for kind in kinds for word in ("-t", kind)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1764249600"}
    subprocess.run(command, cwd=tree, check=True, capture_output=True, env=environment)
    return {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist of the tree as it is."""
    out = tmp_path_factory.mktemp("packages")
    build(ROOT, out)
    return out


@pytest.fixture(scope="module")
def installed(packages: Path) -> frozenset[str]:
    """Files of the wheel."""
    [wheel] = packages.glob("*.whl")
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


def test_type_checkers_of_others_see_our_types(installed: frozenset[str]) -> None:
    assert {"bookie/py.typed", "bookie_operator/py.typed"} <= installed


def test_another_clone_at_another_time_makes_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    tree = copied(tmp_path / "clone", changed_at=1_000_000_000)
    expected = {path.name: path.read_bytes() for path in packages.iterdir()}
    assert build(tree, tmp_path / "out") == expected


def test_the_sdist_alone_makes_the_same_wheel(packages: Path, tmp_path: Path) -> None:
    [sdist], [wheel] = packages.glob("*.tar.gz"), packages.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [tree] = tmp_path.iterdir()
    assert build(tree, tmp_path / "out", "wheel") == {wheel.name: wheel.read_bytes()}


def needed_by(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


@pytest.mark.parametrize("program", BARE)
def test_a_program_that_needs_no_extra_imports_nothing_of_one(program: str) -> None:
    command = f"import sys, {program}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", command], check=True, capture_output=True, text=True
    )
    makers = packages_distributions()
    imported = {canonicalize_name(d) for m in done.stdout.split() for d in makers.get(m, ())}
    of_extras = needed_by([one for extra in USERS for one in EXTRAS[extra]])
    common = {"bookie-operator", *needed_by(PYPROJECT["project"]["dependencies"])}
    assert imported and imported & of_extras - common == set()


def test_the_page_has_every_extra() -> None:
    page = text_of(ROOT / "docs/packages.md")
    assert [name for name in EXTRAS if f"| `{name}` |" not in page] == []
