"""`make test-pulsar`: a broker of Apache Pulsar whose ledgers lie on four of our bookies.

Topics, compaction, transactions and schemas, over a restart of the broker, then faults under load,
and two bookies killed at once while nobody writes; everything is written and read by Pulsar's own
clients, and judged by what they noted. Exit codes: 0 everything held, or SKIPPED where Maven, a JDK
or the archives are missing and nobody said --require; 1 anything else.
"""

import argparse
import random
import shutil
import signal
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
from judge_fleet import MODES, TLS_MODES, FleetError
from pulsar_broker import Broker, BrokerError
from pulsar_claims import Document, Outcome
from pulsar_copies import CopiesError
from pulsar_faults import faults, restart_broker
from pulsar_fleet import FLEETS, OURS, end, fleet_of
from pulsar_idle import idle_crash
from pulsar_planted import Plant, chosen, report
from pulsar_plants import ANSWERS_OLDER, DENIES_TO_RECOVERY, FORGETS
from pulsar_release import CLIENT, Release, release
from pulsar_stories import STORIES
from pulsar_tls import Secured
from pulsar_world import World

SEEDS: Final = 1_000_000
FAULTS: Final = "faults"
IDLE: Final = "idle"
TLS_OFF: Final = "Off"
WIRES: Final = {"v2": "true", "v3": "false"}
"""By the setting of a broker that chooses between them; v2 is Pulsar's default."""
ERRORS: Final = (BrokerError, CopiesError, FleetError, AssertionError)
"""What ends a story."""
TOPICS: Final = "topics"
PLANTS: Final = (
    Plant(None, (TOPICS, FAULTS)),
    Plant(FORGETS, (TOPICS,), "every acknowledged message is read"),
    Plant(ANSWERS_OLDER, (TOPICS,), "every acknowledged message is read"),
    Plant(DENIES_TO_RECOVERY, (FAULTS,), "every acknowledged message is read"),
)

