"""One bookie's folders and metadata, booted, stopped, killed and damaged by tests.

Directories are real unless a test asks for a simulated disk. `kill` leaves what SIGKILL leaves:
what was only in memory is gone. Place 0 is the journal directory, 1.. are the ledger directories.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.boot.boot import Boot, Booted, finish_clean_stop
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.marker import MARKER_NAME, FoundMarker, read_marker
from bookie.boot.stamps import STAMP_NAME
from bookie.boot.takeover import BootSettings
from bookie.errors import StorageError, UnavailableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.storage.acks import Taken
from bookie.storage.disk import Disk, RealDisk
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from storage_kit import run, settings

KEY = b"k" * 20
ME = BookieId("bookie-0")
ENSEMBLE = (ME, BookieId("bookie-1"), BookieId("bookie-2"))
OTHERS = (BookieId("bookie-1"), BookieId("bookie-2"), BookieId("bookie-3"))
REACHED_SECONDS_MAX = 60.0
IMAGES_MAX = 10
"""How long a boot may need to a step, also on a slow machine."""


def failing_at(operation: str, *, after: int = 0) -> Callable[[str], Awaitable[None]]:
    """For FaultyStore.before: the boot dies when it comes to this operation, after so many."""
    seen: list[str] = []

    async def hook(name: str) -> None:
        seen.append(name)
        if name == operation and seen.count(name) > after:
            raise UnavailableError(f"the process ends before {operation}")

    return hook


class BootLab:
    """See the module."""

    def __init__(
        self, root: Path, *, store: MetadataStore | None = None, disk: Disk | None = None
    ) -> None:
        self.root = root / "bookie"
        self.cluster = MemoryCluster()
        self.store: MetadataStore = store or MemoryStore(self.cluster)
        self.disk: Disk = disk or RealDisk()
        self.steps: list[str] = []
        self.rival_wait_s = 30.0
        self.lease_wait_s = 3600.0
        self.lease_s = 0.0
        """As the claim of the process that boots next tells it."""
        self.holders: tuple[str, ...] = ("here", "here", "here")
        """Of the process that boots next: others than before are those of another machine."""
        self.nonce = ""
        """Of the process that boots next; empty = one of its own."""
        self._stepped = asyncio.Event()
        self.pending: Boot | None = None
        self.now: Booted | None = None
        self.mode = DurabilityMode.MEMORY
        self.ledger_disks = 2
        self.note_idle_flushes: int | None = 2
        for path in self.settings().directories:
            path.mkdir(parents=True, exist_ok=True)

    def settings(
        self, *, policy: FixPolicy = FixPolicy.AUTO, uids: Sequence[str] = ()
    ) -> BootSettings:
        storage = settings(
            self.root, self.mode, disks=self.ledger_disks, note_idle_flushes=self.note_idle_flushes
        )
        return BootSettings(
            ME, storage, policy, tuple(uids), self.rival_wait_s, self.lease_wait_s, self.lease_s
        )

    def directory(self, place: int) -> Path:
        return self.settings().directories[place]

    # Lives
    def begin(
        self,
        *,
        mode: DurabilityMode = DurabilityMode.MEMORY,
        policy: FixPolicy = FixPolicy.AUTO,
        uids: Sequence[str] = (),
    ) -> Boot:
        """A boot that is not run yet."""
        assert self.now is None, "stop or kill it first"
        self.mode = mode
        loop = asyncio.get_running_loop()

        def call_soon(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        def on_step(step: str) -> None:
            self.steps.append(step)
            self._stepped.set()

        self.steps = []
        self.pending = Boot(
            self.settings(policy=policy, uids=uids),
            self.store,
            disk=self.disk,
            call_soon=call_soon,
            started_at_ms=1,
            on_step=on_step,
            nonce=self.nonce,
            holders=self.holders,
        )
        return self.pending

    async def begun_until(self, step: str, boot: Boot) -> "asyncio.Task[Booted]":
        """It came to this step and goes on; AssertionError when it ended before, or is stuck."""
        booting = asyncio.create_task(boot.run())
        booting.add_done_callback(lambda _: self._stepped.set())
        try:
            async with asyncio.timeout(REACHED_SECONDS_MAX):
                while step not in self.steps and not booting.done():
                    self._stepped.clear()
                    await self._stepped.wait()
        except TimeoutError as error:
            raise AssertionError(f"it stands behind {self.steps}") from error
        if booting.done():
            raise AssertionError(f"it ended after {self.steps}") from booting.exception()
        return booting

    async def boot(
        self,
        *,
        mode: DurabilityMode = DurabilityMode.MEMORY,
        policy: FixPolicy = FixPolicy.AUTO,
        uids: Sequence[str] = (),
    ) -> Booted:
        """A whole boot."""
        self.now = await self.begin(mode=mode, policy=policy, uids=uids).run()
        return self.now

    async def confirm(self) -> None:
        """What a lease does before the first answer: the store knows of the generation."""
        assert self.now is not None and self.now.markers.current is not None
        claim, generation = self.now.claim, self.now.markers.current.generation
        await claim.write(replace(claim.stored, generation=generation))

    async def stop(self) -> None:
        """A clean stop."""
        assert self.now is not None
        ending, self.now = self.now, None
        await asyncio.to_thread(finish_clean_stop, ending.storage, ending.markers)

    def kill(self) -> None:
        """SIGKILL. The image first: closing what is dead must not write to what is opened next."""
        assert self.now is not None
        ending, self.now = self.now, None
        image = _image_of(self.root)
        left = self.disk.kill() if isinstance(self.disk, SimDisk) else self.disk
        with contextlib.suppress(StorageError):
            ending.storage.close()
        shutil.rmtree(self.root)
        image.rename(self.root)
        self.disk = left

    def disk_after_power_cut(self) -> "BootLab":
        """The same folders with what was synced of a simulated disk."""
        assert isinstance(self.disk, SimDisk)
        self.disk = self.disk.power_cut()
        return self

    async def add(
        self, ledger_id: LedgerId, first: int, count: int = 1, *, recovery: bool = False
    ) -> None:
        """Acknowledged entries; key and note are put first, as the server does it."""
        assert self.now is not None
        storage, loop = self.now.storage, asyncio.get_running_loop()
        learned: asyncio.Future[StorageError | None] = loop.create_future()
        done: asyncio.Future[StorageError | None] = loop.create_future()
        record = LedgerRecord(ledger_id, master_key=KEY, noted=storage.needs_notes)
        storage.put_record(record, done=learned.set_result)
        frame = run(ledger_id, first, count, recovery=recovery)
        room = asyncio.Event()
        storage.on_room = room.set
        while (taken := storage.add_run(frame, done=done.set_result)) is Taken.NO_ROOM:
            await room.wait()
            room.clear()
        if taken is Taken.DONE:
            done.set_result(None)
        assert await learned is None and await done is None

    def end(self) -> None:
        """Whatever runs is ended, for the test's own end."""
        if self.now is not None:
            with contextlib.suppress(StorageError):
                self.now.storage.close()

    def wipe(self, place: int) -> None:
        """The directory is there and empty: a new disk, or a wiped one."""
        shutil.rmtree(self.directory(place))
        self.directory(place).mkdir()

    def forget_identity(self) -> None:
        """No cookie, no claim, no stamp and no marker is left, and everything else is."""
        for directory in self.settings().directories:
            for name in (STAMP_NAME, MARKER_NAME):
                (directory / name).unlink(missing_ok=True)
        self.cluster.cookies.pop(ME, None)
        self.cluster.boots.pop(ME, None)

    def swap(self, one: int, other: int) -> None:
        """The two directories change places."""
        aside = self.root / "aside"
        self.directory(one).rename(aside)
        self.directory(other).rename(self.directory(one))
        aside.rename(self.directory(other))

    def markers(self) -> list[FoundMarker]:
        return [read_marker(self.disk, path) for path in self.settings().directories]

    def running(self) -> set[tuple[int, DurabilityMode]]:
        """Epoch and mode of the boots that the directories name as not cleanly stopped."""
        found = [each.marker for each in self.markers()]
        return {(m.boot_epoch, m.mode) for m in found if m is not None and not m.is_clean}

    # Ledgers
    async def ledger(
        self,
        *fragments: tuple[int, tuple[BookieId, ...]],
        ledger_id: int | None = None,
        closed_at: int | None = None,
    ) -> LedgerId:
        """A new ledger of 3/3/2; by default one fragment that names this bookie."""
        chosen = LedgerId(ledger_id) if ledger_id is not None else await self.store.new_ledger_id()
        metadata = LedgerMetadata(
            chosen,
            ensemble_size=3,
            write_quorum=3,
            ack_quorum=2,
            fragments=tuple(Fragment(EntryId(first), ensemble) for first, ensemble in fragments)
            or (Fragment(EntryId(0), ENSEMBLE),),
        )
        if closed_at is not None:
            metadata = metadata.closed(EntryId(closed_at), length=0)
        await self.store.create_ledger(metadata)
        return chosen


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[BootLab]:
    """On real directories."""
    made = BootLab(tmp_path)
    yield made
    made.end()


@pytest.fixture
async def sim(tmp_path: Path) -> AsyncIterator[BootLab]:
    """On a simulated disk."""
    made = BootLab(tmp_path, disk=SimDisk())
    yield made
    made.end()


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[tuple[BootLab, FaultyStore]]:
    """With a metadata store that fails on demand."""
    store = FaultyStore(MemoryStore())
    made = BootLab(tmp_path, store=store)
    yield made, store
    made.end()


def _image_of(root: Path) -> Path:
    """A copy of folders in which a storage still works: a file that gets its name meanwhile would
    be missing under both its names, which no kill leaves; then all is copied anew."""
    image = root.with_name("image")
    for _ in range(IMAGES_MAX):
        with contextlib.suppress(shutil.Error):
            return Path(shutil.copytree(root, image))
        shutil.rmtree(image)
    raise AssertionError(f"no copy of {root} in {IMAGES_MAX}: files come and go in it")
