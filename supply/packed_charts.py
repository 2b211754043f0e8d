"""The charts as helm packs them: each time the same bytes, of one version, with images by digest.

`python supply/packed_charts.py --out FOLDER --digest operator=sha256:...` writes a .tgz of each.
The digests are those that a registry gave at a push; an image without one keeps its tag. Where helm
is not on PATH it makes none, and says so in a line that begins with SKIPPED.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import artifacthub
import release_notes
import yaml
from archives import archive_of
from release_version import VERSION

ROOT: Final = Path(__file__).parents[1]
CHARTS: Final = ("bookie-operator", "bookie-cluster")
IMAGES: Final = ("bookie", "operator", "repair")


def digest_of(word: str) -> tuple[str, str]:
    """Image and digest of `IMAGE=sha256:...`; a chart with another one could not be installed."""
    image, _equals, digest = word.partition("=")
    if image not in IMAGES or not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        known = ", ".join(IMAGES)
        expected = f"IMAGE=sha256: and 64 hex digits, IMAGE one of {known}"
        raise argparse.ArgumentTypeError(f"found {word!r}, expected {expected}")
    return image, digest


def by_digest(values: str, digests: Mapping[str, str]) -> str:
    """The text of a values.yaml with its images by their digests. `digests`: by image."""
    for image, digest in digests.items():
        values = re.sub(
            rf"(bookie-operator/{image}:{VERSION})(?:@\S+)?", rf"\g<1>@{digest}", values
        )
    operator = digests.get("operator", "")
    return re.sub(r'^(  digest: )""$', rf'\g<1>"{operator}"', values, count=1, flags=re.MULTILINE)


def describe(path: Path, digests: Mapping[str, str], source: str) -> None:
    """Writes into a Chart.yaml what Artifact Hub shows of this release."""
    chart = yaml.safe_load(path.read_text(encoding="utf-8"))
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = release_notes.notes(log, chart["version"])
    shown = artifacthub.annotated(chart, notes, digests, source.rstrip("/"))
    path.write_text(yaml.safe_dump(shown, sort_keys=False, width=100), encoding="utf-8")


def packed(chart: Path, folder: Path) -> Path:
    """What helm makes of it, in `folder`."""
    command = ["helm", "package", str(chart), "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    [made] = folder.glob(f"{chart.name}-*.tgz")
    return made


def same_each_time(archive: bytes, moment: int) -> bytes:
    """Its files, all of one time; helm writes the time of its call."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as found:
        held = {one.name: (found.extractfile(one), one.mode) for one in found.getmembers()}
        files = {name: (file.read(), mode) for name, (file, mode) in held.items() if file}
    return archive_of(files, moment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--digest", type=digest_of, action="append", default=[], metavar="IMAGE=sha256:..."
    )
    parser.add_argument("--source", default="", help="URL of the repository")
    asked = parser.parse_args()
    if shutil.which("helm") is None:
        print("SKIPPED: charts: helm is not on PATH")
        return
    digests = dict(asked.digest)
    if tags := [image for image in IMAGES if image not in digests]:
        print(f"the charts name {', '.join(tags)} by tag: no digest of a registry was given")
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in CHARTS:
        with tempfile.TemporaryDirectory() as folder:
            chart = Path(shutil.copytree(ROOT / "charts" / name, Path(folder) / name))
            values = chart / "values.yaml"
            values.write_text(by_digest(values.read_text(encoding="utf-8"), digests), "utf-8")
            describe(chart / "Chart.yaml", digests, asked.source)
            made = packed(chart, Path(folder))
            (asked.out / made.name).write_bytes(same_each_time(made.read_bytes(), moment))
            print(f"{asked.out / made.name}")


if __name__ == "__main__":
    main()
