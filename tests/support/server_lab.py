"""One whole bookie in this process: real folders and sockets, metadata in memory, real clients.

`kill` leaves what SIGKILL leaves: what was only in memory is gone, the session ends.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answer_tap import AnswerTap
from bookie.boot.takeover import BootSettings
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY, parse_run
from bookie.hosts import at_port, loopback
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import MetadataStore
from bookie.protocol.admission import Ruling, rule_add
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.lifecycle import Bookie, ExitCode, Host
from bookie.server.part_settings import boot_settings
from bookie.server.settings import BookieSettings, parse_settings
from bookie.server.state import BookieState, Phase, Traffic
from bookie.storage.space import SpaceMarks
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from bookie.tls.client_tls import ClientTls
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.client import dial_with
from bookie.wire.identity import Identity
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest
from storage_kit import rest

ME = BookieId("bookie-0")
ENSEMBLE = (ME, BookieId("bookie-1"), BookieId("bookie-2"))
PASSWORD = b"secret"
KEY = master_key(PASSWORD)
UNTIL_SECONDS_MAX = 10
"""An answer that comes at all comes in milliseconds."""
KIB = 1024
SMALL: dict[str, Any] = {
    "ring_bytes": 8192 * KIB,
    "log_file_bytes": 8192 * KIB,
    "journal_ring_bytes": 256 * KIB,
    "journal_file_bytes": 128 * KIB,
    "reserve_bytes": 0,
    "direct_io": "off",
    "space": SpaceMarks(files_min=1, fraction_min=0.0),
}


def frame(
    ledger_id: int, first: int, count: int = 1, *, lac: int = -1, recovery: bool = False
) -> bytes:
    """A run of small entries as a client with the right password builds it."""
    codec = EntryCodec(LedgerId(ledger_id), DigestType.CRC32C, PASSWORD)
    entries = [
        codec.encode(EntryId(i), b"entry %d" % i, lac=EntryId(lac), length=8 * (i + 1))
        for i in range(first, first + count)
    ]
    flags = FLAG_RECOVERY if recovery else 0
    return build_run(LedgerId(ledger_id), EntryId(first), entries, lac=EntryId(lac), flags=flags)


class ServerLab:
    """See the module. `tree` are the settings as a file would hold them; change them at will."""

    def __init__(self, root: Path, answers: AnswerTap | None = None) -> None:
        self.root = root / "disks"
        self.answers = answers or AnswerTap()
        """Every request has had its answer when the lab ends."""
        self.cluster = MemoryCluster()
        self.metadata = FaultyStore(MemoryStore(self.cluster))
        """The bookie's own session."""
        self.store = MemoryStore(self.cluster)
        """The clients' session."""
        self.pool = self.new_pool(None)
        self.caller: ClientTls | None = None
        """Who calls its control plane; None: somebody in plain."""
        self.disk = SimDisk()
        """Logs, journal, stamps and markers; locks are in real folders."""
        self.sizes = dict(SMALL)
        self.wipe_on_kill: tuple[int, ...] = ()
        """Places whose disks the next kill takes along."""
        self.bookie: Bookie | None = None
        self.life: asyncio.Task[ExitCode] | None = None
        self.tree: dict[str, Any] = {
            "bookieId": ME,
            "metadata": "memory://lab",
            "ports": {"run": 0, "stock": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(self.root / "journal")},
            "ledgers": [{"directory": str(self.root / f"ledger-{n}")} for n in range(2)],
            "durability": {"journalWriteData": False, "flushIntervalSeconds": 3600},
            "limits": {"readThreads": 1},  # reads end in the order in which they came
        }

    def new_pool(self, tls: ClientTls | None) -> BookiePool:
        """A client of its native port; whoever asks for one closes it."""
        return BookiePool(self.store, settings=PoolSettings(backoff_min_s=0.001, tls=tls))

    # Lives
    @property
    def settings(self) -> BookieSettings:
        return parse_settings(self.tree, source="the test")

    def _boot_settings(self) -> BootSettings:
        made = boot_settings(self.settings)
        return replace(
            made,
            storage=replace(made.storage, **self.sizes),
            rival_wait_s=0.2,
            lease_wait_s=0.0,
            # They stay the same volumes for all that.
            volume_uids=tuple(str(path) for path in made.directories),
            lease_s=0.0,
        )

    async def _open(self, _url: str) -> MetadataStore:
        self.metadata.inner = MemoryStore(self.cluster)
        await self.metadata.instance_id()
        return self.metadata

    def begin(self) -> Bookie:
        """Starts the process's life; returns at once."""
        for (
            path
        ) in self._boot_settings().directories:  # a simulated disk makes none, locks are real
            path.mkdir(parents=True, exist_ok=True)
        self.bookie = Bookie(
            self.settings,
            disk=self.disk,
            host=Host(open_metadata=self._open),
            boot=self._boot_settings(),
        )
        self.life = asyncio.create_task(self.bookie.run())
        return self.bookie

    async def start(self) -> Bookie:
        """Returns once it serves and is registered, and its flushers rest."""
        bookie = self.begin()
        await self.until_registered()
        await asyncio.to_thread(rest, bookie.control.booted.storage)
        return bookie

    async def until_registered(self) -> None:
        assert self.life is not None
        while ME not in await self.store.bookies():
            assert not self.life.done(), f"it ended with {self.life.result()!r}"
            await asyncio.sleep(0.005)

    async def stop(self) -> ExitCode:
        """A clean stop; the exit code."""
        assert self.bookie is not None
        self.bookie.stop()
        return await self.ended()

    async def ended(self) -> ExitCode:
        """Waits for the end of a life that ends by itself."""
        assert self.life is not None
        ending, self.life, self.bookie = self.life, None, None
        return await ending

    async def kill(self) -> None:
        """SIGKILL: the image first, since the end of the dead one must not reach the next one."""
        left = self.disk.kill()
        await self.stop()
        self.disk = left
        for place in self.wipe_on_kill:
            self.wipe(place)

    async def restart(self) -> Bookie:
        """Killed and started again."""
        await self.kill()
        return await self.start()

    async def end(self) -> None:
        try:
            if self.bookie is not None and self.bookie.state.phase is Phase.SERVING:
                await self.answers.settle()
        finally:
            if self.life is not None:
                await self.stop()
            await self.pool.close()

    @property
    def traffic(self) -> Traffic:
        assert self.bookie is not None
        return self.bookie.state.traffic

    @property
    def directories(self) -> tuple[Path, ...]:
        """The journal's first."""
        return self._boot_settings().directories

    def wipe(self, place: int) -> None:
        """The directory is there and empty: a new disk, or a wiped one."""
        self.disk.replace_volume(self.directories[place])

    def overwrite(self, path: Path, content: bytes) -> None:
        """Somebody wrote that into a file of a directory."""
        if self.disk.exists(path):
            self.disk.unlink(path)
        file = self.disk.create(path)
        file.pwrite([content], 0)
        file.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until what the bookie does by itself is done: at once, not when some time limit of its
        own is over. TimeoutError after a while."""
        async with asyncio.timeout(UNTIL_SECONDS_MAX):
            while not condition():  # noqa: ASYNC110  # seen from outside: nothing tells
                await asyncio.sleep(0.002)

    async def until_status(self, ask: Callable[[], Awaitable[Status]], wanted: Status) -> None:
        """Asks again until that is the answer; AssertionError with the last one after a while."""
        answer = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNTIL_SECONDS_MAX):
                while (answer := await ask()) is not wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
        assert answer is wanted, f"{answer} for {UNTIL_SECONDS_MAX} s, expected {wanted}"

    # Ledgers and requests
    async def ledger(
        self, *, ensemble: Sequence[BookieId] = ENSEMBLE, closed_at: int | None = None
    ) -> LedgerId:
        metadata = LedgerMetadata(
            await self.store.new_ledger_id(),
            ensemble_size=3,
            write_quorum=3,
            ack_quorum=2,
            fragments=(Fragment(EntryId(0), tuple(ensemble)),),
            password=PASSWORD,
        )
        if closed_at is not None:
            metadata = metadata.closed(EntryId(closed_at), length=0)
        await self.store.create_ledger(metadata)
        return metadata.ledger_id

    async def hold_collection(self) -> BookieState:
        """From nothing to a bookie whose three ledgers were all deleted, and whose brake holds."""
        self.tree["storage"] = {
            "collectIntervalSeconds": 0.01,
            "collectGraceSeconds": 0.01,
            "collectBrakeFrom": 2,
        }
        state = (await self.start()).state
        ledgers = [await self.ledger() for _ in range(3)]
        for ledger in ledgers:
            await self.add(ledger, 0)
        for ledger in ledgers:
            await self.store.delete_ledger(ledger)
        await self.until(lambda: state.collection_plan != "" and state.ledgers_missing == 3)
        return state

    async def close_ledger(self, ledger_id: LedgerId, end: int) -> None:
        found = await self.store.read_ledger(ledger_id)
        await self.store.write_ledger(
            found.value.closed(EntryId(end), length=0), version=found.version
        )

    async def send(self, run: bytes, *, key: bytes = KEY) -> Status:
        """One add, until it is answered."""
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.pool.add_run(ME, master_key=key, frame=run, on_reply=answer.set_result)
        return await answer

    async def add(
        self, ledger_id: int, first: int, count: int = 1, *, lac: int = -1, recovery: bool = False
    ) -> Status:
        return await self.send(frame(ledger_id, first, count, lac=lac, recovery=recovery))

    async def read(
        self, ledger_id: int, first: int, last: int, *, fence: bool = False, key: bytes = KEY
    ) -> tuple[Status, ReadReply | None]:
        request = ReadRequest(LedgerId(ledger_id), EntryId(first), EntryId(last), 1 << 20, key)
        return await self.pool.read(ME, request, fence=fence)

    async def absent(self, ledger_id: int, entry_id: int) -> Status:
        """What it says of an entry that is not there."""
        status, reply = await self.read(ledger_id, entry_id, entry_id)
        assert status is Status.OK and reply is not None and not reply.runs
        return reply.absent

    async def absent_now(self, ledger_id: int, entry_id: int) -> Status:
        """OK while the entry is there, then what it says of its absence."""
        _status, reply = await self.read(ledger_id, entry_id, entry_id)
        assert reply is not None
        return Status.OK if reply.runs else reply.absent

    async def held(self, ledger_id: int, first: int, last: int) -> list[int]:
        """Ids in range that a read gives back."""
        status, reply = await self.read(ledger_id, first, last)
        assert status is Status.OK and reply is not None
        found = {i for run in reply.runs for i in parse_run(memoryview(run)).entry_ids()}
        return sorted(i for i in found if first <= i <= last)

    async def lac(self, ledger_id: int, *, fence: bool = False) -> tuple[Status, LacReply | None]:
        return await self.pool.read_lac(ME, self.lac_request(ledger_id), fence=fence)

    async def fence(self, ledger_id: int) -> Status:
        """The fencing LAC read."""
        return (await self.lac(ledger_id, fence=True))[0]

    def lac_request(
        self, ledger_id: int, *, lac: int = NO_ENTRY, timeout_ms: int = 0, key: bytes = KEY
    ) -> LacRequest:
        return LacRequest(LedgerId(ledger_id), key, EntryId(lac), timeout_ms)

    # Control plane
    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[Any]:
        """A stub of its control plane."""
        assert self.bookie is not None
        target = at_port(loopback(), self.bookie.ports["admin"])
        channel, stub = dial_with(self.caller)(target, ME)
        async with channel:
            yield stub

    async def flush(self) -> None:
        """A checkpoint."""
        await self.call("Flush", pb.FlushRequest())

    async def call(self, name: str, request: Any, *, meant: Identity | None = None) -> Any:
        """One rpc; meant for this bookie unless somebody else is named."""
        assert self.bookie is not None
        metadata = (meant or self.bookie.control.identity()).to_metadata()
        async with self.admin() as stub:
            return await getattr(stub, name)(request, metadata=metadata, timeout=10)


@pytest.fixture
async def server(tmp_path: Path, answers: AnswerTap) -> AsyncIterator[ServerLab]:
    """A bookie that serves, in memory mode; flushes only when asked."""
    lab = ServerLab(tmp_path, answers)
    await lab.start()
    yield lab
    await lab.end()


@pytest.fixture
def ruled(monkeypatch: pytest.MonkeyPatch) -> list[Status]:
    """What each ruling on an add said; none is made where a permit stands."""
    found = list[Status]()

    def noted(*args: Any, **more: Any) -> Ruling:
        ruling = rule_add(*args, **more)
        found.append(ruling.status)
        return ruling

    monkeypatch.setattr("bookie.server.operations.rule_add", noted)
    return found


@pytest.fixture
async def idle_server(tmp_path: Path, answers: AnswerTap) -> AsyncIterator[ServerLab]:
    """A bookie that was not started yet."""
    lab = ServerLab(tmp_path, answers)
    yield lab
    await lab.end()
