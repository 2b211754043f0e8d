"""One simulated bookie over all its lives: the real `server.lifecycle.Bookie`, on disks that a
crash may take and a network that may fail it. What a platform does for it is here too: whatever
ends is started again.
"""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from bookie.boot.takeover import BootSettings
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.server.lifecycle import Bookie, ExitCode, Host
from bookie.server.part_settings import boot_settings
from bookie.server.settings import BookieSettings
from bookie.server.state import Phase
from bookie.storage.ledger_log import LOG_DIRECTORY
from bookie.storage.space import SpaceMarks
from bookie.testing.simulation.admin import AdminPort, NoProbes
from bookie.testing.simulation.disk import CAPACITY_BYTES, MachineDisk
from bookie.testing.simulation.locks import NoLock, OtherMachine
from bookie.testing.simulation.loop import SimLoop
from bookie.testing.simulation.metadata import SESSION_S, SimStore
from bookie.testing.simulation.network import Network
from bookie.testing.simulation.plan import Scale
from bookie.testing.simulation.process import Process

BOOT_OPERATIONS: Final = 100
"""Assumed operations of a boot on disks and metadata store, until a boot was counted; a stop has a
quarter."""
RESTART_S: Final = 0.3
"""Seconds until the platform restarts a bookie after an unplanned end."""
KILLED: Final = -9
"""Exit code of a killed process, as the platform sees it."""
_KIB: Final = 1024
MakeStore = Callable[[Process], SimStore]


def settings_of(
    name: str, scale: Scale, mode: str, *, host: str = ""
) -> tuple[BookieSettings, BootSettings]:
    """Small files, so that they roll and are quick to copy."""
    made = BookieSettings.model_validate(
        {
            "bookieId": name,
            "metadata": "memory://simulation",
            "host": host or name,
            "ports": {"stock": None},
            "journal": {"directory": f"/{name}/journal"},
            "ledgers": [
                {"directory": f"/{name}/ledger-{index}"} for index in range(scale.ledger_dirs)
            ],
            "durability": {
                "journalWriteData": mode == "journal",
                "ack": "sync" if mode == "sync" else "memory",
                "flushIntervalSeconds": scale.flush_s,
                "noteIdleFlushes": scale.note_idle_flushes,
            },
            "storage": {
                "compactionIntervalSeconds": 7,
                "collectIntervalSeconds": scale.collect_s,
                "collectGraceSeconds": scale.collect_s * 0.8,
            },
            "lease": {"seconds": scale.lease_s, "confirmSeconds": min(1.0, scale.lease_s / 4)},
        }
    )
    boot = boot_settings(made)
    storage = replace(
        boot.storage,
        ring_bytes=64 * _KIB,
        log_file_bytes=32 * _KIB,
        journal_ring_bytes=64 * _KIB,
        journal_file_bytes=32 * _KIB,
        reserve_bytes=0,
        direct_io="off",
        space=SpaceMarks(files_min=1, fraction_min=0.0),
    )
    return made, replace(boot, storage=storage, rival_wait_s=10.0)


class StopListener(Protocol):
    """Called when a bookie served and may have forgotten something since."""

    def __call__(self, name: str, *, lost_disk: bool = False) -> None: ...


def _nobody_asks(name: str, *, lost_disk: bool = False) -> None:
    """For a bookie that nobody listens to."""


