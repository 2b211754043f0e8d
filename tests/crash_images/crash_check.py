"""Boots the real bookie on one image and says whether it was right, refused, or wrong."""

import contextlib
import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import cast
from unittest import mock

from bookie.boot.boot import Boot, Booted
from bookie.errors import BookieError
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.operations import Operations
from bookie.server.state import BookieState, Phase
from bookie.testing.inline import InlineDisk, InlineLoop
from crash_bookie import READS_MAX, call_soon, refuse_to_wait, unhurried
from crash_choices import made
from crash_claims import After, broken_claims
from crash_promises import ME
from crash_trace import CrashPoint, copy_of_cluster


class Verdict(Enum):
    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`why`: the boot's reason, the refusal, or the claims that do not hold."""

    verdict: Verdict
    why: str


@contextlib.contextmanager
def seeded(seed: str) -> Iterator[None]:
    """The same nonces and ids every time."""
    chance = random.Random(seed)
    with mock.patch.object(os, "urandom", chance.randbytes):
        yield


def check(point: CrashPoint, name: str, *, loop: InlineLoop) -> Outcome:
    """One boot on the image of that name."""
    disk = made(point.disk, name)
    with seeded(name):
        try:
            return loop.run_until_complete(_check(point, disk))
        finally:
            disk.close_databases()


async def _check(point: CrashPoint, disk: InlineDisk) -> Outcome:
    cluster = copy_of_cluster(point.cluster)
    epoch = cluster.boots.get(ME)
    boot = Boot(
        point.settings, MemoryStore(cluster), disk=disk, call_soon=call_soon, started_at_ms=1,
        on_step=refuse_to_wait, holders=("here",) * len(point.settings.directories),
    )  # fmt: skip
    try:
        booted = await boot.run()
    except BookieError as error:
        return Outcome(Verdict.REFUSED, f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome(Verdict.WRONG, f"the boot failed: {error!r}")
    after = After(
        point.promises, point.settings, booted.record, booted.storage, _operations(booted), cluster,
        epoch.value.epoch if epoch else 0, disk.durable(),
    )  # fmt: skip
    try:
        broken = broken_claims(after)
    except BookieError as error:
        broken = [f"it cannot be asked: {error}"]
    if broken:
        return Outcome(Verdict.WRONG, "; ".join(broken))
    return Outcome(Verdict.RIGHT, booted.record.reason)


def _operations(booted: Booted) -> Operations:
    """What gathers the facts on which a request is judged."""
    state = BookieState(ME, phase=Phase.SERVING)
    reader = cast(ThreadPoolExecutor, None)  # the loop asks no executor
    return Operations(
        booted.storage, state, reader=reader, reads_in_flight_max=READS_MAX, pacing=unhurried(),
        first_fences=FirstFences(in_store(MemoryStore(MemoryCluster()))),
    )  # fmt: skip


def same_words(why: str) -> str:
    """A reason without what differs from image to image."""
    return re.sub(r"\d+", "N", why)[:160]
