"""Draws new ledger ids from ZooKeeper's counters, as BookKeeper's clients do.

An id below 2^31 - 1 is the number of an ephemeral sequential znode under idgen. When that counter
is used up, idgen-long/HOB-<upper half> gives the lower 32 bits, with one folder per upper half.
"""

from contextlib import suppress
from typing import Final

from kazoo.exceptions import NodeExistsError, NoNodeError

from bookie.errors import UnavailableError
from bookie.ids import LedgerId
from bookie.metadata.layout import HIGH_PREFIX, ID_PREFIX, SHORT_ID_END, Paths
from bookie.metadata.session import ZooKeeperSession

FIRST_HIGH: Final = 1
HIGH_MAX: Final = 2**31 - 1
"""The highest upper half of a 63-bit id."""
HIGH_DIGITS: Final = 10
LOW_BITS: Final = 32
OVERFLOWS_MAX: Final = 4


class LedgerIds:
    """Draws ids of one cluster, rising, none twice."""

    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._paths = paths
        self._uses_long = False
        """True once the short counter has overflowed, which is never undone."""

    async def take(self) -> LedgerId:
        """Draw a new id; UnavailableError when ZooKeeper does not answer (then an id may be
        wasted).
        """
        if not await self._has_gone_long():
            number = await self._count(self._paths.short_ids)
            if 0 <= number < SHORT_ID_END:
                return LedgerId(number)
            await self._make(self._paths.long_ids)
            self._uses_long = True
        first = await self._highest()
        for high in range(first, min(first + OVERFLOWS_MAX, HIGH_MAX + 1)):
            number = await self._count(self._paths.high_ids(high))
            if 0 <= number < SHORT_ID_END:
                return LedgerId(high << LOW_BITS | number)
        raise UnavailableError(
            f"the counters under {self._paths.long_ids} from {first} on are used up: look at them"
        )

    async def _has_gone_long(self) -> bool:
        """True once any client of the cluster has seen the short counter overflow."""
        if not self._uses_long:
            stat = await self._session.read(lambda zk: zk.exists_async(self._paths.long_ids))
            self._uses_long = stat is not None
        return self._uses_long

    async def _highest(self) -> int:
        names = await self._session.read(lambda zk: zk.get_children_async(self._paths.long_ids))
        halves = [name.removeprefix(HIGH_PREFIX) for name in names]
        numbers = [int(half) for half in halves if half.isdecimal() and len(half) <= HIGH_DIGITS]
        # Clients may create znodes there; one beyond all ids must not prevent drawing.
        return max((number for number in numbers if number <= HIGH_MAX), default=FIRST_HIGH)

    async def _count(self, folder: str) -> int:
        """Draw the next number of the folder's counter; negative when it has wrapped."""
        prefix = f"{folder}/{ID_PREFIX}"
        # Repeating the write wastes one number at worst.
        made: str = await self._session.write(
            lambda zk: zk.create_async(prefix, b"", ephemeral=True, sequence=True, makepath=True),
            repeat=True,
        )
        # The znode is not needed any more; if the deletion fails, it ends with the session.
        with suppress(NoNodeError, UnavailableError):
            await self._session.write(lambda zk: zk.delete_async(made))
        return int(made.rpartition(ID_PREFIX)[2])

    async def _make(self, path: str) -> None:
        with suppress(NodeExistsError):
            await self._session.write(lambda zk: zk.create_async(path, makepath=True), repeat=True)
