"""What the page shows of each BookieCluster there is: all of it, or why it cannot be read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import mistakes_of

FRESH_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A BookieCluster that is not as the schema has it."""

    namespace: str
    name: str
    why: str


Shown = BookieCluster | Unreadable
Source = Callable[[], Awaitable[Sequence[Shown]]]
"""All clusters, as they are now."""


def shown(body: Mapping[str, Any]) -> Shown:
    """An object of the API server."""
    try:
        return BookieCluster.model_validate(body)
    except ValidationError as error:
        why = "; ".join(mistakes_of(BookieCluster, error))
    about = body.get("metadata") or {}
    return Unreadable(str(about.get("namespace", "")), str(about.get("name", "")), why)


class Fresh:
    """A source that is asked once a second at most, however many pages are open."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: Sequence[Shown] = ()
        """The last answer."""
        self._until = -1.0
        """Until when the last answer is used, by the loop's clock."""
        self._lock = asyncio.Lock()
        """Held while the source is asked: others wait for the same answer."""

    async def __call__(self) -> Sequence[Shown]:
        async with self._lock:
            clock = asyncio.get_running_loop().time
            if clock() >= self._until:
                self._found = await self._source()
                self._until = clock() + FRESH_S
            return self._found
