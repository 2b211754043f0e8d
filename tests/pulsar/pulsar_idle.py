"""Two bookies are killed at once while nobody writes, and the broker starts again.

A broker that starts opens the ledgers of its topics and cursors with a recovery each. All that was
written is on the disks by then, so that nothing is in doubt: the namespace loads, and no person has
to decide about anything.
"""

import time
from typing import Final

from pulsar_faults import STALL_MAX_S, kill_broker
from pulsar_fleet import BOOKIES
from pulsar_judge import findings
from pulsar_stories import PARTITIONS, figures
from pulsar_world import Document, World

TOPIC: Final = "idle"
MESSAGES: Final = 600
LATER: Final = 60
REST_S: Final = 45.0
"""Longer than a bookie keeps notes of idle ledgers: two flushes, ten seconds apart, and the one
that makes it durable."""


def idle_crash(world: World) -> None:
    world.create(TOPIC, partitions=PARTITIONS, subscriptions=("holder",))
    before = world.produce(TOPIC, "--count", str(MESSAGES)).finish()
    time.sleep(REST_S)
    for number in world.drawn("two at once").sample(range(BOOKIES), 2):
        world.fleet.kill(number)
    began = time.monotonic()
    kill_broker(world)
    later = world.produce(TOPIC, "--count", str(LATER)).finish()
    loaded_s = time.monotonic() - began
    world.claim(
        f"after two bookies at once an idle topic is written again within {STALL_MAX_S:.0f} s",
        "" if later.total == LATER and loaded_s <= STALL_MAX_S else f"{later} in {loaded_s:.1f} s",
    )
    world.fleet.wait()
    seen = world.read(TOPIC, "fresh")
    world.claim("idle: every acknowledged message is read", findings(before, seen))
    # The second producer counts from 0 again, so that its messages are repeats of the first's.
    world.claim(
        "idle: and what came after the two were killed",
        "" if seen.repeats >= later.total else f"{seen.repeats} of {later.total}",
    )
    report: Document = {"loaded_s": round(loaded_s, 1), "later": later.total}
    world.figures["idle"] = report | figures(before, seen)
