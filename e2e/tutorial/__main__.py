"""`make tutorial`: docs/tutorial.md, as it is written, in a container with Python, git and no more.

The tests of the page run in an environment that somebody has prepared; this one installs as a
newcomer does, from a clone of what is committed. The transcript is the proof. Exit code 1: a
command failed, or did not print the words that the page shows.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from page_shell import INSTALLS, PROMPT, Shell, Step, steps_of

ROOT: Final = Path(__file__).parents[2]
IMAGE: Final = "bookie-operator/tutorial:dev"
IMAGE_FILE: Final = """
ARG DEBIAN
FROM $DEBIAN
RUN apt-get update -q && apt-get install -y -q --no-install-recommends \
    python3 python3-venv git ca-certificates
RUN git config --system safe.directory '*' && useradd --create-home you
USER you
WORKDIR /home/you
"""
CLONED: Final = "/repository.git bookie-operator"
"""In place of `<this repository>`."""
CERTIFICATES: Final = "/etc/ssl/certs"
"""The machine's own: packages come to the container from where they come to the machine."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e/tutorial", description=__doc__)
    parser.add_argument("--debian", default="debian:bookworm-slim", help="the image to begin with")
    parser.add_argument("--log", type=Path, required=True, help="where the transcript goes")
    arguments = parser.parse_args()
    build = ["docker", "build", "-q", "--network", "host", "--build-arg"]
    build += [f"DEBIAN={arguments.debian}", "-t", IMAGE, "-"]
    subprocess.run(build, input=IMAGE_FILE, text=True, check=True, stdout=subprocess.DEVNULL)
    arguments.log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, arguments.log.open("w") as log:
        clone = Path(folder) / "repository.git"
        subprocess.run(["git", "clone", "-q", "--bare", ROOT, clone], check=True)
        Path(folder).chmod(0o755)
        for line in transcript(container(clone)):
            print(line, flush=True)
            log.write(line + "\n")
    return int(line.startswith("FAILED"))


def container(clone: Path) -> list[str]:
    """The command of a shell in it."""
    mounted = [f"--volume={clone}:/repository.git:ro", f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"]
    started = ["docker", "run", "--rm", "-i", "--network=host", "--env=PIP_CERT"]
    return [*started, *mounted, IMAGE, "bash"]


def transcript(shell_command: list[str]) -> Iterator[str]:
    """Line by line: what was given, what it printed, and at the end whether the page holds."""
    steps = steps_of((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    shell, began = Shell(ROOT, command=shell_command), time.monotonic()
    revision = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    yield f"docs/tutorial.md of revision {revision[:12]}, {datetime.now(UTC):%Y-%m-%d}"
    yield f"in a container with {shell.run('python3 --version')[1].strip()}, git, and nothing else"
    wrong = ""
    for step in steps:
        yield PROMPT + step.command
        code, printed = shell.run(step.command.replace("<this repository>", CLONED))
        # What pip prints names where this machine's packages come from.
        yield from [] if step.command.startswith(INSTALLS) else printed.splitlines()
        if wrong := _what_is_wrong(step, code, printed):
            break
    shell.close()
    end = f"FAILED: {wrong}" if wrong else f"all {len(steps)} commands did what the page says"
    yield f"{end}, in {time.monotonic() - began:.0f} s"


def _what_is_wrong(step: Step, code: int, printed: str) -> str:
    if code:
        return f"exit code {code}: {printed[-2000:]}"
    if lacking := step.lacks(printed):
        return f"it did not print {', '.join(sorted(lacking))}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
