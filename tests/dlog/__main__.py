"""`make test-dlog`: logs of Apache DistributedLog whose ledgers lie on four of our bookies.

Writers and readers are programs on DistributedLog's own library, and are judged by what they noted.
Exit codes: 0 everything held, or SKIPPED where Maven or a JDK is missing and nobody said --require;
1 anything else.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.apache import ApacheError, NoToolsError
from bookie.testing.figures import tell
from dlog_faults import faults
from dlog_stories import STORIES, Story
from dlog_world import BUILD, DlogError, World
from judge_fleet import MODES, TLS_MODES, FleetError
from pulsar_claims import Document, Outcome
from pulsar_copies import CopiesError
from pulsar_fleet import APACHE, FLEETS, OURS, end, fleet_of
from pulsar_planted import Plant, chosen, report
from pulsar_plants import ANSWERS_OLDER, DENIES_TO_RECOVERY, FENCES_NOBODY, FORGETS
from pulsar_tls import Secured

VERSION: Final = "4.18.0"
SEEDS: Final = 1_000_000
TLS_OFF: Final = "Off"
EVERY: Final = (*STORIES, Story("faults", faults))
ERRORS: Final = (
    DlogError,
    CopiesError,
    FleetError,
    AssertionError,
    LookupError,
    subprocess.TimeoutExpired,
)
"""What ends a story: each is of something that should be there and is not."""
PLANTS: Final = (
    Plant(None, ("written", "restarted", "fenced")),
    Plant(FORGETS, ("written",), "reads each record once in order"),
    Plant(ANSWERS_OLDER, ("written",), "reads each record once in order"),
    Plant(DENIES_TO_RECOVERY, ("restarted",), "every acknowledged record is read"),
    Plant(FENCES_NOBODY, ("fenced",), "a writer that is fenced"),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/dlog", description=__doc__)
    parser.add_argument("--fleet", choices=FLEETS, default=OURS, help="whose bookies")
    parser.add_argument("--mode", choices=sorted(MODES), default="memory", help="of our bookies")
    parser.add_argument("--tls", choices=TLS_MODES, default=TLS_OFF, help="of our fleet")
    parser.add_argument("--long", action="store_true", help="all stories, three rounds of faults")
    parser.add_argument("--planted", action="store_true", help="bugs that must turn it red")
    parser.add_argument("--seed", type=int, help="of payloads and faults; default: a random one")
    names = [story.name for story in EVERY]
    parser.add_argument("--only", action="append", choices=names, help="default: every story")
    parser.add_argument("--json", type=Path, default=Path("build/proof/dlog.json"))
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    parser.add_argument("--keep", action="store_true", help="keep folders and logs")
    options = parser.parse_args()
    if options.fleet != OURS and (options.tls != TLS_OFF or options.planted):
        parser.error("--tls and --planted are of our bookies: Apache's are as they are")
    return options


@contextmanager
def standing(
    options: argparse.Namespace,
    classpath: str,
    work: Path,
    seed: int,
    environment: Mapping[str, str] | None,
) -> Iterator[World]:
    """A fleet that is up, with a namespace on it."""
    fleet = fleet_of(
        options.fleet,
        work / "fleet",
        classpath,
        mode=options.mode,
        tls=options.tls,
        environment=environment,
    )
    world = None
    try:
        fleet.up()
        secured = Secured.of(fleet.credentials(), work)
        world = World(
            seed=seed,
            classpath=classpath,
            fleet=fleet,
            zookeeper=fleet.zookeeper,
            folder=work,
            secured=secured,
            is_long=options.long,
        )
        world.bind()
        world.say("the namespace is there")
        yield world
    finally:
        if world is not None:
            world.end()
        fleet.down()


def outcome(
    options: argparse.Namespace,
    classpath: str,
    work: Path,
    seed: int,
    only: tuple[str, ...],
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """One run; what ends a story is a claim that does not hold."""
    world = None
    try:
        with standing(options, classpath, work, seed, environment) as world:
            for story in EVERY:
                is_wanted = options.long or bool(only) or not story.is_long
                if is_wanted and (not only or story.name in only):
                    with world.reported(story.name, *ERRORS):
                        story.act(world)
    except (ApacheError, *ERRORS) as error:
        print(f"test-dlog: {error}")
        return Outcome(error=str(error)) if world is None else world.outcome(str(error))
    return world.outcome()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, end)
    try:
        classpath = BUILD.classpath()
    except NoToolsError as error:
        print(f"SKIPPED: test-dlog: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"test-dlog: {error}")
        return 1
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    work = Path(tempfile.mkdtemp(prefix="test-dlog-"))
    print(
        f"distributedlog {VERSION}: {words_of(options)}, seed {seed}, work folder {work}",
        flush=True,
    )
    if options.planted:
        return planted(options, classpath, work, seed)
    began = time.monotonic()
    found = outcome(options, classpath, work, seed, tuple(options.only or ()))
    again = command(options, seed)
    if found.is_good and not options.keep:
        shutil.rmtree(work)
    else:
        print(f"test-dlog: logs are in {work}; the same again: {again}")
    seconds = round(time.monotonic() - began, 1)
    figures = {**of_options(options, seed), "seconds": seconds, "claims": len(found.claims)}
    figures |= {
        "stories": found.figures,
        "failed": [f"{claim.words}: {claim.detail}" for claim in found.failed],
    }
    line = f"distributedlog {VERSION} on {words_of(options)}: {seconds:.0f} s"
    tell(again, figures, path=options.json, line=line)
    print(found.counted)
    return 0 if found.is_good else 1


def planted(options: argparse.Namespace, classpath: str, work: Path, seed: int) -> int:
    def run(folder: Path, only: tuple[str, ...], environment: Mapping[str, str]) -> Outcome:
        return outcome(options, classpath, folder, seed, only, environment)

    words = f"{command(options, seed)} PLANTED=1"
    plants = chosen(PLANTS, options.only or ())
    more = of_options(options, seed)
    return 0 if report(words, plants, work, run, options.json, more) else 1


def of_options(options: argparse.Namespace, seed: int) -> Document:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "distributedlog": VERSION,
        "fleet": options.fleet,
        "mode": options.mode,
        "tls": options.tls,
        "is_long": options.long,
        "seed": seed,
    }


def words_of(options: argparse.Namespace) -> str:
    mode = f", {options.mode}, TLS {options.tls}" if options.fleet == OURS else ""
    return f"{options.fleet} bookies{mode}, {'long' if options.long else 'short'}"


def command(options: argparse.Namespace, seed: int) -> str:
    words = {"MODE": options.mode, "TLS": options.tls, "SEED": seed}
    words = words if options.fleet == OURS else {"FLEET": APACHE, "SEED": seed}
    words |= {"LONG": 1} if options.long else {}
    return " ".join(["make test-dlog", *(f"{name}={value}" for name, value in words.items())])


if __name__ == "__main__":
    sys.exit(main())
