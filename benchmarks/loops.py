"""Which event loop a process of a benchmark runs in."""

import asyncio
import importlib
from collections.abc import Callable


def loop_factory(name: str) -> tuple[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop asked for; `auto` is what `bookie serve` takes: uvloop where it is installed."""
    if name != "asyncio":
        try:
            return "uvloop", importlib.import_module("uvloop").new_event_loop
        except ImportError:
            if name == "uvloop":
                raise
    return "asyncio", asyncio.new_event_loop
