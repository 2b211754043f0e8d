"""One bookie whose life is recorded: the real boot, request service, marks, drain and stop.

Requests go through a real connection of the native port; the promise of an answer is noted at the
moment when its bytes leave. Beside the sockets nothing is missing, and nothing runs by itself:
flushers take their steps while a request is waited for.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from bookie.boot.boot import Boot, Booted, finish_clean_stop
from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.stamps import read_stamp
from bookie.boot.takeover import BootSettings
from bookie.errors import BookieError, BootRefusedError, StorageError
from bookie.frames.build import build_run
from bookie.frames.frame import FLAG_RECOVERY, RunFrame, parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.protocol.availability import EntrySet
from bookie.protocol.collection import CollectionRules
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.connections import RunConnection
from bookie.server.drain import Drain
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.marks import LossRequest, Marks, RetractionRequest
from bookie.server.operations import Operations
from bookie.server.pacing import BusyRates, Pacing
from bookie.server.requests import RunService
from bookie.server.sessions import Sessions
from bookie.server.state import BookieState, Phase
from bookie.storage.compaction import CompactReport
from bookie.storage.index import INDEX_NAME
from bookie.storage.modes import DurabilityMode
from bookie.storage.rebuild import rebuild_index
from bookie.storage.routing import route
from bookie.storage.settings import StorageSettings
from bookie.storage.space import SpaceMarks
from bookie.storage.storage import Storage
from bookie.testing.inline import InlineDisk
from bookie.testing.volatile import Directory
from bookie.wire.native import (
    FLAG_FENCE,
    LacRequest,
    Op,
    ReadRequest,
    envelope_header,
)
from crash_promises import ME, Promises, Stop
from crash_trace import CrashPoint, Recorder, RecordingStore, copy_of_cluster
from crash_wire import KEY, Wire, run_frame

ENSEMBLE: Final = (ME, BookieId("bookie-1"), BookieId("bookie-2"))
OTHERS: Final = tuple(BookieId(f"bookie-{n}") for n in (1, 2, 3))
ROOT: Final = Path("/bookie")
KIB: Final = 1024
TURNS: Final = 8
"""Turns of the event loop after which nothing more follows from what was done."""
PORTS: Final = {"run": 1, "admin": 2}
READS_MAX: Final = 10


def unhurried() -> Pacing:
    """Answers nothing later than it may."""
    return Pacing(BusyRates(), clock=lambda: 0.0)


Result = TypeVar("Result")


def boot_settings(
    mode: DurabilityMode, *, disks: int = 1, policy: FixPolicy = FixPolicy.AUTO
) -> BootSettings:
    """Files as small as they may be."""
    storage = StorageSettings(
        journal_dir=ROOT / "journal",
        ledger_dirs=tuple(ROOT / f"ledger-{index}" for index in range(disks)),
        mode=mode,
        note_idle_flushes=1,
        ring_bytes=16 * KIB,
        log_file_bytes=16 * KIB,
        journal_ring_bytes=16 * KIB,
        journal_file_bytes=16 * KIB,
        reserve_bytes=0,
        direct_io="off",
        space=SpaceMarks(files_min=1, fraction_min=0.0),
    )
    return BootSettings(ME, storage, policy, rival_wait_s=0.0)


def call_soon(callback: Callable[[], None]) -> None:
    """In the event loop's thread, which is the only one."""
    asyncio.get_running_loop().call_soon(callback)


def refuse_to_wait(step: str) -> None:
    """For a boot: who would wait for a person has refused."""
    if step == "awaiting approval":
        raise BootRefusedError("a person is asked for approval")


class _Told:
    """Closes a storage and notes that it has: from then on a clean verdict may be right."""

    def __init__(self, storage: Storage, on_closed: Callable[[], None]) -> None:
        self._storage = storage
        self._on_closed = on_closed

    def close(self) -> None:
        self._storage.close()
        self._on_closed()


