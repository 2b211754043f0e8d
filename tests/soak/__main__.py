"""`make soak MINUTES=n`: real processes, real faults, every acknowledged entry checked.

Exit codes: 0 nothing found, 1 anything lost, wrong, stuck or gone, 130 interrupted.
"""

import argparse
import asyncio
import logging
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bookie.testing.figures import source, tell
from fault_plan import Kind
from small_disks import can_mount, enter, is_inside
from soak_bookies import SoakError
from soak_report import figures, last_line
from soak_run import Options, Soak

INTERRUPTED: Final = 130
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FINDINGS_SHOWN: Final = 10
SEEDS: Final = 1_000_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults go on")
    parser.add_argument("--seed", type=int, help="of plan and load; default: a random one")
    parser.add_argument("--json", type=Path, default=Path("build/proof/soak.json"))
    parser.add_argument("--work", type=Path, help="folder of all processes; default: a new one")
    parser.add_argument("--no-small-disks", action="store_true", help="leave disk-full out")
    options = parser.parse_args()
    work: Path | None = options.work
    if work is not None and work.exists() and any(work.iterdir()):
        parser.error(f"{work} is not empty: name a new folder, this one may be evidence")
    return options


def repeat_command(seed: int, minutes: float) -> str:
    return f"make soak MINUTES={minutes:g} SEED={seed}"


async def run(soak: Soak) -> bool:
    """True when nothing was found. A SIGTERM ends it as a Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await soak.run()
    except SoakError as error:
        print(f"soak: {error}", flush=True)
        return False
    return not soak.findings.total


def report(soak: Soak, path: Path, *, of: Mapping[str, str]) -> None:
    options, tally, load, findings = soak.options, soak.tally, soak.load, soak.findings
    minutes, seed = options.minutes, options.seed
    tell(
        repeat_command(seed, minutes),
        figures(tally, load, findings, minutes=minutes, seed=seed, modes=soak.modes),
        path=path,
        line=last_line(tally, load, findings, minutes=minutes, seed=seed),
        of=of,
    )


def main() -> None:
    options = arguments()
    has_small_disks = not options.no_small_disks and can_mount()
    if has_small_disks and not is_inside():
        enter([sys.executable, *sys.argv])
    work = (options.work or Path(tempfile.mkdtemp(prefix="soak-"))).absolute()
    work.mkdir(parents=True, exist_ok=True)
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    of = source()
    soak = Soak(Options(options.minutes, seed, work, has_small_disks))
    if not has_small_disks:
        why = "not wanted" if options.no_small_disks else "no tmpfs can be mounted here"
        soak.tally.left_out.append(f"{Kind.DISK_FULL} ({why})")
    # What client and repair say belongs to the logs, not between the lines of progress.
    logging.basicConfig(filename=work / "soak.log", level="INFO", format=LOG_FORMAT)
    print(f"soak: seed {seed}, bookies {', '.join(soak.modes)}, work folder {work}", flush=True)
    try:
        is_good = asyncio.run(run(soak))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"soak: interrupted; all processes were ended, their logs are in {work}")
        raise SystemExit(INTERRUPTED) from None
    soak.end_small_disks(keep=not is_good)
    if is_good:
        shutil.rmtree(work)
    else:
        for words in soak.findings.words[:FINDINGS_SHOWN]:
            print(f"soak: {words}")
        print(f"soak: logs and disks are in {work}; the same plan again: ", end="")
        print(repeat_command(seed, options.minutes))
    report(soak, options.json, of=of)
    raise SystemExit(0 if is_good else 1)


if __name__ == "__main__":
    main()
