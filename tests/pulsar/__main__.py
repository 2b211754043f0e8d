"""`make test-pulsar`: a broker of Apache Pulsar whose ledgers lie on four of our bookies.

Topics, compaction, transactions and schemas, over a restart of the broker, and then faults under
load; everything is written and read by Pulsar's own clients, and judged by what they noted. Exit
codes: 0 everything held, or SKIPPED where Maven, a JDK or the archives are missing and nobody said
--require; 1 anything else.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bookie.testing.apache import ApacheError, NoToolsError
from bookie.testing.figures import tell
from judge_fleet import MODES, TLS_MODES, FleetError
from pulsar_broker import Broker, BrokerError
from pulsar_faults import faults, restart_broker
from pulsar_fleet import FLEETS
from pulsar_release import CLIENT, Release, release
from pulsar_stories import STORIES
from pulsar_tls import Secured
from pulsar_world import World

SEEDS: Final = 1_000_000
FAULTS: Final = "faults"
TLS_OFF: Final = "Off"
WIRES: Final = {"v2": "true", "v3": "false"}
"""By the setting of a broker that chooses between them; v2 is Pulsar's default."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/pulsar", description=__doc__)
    parser.add_argument("--fleet", choices=sorted(FLEETS), default="ours", help="whose bookies")
    parser.add_argument("--mode", choices=sorted(MODES), default="memory", help="of our bookies")
    parser.add_argument("--tls", choices=TLS_MODES, default=TLS_OFF, help="of our fleet")
    parser.add_argument("--wire", choices=sorted(WIRES), default="v2", help="of the broker")
    parser.add_argument("--seed", type=int, help="of payloads and faults; default: a random one")
    names = [story.name for story in STORIES] + [FAULTS]
    parser.add_argument("--only", action="append", choices=names, help="default: every story")
    parser.add_argument("--json", type=Path, default=Path("build/proof/pulsar.json"))
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    parser.add_argument("--keep", action="store_true", help="keep folders and logs")
    options = parser.parse_args()
    if options.fleet != "ours" and options.tls != TLS_OFF:
        parser.error("--tls is of our bookies: Apache's are in plain here")
    return options


def run(world: World, only: list[str] | None) -> None:
    """Everything that is wanted; what ends a story is a claim that does not hold."""
    begun = {}
    wanted = [story for story in STORIES if only is None or story.name in only]
    for story in wanted:
        with reported(world, story.name):
            begun[story.name] = story.before(world)
    if wanted:
        began = time.monotonic()
        restart_broker(world)
        world.figures["restart"] = {"seconds": round(time.monotonic() - began, 1)}
    for story in wanted:
        if story.name in begun:
            with reported(world, story.name):
                story.after(world, begun[story.name])
    if only is None or FAULTS in only:
        with reported(world, FAULTS):
            faults(world)
    for story in wanted:
        if story.at_last is not None and story.name in begun:
            with reported(world, story.name):
                story.at_last(world, begun[story.name])


@contextmanager
def reported(world: World, name: str) -> Iterator[None]:
    world.say(f"{name}:")
    try:
        yield
    except (BrokerError, FleetError, AssertionError) as error:
        world.claim(f"{name} goes to its end", str(error) or repr(error))


@contextmanager
def standing(options: argparse.Namespace, made: Release, work: Path, seed: int) -> Iterator[World]:
    """A fleet and a broker on it that are up."""
    fleet = FLEETS[options.fleet](work / "fleet", made, options.mode, options.tls)
    broker = None
    try:
        fleet.up()
        secured = Secured.of(fleet.credentials(), work)
        settings = secured.broker | {"bookkeeperUseV2WireProtocol": WIRES[options.wire]}
        broker = Broker(made, work / "broker", fleet.zookeeper, settings, secured.flags)
        world = World(made, fleet, broker, work, seed, secured)
        broker.initialise()
        broker.start()
        world.say("the broker is ready")
        yield world
    finally:
        if broker is not None:
            broker.stop()
        fleet.down()


def end(*_: object) -> None:
    """Everything is stopped on the way out; a second SIGTERM must not cut that short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


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
    mode = f"{options.mode}, TLS {options.tls}, " if options.fleet == "ours" else ""
    of = f"{options.fleet} bookies, {mode}{options.wire}"
    print(f"pulsar {made.version}: {of}, seed {seed}, work folder {work}", flush=True)
    began = time.monotonic()
    claims, found, is_whole = [], {}, False
    try:
        with standing(options, made, work, seed) as world:
            claims, found = world.claims, world.figures
            run(world, options.only)
            is_whole = True
    except (ApacheError, BrokerError, FleetError) as error:
        is_whole = False
        print(f"test-pulsar: {error}")
    failed = [claim for claim in claims if not claim.holds]
    is_good = is_whole and not failed
    words = {"MODE": options.mode, "TLS": options.tls, "WIRE": options.wire, "SEED": seed}
    words |= {} if options.fleet == "ours" else {"FLEET": options.fleet}
    command = " ".join(["make test-pulsar", *(f"{name}={value}" for name, value in words.items())])
    if is_good and not options.keep:
        shutil.rmtree(work)
    else:
        print(f"test-pulsar: logs are in {work}; the same again: {command}")
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "pulsar": made.version,
        "client": CLIENT,
        "fleet": options.fleet,
        "mode": options.mode,
        "tls": options.tls,
        "wire": options.wire,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "stories": found,
        "failed": [f"{claim.words}: {claim.detail}" for claim in failed],
    }
    lost = len(failed) + (not is_whole)
    line = f"pulsar {made.version} on {of}: {report['seconds']:.0f} s"
    tell(command, report, path=options.json, line=line)
    print(f"{len(claims) - len(failed)} passed, {lost} failed")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
