"""Walks the trees of ledgers and of marks in rising order, with many small requests under way at
once.

Each level of the tree is a stage that turns paths into their children, in order, with a bounded
number of requests ahead of the reader. So a listing streams, whether ids are dense (10,000 in a
folder) or scattered (each with its own chain of folders).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from kazoo.exceptions import NoNodeError

from bookie.ids import LedgerId
from bookie.metadata.layout import (
    LONG_SPLIT,
    MARK_FOLDERS,
    SHORT_SPLIT,
    is_folder,
    is_mark_folder,
    ledger_id_of,
    marked_ledger,
)
from bookie.metadata.session import ZooKeeperSession

REQUESTS_AHEAD: Final = 32
"""How many requests each level keeps under way ahead of the reader."""

Keep = Callable[[str], bool]
"""Returns whether the walk goes on below a child with this name."""


class FolderWalk:
    """One walk through the tree below `root`; paths are relative to it, in rising order."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        self._session = session
        self._root = root
        self._synced_in: int | None = None
        """The session generation in which this walk has synced; None before the first read."""

    async def children(self, path: str) -> list[str]:
        """The znode's children, sorted; empty when it is gone, as then its children
        are gone too.
        """
        generation = self._session.generation
        try:
            names: list[str] = await self._session.read(
                lambda zk: zk.get_children_async(path), synced_in=self._synced_in
            )
        except NoNodeError:
            return []
        self._synced_in = generation
        return sorted(names)

    async def tops(self) -> list[str]:
        """The names directly below the root."""
        return await self.children(self._root)

    def below(self, tops: Iterable[str], levels: Sequence[Keep]) -> AsyncGenerator[str, None]:
        """The paths `len(levels)` levels below `tops`; each level filters its names."""
        paths = _each(sorted(tops))
        for keep in levels:
            paths = self._stage(paths, keep)
        return paths

    async def _stage(
        self, folders: AsyncGenerator[str, None], keep: Keep
    ) -> AsyncGenerator[str, None]:
        async with aclosing(self._ahead(folders)) as answers:
            async for folder, names in answers:
                for name in filter(keep, names):
                    yield f"{folder}/{name}"

    async def _ahead(
        self, folders: AsyncGenerator[str, None]
    ) -> AsyncGenerator[tuple[str, list[str]], None]:
        window: deque[tuple[str, asyncio.Task[list[str]]]] = deque()
        try:
            async with aclosing(folders):
                async for folder in folders:
                    reading = asyncio.create_task(self.children(f"{self._root}/{folder}"))
                    window.append((folder, reading))
                    if len(window) == REQUESTS_AHEAD:
                        yield await _oldest(window)
            while window:
                yield await _oldest(window)
        finally:
            for _, reading in window:
                reading.cancel()
            await asyncio.gather(*(reading for _, reading in window), return_exceptions=True)


async def walk_ledgers(session: ZooKeeperSession, root: str) -> AsyncGenerator[LedgerId, None]:
    """Yield every ledger that existed when the walk began and was not deleted meanwhile, rising.

    Ids below 2^31 - 1 have short paths, the others long ones. A cluster with only long paths has no
    folders of the short form.
    """
    walk = FolderWalk(session, root)
    tops = await walk.tops()
    for lengths in (SHORT_SPLIT, LONG_SPLIT):
        first, *middle = (partial(is_folder, length=length) for length in lengths[:-1])
        levels: list[Keep] = [*middle, lambda _leaf: True]
        async with aclosing(walk.below(filter(first, tops), levels)) as paths:
            async for path in paths:
                ledger_id = ledger_id_of(path)
                if ledger_id is not None:
                    yield ledger_id


async def walk_marks(session: ZooKeeperSession, folder: str) -> AsyncGenerator[LedgerId, None]:
    """Yield the ledgers that may have an under-replication mark, rising: those with a folder for
    it.
    """
    walk = FolderWalk(session, folder)
    levels = [is_mark_folder] * (MARK_FOLDERS - 1)
    tops = filter(is_mark_folder, await walk.tops())
    async with aclosing(walk.below(tops, levels)) as paths:
        async for path in paths:
            ledger_id = marked_ledger(path)
            if ledger_id is not None:
                yield ledger_id


async def _each(folders: list[str]) -> AsyncGenerator[str, None]:
    for folder in folders:
        yield folder


async def _oldest(
    window: deque[tuple[str, asyncio.Task[list[str]]]],
) -> tuple[str, list[str]]:
    folder, reading = window[0]
    names = await reading
    window.popleft()
    return folder, names
