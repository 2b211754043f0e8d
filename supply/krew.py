"""The manifest by which krew installs the plugin: `kubectl krew install --manifest=bookie.yaml`.

`python supply/krew.py --source URL FOLDER` writes FOLDER/bookie.yaml, with the sums of the archives
that lie there (`supply/single_file.py`). They are to be had where GitHub has the files of a
release: URL/releases/download/vVERSION/FILE.
"""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from release_version import version
from single_file import NAME, PLATFORMS, PYTHONS

PLUGIN: Final = "bookie"
NOWHERE: Final = "https://repository.invalid"
"""Of a trial that names no repository: a reserved name, so nobody can be sent anywhere."""
CAVEATS: Final = f"""\
Needs Python {PYTHONS[0]} to {PYTHONS[-1]} as python3 on PATH; on Linux glibc 2.28 or newer.
It unpacks itself into ~/.shiv when it is called for the first time.
Completion on Tab comes with the Python package alone.
"""
DESCRIPTION: Final = """\
Shows BookieClusters of the bookie-operator as trees: conditions, bookies and their disks, what the
operator is refused and why, past incidents, and what a person can do. Asks for repairs, audits,
scrubs, restarts and replaced disks, approves what waits for a person, waits until limbo is gone.
"""


def manifest(release: str, source: str, sums: Mapping[str, str]) -> dict[str, Any]:
    """`sums`: SHA-256 of the archive of each platform, such as linux-amd64."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{release}",
            "homepage": source,
            "shortDescription": "Status and tasks of bookies without a journal",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {
                        "matchLabels": dict(zip(("os", "arch"), one.split("-"), strict=True))
                    },
                    "uri": f"{source}/releases/download/v{release}/{NAME}-{one}.tar.gz",
                    "sha256": digest,
                    "bin": NAME,
                    "files": [{"from": name, "to": "."} for name in (NAME, "LICENSE")],
                }
                for one, digest in sums.items()
            ],
        },
    }


def sums_of(folder: Path) -> dict[str, str]:
    """Of the archives that lie there."""
    paths = {one: folder / f"{NAME}-{one}.tar.gz" for one in PLATFORMS}
    return {
        one: hashlib.sha256(path.read_bytes()).hexdigest()
        for one, path in paths.items()
        if path.exists()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default="")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    made = manifest(version(), (asked.source or NOWHERE).rstrip("/"), sums_of(asked.folder))
    path = asked.folder / f"{PLUGIN}.yaml"
    path.write_text(yaml.safe_dump(made, sort_keys=False, width=100), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
