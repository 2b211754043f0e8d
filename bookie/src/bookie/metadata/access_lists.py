"""The access lists of a cluster that exists: what differs from what they should be, and set right.

For trees that were made before there were credentials, or by clients of others. The walk goes down
folder by folder, and a bounded number of requests is under way. Znodes that are not known here are
counted and left alone, with all that lies below; so are other clusters beside this one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL

from bookie.metadata.access import Access, Place, place_of
from bookie.metadata.layout import LEDGER_PREFIX, OWN_ROOT, Paths
from bookie.metadata.session import ZooKeeperSession

BATCH: Final = 128
"""Znodes looked at, and set right, at a time."""
UNKNOWN: Final = "unknown"


@dataclass(slots=True)
class Count:
    """What was found of one kind of znode."""

    kind: str
    """A place's label, or `unknown`."""
    checked: int = 0
    """Looked at."""
    different: int = 0
    """Lists that are not as they should be."""
    changed: int = 0
    """Of these, set right now."""
    first: str = ""
    """Path of the first that differs, or is unknown; empty without one."""


class AccessLists:
    """Looks over one cluster."""

    def __init__(self, session: ZooKeeperSession, paths: Paths, *, instance_id: str) -> None:
        self._session = session
        self._paths = paths
        self._instance_id = instance_id
        self._counts: dict[str, Count] = {}
        """By kind, in the order in which kinds were met."""

    async def check(self, wanted: Access, *, apply: bool) -> list[Count]:
        """Counts by kind. `apply`: lists that differ are set; doing it again changes nothing.

        Raises UnavailableError; what was set before stays so.
        """
        self._counts = {}
        async for batch in self._walk():
            lists = await asyncio.gather(*(self._list_of(path) for path in batch))
            wrong = [
                (path, place)
                for path, found in zip(batch, lists, strict=True)
                if found is not None and (place := self._judged(path, found, wanted)) is not None
            ]
            if apply:
                done = [self._set(path, wanted.list_of(place)) for path, place in wrong]
                changed = await asyncio.gather(*done)
                for (_path, place), is_set in zip(wrong, changed, strict=True):
                    self._counts[place.label].changed += is_set
        return list(self._counts.values())

    def _judged(self, path: str, found: Sequence[ACL], wanted: Access) -> Place | None:
        """What the znode is for, when its list differs; counts it."""
        place = place_of(path, self._paths)
        kind = UNKNOWN if place is None else place.label
        count = self._counts.setdefault(kind, Count(kind))
        count.checked += 1
        if place is not None and wanted.is_right(place, list(found)):
            return None
        count.first = count.first or path
        if place is not None:
            count.different += 1
        return place

    async def _walk(self) -> AsyncIterator[list[str]]:
        """All that is the cluster's and what it lies in, folders before what lies in them."""
        own = f"{self._paths.root.rpartition('/')[0]}/{OWN_ROOT}"
        yield [*_above(self._paths.root), own]
        folders = [self._paths.root, f"{own}/{self._instance_id}"]
        yield list(folders)
        while folders:
            folder = folders.pop()
            names = sorted(await self._children(folder))
            for start in range(0, len(names), BATCH):
                paths = [f"{folder}/{name}" for name in names[start : start + BATCH]]
                yield paths
                folders += [path for path in paths if self._is_folder(path)]

    def _is_folder(self, path: str) -> bool:
        place = place_of(path, self._paths)
        is_ledger = path.rpartition("/")[2].startswith(LEDGER_PREFIX)
        return place is not None and not (place is Place.LEDGER and is_ledger)

    async def _children(self, folder: str) -> list[str]:
        try:
            names: list[str] = await self._session.read(
                lambda zk: zk.get_children_async(folder), synced_in=self._session.generation
            )
        except NoNodeError:
            return []
        return names

    async def _list_of(self, path: str) -> list[ACL] | None:
        """None for a znode that is not there."""
        try:
            found: tuple[list[ACL], Any] = await self._session.read(
                lambda zk: zk.get_acls_async(path), synced_in=self._session.generation
            )
        except NoNodeError:
            return None
        return found[0]

    async def _set(self, path: str, wanted: list[ACL]) -> bool:
        """False when the znode is gone meanwhile."""
        try:
            await self._session.write(partial(_begin_set, path=path, wanted=wanted), repeat=True)
        except NoNodeError:
            return False
        return True


def _above(root: str) -> Iterator[str]:
    """The folders that the root lies in, the highest first."""
    parts = root.split("/")
    for end in range(2, len(parts)):
        yield "/".join(parts[:end])


def _begin_set(zk: Any, *, path: str, wanted: list[ACL]) -> Any:
    return zk.set_acls_async(path, wanted)
