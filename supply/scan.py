"""What is known against the packages of the images, and what bandit has against our own code.

`python supply/scan.py --base IMAGE` ends with 1 where there is an advisory, a finding, or an update
of Debian's that the base image lacks. What could not be judged it says in lines that begin with
SKIPPED: an index that answers without advisories clears nobody.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("bookie", "operator", "repair", "build", "java")
SOURCES: Final = ("bookie/src", "operator/src")


def advisories(audit: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Sentences about packages with advisories, and names of those that nobody could judge."""
    packages: Sequence[Mapping[str, Any]] = audit["dependencies"]
    bad = [
        f"{one['name']} {one['version']}: {found['id']}, fixed in {found['fix_versions'] or 'none'}"
        for one in packages
        for found in one.get("vulns", ())
    ]
    return bad, [str(one["name"]) for one in packages if "skip_reason" in one]


def audit_packages() -> tuple[list[str], list[str]]:
    locked = subprocess.run(
        [sys.executable, "bookie/requirements.py", *PARTS],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(locked)
        file.flush()
        ran = subprocess.run(
            [sys.executable, "-m", "pip_audit", "-r", file.name, "--require-hashes",
             "--disable-pip", "--format", "json", "--progress-spinner", "off"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    try:
        return advisories(json.loads(ran.stdout))
    except ValueError:
        why = (ran.stderr.strip().splitlines() or ["no answer"])[-1]
        return [], [f"all of them ({why})"]


def updates(simulated: str) -> list[str]:
    """Sentences about packages that `apt-get --simulate upgrade` would replace."""
    found = re.findall(r"^Inst (\S+) \[(\S+)\] \((\S+) (.*?) \[", simulated, re.M)
    return [
        f"the base image has {name} {old}, and {where} has {new}" for name, old, new, where in found
    ]


def judge_base(image: str) -> tuple[list[str], str]:
    """What the base image lacks, and why nobody could say; empty = somebody could."""
    words = "apt-get update -qq >/dev/null && apt-get --simulate -qq upgrade"
    command = ["docker", "run", "--rm", "--network=host", "--user=0", image, "sh", "-c", words]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return [], str(error)
    if ran.returncode:
        return [], (ran.stderr.strip().splitlines() or ["no answer"])[-1]
    return updates(ran.stdout), ""


def judge_code() -> list[str]:
    command = [
        sys.executable,
        "-m",
        "bandit",
        "-q",
        "-ll",
        "-c",
        "pyproject.toml",
        "-f",
        "json",
        "-r",
        *SOURCES,
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: Sequence[Mapping[str, Any]] = json.loads(ran.stdout)["results"]
    return [
        f"{one['filename']}:{one['line_number']}: {one['test_id']} {one['issue_text']}"
        for one in found
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="the image that ours are built from")
    asked = parser.parse_args()
    known, unjudged = audit_packages()
    old, why = judge_base(asked.base)
    own = judge_code()
    for sentence in (*known, *old, *own):
        print(sentence, file=sys.stderr)
    if unjudged:
        names = ", ".join(unjudged)
        print(
            f"SKIPPED: advisories of {len(unjudged)} packages, which the index has none of: {names}"
        )
    if why:
        print(f"SKIPPED: updates of Debian's packages in {asked.base}: {why}")
    print(f"{len(known)} advisories, {len(old)} updates, {len(own)} findings in our own code")
    return int(bool(known or old or own))


if __name__ == "__main__":
    sys.exit(main())