class RecordedBookie:
    """See the module. One disk, one metadata cluster, one process after the other."""

    def __init__(
        self,
        settings: BootSettings,
        *,
        disk: InlineDisk | None = None,
        cluster: MemoryCluster | None = None,
        promises: Promises | None = None,
    ) -> None:
        self.settings = settings
        self.disk = disk or InlineDisk()
        self.cluster = cluster or MemoryCluster()
        self.recorder = Recorder(self.cluster, settings, promises)
        self.recorder.watch(self.disk)
        self.store = RecordingStore(self.recorder)
        self.booted: Booted | None = None
        self._reader = cast(ThreadPoolExecutor, None)  # the loop asks no executor
        self._replies: dict[int, Callable[[Status], None]] = {}
        self._statuses: dict[int, Status] = {}
        self._requests = 0

    @classmethod
    def after(cls, point: CrashPoint, disk: InlineDisk) -> "RecordedBookie":
        """What comes after a crash that left this disk."""
        cluster = copy_of_cluster(point.cluster)
        return cls(point.settings, disk=disk, cluster=cluster, promises=point.promises)

    def begin_trace(self) -> None:
        """What was recorded so far is not to be crashed, and has reached the disk meanwhile."""
        self.disk.write_back()
        self.recorder.points.clear()
        self.recorder.operations = 0
        self.recorder.cut("the first operation")

    # ---- lives ----------------------------------------------------------------------------------

    async def boot(self, mode: DurabilityMode | None = None) -> Booted:
        """A whole boot; then it serves."""
        if mode is not None:
            storage = replace(self.settings.storage, mode=mode)
            self.settings = self.recorder.settings = replace(self.settings, storage=storage)
        self.recorder.take_back("the boot", _booting)
        boot = Boot(
            self.settings, self.store, disk=self.disk, call_soon=call_soon, started_at_ms=1,
            on_step=refuse_to_wait, holders=("here",) * len(self.settings.directories),
        )  # fmt: skip
        self.booted = booted = await boot.run()
        self._serve(booted)
        self._promise(lambda promises: self._served(promises, booted))
        return booted

    async def fail_to_boot(self) -> BookieError:
        """A boot that ends in an error; the process is gone after it."""
        try:
            await self.boot()
        except BookieError as error:
            self.kill()
            return error
        raise AssertionError("the boot was to fail")

    def _serve(self, booted: Booted) -> None:
        self.state = BookieState(
            ME,
            phase=Phase.SERVING,
            instance_id=booted.instance_id,
            boot_epoch=booted.record.boot_epoch,
        )
        first_fences = FirstFences(in_store(self.store))
        self.collector = Collector(
            self.store, booted.storage, state=self.state, rules=CollectionRules(),
            clock=itertools.count(step=1000).__next__, first_fences=first_fences,
        )  # fmt: skip
        operations = Operations(
            booted.storage, self.state,
            reader=self._reader, reads_in_flight_max=READS_MAX, pacing=unhurried(),
            first_fences=first_fences,
        )  # fmt: skip
        self.service = RunService(operations, Sessions(self.state.traffic, connections_max=1))
        self.marks = Marks(
            booted.storage, self.store, bookie_id=ME, state=self.state, unchecked=booted.unchecked
        )
        announcer = Announcer(
            self.store, self.state, host="here", ports=PORTS, boot_epoch=booted.record.boot_epoch
        )
        self.drain = Drain(
            self.store, self.state, marks=self.marks, announcer=announcer,
            disk=self.disk, directories=self.settings.directories,
        )  # fmt: skip
        self._connection = RunConnection(self.service)
        self._connection.connection_made(Wire(self._replied))
        self._send(Op.HELLO, 0, self.state.identity.encode(), then=lambda _status: None)

    def _served(self, promises: Promises, booted: Booted) -> Promises:
        storage, record = booted.storage, booted.record
        fence = storage.boundary()
        marked = frozenset(filter(fence.covers, self.cluster.ledgers) if fence else ())
        stamps = [read_stamp(self.disk, each) for each in self.settings.directories]
        return replace(
            promises,
            mode=record.mode,
            stop=Stop.UNCLEAN,
            has_forgotten=False,
            fresh={},
            epoch=record.boot_epoch,
            refused=promises.refused | marked,
            # Of a deleted ledger the next collection leaves nothing but the tombstone.
            limbo=frozenset(storage.limbo_ledgers()) & self.cluster.ledgers.keys(),
            unchecked=frozenset(booted.unchecked),
            disks=tuple(stamp.disk_id for stamp in stamps if stamp is not None),
        )

    def compact(self) -> CompactReport:
        """All pieces at once."""
        return sum(iter(self.storage.maintenance.compact_some, None), CompactReport())

    @property
    def storage(self) -> Storage:
        assert self.booted is not None
        return self.booted.storage

    async def stop(self) -> StorageError | None:
        """A clean stop, or the failure that leaves the markers where they are."""
        assert self.booted is not None
        markers = self.booted.markers
        told = _Told(self.storage, self._flushed_for_stop)
        try:
            finish_clean_stop(cast(Storage, told), markers)
        except StorageError as error:
            return error
        finally:
            self.booted = None
            self.cluster.registered.clear()
        self._promise(lambda promises: replace(promises, stop=Stop.CLEAN))
        return None

    def _flushed_for_stop(self) -> None:
        self._promise(lambda p: replace(p, stop=Stop.EITHER).with_flush(p.fresh))

    def kill(self) -> None:
        """SIGKILL: what was only in memory is gone, all writes stay."""
        self._go_on_with(self.disk.kill())

    def cut_power(self, *, seed: int | None = None) -> None:
        """All that was not synced is gone; with a seed only some of it."""
        disk = self.disk
        self._go_on_with(disk.power_cut() if seed is None else disk.crash(seed))

    def _go_on_with(self, disk: InlineDisk) -> None:
        self.disk.close_databases()
        self.disk, self.booted = disk, None
        self.cluster.registered.clear()
        self.recorder.watch(disk)

    def replace_volume(self, place: int) -> Mapping[Path, Directory]:
        """A new volume in one place, 0 is the journal's; the bookie is down. The old one."""
        gone, last = self._on_place(place), len(self.settings.storage.ledger_dirs) == 1
        self.recorder.take_back("a new volume", lambda p: p.without_disk(place, gone, last=last))
        return self.disk.replace_volume(self.settings.directories[place])

    def put_back(self, place: int, volume: Mapping[Path, Directory]) -> None:
        """The old volume, before any boot has ended without it: all holds that did before."""
        self.disk.replace_volume(self.settings.directories[place], volume)

    def lose_index(self, place: int) -> None:
        """The index of one ledger directory, counted from 0, is gone; the bookie is down."""
        gone, last = self._on_place(place + 1), len(self.settings.storage.ledger_dirs) == 1
        self.recorder.take_back(
            "the loss of an index", lambda p: p.without_index(place + 1, gone, last=last)
        )
        directory = self.settings.storage.ledger_dirs[place]
        self.disk.unlink(directory / INDEX_NAME)
        self.disk.sync_directory(directory)
        self._promise(lambda p: replace(p, stop=Stop.UNCLEAN, has_forgotten=True))

    def _on_place(self, place: int) -> list[LedgerId]:
        count = len(self.settings.storage.ledger_dirs)
        promises = self.recorder.promises
        known = {*self.cluster.ledgers, *promises.keys, *promises.deleted}
        return [i for i in known if place in (0, route(i, count) + 1)]

    def rebuild_index(self, place: int) -> None:
        """`bookie index rebuild` of one ledger directory, counted from 0; the bookie is down."""
        self.recorder.take_back("the rebuild", lambda p: replace(p, stop=Stop.EITHER))
        rebuild_index(self.settings.storage.ledger_dirs[place], disk=self.disk)
        self._promise(lambda p: replace(p, stop=Stop.UNCLEAN, has_forgotten=True))

    # ---- ledgers --------------------------------------------------------------------------------

    async def ledger(self, *, ensemble: Sequence[BookieId] = ENSEMBLE) -> LedgerId:
        """A new one of 3/3/2 that names this bookie."""
        ledger_id = await self.store.new_ledger_id()
        await self.store.create_ledger(
            LedgerMetadata(
                ledger_id,
                ensemble_size=3,
                write_quorum=3,
                ack_quorum=2,
                fragments=(Fragment(EntryId(0), tuple(ensemble)),),
            )
        )
        return ledger_id

    async def close_ledger(self, ledger_id: LedgerId, end: int) -> None:
        found = await self.store.read_ledger(ledger_id)
        closed = found.value.closed(EntryId(end), length=0)
        await self.store.write_ledger(closed, version=found.version)

    async def delete_ledger(self, ledger_id: LedgerId) -> None:
        """From the metadata; what is here goes with the next collection."""
        self.recorder.take_back("the deletion", lambda p: p.without_ledger(ledger_id))
        await self.store.delete_ledger(ledger_id)

    # ---- requests -------------------------------------------------------------------------------

    async def add(
        self,
        ledger_id: LedgerId,
        first: int,
        count: int = 1,
        *,
        recovery: bool = False,
        entry_bytes: int = 40,
    ) -> Status:
        """One run, until it is answered."""
        frame = run_frame(ledger_id, first, count, entry_bytes=entry_bytes, recovery=recovery)

        body = KEY + bytes(frame.buffer)
        return await self._ask(Op.ADD_RUN, 0, body, partial(self._acked, frame))

    def _acked(self, frame: RunFrame) -> None:
        self._promise(lambda promises: promises.with_acked(frame, key=KEY))

    async def copy(self, ledger_id: LedgerId, entry_id: EntryId, content: bytes) -> Status:
        """An entry verbatim by a recovery add, as a repair brings it."""
        lac = EntryId(entry_id - 1)
        run = build_run(ledger_id, entry_id, [content], lac=lac, flags=FLAG_RECOVERY)
        frame = parse_run(memoryview(run))
        return await self._ask(Op.ADD_RUN, 0, KEY + run, partial(self._acked, frame))

    def send_add(self, ledger_id: LedgerId, first: int) -> None:
        """One entry; nobody waits for the answer, which is noted all the same."""
        frame = run_frame(ledger_id, first, 1, entry_bytes=40, recovery=False)
        body = KEY + bytes(frame.buffer)
        self._send(Op.ADD_RUN, 0, body, then=_if_ok(partial(self._acked, frame)))

    def send_fence(self, ledger_id: LedgerId) -> None:
        """As `fence`, without waiting."""
        body = LacRequest(ledger_id, KEY).encode()
        self._send(Op.READ_LAC, FLAG_FENCE, body, then=_if_ok(self._fenced(ledger_id)))

    async def fence(self, ledger_id: LedgerId) -> Status:
        """The fencing read of the LAC."""
        return await self._ask_lac(Op.READ_LAC, ledger_id, FLAG_FENCE, self._fenced(ledger_id))

    async def fence_by_read(self, ledger_id: LedgerId) -> Status:
        """A recovery read of an entry."""
        request = ReadRequest(ledger_id, EntryId(0), EntryId(0), KIB, KEY)
        return await self._ask(Op.READ, FLAG_FENCE, request.encode(), self._fenced(ledger_id))

    def _fenced(self, ledger_id: LedgerId) -> Callable[[], None]:
        return lambda: self._promise(
            lambda p: replace(p, fenced=p.fenced | {ledger_id}, keys={**p.keys, ledger_id: KEY})
        )

    async def write_lac(self, ledger_id: LedgerId, lac: int) -> Status:
        """An explicit LAC."""

        def written() -> None:
            self._promise(lambda p: replace(p, lacs={**p.lacs, ledger_id: lac}))

        return await self._ask_lac(Op.WRITE_LAC, ledger_id, 0, written, lac)

    async def _ask_lac(
        self, op: Op, ledger_id: LedgerId, flags: int, told: Callable[[], None], lac: int = -1
    ) -> Status:
        request = LacRequest(ledger_id, KEY, EntryId(lac))
        return await self._ask(op, flags, request.encode(), told)

    async def _ask(self, op: Op, flags: int, body: bytes, told: Callable[[], None]) -> Status:
        tell, number = _if_ok(told), self._requests + 1

        def replied(status: Status) -> None:
            self._statuses[number] = status
            tell(status)

        self._send(op, flags, body, then=replied)
        await self._until(lambda: number in self._statuses)
        return self._statuses.pop(number)

    def _send(self, op: Op, flags: int, body: bytes, *, then: Callable[[Status], None]) -> None:
        """The answer may come before this returns."""
        self._requests += 1
        self._replies[self._requests] = then
        message = envelope_header(op, flags, self._requests, len(body)) + body
        self._connection.get_buffer(-1)[: len(message)] = message
        self._connection.buffer_updated(len(message))

    def _replied(self, number: int, status: Status) -> None:
        self._replies.pop(number)(status)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Event loop and flushers in turns."""
        while not holds():
            for _ in range(TURNS):
                await asyncio.sleep(0)
            has_run = self.disk.run_flushers()
            assert has_run or holds(), "nothing is under way, and no answer came"

    # ---- control plane and housekeeping ---------------------------------------------------------

    async def flush(self) -> None:
        """A checkpoint, and what follows it."""
        await self.checkpoint()
        self.take_back_notes()

    def take_back_notes(self) -> None:
        """Those of idle ledgers, as a bookie does after a flush."""
        while self.storage.take_back_notes():
            pass

    async def checkpoint(self) -> None:
        """All that was added before is durable."""
        fresh = self.recorder.promises.fresh
        await self.marks.flush()
        self.disk.run_flushers()  # a sync that was asked for twice is not to cover later adds
        self._promise(lambda promises: promises.with_flush(fresh))

    async def clear(self, *ledger_ids: LedgerId) -> list[bool]:
        """What of it the bookie itself found right."""
        self.recorder.take_back("clearing", lambda p: p.without_marks(ledger_ids))
        found = await self._do(self.marks.clear(ledger_ids))
        return [result.may_clear for result in found]

    async def finish_unchecked(self) -> bool:
        return await self._do(self.marks.finish_unchecked())

    async def record_loss(self, ledger_id: LedgerId, first: int, last: int) -> str:
        lost = EntrySet.from_ranges([(first, last)])
        request = LossRequest(
            ledger_id, lost, reason="no copy is left", answered_by=frozenset(ENSEMBLE),
            by_person=False,
        )  # fmt: skip
        refusal = await self._do(self.marks.record_loss(request))
        if not refusal:
            ids = map(EntryId, range(first, last + 1))
            self._promise(lambda promises: promises.with_loss(ledger_id, ids))
        return refusal

    async def retract_loss(self, ledger_id: LedgerId) -> None:
        """Ann finds the record wrong."""
        self.recorder.take_back("a retraction", lambda p: p.without_losses(ledger_id))
        request = RetractionRequest(ledger_id, None, by="ann", reason="a mistake")
        done = await self._do(self.marks.retract_loss(request))
        assert done.entries and done.into_limbo, done
        self._promise(lambda promises: promises.with_retraction(ledger_id))

    async def collect(self) -> int:
        """Deleted ledgers go, tombstones stay."""
        held = set(self.storage.ledger_ids())
        count = sum([await self._do(self.collector.run_pass()) for _look in range(2)])
        gone = frozenset(held - set(self.cluster.ledgers))
        self._promise(lambda p: replace(p, deleted=p.deleted | gone, fenced=p.fenced | gone))
        return count

    async def set_draining(self, is_on: bool) -> None:
        """The drain begins or is cancelled."""
        self.recorder.take_back("the drain", lambda p: replace(p, draining=None))
        await self._do(self.drain.begin() if is_on else self.drain.cancel())
        self._promise(lambda promises: replace(promises, draining=is_on))

    async def settle(self) -> None:
        """Until nothing is under way any more."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        while self.disk.run_flushers():
            for _ in range(TURNS):
                await asyncio.sleep(0)

    async def _do(self, work: Coroutine[Any, Any, Result] | Awaitable[Result]) -> Result:
        task = asyncio.ensure_future(work)
        await self._until(task.done)
        return task.result()

    def _promise(self, change: Callable[[Promises], Promises]) -> None:
        self.recorder.promise(change(self.recorder.promises))


def _if_ok(told: Callable[[], None]) -> Callable[[Status], None]:
    """Only OK promises anything."""
    return lambda status: told() if status is Status.OK else None


def _booting(promises: Promises) -> Promises:
    """A boot may leave markers before it serves, never take some away."""
    return replace(promises, stop=Stop.EITHER if promises.stop is Stop.CLEAN else promises.stop)
