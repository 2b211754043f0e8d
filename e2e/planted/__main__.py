"""`make e2e-mutants`: stories told with a bug planted in the images, each of which must turn red.

First each story is told without a bug and must pass (`--twins-only` leaves that out). With `--only`
the report keeps its rows of the other stories: each names its revision. Exit codes: 0
every story passed without its bug and failed with it, by the claim that is about it, or SKIPPED
without a kind cluster; 1 anything else.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.figures import code_revision, tell
from harness.kind import missing_tool
from harness.settings import ROOT, Settings
from planted_images import PLANTED, plant
from planted_twins import TWINS, Row, Twin, is_caught, renewed

STORY_S: Final = 2700
WORDS_MAX: Final = 400
"""Of a failure, in the report."""


def told(story: str, *, tag: str, folder: Path) -> tuple[str, str]:
    """Outcome and words of the one story with this letter."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-q", "e2e/stories", f"--junit-xml={report}"]
    words += ["--letter", story]
    environment = {**os.environ, "E2E_TAG": tag, "E2E_BUILD": ""}
    with (folder / f"{story}-{tag}.log").open("w", encoding="utf-8") as log:
        subprocess.run(
            words, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=STORY_S, check=False
        )
    if not report.exists():
        return "no report", ""
    cases = list(ElementTree.parse(report).iter("testcase"))
    if len(cases) != 1:
        return f"{len(cases)} stories of this letter", ""
    for outcome in ("failure", "error", "skipped"):
        found = cases[0].find(outcome)
        if found is not None:
            return outcome, errors_of(f"{found.get('message', '')}\n{found.text or ''}")
    return "passed", ""


def errors_of(text: str) -> str:
    """What failed, without the source around it: that has words of claims that held."""
    first, *lines = text.splitlines() or [""]
    return "\n".join([first, *(line for line in lines if line.startswith("E "))])


def rows(twins: list[Twin], folder: Path, *, twins_only: bool) -> Iterator[Row]:
    for twin in twins:
        row: Row = {"story": twin.story, "bug": twin.bug, "revision": code_revision()}
        row["date"] = datetime.now(UTC).date().isoformat()
        began = time.monotonic()
        if not twins_only:
            row["without_the_bug"], _words = told(twin.story, tag="dev", folder=folder)
        row["images"] = plant(twin.patches, folder / "image")
        outcome, words = told(twin.story, tag=PLANTED, folder=folder)
        row |= {"outcome": outcome, "says": words.strip()[:WORDS_MAX]}
        is_sound = row.get("without_the_bug", "passed") == "passed"
        row["is_caught"] = is_sound and is_caught(twin, outcome, words)
        row["seconds"] = round(time.monotonic() - began)
        verdict = "caught" if row["is_caught"] else "NOT CAUGHT"
        print(f"{verdict}: {twin.story}: {twin.bug}: {outcome}, {row['seconds']} s", flush=True)
        if not row["is_caught"]:
            print(f"  says {row['says']!r}, expected {twin.seen!r}; without the bug it ", end="")
            print(row.get("without_the_bug", "was not told"), flush=True)
        yield row


def rows_of(report: Path) -> list[Row]:
    """None when there is no report yet."""
    if not report.exists():
        return []
    found: list[Row] = json.loads(report.read_text(encoding="utf-8"))["rows"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e-mutants", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("build/proof/e2e-mutants.json"))
    parser.add_argument("--only", action="append", default=[], metavar="LETTER")
    parser.add_argument("--twins-only", action="store_true", help="not without the bug as well")
    options = parser.parse_args()
    if reason := missing_tool(Settings.from_environment()):
        print(f"SKIPPED: e2e-mutants: no kind cluster: {reason}")
        return 0
    twins = [twin for twin in TWINS if not options.only or twin.story in options.only]
    folder = Path(tempfile.mkdtemp(prefix="e2e-mutants-"))
    print(f"e2e-mutants: logs are in {folder}", flush=True)
    found = list(rows(twins, folder, twins_only=options.twins_only))
    shown = renewed(rows_of(options.json) if options.only else [], found)
    caught = sum(row["is_caught"] for row in shown)
    figures = {"planted": len(TWINS), "run": len(shown), "caught": caught, "rows": shown}
    line = f"e2e-mutants: {caught} of {len(shown)} planted bugs turned their story red"
    tell("make e2e-mutants", figures, path=options.json, line=line)
    is_sound = bool(found) and all(row["is_caught"] for row in found)
    if is_sound:
        shutil.rmtree(folder)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
