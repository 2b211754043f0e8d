"""Load on two logs while bookies are struck, one and two at a time, and a writer is killed.

In memory mode two bookies that forget at once may forget what was acknowledged: more than one at a
time is promised by the other modes, and by Apache's journal.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from dlog_judge import findings, gap_s
from dlog_stories import PER_WRITER, acknowledged, figures
from dlog_world import Reader, World, Writer
from pulsar_claims import Document
from pulsar_fleet import BOOKIES, NotHereError

LOADS: Final = {"plain": 50.0, "batched": 300.0}
"""Records in a second, by flavour."""
GAP_S: Final = (2.0, 5.0)
"""Before each fault."""
STALL_MAX_S: Final = 60.0
"""No time without an acknowledgement may be longer."""
LONG_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Strike:
    words: str
    act: Callable[["Storm"], None]


@dataclass(slots=True)
class Storm:
    """A log that is written and followed. `writers`: the last one is under way."""

    world: World
    flavour: str
    writers: list[Writer]
    tail: Reader

    @classmethod
    def begun(cls, world: World, flavour: str) -> "Storm":
        log = f"storm-{flavour}"
        writer = world.write(log, flavour, rate=LOADS[flavour])
        acknowledged(world, writer.noted, 1)
        return cls(world, flavour, [writer], world.begin_read(log, flavour, until="follow"))

    @property
    def log(self) -> str:
        return f"storm-{self.flavour}"

    def replace_writer(self) -> None:
        self.writers[-1].kill()
        first = len(self.writers) * PER_WRITER
        self.writers.append(
            self.world.write(self.log, self.flavour, first=first, rate=LOADS[self.flavour])
        )


def strikes(world: World, number: int) -> list[Strike]:
    """One round of them; which bookies they hit is decided by the seed."""
    one, first, second, replaced = world.drawn(f"strikes {number}").sample(range(BOOKIES), 4)

    def kill(victim: int) -> Strike:
        return Strike(f"SIGKILL bookie-{victim}", lambda storm: storm.world.fleet.kill(victim))

    def replace(storm: Storm) -> None:
        storm.world.fleet.replace_disk(replaced)

    found = [kill(one)]
    if world.fleet.forgets:
        found += [kill(first), kill(second)]
    else:
        words = f"SIGKILL bookie-{first} and bookie-{second} at once"
        found.append(Strike(words, lambda storm: kill_both(storm.world, first, second)))
    if world.is_long:
        found.append(Strike(f"disk replaced bookie-{replaced}", replace))
        found.append(Strike("SIGKILL a writer", Storm.replace_writer))
    return found


def kill_both(world: World, first: int, second: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(world.fleet.kill, (first, second)))


def faults(world: World) -> None:
    """Strikes under load, and what was acknowledged, by whoever followed and by a new reader."""
    storms = {flavour: Storm.begun(world, flavour) for flavour in LOADS}
    struck: list[tuple[str, float]] = []
    healed: Document = {}
    try:
        for number in range(LONG_ROUNDS if world.is_long else 1):
            for strike in strikes(world, number):
                strike_once(world, strike, number, storms["plain"], struck, healed)
        time.sleep(world.drawn("gaps at last").uniform(*GAP_S))
    finally:
        for storm in storms.values():
            storm.writers[-1].stop()
    world.fleet.wait()
    report: Document = {"healed_s": healed}
    for flavour, storm in storms.items():
        report[flavour] = judged(world, storm, struck)
    world.figures["faults"] = report


def strike_once(
    world: World,
    strike: Strike,
    number: int,
    storm: Storm,
    struck: list[tuple[str, float]],
    healed: Document,
) -> None:
    words = f"{strike.words}, round {number}"
    time.sleep(world.drawn(words).uniform(*GAP_S))
    began = time.time()
    try:
        strike.act(storm)
        world.fleet.wait()
    except NotHereError as error:
        world.say(f"SKIPPED: {strike.words}: {error}")
        return
    struck.append((words, began))
    healed[words] = round(time.time() - began, 1)
    world.say(f"{strike.words}: whole after {healed[words]} s")


def judged(world: World, storm: Storm, struck: list[tuple[str, float]]) -> Document:
    storm.tail.stop()
    noted = [writer.noted() for writer in storm.writers]
    followed, seen = storm.tail.seen(), world.read(storm.log, storm.flavour)
    world.claim(
        f"{storm.log}: every acknowledged record is read once in order", findings(noted, seen)
    )
    world.claim(
        f"{storm.log}: so it is by whoever read while bookies were struck",
        findings(noted, followed),
    )
    stall = gap_s(noted)
    world.claim(
        f"{storm.log}: no stall is longer than {STALL_MAX_S:.0f} s",
        "" if stall <= STALL_MAX_S else f"{stall:.1f} s",
    )
    ends = [*[began for _words, began in struck][1:], time.time()]
    return figures(noted, followed) | {
        "gaps_s": {
            words: round(gap_s(noted, began, end), 2)
            for (words, began), end in zip(struck, ends, strict=True)
        }
    }
