"""`make test-upgrade`: a fleet of the release before goes over to this tree's programs, and back.

The release's programs are built of its commit (supply/releases.py). Under the stock Java client's
writes the fleet rolls from release to release one bookie at a time, with a crash while both serve
side by side; then back, the same way; then it is stopped whole, one bookie by SIGKILL, and started
as this tree's. After each the clients of both releases read everything, and the judge asks every
bookie for its copies. With --short the way back is a stop of the whole fleet. Exit code 0: all was
so, or SKIPPED in a clone without the release's commit; 1: something was not so, or a command
failed.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import release_version
import releases
from bookie.testing.apache import NoToolsError
from bookie.testing.figures import tell
from judge_fleet import MODES, Document, Fleet, FleetError
from judge_java import build
from upgrade_sides import Side
from upgrade_story import ClaimError, Story

SEEDS: Final = 1_000_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="e2e/upgrade", description=__doc__)
    parser.add_argument("--mode", action="append", choices=sorted(MODES), help="default: each")
    parser.add_argument("--short", action="store_true", help="back at a stop, not in a roll")
    parser.add_argument("--seed", type=int, help="of the judge's writes; default: a random one")
    parser.add_argument("--json", type=Path, default=Path("build/proof/upgrade.json"))
    return parser.parse_args()


def classpath() -> str | None:
    """Of the judge; without Maven or a JDK only the clients of both releases look."""
    try:
        return build().classpath()
    except NoToolsError as error:
        print(f"SKIPPED: the judge of the upgrade: {error}")
        return None


def told_of(story: Story, *, is_short: bool) -> Document:
    try:
        return {**story.run(is_short=is_short), "exit_code": 0}
    except (ClaimError, FleetError, AssertionError, subprocess.TimeoutExpired) as error:
        story.say(str(error))
        return {"mode": story.now.fleet.mode, "exit_code": 1, "failed": str(error)}
    finally:
        for side in (story.before, story.now):
            side.fleet.end_operator()
        story.now.fleet.down()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nobody is left behind
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    old, new = releases.newest(), release_version.version()
    try:
        python = str(releases.python(old))
    except releases.NoHistoryError as error:
        print(f"SKIPPED: an upgrade from the release before: {error}")
        return 0
    judge = classpath()
    work, began, told = Path(tempfile.mkdtemp(prefix="upgrade-")), time.monotonic(), []
    print(f"upgrade: {old} to {new} and back, seed {seed}, work folder {work}", flush=True)
    for mode in options.mode or MODES:
        folder = work / mode
        folder.mkdir()
        programs = Fleet(folder, mode, python=python, environment=releases.environment())
        before = Side(old, programs)
        story = Story(before, Side(new, Fleet(folder, mode)), judge, seed)
        told.append(told_of(story, is_short=options.short))
    is_good = all(one["exit_code"] == 0 for one in told)
    if is_good:
        shutil.rmtree(work)
    figures = {
        "date": datetime.now(UTC).date().isoformat(), "seed": seed, "before": old, "now": new,
        "commit_before": releases.releases()[old], "seconds": round(time.monotonic() - began),
        "runs": told,
    }  # fmt: skip
    good = sum(one["exit_code"] == 0 for one in told)
    line = f"upgrade: {old} to {new}, back, and forward: {good} of {len(told)} modes whole"
    tell(f"make test-upgrade SEED={seed}", figures, path=options.json, line=line)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