Environment = Mapping[str, str] | None
"""Of all the fleet's processes; None: this process's own."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/pulsar", description=__doc__)
    parser.add_argument("--fleet", choices=FLEETS, default=OURS, help="whose bookies")
    parser.add_argument("--mode", choices=sorted(MODES), default="memory", help="of our bookies")
    parser.add_argument("--tls", choices=TLS_MODES, default=TLS_OFF, help="of our fleet")
    parser.add_argument("--wire", choices=sorted(WIRES), default="v2", help="of the broker")
    parser.add_argument("--planted", action="store_true", help="bugs that must turn it red")
    parser.add_argument("--seed", type=int, help="of payloads and faults; default: a random one")
    names = [story.name for story in STORIES] + [FAULTS, IDLE]
    parser.add_argument("--only", action="append", choices=names, help="default: every story")
    parser.add_argument("--json", type=Path, default=Path("build/proof/pulsar.json"))
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    parser.add_argument("--keep", action="store_true", help="keep folders and logs")
    options = parser.parse_args()
    if options.fleet != OURS and (options.tls != TLS_OFF or options.planted):
        parser.error("--tls and --planted are of our bookies: Apache's are as they are")
    return options


def run(world: World, only: tuple[str, ...]) -> None:
    """Everything that is wanted; what ends a story is a claim that does not hold."""
    begun = {}
    wanted = [story for story in STORIES if not only or story.name in only]
    for story in wanted:
        with world.reported(story.name, *ERRORS):
            begun[story.name] = story.before(world)
    if wanted:
        began = time.monotonic()
        restart_broker(world)
        world.figures["restart"] = {"seconds": round(time.monotonic() - began, 1)}
    for story in wanted:
        if story.name in begun:
            with world.reported(story.name, *ERRORS):
                story.after(world, begun[story.name])
    if not only or FAULTS in only:
        with world.reported(FAULTS, *ERRORS):
            faults(world)
    if not only or IDLE in only:
        with world.reported(IDLE, *ERRORS):
            idle_crash(world)
    for story in wanted:
        if story.at_last is not None and story.name in begun:
            with world.reported(story.name, *ERRORS):
                story.at_last(world, begun[story.name])


@contextmanager
def standing(
    options: argparse.Namespace, made: Release, work: Path, seed: int, environment: Environment
) -> Iterator[World]:
    """A fleet and a broker on it that are up."""
    fleet = fleet_of(
        options.fleet,
        work / "fleet",
        made.classpath,
        mode=options.mode,
        tls=options.tls,
        environment=environment,
    )
    broker = None
    try:
        fleet.up()
        secured = Secured.of(fleet.credentials(), work)
        settings = secured.broker | {"bookkeeperUseV2WireProtocol": WIRES[options.wire]}
        broker = Broker(made, work / "broker", fleet.zookeeper, settings, secured.flags)
        world = World(
            seed=seed, release=made, fleet=fleet, broker=broker, folder=work, secured=secured
        )
        broker.initialise()
        broker.start()
        world.say("the broker is ready")
        yield world
    finally:
        if broker is not None:
            broker.stop()
        fleet.down()


def outcome(
    options: argparse.Namespace,
    made: Release,
    work: Path,
    seed: int,
    only: tuple[str, ...],
    environment: Environment = None,
) -> Outcome:
    """One run, with what ended it before its end."""
    world = None
    try:
        with standing(options, made, work, seed, environment) as world:
            run(world, only)
    except (ApacheError, *ERRORS) as error:
        print(f"test-pulsar: {error}")
        return Outcome(error=str(error)) if world is None else world.outcome(str(error))
    return world.outcome()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, end)
    try:
        made = release()
    except NoToolsError as error:
        print(f"SKIPPED: test-pulsar: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"test-pulsar: {error}")
        return 1
    seed = random.randrange(SEEDS) if options.seed is None else options.seed
    work = Path(tempfile.mkdtemp(prefix="test-pulsar-"))
    mode = f"{options.mode}, TLS {options.tls}, " if options.fleet == OURS else ""
    of = f"{options.fleet} bookies, {mode}{options.wire}"
    print(f"pulsar {made.version}: {of}, seed {seed}, work folder {work}", flush=True)
    if options.planted:
        return planted(options, made, work, seed)
    began = time.monotonic()
    found = outcome(options, made, work, seed, tuple(options.only or ()))
    again = command(options, seed)
    if found.is_good and not options.keep:
        shutil.rmtree(work)
    else:
        print(f"test-pulsar: logs are in {work}; the same again: {again}")
    figures = of_options(options, made, seed)
    figures |= {
        "seconds": round(time.monotonic() - began, 1),
        "stories": found.figures,
        "failed": [f"{claim.words}: {claim.detail}" for claim in found.failed],
    }
    line = f"pulsar {made.version} on {of}: {figures['seconds']:.0f} s"
    tell(again, figures, path=options.json, line=line)
    print(found.counted)
    return 0 if found.is_good else 1


def planted(options: argparse.Namespace, made: Release, work: Path, seed: int) -> int:
    def run_with(folder: Path, only: tuple[str, ...], environment: Mapping[str, str]) -> Outcome:
        return outcome(options, made, folder, seed, only, environment)

    words = f"{command(options, seed)} PLANTED=1"
    plants = chosen(PLANTS, options.only or ())
    more = of_options(options, made, seed)
    return 0 if report(words, plants, work, run_with, options.json, more) else 1


def of_options(options: argparse.Namespace, made: Release, seed: int) -> Document:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "pulsar": made.version,
        "client": CLIENT,
        "fleet": options.fleet,
        "mode": options.mode,
        "tls": options.tls,
        "wire": options.wire,
        "seed": seed,
    }


def command(options: argparse.Namespace, seed: int) -> str:
    words = {"MODE": options.mode, "TLS": options.tls, "WIRE": options.wire, "SEED": seed}
    words |= {} if options.fleet == OURS else {"FLEET": options.fleet}
    return " ".join(["make test-pulsar", *(f"{name}={value}" for name, value in words.items())])


if __name__ == "__main__":
    sys.exit(main())
