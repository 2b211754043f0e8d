"""`make judge-local MINUTES=n`: a fleet of this machine struck, then judged by the stock client.

The judge writes on both wires while bookies are killed one at a time, a disk is replaced and a
bookie is drained; then the fleet says that it is whole, and the judge reads everything back and
asks every bookie for its own copies. The fleet is under TLS, as it is by default, and the judge
comes with the credentials of an application. Exit codes: 0 whole in each mode, or SKIPPED where
Maven or a JDK is missing and nobody said --require; 1 the judge found anything, or a command
failed.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.apache import ApacheError, NoToolsError
from bookie.testing.figures import tell
from judge_fleet import MODES, TLS_MODES, Fleet, FleetError
from judge_java import Document, build
from judge_story import Run, judged, new_folder

SEEDS: Final = 1_000_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="judge-local", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults, in each mode")
    parser.add_argument("--seed", type=int, help="of plan and load; default: a random one")
    parser.add_argument("--mode", action="append", choices=sorted(MODES), help="default: each")
    parser.add_argument("--tls", choices=TLS_MODES, default=TLS_MODES[0], help="of the fleet")
    parser.add_argument("--json", type=Path, default=Path("build/proof/judge.json"))
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    return parser.parse_args()


def run_mode(fleet: Fleet, *, classpath: str, seed: int, minutes: float) -> Document:
    """What came of it; a run that did not come to its verdict says why."""
    run = Run(fleet, classpath, seed, fleet.mode)
    try:
        fleet.up()
        return judged(run, minutes=minutes)
    except (FleetError, AssertionError, subprocess.TimeoutExpired) as error:
        run.say(str(error))
        told: Document = {"seed": seed, "mode": fleet.mode, "tls": fleet.tls}
        return {**told, "exit_code": 1, "failed": str(error)}
    finally:
        fleet.down()


def summary(told: Sequence[Document], *, seed: int) -> str:
    """The last line."""
    good = [one for one in told if one["exit_code"] == 0]
    struck = sum(sum(one["faults"].values()) for one in good)
    return (
        f"judge-local: {len(good)} of {len(told)} modes whole; {struck} faults, "
        f"{sum(one['acknowledged'] for one in good):,} acknowledged, "
        f"{sum(one['read'] for one in good):,} read back, "
        f"{sum(one['copies_held'] for one in good):,} of "
        f"{sum(one['copies_owed'] for one in good):,} copies held; seed {seed}"
    )


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nobody is left behind
    try:
        classpath = build().classpath()
    except NoToolsError as error:
        print(f"SKIPPED: judge-local: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"judge-local: {error}")
        return 1
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    modes = options.mode or list(MODES)
    work = Path(tempfile.mkdtemp(prefix="judge-local-"))
    print(
        f"judge-local: seed {seed}, modes {', '.join(modes)}, TLS {options.tls}, "
        f"work folder {work}",
        flush=True,
    )
    fleets = (Fleet(new_folder(work, mode), mode, options.tls) for mode in modes)
    told = [
        run_mode(fleet, classpath=classpath, seed=seed, minutes=options.minutes) for fleet in fleets
    ]
    is_good = all(one["exit_code"] == 0 for one in told)
    command = f"make judge-local MINUTES={options.minutes:g} SEED={seed} TLS={options.tls}"
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": options.minutes,
        "seed": seed,
        "runs": told,
    }
    if is_good:
        shutil.rmtree(work)
    else:
        print(f"judge-local: disks, logs and notes are in {work}; the same again: {command}")
    tell(command, figures, path=options.json, line=summary(told, seed=seed))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
