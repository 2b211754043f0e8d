"""Which files name the version of a release, and the step that writes another into all of them.

`python supply/release_version.py 0.2.0` writes it, and makes of what is unreleased in CHANGELOG.md
a section of that version. With `--next` it begins the way to that version, right after the commit
of a release: it records that commit in releases.toml, and leaves the change log alone.
`make version VERSION=0.2.0 [NEXT=1]` makes the generated files as well. Without a version it says
which one each place has. tests/test_release.py holds them in step, and finds a file that names the
version and is not here.
"""

import argparse
import datetime
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import release_notes
import releases

ROOT: Final = Path(__file__).parents[1]
VERSION: Final = r"\d+\.\d+\.\d+"
"""pip, helm, krew and tags of images all take it as it is; of a candidate each has its own form."""
IMAGE: Final = rf"(bookie-operator/(?:bookie|operator|repair):){VERSION}"
PLACES: Final = {
    "pyproject.toml": rf'^(version = "){VERSION}',
    "charts/bookie-operator/Chart.yaml": rf"^((?:appVersion|version): ){VERSION}",
    "charts/bookie-cluster/Chart.yaml": rf"^((?:appVersion|version): ){VERSION}",
    "charts/bookie-cluster/values.yaml": IMAGE,
    "examples/application.yaml": IMAGE,
    "operator/src/bookie_operator/model/cluster.py": IMAGE,
    "operator/src/bookie_operator/model/repair_spec.py": IMAGE,
    "docs/kubernetes.md": rf"(\b(?:TAG=|VERSION=|name tag )){VERSION}",
    "docs/packages.md": rf"(-|VERSION=){VERSION}",
    ".github/ISSUE_TEMPLATE/bug.yml": rf'(placeholder: "|images ){VERSION}',
    "tests/charts/test_operator_chart.py": IMAGE,
}
"""What stands before the version in a file: of each match the first group is kept."""
GENERATED: Final = ("crds/", "charts/bookie-operator/files/", "docs/man/", "docs/reference/")
"""Made of the places by `make crds man reference`."""


def version() -> str:
    """That of this tree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def found() -> Iterator[tuple[str, str]]:
    """Each place, and a version that it has."""
    for name, pattern in PLACES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield name, match[0].removeprefix(match[1])


def written(text: str, pattern: str, new: str) -> str:
    """The text of a place with another version in it."""
    return re.sub(pattern, rf"\g<1>{new}", text, flags=re.MULTILINE)


def write(new: str) -> None:
    """Into every place."""
    for name, pattern in PLACES.items():
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8"), pattern, new), encoding="utf-8")


def close_section(new: str) -> None:
    """Give what is unreleased in the change log this version and the date of today."""
    changes = ROOT / "CHANGELOG.md"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = release_notes.released(changes.read_text(encoding="utf-8"), new, today)
    changes.write_text(text, encoding="utf-8")


def record_release() -> None:
    """The commit that is checked out is the release that the tree names."""
    asked = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True)
    record = releases.RECORD.read_text(encoding="utf-8")
    text = releases.added(record, version(), done.stdout.strip())
    releases.RECORD.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="to write, such as 0.2.0")
    parser.add_argument("--next", action="store_true", help="the tree is on its way to it")
    asked = parser.parse_args()
    if asked.version is None:
        for name, at in sorted(set(found())):
            print(at, name)
        return
    if not re.fullmatch(VERSION, asked.version):
        sys.exit(f"VERSION is {asked.version!r}, expected one such as 0.2.0")
    if asked.next:
        record_release()
    else:
        close_section(asked.version)
    write(asked.version)


if __name__ == "__main__":
    main()
