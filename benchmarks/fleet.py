"""Real bookies for a benchmark, beside one embedded ZooKeeper that several fleets may share."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml
from bookie.ids import BookieId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.opening import open_store
from bookie.metadata.store import BOOT_EPOCH_PROPERTY, BookieInfo, MetadataStore
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role

from benchmarks.processes import Process

BOOKIES: Final = 3
MODES: Final = ("memory", "sync", "journal")
"""Of durability: what an add's acknowledgement promises (docs/safety.md)."""
START_WAIT_S: Final = 120.0
POLL_S: Final = 0.1
HEAP_MB: Final = 128
"""Of ZooKeeper: enough for the metadata of some thousand ledgers."""


@contextmanager
def workplace(directory: Path, *, heap_mb: int = HEAP_MB) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a ZooKeeper in it without fsync: it is not what is measured."""
    settings = EmbeddedSettings(fsync=False, heap_mb=heap_mb)
    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-") as name:
        folder = Path(name)
        with EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as zookeeper:
            yield folder, zookeeper.address


class Fleet:
    """Bookies of one mode with one journal and one ledger directory each; a context manager.

    `url` names ZooKeeper without a path: the fleet's root there is its name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        zookeeper: str,
        mode: str = "memory",
        count: int = BOOKIES,
        more: Mapping[str, Any] | None = None,
        authority: Authority | None = None,
    ) -> None:
        """`more`: sections of every bookie's settings beside those that are written here.
        `authority`: who signs its certificates, and its name then ends in `-tls`; None: plain."""
        self.name = mode if authority is None else f"{mode}-tls"
        self._folder = folder / self.name
        self._mode = mode
        self._authority = authority
        self._count = count
        self._more = dict(more or {})
        self.url = f"zk://{zookeeper}/{self.name}"
        self.bookies: list[Process] = []

    def __enter__(self) -> "Fleet":
        self._folder.mkdir()
        for number in range(self._count):
            self._configure(number)
            self.bookies.append(self._start(number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for bookie in self.bookies:
            if not bookie.has_ended:
                bookie.stop()

    def bookie_id(self, number: int) -> BookieId:
        return BookieId(f"{self.name}-{number}")

    def ledger_directory(self, number: int) -> Path:
        """Where a bookie keeps entries and index."""
        return self._folder / f"bookie-{number}" / "ledger-0"

    def restart(self, number: int) -> None:
        """A new process on the same directories; the old one must have ended."""
        assert self.bookies[number].has_ended
        self.bookies[number] = self._start(number)

    def cpu_s(self) -> float:
        """Of all bookies together."""
        return sum(bookie.cpu_s() for bookie in self.bookies)

    def written_bytes(self) -> int:
        """By all bookies together."""
        return sum(bookie.written_bytes() for bookie in self.bookies)

    def resident_bytes(self) -> int:
        """Of all bookies together."""
        return sum(bookie.resident_bytes() for bookie in self.bookies)

    async def until_registered(self, store: MetadataStore) -> None:
        """Wait until every bookie serves."""
        async with asyncio.timeout(START_WAIT_S):
            while len(await store.bookies()) < self._count:
                if any(bookie.has_ended for bookie in self.bookies):
                    raise SystemExit(f"a bookie did not start, see its log in {self._folder}")
                await asyncio.sleep(POLL_S)

    async def until_booted_again(
        self, store: MetadataStore, number: int, *, after: int, wait_s: float
    ) -> BookieInfo:
        """The registration of a boot later than `after`; the dead one's may outlive it."""
        async with asyncio.timeout(wait_s):
            while True:
                info = (await store.bookies()).get(self.bookie_id(number))
                if info is not None and epoch_of(info) > after:
                    return info
                assert not self.bookies[number].has_ended
                await asyncio.sleep(POLL_S)

    def _start(self, number: int) -> Process:
        config = self._folder / f"bookie-{number}" / "bookie.yaml"
        log = self._folder / f"bookie-{number}.log"
        return Process(["-m", "bookie", "serve", "--config", str(config)], log=log)

    def _configure(self, number: int) -> None:
        own = self._folder / f"bookie-{number}"
        own.mkdir()
        settings: dict[str, Any] = {
            "bookieId": self.bookie_id(number),
            "metadata": self.url,
            "ports": {"run": 0, "stock": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(own / "journal")},
            "ledgers": [{"directory": str(self.ledger_directory(number))}],
            "durability": {
                "journalWriteData": self._mode == "journal",
                "ack": "sync" if self._mode == "sync" else "memory",
            },
            **self._more,
        }
        if self._authority is not None:
            identity = self._authority.sign(self.bookie_id(number), Role.BOOKIE)
            settings["tls"] = {"directory": str(identity.folder)}
        for name in ("journal", "ledger-0"):
            (own / name).mkdir()
        (own / "bookie.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def epoch_of(info: BookieInfo) -> int:
    """The boot epoch of the process that registered itself."""
    return int(info.properties[BOOT_EPOCH_PROPERTY])


@contextmanager
def lone_fleet(
    directory: Path,
    *,
    count: int = BOOKIES,
    heap_mb: int = HEAP_MB,
    more: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Path, Fleet]]:
    """One fleet in memory mode with a ZooKeeper and a folder of its own; all ends with it."""
    with (
        workplace(directory, heap_mb=heap_mb) as (folder, zookeeper),
        Fleet(folder, zookeeper=zookeeper, count=count, more=more) as fleet,
    ):
        yield folder, fleet


@asynccontextmanager
async def store_of(fleet: Fleet) -> AsyncIterator[MetadataStore]:
    """The fleet's metadata, once all its bookies serve."""
    store = await open_store(fleet.url)
    try:
        await fleet.until_registered(store)
        yield store
    finally:
        await store.close()
