"""A story of a fleet: real bookies, clients and jobs in the simulation, and all of it written down.

Nothing is left to chance: every message takes the same time, and nothing is lost but what the story
takes away. What is written down (`fleet_record`) is what somebody outside could see: messages,
operations on metadata store and disks, logged lines, results, and what each bookie is in the end.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.pool import BookiePool
from bookie.client.writer import LedgerWriter
from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.grpc_control import AdminSettings, GrpcControl
from bookie.server.part_settings import boot_settings
from bookie.server.settings import BookieSettings
from bookie.testing.simulation.admin import dial
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.loop import OWNER, SimLoop
from bookie.testing.simulation.metadata import SimStore, StoreWeather
from bookie.testing.simulation.network import ELSEWHERE, Weather
from bookie.testing.simulation.plan import Scale
from bookie.testing.simulation.process import Process
from bookie.testing.simulation.surroundings import EPOCH_S, replaced
from bookie.wire.identity import Identity
from bookie.wire.native import Op
from fleet_disks import Where, boot_of, disk_of, plan_of
from fleet_line import Line
from fleet_messages import REQUESTS
from fleet_parts import FleetBookie, FleetNetwork, Instead, Steady
from fleet_record import Record, RecordedStore
from fleet_state import state_of, store_of
from fleet_words import lines_of, shown

Result = TypeVar("Result")
PASSWORD: Final = b"secret"
LATENCY_S: Final = 0.001
PATIENCE_S: Final = 60.0
"""What a story waits for comes within this time, by the simulation's clock."""
CLIENT: Final = "client"
"""The process of what a story does itself."""
CALM: Final[Mapping[str, Any]] = {
    "durability": {"flushIntervalSeconds": 3600},
    "storage": {
        "compactionIntervalSeconds": 3600,
        "collectIntervalSeconds": 3600,
        "collectGraceSeconds": 3600,
    },
    "lease": {"seconds": 3600, "confirmSeconds": 900},
}
"""Bookies do nothing by themselves, unless a story says so."""
_SIZES: Final = (
    "ring_bytes", "log_file_bytes", "journal_ring_bytes", "journal_file_bytes", "reserve_bytes",
    "direct_io", "space",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Means:
    """What a story begins with."""

    bookies: int = 3
    mode: str = "memory"
    ledger_dirs: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of all bookies, as in a file of settings; over `CALM`."""
    client: ClientSettings = field(default_factory=ClientSettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    shows_disk: bool = False
    """Whether operations on disks are written down."""
    shows_messages: bool = True
    """Whether messages of the native wire are written down."""
    level: int = logging.INFO
    """Logged lines below this level are left out."""


class Fleet:
    """See the module. Scenes are told in `told`."""

    def __init__(self, means: Means, loop: SimLoop, network: FleetNetwork) -> None:
        self.means = means
        self.loop = loop
        self.network = network
        self.cluster = MemoryCluster()
        self.weather = StoreWeather(latency_s=0.0)
        self.record = network.record
        self.record.shows_messages = means.shows_messages
        self._scale = Scale(
            mode=means.mode, ledger_dirs=means.ledger_dirs, latency_s=LATENCY_S, lease_s=3600.0
        )
        self.bookies = {f"bookie-{n}": self._bookie(f"bookie-{n}") for n in range(means.bookies)}
        self._processes: dict[str, Process] = {}
        self.stores: dict[str, SimStore] = {}
        """The sessions of clients, by process."""
        self._open: list[Client | Cluster] = []
        self.refusals: list[str] = []
        """Of calls of the control plane, by hand."""

    # Who is there
    def _bookie(self, name: str, elsewhere: str = "") -> FleetBookie:
        made = FleetBookie(
            name, self._scale, loop=self.loop, network=self.network, rng=Steady(),
            make_store=self._store, note=self.record.note, elsewhere=elsewhere,
        )  # fmt: skip
        made.on_operation = partial(self._disk_works, elsewhere or name)
        self.set(made, CALM)
        self.set(made, self.means.settings)
        return made

    def twin(self, name: str, disk: MachineDisk | None = None) -> str:
        """A second process of that bookie on another machine, on a copy of its disks; its name."""
        first = self.bookies[name]
        machine = f"{name}{ELSEWHERE}{len(self.bookies)}"
        made = self.bookies[machine] = self._bookie(name, elsewhere=machine)
        made.disk = disk or first.disk.snapshot({}).kill()
        return machine

    def _disk_works(self, name: str, what: str) -> None:
        if self.means.shows_disk and "the metadata store" not in what:
            self.record.note(f"{name} on disk: {what}")

    def set(self, bookie: SimBookie, settings: Mapping[str, Any]) -> None:
        """Changes settings of its next life."""
        tree = bookie.settings.model_dump(mode="json", by_alias=True)
        bookie.settings = BookieSettings.model_validate(_over(tree, settings))
        made, former = boot_settings(bookie.settings), bookie.boot_settings
        sizes = {name: getattr(former.storage, name) for name in _SIZES}
        bookie.boot_settings = replace(
            made, storage=replace(made.storage, **sizes), rival_wait_s=former.rival_wait_s
        )

    def _store(self, process: Process) -> SimStore:
        made = RecordedStore(
            process.name, self.cluster, loop=self.loop, network=self.network,
            weather=self.weather, rng=Steady(), changed=lambda _id, _metadata, _by: None,
        )  # fmt: skip
        made.record = self.record
        return made

    def process(self, name: str) -> Process:
        """A client's process, with a session of its own."""
        if name not in self._processes:
            made = self._processes[name] = Process(name, self.loop, Steady(), work_s=0.001)
            self.stores[name] = self._store(made)
        return self._processes[name]

    def spawn(self, name: str, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Work that a process of that name does beside the story."""
        return self.process(name).spawn(work)

    def client(self, name: str = CLIENT, settings: ClientSettings | None = None) -> Client:
        """A client in the process of that name; call it from that process's work."""
        store = self.stores[self.process(name).name]
        made = Client(store, settings=settings or self.means.client, rng=random.Random(1))
        self._open.append(made)
        return made

    def handles(self, name: str = CLIENT) -> Cluster:
        """What jobs work through."""
        store = self.stores[self.process(name).name]
        control = GrpcControl(
            store, settings=self.means.admin, dial=lambda _has_tls: dial(self.network)
        )
        made = Cluster(store, BookiePool(store, settings=self.means.client.pool), control)
        self._open.append(made)
        return made

    def services(self, name: str) -> Any:
        """The parts of a serving bookie (`server.control.BookieServices`)."""
        bookie = self.bookies[name].bookie
        assert bookie is not None
        return bookie.control.serving

    async def at(self, name: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Work that the bookie's own process does."""
        process = self.bookies[name].process
        assert process is not None
        return await process.spawn(work)

    async def ask(
        self, name: str, method: str, *, meant: Identity | str | None = "now", **request: Any
    ) -> Any:
        """A call of the control plane, by hand: the reply, or None. It is written down."""
        bookie = self.bookies[name].bookie
        if meant == "now" and bookie is not None:
            meant = bookie.control.identity()
        _channel, stub = dial(self.network)(f"{name}:3183", name)
        metadata = meant.to_metadata() if isinstance(meant, Identity) else ()
        try:
            message = REQUESTS[method](**request)
            return await getattr(stub, method)(message, timeout=PATIENCE_S, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            self.refusals.append(f"{error.code().name} {error.details()}")
            if "[Errno" in self.refusals[-1] or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self.record.note(f"= {method}: {self.refusals[-1]}")
            return None

    async def line(self, name: str) -> Line:
        """A native connection by hand, which has greeted the bookie."""
        bookie = self.bookies[name].bookie
        assert bookie is not None
        return await Line.to(name, bookie.state.identity)

    # What happens
    def note(self, text: str) -> None:
        """A headline."""
        self.record.note(f"-- {text}")

    async def begin(self, *names: str) -> None:
        """Starts them, or all, and waits until they serve. Of a first start nothing is said."""
        with self.quiet():
            await self.start(*names)

    async def start(self, *names: str) -> None:
        for name in names or self.bookies:
            self.bookies[name].is_wanted = True
            self.bookies[name].start()
        for name in names or self.bookies:
            await self.until(lambda name=name: self._is_there(name), f"{name} serves")
        await asyncio.sleep(0.05)  # the answer to its registration, too

    async def boot(self, *names: str) -> None:
        """Starts them; says what came of it once each serves, refuses, waits for a person or has
        ended. Nobody starts it again.
        """
        for name in names or self.bookies:
            self.bookies[name].is_wanted = False
            self.bookies[name].start()
        for name in names or self.bookies:
            await self.until(lambda name=name: self._came_to_something(name), f"{name} booted")
        await asyncio.sleep(0.05)
        self.say_boot(*names)

    def _came_to_something(self, name: str) -> bool:
        one = self.bookies[name]
        return self._is_there(name) or bool(one.refusal) or plan_of(one) != "" or not one.is_up

    def _is_there(self, name: str) -> bool:
        one = self.bookies[name]
        return one.is_serving and BookieId(one.name) in self.cluster.registered

    async def stop(self, *names: str) -> None:
        """In order."""
        for name in names:
            self.bookies[name].is_wanted = False
            await self.bookies[name].stop()

    def crash(
        self, *names: str, image: Callable[[MachineDisk], MachineDisk] = lambda disk: disk.kill()
    ) -> None:
        """SIGKILL, or what `image` leaves of the disks."""
        for name in names:
            self.record.note(f"{name} crashes")
            self.bookies[name].is_wanted = False
            self.bookies[name].crash(image)

    async def until(self, holds: Callable[[], bool], what: str, *, pause_s: float = 0.05) -> None:
        """AssertionError if it does not come about."""
        began = self.loop.time()
        while not holds():
            assert self.loop.time() - began < PATIENCE_S, f"waited for: {what}\n{self.record.text}"
            await asyncio.sleep(pause_s)

    async def until_soon(self, holds: Callable[[], bool]) -> None:
        """The same, to a tenth of what a message takes."""
        await self.until(holds, "what comes within messages", pause_s=LATENCY_S / 10)

    def quiet(self) -> AbstractContextManager[None]:
        """Nothing of it is written down."""
        return self.record.quiet()

    async def seen(self, what: str, work: Awaitable[Result]) -> Result | None:
        """Writes down what comes of it: a result, or an error of ours."""
        try:
            found = await work
        except BookieError as error:
            self.record.note(f"= {what}: {type(error).__name__}: {error}")
            return None
        if isinstance(found, dict):
            self.record.note(f"= {what}:")
            self.record.note_each(f"    {line}" for line in lines_of(found))
        else:
            self.record.note(f"= {what}: {shown(found)}")
        return found

    async def ledger(
        self,
        *members: str,
        ensemble: int = 3,
        write: int = 3,
        ack: int = 2,
        closed_at: int | None = None,
        **more: Any,
    ) -> LedgerId:
        """Metadata alone, made without a word; of the first bookies unless some are named."""
        named = members or tuple(self.bookies)[:ensemble]
        with self.quiet():
            store = self.stores[self.process(CLIENT).name]
            metadata = LedgerMetadata(
                await store.new_ledger_id(), len(named), min(write, len(named)), ack,
                fragments=(Fragment(EntryId(0), tuple(map(BookieId, named))),),
                password=PASSWORD, **more,
            )  # fmt: skip
            if closed_at is not None:
                metadata = metadata.closed(EntryId(closed_at), length=10 * (closed_at + 1))
            return (await store.create_ledger(metadata)).value.ledger_id

    async def write(
        self, count: int, *, client: Client | None = None, payload: bytes = b"entry", **quorums: int
    ) -> LedgerWriter:
        """A new ledger with so many entries, all acknowledged; 3/3/2 unless said otherwise."""
        wanted = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2} | quorums
        writer = await (client or self.client()).create_ledger(password=PASSWORD, **wanted)
        for number in range(count):
            writer.append(b"%s %d" % (payload, number))
        if count:
            await writer.wait_acked(EntryId(count - 1))
        return writer

    def answers(
        self, bookie: str, op: Op, status: Status | None, *, times: int = 1, body: bytes = b""
    ) -> None:
        """The next answers of that kind say something else, after the work was done; None: they
        are lost.
        """
        self.network.instead.setdefault(bookie, []).append(Instead(op, status, times, body))

    def say_ledgers(self) -> None:
        """What the metadata store and the bookies hold of ledgers, and no figures."""
        self._say(store_of(self.cluster), "metadata: ledger", "metadata: value")
        for name, bookie in self.bookies.items():
            self._say(state_of(bookie), f"{name} ledger", f"{name}: down")

    def _say(self, lines: Iterable[str], *beginnings: str) -> None:
        """Those that begin so; all, if nothing is named."""
        self.record.note_each(line for line in lines if line.startswith(beginnings or ""))

    def say_state(self, *names: str) -> None:
        """What bookies are: figures, ledgers, files."""
        for name in names or self.bookies:
            self._say(state_of(self.bookies[name]))

    def say_figures(self, *names: str) -> None:
        """Of the state, figures alone."""
        for name in names or self.bookies:
            self._say(state_of(self.bookies[name]), f"{name} figure")

    def say_boot(self, *names: str) -> None:
        """What boots are at, or what they were."""
        for name in names or self.bookies:
            self._say(boot_of(self.bookies[name], name))

    def say_disk(self, *names: str, where: Where = lambda _path: True) -> None:
        """Files with what they hold: records, frames, rows. `where`: which, by path."""
        for name in names or self.bookies:
            bookie = self.bookies[name]
            lines = disk_of(bookie.disk, Path(f"/{bookie.name}"), where=where)
            self._say(f"{name} has {line}" for line in lines)

    def passing(self, point: str) -> None:
        """A place that `bookie.points` names is passed by whoever runs now."""
        owner = getattr(OWNER.get(), "name", "")
        if owner in self.bookies:
            self.bookies[owner].passing(point)

    def say_store(self) -> None:
        """All that the metadata store holds."""
        self._say(store_of(self.cluster))

    def end(self) -> None:
        with self.quiet():
            for process in self._processes.values():
                process.kill()
                self.network.forget(process)
            for bookie in self.bookies.values():
                bookie.is_wanted = False
                bookie.crash(lambda disk: disk.kill())
            rest = sorted(asyncio.all_tasks(self.loop), key=lambda task: task.get_name())
            for task in rest:
                task.cancel()
            self.loop.run_until_complete(_unwound(rest))
            self.loop.close()


async def _unwound(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def told(scenes: Callable[[Fleet], Coroutine[Any, Any, None]], **means: Any) -> str:
    """Runs the scenes in a new fleet; all that was written down."""
    network = FleetNetwork(Steady(), Weather(latency_s=LATENCY_S, tail=0.0))
    loop = SimLoop(network, Steady())
    network.loop = loop
    record = network.record = Record(loop.time)
    network.tap = record
    fleets: list[Fleet] = []

    def passing(point: str) -> None:
        for one in fleets:
            one.passing(point)

    with replaced(loop.time, lambda: EPOCH_S + loop.time(), passing, 1):
        fleet = Fleet(Means(**means), loop, network)
        fleets.append(fleet)
        with logged(record, fleet.means.level):
            try:
                work = fleet.process(CLIENT).spawn(_all_of(scenes, fleet))
                loop.run_until_complete(work)
            finally:
                fleet.end()
    record.is_quiet = False
    for defect in loop.defects:
        record.note(f"a defect: {defect}")
    return record.text


async def _all_of(scenes: Callable[[Fleet], Coroutine[Any, Any, None]], fleet: Fleet) -> None:
    await scenes(fleet)
    fleet.record.is_quiet = True
    for one in fleet._open:
        if isinstance(one, Client):
            await one.close()
        else:
            await one.control.close()
            await one.peers.close()


@contextmanager
def logged(record: Record, level: int) -> Iterator[None]:
    """Lines that the product logs, each with the process that it is of."""
    handler, root = _Lines(record, level), logging.getLogger("bookie")
    before, disabled = root.level, logging.root.manager.disable
    logging.disable(logging.NOTSET)
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        logging.disable(disabled)


class _Lines(logging.Handler):
    def __init__(self, record: Record, level: int) -> None:
        super().__init__(level)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        who = getattr(OWNER.get(), "name", "?")
        self._record.note(f"{who} logs {record.levelname}: {record.getMessage()}")


def _over(tree: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(tree)
    for key, value in more.items():
        inner = merged.get(key)
        is_deep = isinstance(value, Mapping) and isinstance(inner, dict)
        merged[key] = _over(inner, value) if is_deep and isinstance(inner, dict) else value
    return merged
