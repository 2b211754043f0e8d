"""Load on two topics while the broker and bookies are struck, one at a time.

In memory mode one bookie may forget at a time, so that the fleet is waited for in between: more is
not promised.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pulsar_fleet import BOOKIES, NotHereError
from pulsar_judge import findings
from pulsar_stories import PARTITIONS, figures
from pulsar_world import Document, World

LOADS: Final = {"storm": ("--rate", "200"), "batched-storm": ("--rate", "1000", "--batching")}
GAP_S: Final = (2.0, 5.0)
"""Before each fault."""
STALL_MAX_S: Final = 60.0
"""No time without an acknowledgement may be longer."""


@dataclass(frozen=True, slots=True)
class Strike:
    words: str
    act: Callable[[World], None]


def strikes(world: World) -> list[Strike]:
    """Which bookies they hit is decided by the seed."""
    rng = world.drawn("strikes")
    one, first, second, replaced = rng.sample(range(BOOKIES), 4)

    def kill(number: int) -> Strike:
        return Strike(f"SIGKILL bookie-{number}", lambda world: world.fleet.kill(number))

    def replace(world: World) -> None:
        world.fleet.replace_disk(replaced)

    return [
        kill(one),
        kill(first),
        kill(second),
        Strike(f"disk replaced bookie-{replaced}", replace),
        Strike("the broker ends and starts again", restart_broker),
        Strike("SIGKILL the broker", kill_broker),
    ]


def restart_broker(world: World) -> None:
    world.broker.stop()
    world.broker.start()


def kill_broker(world: World) -> None:
    world.broker.kill()
    world.broker.start()


def faults(world: World) -> None:
    """Strikes under load, and what was acknowledged by a subscription that nobody had."""
    for topic in LOADS:
        world.create(topic, partitions=PARTITIONS, subscriptions=("holder",))
    producers = {topic: world.produce(topic, *flags) for topic, flags in LOADS.items()}
    rng = world.drawn("gaps")
    healed, struck = {}, {}
    try:
        for strike in strikes(world):
            time.sleep(rng.uniform(*GAP_S))
            began = time.time()
            try:
                strike.act(world)
                world.fleet.wait()
            except NotHereError as error:
                world.say(f"SKIPPED: {strike.words}: {error}")
                continue
            healed[strike.words] = round(time.time() - began, 1)
            struck[strike.words] = began
            world.say(f"{strike.words}: whole after {healed[strike.words]} s")
        time.sleep(rng.uniform(*GAP_S))
    finally:
        written = {topic: producer.stop() for topic, producer in producers.items()}
    world.fleet.wait()
    ends = [*list(struck.values())[1:], time.time()]
    report: Document = {"healed_s": healed}
    for topic, noted in written.items():
        seen = world.read(topic, "fresh")
        world.claim(f"{topic}: every acknowledged message is read", findings(noted, seen))
        stalls = noted.longest_gap_s
        world.claim(
            f"{topic}: no stall is longer than {STALL_MAX_S:.0f} s",
            "" if stalls <= STALL_MAX_S else f"{stalls:.1f} s",
        )
        report[topic] = figures(noted, seen) | {
            "gaps_s": {
                words: round(noted.gap_s(began, end), 2)
                for (words, began), end in zip(struck.items(), ends, strict=True)
            }
        }
    world.figures["faults"] = report
