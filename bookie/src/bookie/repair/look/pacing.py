"""A rate in bytes per second for each bookie, shared by all that goes to it or comes from it."""

import asyncio
from collections.abc import Awaitable, Callable

from bookie.ids import BookieId

Sleep = Callable[[float], Awaitable[None]]


class Paces:
    """`bytes_per_second`: of each bookie; None = as fast as it goes. For one event loop."""

    def __init__(self, bytes_per_second: int | None, *, sleep: Sleep = asyncio.sleep) -> None:
        assert bytes_per_second is None or bytes_per_second > 0
        self._bytes_per_second = bytes_per_second
        self._free_at: dict[BookieId, float] = {}
        """Loop time from which a bookie may be read again; it never goes back."""
        self._sleep = sleep

    async def spend(self, bookie_id: BookieId, size: int) -> None:
        """Wait until what went before and these bytes have had their time.

        Paid afterwards: how long a read is, is known when it has come.
        """
        if self._bytes_per_second is None:
            return
        now = asyncio.get_running_loop().time()
        start = max(now, self._free_at.get(bookie_id, now))
        self._free_at[bookie_id] = start + size / self._bytes_per_second
        await self._sleep(self._free_at[bookie_id] - now)


def share_of(bytes_per_second: int | None, parts: int) -> int | None:
    """What each of `parts` that know nothing of one another may use of a rate."""
    return None if bytes_per_second is None else max(bytes_per_second // parts, 1)
