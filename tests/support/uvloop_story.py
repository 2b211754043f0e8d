"""A story that is run on uvloop.

pytest-timeout ends a test by a signal, whose exception uvloop's loop swallows: a story that waits
for ever there would hang the whole run. It has a limit of its own instead, and what even that does
not end is ended with its process (`on_uvloop`).
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest
import uvloop

STORY_S_MAX: Final = 60.0
"""Of one story; the slowest takes a second."""

on_uvloop = pytest.mark.timeout(2 * STORY_S_MAX, method="thread")
"""For every test that calls `run_on_uvloop`: shows where all threads are, and ends the process."""


def run_on_uvloop(story: Coroutine[Any, Any, None]) -> None:
    """TimeoutError when it does not end."""

    async def limited() -> None:
        async with asyncio.timeout(STORY_S_MAX):
            await story

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())
