"""Checks the access lists of an existing cluster, and corrects those that differ.

It is for trees that were created before there were credentials, or by other clients. It walks down
folder by folder, with a bounded number of requests under way. It counts unknown znodes and leaves
them alone, with everything below; it also leaves other clusters alone. Znodes that ZooKeeper
refuses to show or to change are counted too, and hold up no other.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL

from bookie.errors import UnavailableError
from bookie.metadata.access import Access, Place, place_of
from bookie.metadata.layout import LEDGER_PREFIX, OWN_ROOT, Paths
from bookie.metadata.session import ZooKeeperSession

BATCH: Final = 128
"""How many znodes are checked, and corrected, at a time."""
UNKNOWN: Final = "unknown"


@dataclass(slots=True)
class Count:
    """The result for one kind of znode."""

    kind: str
    """The label of a `Place`, or `unknown`."""
    checked: int = 0
    """How many were checked."""
    different: int = 0
    """How many have a wrong access list."""
    changed: int = 0
    """How many of these were corrected now."""
    first: str = ""
    """Path of the first that is wrong or unknown; empty when there is none."""
    refused: int = 0
    """How many ZooKeeper refused to show or to change: they belong to other credentials."""
    first_refused: str = ""
    """Path of the first of these; empty when there is none."""


class AccessLists:
    """Checks the access lists of one cluster."""

    def __init__(self, session: ZooKeeperSession, paths: Paths, *, instance_id: str) -> None:
        self._session = session
        self._paths = paths
        self._instance_id = instance_id
        self._counts: dict[str, Count] = {}
        """The results by kind, in the order in which kinds were found."""
        self._denied: set[str] = set()
        """Paths that were refused: a folder may be so twice, itself and what is in it."""

    async def check(self, wanted: Access, *, apply: bool) -> list[Count]:
        """Check all znodes; returns the counts by kind. `apply`: correct wrong lists; doing it
        again changes nothing.

        Raises UnavailableError; lists that were corrected before stay so.
        """
        self._counts, self._denied = {}, set()
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

    def _count_of(self, path: str) -> Count:
        place = place_of(path, self._paths)
        kind = UNKNOWN if place is None else place.label
        return self._counts.setdefault(kind, Count(kind))

    def _judged(self, path: str, found: Sequence[ACL], wanted: Access) -> Place | None:
        """Count a znode; returns its purpose when its list is wrong, else None."""
        place, count = place_of(path, self._paths), self._count_of(path)
        count.checked += 1
        if place is not None and wanted.is_right(place, list(found)):
            return None
        count.first = count.first or path
        if place is not None:
            count.different += 1
        return place

    async def _walk(self) -> AsyncIterator[list[str]]:
        """Yield batches of all paths of the cluster and the folders above it, parents before
        children.
        """
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
        except UnavailableError as error:
            self._refused(folder, error)
            return []
        return names

    async def _list_of(self, path: str) -> list[ACL] | None:
        """Read the access list of a znode; None when there is no such znode, or ZooKeeper refuses
        to show it."""
        try:
            found: tuple[list[ACL], Any] = await self._session.read(
                lambda zk: zk.get_acls_async(path), synced_in=self._session.generation
            )
        except NoNodeError:
            return None
        except UnavailableError as error:
            self._refused(path, error)
            return None
        return found[0]

    async def _set(self, path: str, wanted: list[ACL]) -> bool:
        """Set an access list; False when the znode is gone, or ZooKeeper refuses it."""
        try:
            await self._session.write(partial(_begin_set, path=path, wanted=wanted), repeat=True)
        except NoNodeError:
            return False
        except UnavailableError as error:
            self._refused(path, error)
            return False
        return True

    def _refused(self, path: str, error: UnavailableError) -> None:
        """Count a refusal; any other error is raised."""
        if not isinstance(error.__cause__, NoAuthError):
            raise error
        if path in self._denied:
            return
        self._denied.add(path)
        count = self._count_of(path)
        count.refused += 1
        count.first_refused = count.first_refused or path


def _above(root: str) -> Iterator[str]:
    """The folders above the root, the highest first."""
    parts = root.split("/")
    for end in range(2, len(parts)):
        yield "/".join(parts[:end])


def _begin_set(zk: Any, *, path: str, wanted: list[ACL]) -> Any:
    return zk.set_acls_async(path, wanted)
