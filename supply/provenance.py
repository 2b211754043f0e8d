"""How each image was made: an in-toto statement with SLSA's provenance, version 1. Nobody signs it.

`python supply/provenance.py --out FOLDER --label KEY=VALUE... IMAGE...` writes
PART.provenance.json. Without a signature it tells who trusts its origin what a build was made of,
and proves nothing to anybody else.
"""

import argparse
import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from image_files import image_id, part_of

ROOT: Final = Path(__file__).parents[1]
BUILD_TYPE: Final = "https://bookie-operator.dev/build/make-images/v1"
DOCKERFILES: Final = {
    "bookie": "bookie/Dockerfile",
    "operator": "operator/Dockerfile",
    "repair": "bookie/repair.Dockerfile",
}
FILES: Final = (
    "constraints.txt",
    "pyproject.toml",
    "bookie/requirements.py",
    "bookie/slim.sh",
    "bookie/trim.sh",
)


def statement(
    image: str, digest: str, labels: Mapping[str, str], materials: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """`labels`: what the image says of itself, without their prefix."""
    part = part_of(image)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": image, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"dockerfile": DOCKERFILES[part], "labels": dict(labels)},
                "internalParameters": {"machine": platform.machine()},
                "resolvedDependencies": list(materials),
            },
            "runDetails": {
                "builder": {"id": "https://bookie-operator.dev/build/local"},
                "metadata": {"startedOn": labels.get("created", "")},
            },
        },
    }


def materials(part: str, labels: Mapping[str, str], locked: str) -> list[dict[str, Any]]:
    """Source, base, and every locked package with the hash of the wheel that lies in ./wheels, or,
    where none does, with those of which it was one."""
    revision = {
        "uri": f"git+{labels.get('source', 'local')}",
        "digest": {"gitCommit": labels["revision"]},
    }
    base: dict[str, Any] = {"uri": f"docker://{labels['base.name']}"}
    if "base.digest" in labels:
        base["digest"] = {"sha256": labels["base.digest"].removeprefix("sha256:")}
    files = [
        {"uri": name, "digest": {"sha256": sha256(ROOT / name)}}
        for name in (DOCKERFILES[part], *FILES)
    ]
    return [revision, base, *files, *packages(locked, ROOT / "wheels")]


def packages(locked: str, wheels: Path) -> list[dict[str, Any]]:
    by_hash = {sha256(path): path.name for path in sorted(wheels.glob("*.whl"))}
    found: list[dict[str, Any]] = []
    for name, version, hashes in re.findall(
        r"^(\S+?)==(\S+)((?: \\\n    --hash=\S+)+)", locked, re.M
    ):
        known = re.findall(r"sha256:([0-9a-f]{64})", hashes)
        used = [digest for digest in known if digest in by_hash]
        one: dict[str, Any] = {"uri": f"pkg:pypi/{name}@{version}"}
        if len(used) == 1:
            found.append(one | {"name": by_hash[used[0]], "digest": {"sha256": used[0]}})
        else:
            found.append(one | {"annotations": {"oneOf": known}})
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def locked_of(part: str) -> str:
    parts = [part] if part != "repair" else ["bookie", "repair", "java"]
    command = ["python3", str(ROOT / "bookie" / "requirements.py"), *parts, "build"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    built = ROOT / "wheels" / "built.txt"
    own = (
        dict(line.split(maxsplit=1) for line in built.read_text().splitlines())
        if built.exists()
        else {}
    )
    text = made.stdout
    for package, digest in own.items():
        text = text.replace(f"{package} \\\n", f"{package} \\\n    {digest} \\\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--label", action="append", default=[])
    parser.add_argument("images", nargs="+")
    asked = parser.parse_args()
    labels = dict(label.split("=", 1) for label in asked.label)
    asked.out.mkdir(parents=True, exist_ok=True)
    for image in asked.images:
        part = part_of(image)
        made = statement(image, image_id(image), labels, materials(part, labels, locked_of(part)))
        path = asked.out / f"{part}.provenance.json"
        path.write_text(json.dumps(made, indent=1), encoding="utf-8")
        print(
            f"{path}: {len(made['predicate']['buildDefinition']['resolvedDependencies'])} materials"
        )


if __name__ == "__main__":
    main()