class SimBookie:
    """See the module. `note` is called with what happens to it; `stopped_uncleanly`, that it served
    and may have forgotten something since.
    """

    def __init__(
        self,
        name: str,
        scale: Scale,
        *,
        loop: SimLoop,
        network: Network,
        rng: random.Random,
        make_store: MakeStore,
        note: Callable[[str], None],
        stopped_uncleanly: StopListener = _nobody_asks,
        elsewhere: str = "",
    ) -> None:
        """`elsewhere`: the name of another machine that it runs on, as a process of that name."""
        self.name = name
        self._host = elsewhere or name
        self._lock = OtherMachine if elsewhere else NoLock
        self.mode = scale.mode
        """Durability mode of its present life, or of the next one."""
        self.settings, self.boot_settings = settings_of(name, scale, scale.mode, host=self._host)
        self.disk = MachineDisk(loop)
        self.process: Process | None = None
        self.bookie: Bookie | None = None
        self.store: SimStore | None = None
        self.is_wanted = True
        """Whether the platform starts it whenever it does not run."""
        self.ended_in_doubt = False
        """Whether a boot or stop failed without a fault: its next boot may doubt entries that are
        not lost."""
        self.is_doomed = False
        """Whether a fault is in progress after which it will have forgotten entries."""
        self.has_torn_log = False
        """Whether a power cut in sync mode left a part of what its log had not synced: its next
        boot cannot tell that from damage, and doubts everything (`TornLog`)."""
        self.lives = 0
        self.exit_code: int | None = None
        """Exit code of its last life; KILLED if the process did not end by itself."""
        self.crashes_at: dict[str, int] = {}
        """How often power failed, by operation or named place."""
        self._scale = scale
        self._loop = loop
        self._network = network
        self._rng = rng
        self._make_store = make_store
        self._note = note
        self._stopped_uncleanly = stopped_uncleanly
        self._has_served = False
        self._armed: Callable[[str], None] | None = None
        self._left = 0
        self.boot_operations = BOOT_OPERATIONS
        """Operations of its last complete boot, on disks and metadata store."""
        self.stop_operations = BOOT_OPERATIONS // 4
        """Operations of its longest stop."""
        self._operations = 0
        """Operations since it last began to boot or to stop."""
        self._is_booting = False
        self._point = ""

    @property
    def directories(self) -> tuple[Path, ...]:
        return self.boot_settings.directories

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_serving(self) -> bool:
        return self.is_up and self.bookie is not None and self.bookie.state.phase.serves

    @property
    def marks(self) -> int | None:
        """Ledgers in limbo or unchecked; None while nobody can say."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        if booted is None:
            return None
        return len(booted.storage.limbo_ledgers()) + len(booted.unchecked)

    @property
    def forgets_in_a_crash(self) -> bool:
        """Whether its next boot may doubt what it acknowledged before a crash of now.

        A bookie that never wrote to its journal has none, and an absent journal counts as lost.
        """
        folder = self.disk.directories.get(self.directories[0] / "journal")
        durable = folder.durable if folder is not None else ()
        return self.mode == "memory" or not any(name.endswith(".jnl") for name in durable)

    @property
    def ledgers(self) -> set[LedgerId] | None:
        """Ledgers of which it has anything, also tombstones; None while that is not known."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        return None if booted is None else set(booted.storage.ledger_ids())

    @property
    def tombstones(self) -> set[LedgerId] | None:
        """Ledgers that it has collected; None while that is not known."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        if booted is None:
            return None
        records = [(i, booted.storage.record(i)) for i in booted.storage.ledger_ids()]
        return {i for i, record in records if record is not None and record.deleted}

    def returns(self, ledger_id: LedgerId) -> int:
        """How often a tombstone of the ledger gave way; while it serves."""
        assert self.bookie is not None and self.bookie.control.booted is not None
        record = self.bookie.control.booted.storage.record(ledger_id)
        return record.returns if record is not None else 0

    @property
    def extent(self) -> object:
        """How far it has written; None while that is not known."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        return None if booted is None else booted.storage.extent

    @property
    def generation(self) -> int:
        """The generation on its disks; 0 while it is not known."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        marker = booted.markers.current if booted is not None else None
        return 0 if marker is None else marker.generation

    @property
    def confirmed_until(self) -> float:
        """When its lease ends, by its clock; each confirmation by the store extends it."""
        return -math.inf if self.bookie is None else self.bookie.state.lease_until

    @property
    def leased_from_now(self) -> float:
        """When a lease would end that is confirmed from now on, by its clock."""
        if self.bookie is None:
            return math.inf
        return self.bookie.state.clock() + self.settings.lease.seconds

    @property
    def was_approved(self) -> bool:
        """A person has let the boot of this life go on."""
        boot = self.bookie.control.boot if self.bookie is not None else None
        return boot is not None and bool(boot.approved_plan)

    @property
    def says_rolled_back(self) -> bool:
        """It has noticed that the metadata store was put back."""
        return self.bookie is not None and bool(self.bookie.state.metadata_rolled_back)

    @property
    def is_draining(self) -> bool:
        return self.is_up and self.bookie is not None and self.bookie.state.is_draining

    @property
    def marked(self) -> tuple[frozenset[LedgerId], frozenset[LedgerId]] | None:
        """Ledgers in limbo, and those unchecked; None while nobody can say."""
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        if booted is None:
            return None
        return frozenset(booted.storage.limbo_ledgers()), frozenset(booted.unchecked)

    def doubts(self, ledger_id: LedgerId) -> bool:
        """It says that it may lack entries of the ledger; while it serves."""
        assert self.bookie is not None and self.bookie.control.booted is not None
        storage = self.bookie.control.booted.storage
        record = storage.record(ledger_id)
        return storage.is_unchecked(ledger_id) or (record is not None and record.limbo)

    def held(self, ledger_id: LedgerId) -> EntrySet:
        """What its index names of a ledger; while it serves."""
        assert self.bookie is not None and self.bookie.control.booted is not None
        return self.bookie.control.booted.storage.held(ledger_id)

    @property
    def is_whole(self) -> bool:
        """It serves, and nothing that it may have forgotten is left to be checked.

        While its boundary stands, ledgers may still come to name it by a recovery that was under
        way at its boot (S37).
        """
        booted = self.bookie.control.booted if self.is_serving and self.bookie else None
        return self.marks == 0 and booted is not None and not booted.storage.unchecked_boundary()

    @property
    def refusal(self) -> str:
        """Why it refuses to boot; empty when it does not."""
        state = self.bookie.state if self.is_up and self.bookie is not None else None
        return state.message if state is not None and state.phase is Phase.REFUSED else ""

    @property
    def awaits_approval(self) -> bool:
        boot = self.bookie.control.boot if self.is_up and self.bookie is not None else None
        return boot is not None and boot.progress.plan is not None and not boot.approved_plan

    def approve(self) -> None:
        """A person lets its boot go on."""
        assert self.bookie is not None and self.bookie.control.boot is not None
        boot = self.bookie.control.boot
        if boot.progress.plan is not None:
            boot.approve(boot.progress.plan.plan_id, "judge")

    def lost(self, ledger_id: LedgerId) -> EntrySet:
        """What it has durably recorded as lost."""
        booted = self.bookie.control.booted if self.bookie is not None else None
        return booted.storage.loss(ledger_id) if booted is not None else EMPTY

    # Lives
    def start(self) -> None:
        """A new process on these disks."""
        if self.is_up:
            return
        self.lives += 1
        process = Process(self._host, self._loop, self._rng, work_s=self._scale.work_s)
        self.process, self.bookie = process, None
        self._operations, self._is_booting = 0, True
        self.disk.before_operation = self._count
        process.spawn(self._live(process))

    async def _live(self, process: Process) -> None:
        async def open_store(_url: str) -> MetadataStore:
            self.store = self._make_store(process)
            self.store.before_call = self._count
            return self.store

        network = self._network
        host = Host(
            open_metadata=open_store,
            admin=lambda control: AdminPort(control, network),
            probes=NoProbes,
            lock=self._lock,
            clock=self._loop.time,
        )
        self.bookie = Bookie(self.settings, disk=self.disk, host=host, boot=self.boot_settings)
        code = await self.bookie.run()
        self.exit_code = code.value
        message = self.bookie.state.message
        self._note(f"{self.name} ended {code.name} {message}".rstrip())
        self._gone(process)
        self.disk = self.disk.kill()
        self.ended_in_doubt = self.ended_in_doubt or code is not ExitCode.CLEAN
        if self.is_wanted:
            self.disk.broken.clear()  # a platform puts a failing disk's bookie on good ones
            self._loop.call_later(RESTART_S, self._start_again)
        assert code is not ExitCode.SETTINGS

    def _start_again(self) -> None:
        if self.is_wanted:
            self.start()

    def _gone(self, process: Process) -> None:
        process.kill()
        self._network.forget(process)
        self.disk.before_operation = self._count if self._armed else (lambda _what: None)
        if self.store is not None:
            self.store.die()
            self.store = None
        self.process = None

    def crash(self, image: Callable[[MachineDisk], MachineDisk]) -> None:
        """The end, now; `image` tells what is left of the disk."""
        process = self.process
        if self.is_serving:
            self._has_served = True
            if self.mode == "memory" and not self.disk.lies:
                self._stopped_uncleanly(self.name)
        former, self.disk = self.disk, image(self.disk)
        if self.mode == "sync" and is_torn(former, self.disk):
            self.has_torn_log = True
        if process is not None:
            self.exit_code = KILLED
            self._gone(process)

    def change_mode(self, mode: str) -> None:
        """Set the durability mode of its next life; call it while it is down."""
        assert not self.is_up
        self.mode = mode
        self.settings, self.boot_settings = settings_of(
            self.name, self._scale, mode, host=self._host
        )

    def sleep(self) -> None:
        """Stop its process for a while; the store ends the session of a silent process."""
        process, store = self.process, self.store
        if process is None:
            return
        process.sleep()
        if store is not None:
            store.is_asleep = True
            self._loop.call_later(SESSION_S, self._expire_if_asleep, process, store)

    def _expire_if_asleep(self, process: Process, store: SimStore) -> None:
        if process.is_asleep and self.store is store:
            store.expire()

    def wake(self) -> None:
        if self.store is not None:
            self.store.is_asleep = False
        if self.process is not None:
            self.process.wake()

    # Crash points: power goes in the middle of an operation of its own
    def arm(
        self, operations: int, image: Callable[[MachineDisk], MachineDisk], *, restart_s: float
    ) -> None:
        """Crash at the operation of that number from now on, on disk or metadata store."""
        self._left, self._armed = operations, partial(self._power_goes, image, restart_s)
        self.disk.before_operation = self._count

    def arm_stop(self, operations: int) -> None:
        """It gets SIGTERM at that operation; afterwards the platform starts it again."""
        self._left, self._armed = operations, self._gets_sigterm
        self.disk.before_operation = self._count

    def arm_point(
        self, point: str, image: Callable[[MachineDisk], MachineDisk], *, restart_s: float
    ) -> None:
        """Crash when it passes this place of the code (`bookie.points`)."""
        self._point, self._armed = point, partial(self._power_goes, image, restart_s)

    def disarm(self) -> None:
        self._armed, self._left, self._point = None, 0, ""

    @property
    def is_armed(self) -> bool:
        return self._armed is not None

    def passing(self, point: str) -> None:
        """A place of the code is passed by this bookie's process."""
        if point == self._point:
            self._left = 1
            self._count(point)

    def _count(self, what: str) -> None:
        if not self.is_up:
            return
        self._operations += 1
        if self._is_booting and self.is_serving:
            self._is_booting, self.boot_operations = False, self._operations
        if self._armed is None or self._left == 0:
            return
        self._left -= 1
        if self._left == 0:
            act = self._armed
            self.disarm()
            act(what)

    def _power_goes(
        self, image: Callable[[MachineDisk], MachineDisk], restart_s: float, what: str
    ) -> None:
        self._note(f"{self.name} crashes before {what}")
        self.crashes_at[what] = self.crashes_at.get(what, 0) + 1
        self.crash(image)
        self._loop.call_later(restart_s, self._start_again)

    def _gets_sigterm(self, what: str) -> None:
        self._note(f"{self.name} is told to stop before {what}")
        if self.bookie is not None:
            self.bookie.stop()

    def wipe(self, place: int) -> None:
        """Another, empty disk for this directory; while it is down."""
        assert not self.is_up
        if self._has_served:
            self._stopped_uncleanly(self.name, lost_disk=True)
        self.disk.replace_volume(self.directories[place])

    async def stop(self) -> None:
        """A clean stop, waited for."""
        process, bookie = self.process, self.bookie
        if process is None or bookie is None:
            return
        self._has_served = self._has_served or self.is_serving
        self._operations, self._is_booting = 0, False
        bookie.stop()
        while process.is_alive:  # noqa: ASYNC110  # its last act is to say so
            await asyncio.sleep(0.05)
        self.stop_operations = max(self.stop_operations, self._operations)

    def rot_of_frames(self, where: float) -> None:
        """Flips bits of one byte of a frame in its logs, durably: of none that only fills up."""
        places = [
            (path, at)
            for path in self._log_files()
            for at, byte in enumerate(self.disk.content(path))
            if byte
        ]
        if places:
            path, at = places[int(where * len(places))]
            self.disk.damage(path, at, bytes([self.disk.content(path)[at] ^ 0x55]))

    def _log_files(self) -> list[Path]:
        return [
            directory / "log" / name
            for directory in self.directories[1:]
            if self.disk.exists(directory / "log")
            for name in self.disk.list_directory(directory / "log")
        ]

    def rot(self, where: float) -> None:
        """Flips bits of one byte of its logs, durably; `where`: 0..1 of all their bytes."""
        files = self._log_files()
        if not files:
            return
        path = files[int(where * len(files))]
        content = self.disk.content(path)
        written = len(content.rstrip(b"\0"))
        if written:
            at = int(where * written)
            self.disk.damage(path, at, bytes([content[at] ^ 0x55]))

    def mend(self) -> None:
        """Make its disks good and give them space again, and let it run."""
        self.wake()
        self.disarm()
        self.disk.broken.clear()
        self.disk.capacity_bytes = CAPACITY_BYTES
        self.disk.lies = False


def is_torn(former: MachineDisk, found: MachineDisk) -> bool:
    """Whether of the unsynced bytes of a ledger log any are there after the power cut."""
    if found.directories is former.directories:
        return False  # killed: nothing that was written is lost
    for path, directory in former.directories.items():
        if path.name == LOG_DIRECTORY:
            for name, inode in directory.durable.items():
                after = found.directories[path].seen.get(name)
                if inode.pending and after is not None and after.seen != inode.durable:
                    return True
    return False
