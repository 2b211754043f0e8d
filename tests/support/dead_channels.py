"""gRPC channels to nobody, which take a turn of the loop to close."""

import asyncio
from typing import Any

from bookie.errors import UnavailableError


class DeadChannel:
    """A channel and its stub."""

    def __init__(self, turns: int = 0) -> None:
        self.is_open = True
        self.was_cut_off = False
        """Whether it was closed during a call, of which each takes so many `turns` of the loop."""
        self._turns = turns

    async def close(self, _grace: float | None) -> None:
        await asyncio.sleep(0)
        self.is_open = False

    async def Flush(self, *_request: Any, **_options: Any) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.was_cut_off = not self.is_open
        raise UnavailableError("nobody answers")

    GetHealth = Flush


class DeadChannels(list[DeadChannel]):
    """Those that were opened."""

    def __init__(self, turns: int = 0) -> None:
        super().__init__()
        self._turns = turns

    def dial(self, _target: str, _bookie_id: str) -> tuple[DeadChannel, DeadChannel]:
        self.append(DeadChannel(self._turns))
        return self[-1], self[-1]

    @property
    def open_count(self) -> int:
        return sum(channel.is_open for channel in self)
