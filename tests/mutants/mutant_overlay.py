"""A copy of the product's sources in a temporary folder, which a check imports instead of them."""

import contextlib
import os
import shutil
import tomllib
from collections.abc import Iterator
from compileall import compile_dir
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

from mutant import Mutant

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
CHECKED_HASH: Final = PycInvalidationMode.CHECKED_HASH
SOURCES: Final = ("operator/src", "bookie/src")


class StaleMutantError(Exception):
    """The code has changed under a mutant's snippet."""


class Overlay:
    """One copy of both source trees; one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        """Copies the sources. Byte code is made anew, to be used only for the very text that it was
        made of: two versions of a file may have the same size and second."""
        self.folder = folder.resolve()
        for source in SOURCES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, self.folder / source, ignore=ignored)
            compile_dir(self.folder / source, quiet=1, invalidation_mode=CHECKED_HASH)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """With the patches applied; StaleMutantError when one does not fit any more."""
        before: dict[Path, str] = {}
        try:
            for patch in mutant.patches:
                path = self.folder / patch.file
                text = path.read_text(encoding="utf-8")
                before.setdefault(path, text)
                path.write_text(replaced_once(text, patch.old, patch.new, at=patch.file))
            yield
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """For a check's process and all it starts: the copy first."""
        paths = [*(str(self.folder / source) for source in SOURCES), str(HERE)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def pytest_path(self) -> str:
        """pytest's `pythonpath` of pyproject.toml, the copy in the place of the sources."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        paths = project["tool"]["pytest"]["ini_options"]["pythonpath"]
        return " ".join(str(self.folder / path) if path in SOURCES else path for path in paths)


def check_fit(mutant: Mutant) -> None:
    """StaleMutantError when a patch does not fit the sources of today."""
    for patch in mutant.patches:
        text = (ROOT / patch.file).read_text(encoding="utf-8")
        replaced_once(text, patch.old, patch.new, at=patch.file)


def replaced_once(text: str, old: str, new: str, *, at: str) -> str:
    """`text` with `old`, which must stand there exactly once, replaced."""
    found = text.count(old)
    if found != 1:
        raise StaleMutantError(
            f"mutant is stale: its snippet stands {found} times in {at}, expected once; adapt it "
            f"to the code of today:\n{old}"
        )
    assert old != new
    return text.replace(old, new)
