"""Secrets read by name and remembered a while: nobody may list or watch those of a namespace."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from bookie_operator.platform.kubernetes.api import SECRET, Api, Object

LOOKED_FOR: Final = timedelta(seconds=30)
"""How long what was read is taken for what is there."""


class SecretReads:
    """Reads Secrets in one cluster's namespace."""

    def __init__(self, api: Api, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._read: dict[str, tuple[datetime, Object | None]] = {}
        """What was found and when it was read, by name."""

    async def get(self, name: str) -> Object | None:
        now = self._clock()
        known = self._read.get(name)
        if known is not None and timedelta() <= now - known[0] < LOOKED_FOR:
            return known[1]
        found = await self._api.get(SECRET, name)
        self._read[name] = (now, found)
        return found

    def forget(self, name: str | None = None) -> None:
        """Ask again, for all of them where none is named."""
        if name is None:
            self._read.clear()
        else:
            self._read.pop(name, None)
