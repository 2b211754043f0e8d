"""What code asks of Python itself for time and chance, answered by the simulation while it runs.

Seams of our own cover network, disks, metadata store and event loop; `time`, `os.urandom` and what
rests on it (`uuid.uuid4`, `secrets`) are replaced here, so that no run differs from the next.
"""

import contextlib
import gc
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from unittest import mock

from bookie import points
from bookie.client import channel
from bookie.server import connections, housekeeping

_SMALLER: Final[Sequence[tuple[object, str, float]]] = (
    (connections, "BUFFER_BYTES", 64 * 1024),
    (connections, "READ_BYTES_MIN", 8 * 1024),
    (channel, "RECEIVE_BUFFER_BYTES", 64 * 1024),
    (housekeeping, "FINISH_INTERVAL_S", 1.5),
)
"""Bounds and pauses of the product that cost time here, and that nothing depends on."""
EPOCH_S: Final = 1_700_000_000.0
"""What a wall clock says at the beginning."""


@contextlib.contextmanager
def replaced(
    now: Callable[[], float],
    wall: Callable[[], float],
    passing: Callable[[str], None],
    seed: int,
) -> Iterator[None]:
    """`now` for monotonic clocks, `wall` for the time of day; randomness from the seed.

    `passing` hears of every place of the code that `bookie.points` names.
    """
    chance = random.Random(f"urandom/{seed}")
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    was_collecting = gc.isenabled()
    gc.disable()  # what is dropped is dropped in an order of its own
    try:
        with contextlib.ExitStack() as stack:
            for module, name, value in _SMALLER:
                stack.enter_context(mock.patch.object(module, name, value))
            stack.enter_context(mock.patch.object(points, "_observers", [passing]))
            for module, name, function in (
                (time, "time", wall),
                (time, "monotonic", now),
                (os, "urandom", chance.randbytes),
                (random, "_urandom", chance.randbytes),
            ):
                stack.enter_context(mock.patch.object(module, name, function))
            yield
    finally:
        logging.disable(level)
        if was_collecting:
            gc.enable()
