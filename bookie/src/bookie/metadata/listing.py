"""Walks the tree of ledgers in rising order, with many small requests under way at once.

Each level is a stage: paths in, their children out, in the same order, a bounded number of requests
ahead of the reader. So a listing streams, whether ids are dense (10,000 to a folder) or scattered
(a chain of folders each).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from bookie.metadata.layout import LONG_SPLIT, SHORT_SPLIT, is_folder, ledger_id_of
from bookie.metadata.session import NoNodeError, ZooKeeperSession
from bookie.protocol.ids import LedgerId

REQUESTS_AHEAD: Final = 32
"""Requests each level keeps under way before the reader asks for their answers."""


class LedgerWalk:
    """One listing: every ledger that existed when it began and was not deleted meanwhile."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        self._session = session
        self._root = root
        self._synced_in: int | None = None

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        """Rising: the short paths hold the ids below 2^31 - 1, the long ones those above.

        A cluster with nothing but long paths has no folders of the short form.
        """
        tops = await self._children(self._root)
        for lengths in (SHORT_SPLIT, LONG_SPLIT):
            folders = [name for name in tops if is_folder(name, level=0, lengths=lengths)]
            async with aclosing(self._below(folders, lengths)) as paths:
                async for path in paths:
                    ledger_id = ledger_id_of(path)
                    if ledger_id is not None:
                        yield ledger_id

    def _below(self, folders: list[str], lengths: tuple[int, ...]) -> AsyncGenerator[str, None]:
        paths = _each(folders)
        for level in range(1, len(lengths)):
            last = level == len(lengths) - 1
            paths = self._stage(paths, level=level, lengths=None if last else lengths)
        return paths

    async def _stage(
        self, folders: AsyncGenerator[str, None], *, level: int, lengths: tuple[int, ...] | None
    ) -> AsyncGenerator[str, None]:
        """Children of each folder, in order; folders only when `lengths` is given."""
        async with aclosing(self._ahead(folders)) as answers:
            async for folder, names in answers:
                for name in names:
                    if lengths is None or is_folder(name, level=level, lengths=lengths):
                        yield f"{folder}/{name}"

    async def _ahead(
        self, folders: AsyncGenerator[str, None]
    ) -> AsyncGenerator[tuple[str, list[str]], None]:
        window: deque[tuple[str, asyncio.Task[list[str]]]] = deque()
        try:
            async with aclosing(folders):
                async for folder in folders:
                    reading = asyncio.create_task(self._children(f"{self._root}/{folder}"))
                    window.append((folder, reading))
                    if len(window) == REQUESTS_AHEAD:
                        yield await _oldest(window)
            while window:
                yield await _oldest(window)
        finally:
            for _, reading in window:
                reading.cancel()
            await asyncio.gather(*(reading for _, reading in window), return_exceptions=True)

    async def _children(self, path: str) -> list[str]:
        """The znode's children, sorted; none when it is gone, as its ledgers then are."""
        generation = self._session.generation
        try:
            names: list[str] = await self._session.read(
                lambda zk: zk.get_children_async(path), synced_in=self._synced_in
            )
        except NoNodeError:
            return []
        self._synced_in = generation
        return sorted(names)


async def _each(folders: list[str]) -> AsyncGenerator[str, None]:
    for folder in sorted(folders):
        yield folder


async def _oldest(
    window: deque[tuple[str, asyncio.Task[list[str]]]],
) -> tuple[str, list[str]]:
    folder, reading = window[0]
    names = await reading
    window.popleft()
    return folder, names
