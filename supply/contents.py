"""What an intruder could use in a built image: compilers, installers, shells, set-uid files.

`python supply/contents.py IMAGE...` prints what was found in each, and ends with 1 where there is
something that the image must not have.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from image_files import exported, members, part_of

PROGRAMS: Final = {
    "compilers": r"(?!ld\.so)([a-z0-9_]+-linux-gnu-)?(gcc|g\+\+|cc|c\+\+|cpp|cc1|cc1plus|clang"
    r"(\+\+)?|tcc|as|ld)(-\d[\w.]*|\.(bfd|gold|lld))?|make|gmake|cmake|javac|rustc|cargo|go|gdb",
    "installers": r"apt(-\w+)?|dpkg(-\w+)?|pip[\d.]*|easy_install[-\d.]*|conda|npm|yarn",
    "fetchers": r"curl|wget|nc(\.\w+)?|ncat|socat|ssh|scp|telnet|ftp",
    "interpreters": r"perl[\d.]*|ruby[\d.]*|lua[\d.]*|php[\d.]*|node",
    "shells": r"sh|dash|bash|rbash|zsh|ksh|ash|busybox|csh|tcsh|fish",
}
"""Names of programs, by what they are good for."""
LIBRARIES: Final = re.compile(r"(.*/)?(ensurepip|site-packages/pip|dist-packages/pip)/__init__\.py")
FOLDERS: Final = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")
NEEDED: Final = {
    "bookie": {"sh", "dash"},
    "operator": {"sh", "dash"},
    "repair": {"sh", "dash", "bash"},
}
"""Shells: the entry point is a script, and Spark starts its JVM by scripts for bash."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found, by what it is good for."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def forbidden(self, image: str) -> dict[str, list[str]]:
        """What an image of this name must not have."""
        found = {kind: list(paths) for kind, paths in self.found.items() if kind != "shells"}
        extra = [
            p for p in self.found.get("shells", ()) if PurePosixPath(p).name not in needed(image)
        ]
        return found | ({"shells": extra} if extra else {})


def needed(image: str) -> set[str]:
    name = part_of(image)
    if name not in NEEDED:
        raise ValueError(f"{image}: its name is {name!r}, expected one of {', '.join(NEEDED)}")
    return NEEDED[name]


def look(files: Iterable[tuple[str, int]]) -> Contents:
    """`files`: path and mode of everything but folders."""
    found: dict[str, list[str]] = {}
    for path, mode in files:
        for kind in kinds_of(path.removeprefix("./").lstrip("/"), mode):
            found.setdefault(kind, []).append(path)
    return Contents({kind: sorted(paths) for kind, paths in sorted(found.items())})


def kinds_of(path: str, mode: int) -> list[str]:
    folder, _slash, name = path.rpartition("/")
    is_program = folder in FOLDERS or folder.endswith("/bin")
    found = [k for k, pattern in PROGRAMS.items() if is_program and re.fullmatch(pattern, name)]
    if LIBRARIES.fullmatch(path):
        found.append("installers")
    return [*found, *(["set-uid files"] if mode & 0o6000 else [])]


def look_into(image: str) -> Contents:
    with exported(image) as archive:
        return look(
            (member.name, member.mode if member.isfile() else 0)
            for member, _content in members(archive)
            if not member.isdir()
        )


def main(images: list[str]) -> int:
    is_bad = False
    for image in images:
        contents = look_into(image)
        for kind, paths in contents.found.items():
            print(f"{image}: {kind}: {', '.join(paths)}")
        for kind, paths in contents.forbidden(image).items():
            is_bad = True
            print(f"{image}: must have no {kind}, found {', '.join(paths)}", file=sys.stderr)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
