"""The load: writers, readers, recoverers, owners of a log, and the repairer; all of it real code.

Each runs in a process of its own with a session and connections of its own. What they learn goes
into the history at once; an error they are entitled to get is an event, any other one a violation.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final

from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import LogPosition
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.client.reader import LedgerReader, ReaderSettings
from bookie.client.recovery import RecoverySettings
from bookie.client.writer import LedgerWriter, WriterSettings
from bookie.errors import (
    BookieError,
    DataLossError,
    LedgerFencedError,
    NoSuchLedgerError,
)
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import LedgerState
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.grpc_control import AdminSettings, GrpcControl
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import WRITER_GRACE_S, RepairSettings
from bookie.testing.simulation.admin import dial
from bookie.testing.simulation.history import History
from bookie.testing.simulation.log_history import LogAppend
from bookie.testing.simulation.network import Network
from bookie.testing.simulation.plan import Scale

SETTINGS: Final = ClientSettings(
    writer=WriterSettings(stall_s=15.0),
    reader=ReaderSettings(poll_ms=500),
    recovery=RecoverySettings(attempts=2),
    pool=PoolSettings(request_timeout_s=2.0, connect_timeout_s=1.0, backoff_max_s=1.0),
)
REPAIR: Final = RepairSettings(
    audit=AuditSettings(grace_s=0.3, recheck_s=None), copy=CopySettings(frame_bytes=8 * 1024)
)
"""Frames that the small logs of simulated bookies take."""
WRITER_GRACES_S: Final = (0.0, WRITER_GRACE_S, 3 * WRITER_GRACE_S)
"""Repairs that leave writers time to move on, and one that does not."""
PATIENCE_S: Final = 2.0
"""Between two tries of a client that was refused."""
TRUNCATE_CHANCE: Final = 0.05
REST_S: Final = 0.1
PASSWORD: Final = b"secret"
LOG_NAME: Final = "orders"
TAIL_S: Final = 3.0
"""How long a reader stays with one ledger, at most."""
UNSENT_MAX: Final = 200
"""Appends under way at once."""


@dataclass(slots=True)
class Shared:
    """What all clients of one simulation share."""

    scale: Scale
    network: Network
    history: History
    rng: random.Random
    begun: list[LedgerId] = field(default_factory=list)
    """Ledgers there are for readers and recoverers to choose from."""
    writing: dict[str, LedgerId] = field(default_factory=dict)
    """Writer -> its ledger of now."""
    resting: set[str] = field(default_factory=set)
    """Clients that sleep now, or have nothing to write."""
    losses_expected: bool = False
    lossy: set[LedgerId] = field(default_factory=set)
    """Ledgers of which a repair or a person has recorded a loss."""
    marks: Callable[[], set[tuple[str, LedgerId]]] = set
    """Bookies that serve, and ledgers of which they have a mark now."""
    learned_fenced: Callable[[LedgerId], bool] = lambda _ledger_id: False
    """Whether any bookie has answered a writer of this ledger that it is fenced."""
    distrusted: set[str] = field(default_factory=set)
    """Bookies whose copies may be wrong by their own disks or memory; nobody else's may be."""
    truncated: set[LedgerId] = field(default_factory=set)
    """Ledgers of a log that an owner has given up."""
    deleted: set[LedgerId] = field(default_factory=set)
    """Ledgers that somebody has tried to delete."""
    log_appends: list[LogAppend] = field(default_factory=list)
    mislaid: Container[LedgerId] = ()
    """Ledgers that the store had lost for so long that bookies could rightly drop them."""


def log_settings(scale: Scale) -> LogSettings:
    return LogSettings(
        scale.ensemble, scale.write_quorum, scale.ack_quorum, PASSWORD, roll_entries=scale.entries
    )


@asynccontextmanager
async def client_of(
    shared: Shared, store: MetadataStore, *, attempts: int = 2
) -> AsyncIterator[Client]:
    """A client with the shared settings and a seed of its own; `attempts` of each recovery."""
    writer = replace(SETTINGS.writer, limits=WriterLimits(gather_batches=shared.scale.pipeline))
    settings = replace(SETTINGS, writer=writer, recovery=RecoverySettings(attempts=attempts))
    client = Client(store, settings=settings, rng=random.Random(shared.rng.random()))
    try:
        yield client
    finally:
        await client.close()


async def write_ledgers(shared: Shared, store: MetadataStore, name: str) -> None:
    """Writes one ledger after the other, for ever."""
    async with client_of(shared, store) as client:
        while True:
            try:
                writer = await client.create_ledger(
                    ensemble_size=shared.scale.ensemble,
                    write_quorum=shared.scale.write_quorum,
                    ack_quorum=shared.scale.ack_quorum,
                    password=PASSWORD,
                )
            except BookieError as error:
                shared.history.note(f"{name} cannot create: {type(error).__name__}")
                await asyncio.sleep(shared.scale.patience_s)
                continue
            shared.begun.append(writer.ledger_id)
            shared.writing[name] = writer.ledger_id
            await _write(shared, writer, name)
            await asyncio.sleep(shared.rng.random() * shared.scale.between_s)


async def _write(shared: Shared, writer: LedgerWriter, name: str) -> None:
    scale, rng, history = shared.scale, shared.rng, shared.history
    written = 0
    try:
        while written < scale.entries:
            for _ in range(1 + rng.randrange(scale.burst)):
                append(shared, writer)
                written += 1
            await asyncio.sleep(scale.pause_s * 2 * rng.random())
            await _rest(shared, name)
            await writer.room()
            while written - writer.lac > UNSENT_MAX:
                await writer.wait_acked(EntryId(writer.lac + 1))
        await writer.wait_acked(EntryId(written - 1))
        await _rest(shared, name)
        await _close(shared, writer)
    except BookieError as error:
        history.note(f"{name} ends ledger {writer.ledger_id}: {type(error).__name__}")
        await asyncio.sleep(rng.random() * scale.patience_s)


async def _rest(shared: Shared, name: str) -> None:
    """Has nothing to write for a while."""
    while name in shared.resting:  # noqa: ASYNC110  # a fault ends it, maybe to begin another
        await asyncio.sleep(REST_S)


async def _close(shared: Shared, writer: LedgerWriter) -> None:
    """Everything is acknowledged: who finds the ledger closed just there has closed it (S16).

    Not so a writer that was stopped before, by a fence or by an ensemble change that lost.
    """
    history, ledger_id = shared.history, writer.ledger_id
    is_closed_there = history.ledger(ledger_id).end == writer.lac
    was_stopped = writer._core.error is not None or shared.learned_fenced(ledger_id)
    try:
        end = await writer.close()
    except LedgerFencedError:
        knew = was_stopped or shared.learned_fenced(ledger_id)
        if is_closed_there and not knew:
            history.violate(f"ledger {ledger_id} is CLOSED at {writer.lac}, and its close failed")
        raise
    history.opened(ledger_id, end)


def append(shared: Shared, writer: LedgerWriter) -> None:
    """The next entry of its ledger; when it is acknowledged the history learns of it."""
    history, ledger_id = shared.history, writer.ledger_id
    entry_id = EntryId(len(history.ledger(ledger_id).sent))
    payload = f"{ledger_id}/{entry_id}".encode().ljust(shared.scale.payload_bytes, b".")
    history.sending(ledger_id, entry_id, payload)
    try:
        future = writer.append(payload)
    except BookieError:
        del history.ledger(ledger_id).sent[entry_id]
        raise
    future.add_done_callback(partial(_acked, history, ledger_id))


def _acked(history: History, ledger_id: LedgerId, future: "asyncio.Future[EntryId]") -> None:
    if not future.cancelled() and future.exception() is None:
        history.acknowledged(ledger_id, future.result())


async def own_log(shared: Shared, store: MetadataStore, name: str) -> None:
    """Takes a log over, writes until the next owner does, waits, takes it over again."""
    scale, rng, history = shared.scale, shared.rng, shared.history
    settings = log_settings(scale)
    async with client_of(shared, store) as client:
        while True:
            log: ReplicatedLog | None = None
            try:
                log = await open_log(shared, client, store, settings)
                history.note(f"{name} owns the log with {log.ledger_ids}")
                shared.begun.extend(i for i in log.ledger_ids if i not in shared.begun)
                while log.is_owned and rng.random() > 0.01:
                    await append_to_log(shared, log, name)
                    if scale.truncates and rng.random() < TRUNCATE_CHANCE:
                        await _truncate(shared, log, name)
                    await asyncio.sleep(scale.pause_s * 2 * rng.random())
                    await _rest(shared, name)
            except BookieError as error:
                history.note(f"{name} lost the log: {type(error).__name__}")
            if log is not None:
                _check_lost(shared, log, name)
            await asyncio.sleep(scale.owner_patience_s * 2 * rng.random())


async def open_log(
    shared: Shared, client: Client, store: MetadataStore, settings: LogSettings
) -> ReplicatedLog:
    """Takes the log over: what does not exist is on its list no more."""
    history = shared.history
    gone = [i for i, known in history.ledgers.items() if known.metadata is None]
    log = await ReplicatedLog.open(LOG_NAME, ledgers=client, store=store, settings=settings)
    for ledger_id in gone:
        if ledger_id in log.ledger_ids:
            history.violate(
                f"the log was opened and still lists ledger {ledger_id}, which did not exist"
            )
    return log


def _check_lost(shared: Shared, log: ReplicatedLog, name: str) -> None:
    """If the answer was that the log has another owner, somebody has taken its ledger."""
    error = log._lost
    known = shared.history.ledger(log.ledger_id)
    is_open = known.metadata is not None and known.metadata.state is LedgerState.OPEN
    is_fenced = shared.learned_fenced(log.ledger_id)
    if isinstance(error, LedgerFencedError) and is_open and not is_fenced:
        shared.history.violate(
            f"{name} was told that the log has another owner, and nobody took ledger "
            f"{log.ledger_id} from it: {error}"
        )


async def _truncate(shared: Shared, log: ReplicatedLog, name: str) -> None:
    """Keeps the last two ledgers."""
    first = log.ledger_ids[-2:][0]
    shared.truncated.update(ledger_id for ledger_id in log.ledger_ids if ledger_id < first)
    shared.history.note(f"{name} truncates the log before {first}")
    await log.truncate(LogPosition(first, EntryId(0)))


async def append_to_log(shared: Shared, log: ReplicatedLog, name: str) -> None:
    payload = f"{name} {shared.history.events}".encode()
    shared.history.offered.add(payload)
    begun_s = asyncio.get_running_loop().time()
    position = await log.append(payload)
    acked_s = asyncio.get_running_loop().time()
    shared.log_appends.append(LogAppend(position, payload, begun_s, acked_s))
    shared.history.acknowledged(position.ledger_id, position.entry_id)
    known = shared.history.ledger(position.ledger_id)
    if known.sent.setdefault(position.entry_id, payload) != payload:
        shared.history.violate(f"{position} was acknowledged for {payload!r}, read was another")


async def tail_ledgers(shared: Shared, store: MetadataStore, name: str) -> None:
    """Follows one ledger after the other."""
    async with client_of(shared, store) as client:
        while True:
            await asyncio.sleep(shared.rng.random())
            if not shared.begun:
                continue
            ledger_id = shared.rng.choice(shared.begun[-3:])
            try:
                reader = await client.open_ledger(ledger_id, password=PASSWORD)
                shared.history.learned(ledger_id, await reader.read_lac())
                await _read_somewhere(shared, reader)
                with suppress(TimeoutError):
                    async with asyncio.timeout(shared.rng.random() * TAIL_S):
                        async for entry in reader.tail():
                            shared.history.read(ledger_id, entry.entry_id, entry.payload)
            except BookieError as error:
                _read_failed(shared, ledger_id, name, error)


async def _read_somewhere(shared: Shared, reader: LedgerReader) -> None:
    """A range in the middle, so that a write set is asked that a tail never meets."""
    last = reader.last_entry_id
    if last >= 0:
        first = EntryId(shared.rng.randrange(last + 1))
        for entry in await reader.read(first, EntryId(min(last, first + 8))):
            shared.history.read(reader.ledger_id, entry.entry_id, entry.payload)


async def recover_ledgers(shared: Shared, store: MetadataStore, name: str) -> None:
    """Now and then takes a ledger from its writer, and reads it."""
    async with client_of(shared, store) as client:
        while True:
            await asyncio.sleep(shared.rng.random() * shared.scale.recover_s)
            if not shared.begun:
                continue
            ledger_id = shared.rng.choice(shared.begun[-4:])
            try:
                reader = await client.recover_ledger(ledger_id, password=PASSWORD)
                shared.history.opened(ledger_id, reader.last_entry_id)
                await read_all(shared, reader)
            except BookieError as error:
                _read_failed(shared, ledger_id, name, error)


async def read_all(shared: Shared, reader: LedgerReader) -> dict[EntryId, bytes]:
    """Everything of a closed ledger, given to the history."""
    found: dict[EntryId, bytes] = {}
    if reader.last_entry_id < 0:
        return found
    async for entry in reader.stream(EntryId(0), reader.last_entry_id):
        shared.history.read(reader.ledger_id, entry.entry_id, entry.payload)
        found[entry.entry_id] = entry.payload
    return found


def _read_failed(shared: Shared, ledger_id: LedgerId, name: str, error: BookieError) -> None:
    if isinstance(error, DataLossError):
        expected = shared.losses_expected or ledger_id in shared.lossy
        shared.history.lost(ledger_id, error.entry_id, expected=expected)
        return
    shared.history.note(f"{name} on ledger {ledger_id}: {type(error).__name__}")


async def delete_ledgers(shared: Shared, store: MetadataStore, name: str) -> None:
    """Now and then deletes an old ledger."""
    async with client_of(shared, store) as client:
        while True:
            await asyncio.sleep(shared.rng.random() * 15.0)
            if len(shared.begun) < 2:
                continue
            ledger_id = shared.begun[shared.rng.randrange(len(shared.begun) - 1)]
            shared.deleted.add(ledger_id)
            try:
                await client.delete_ledger(ledger_id)
                shared.begun.remove(ledger_id)
            except (NoSuchLedgerError, ValueError):
                continue
            except BookieError as error:
                shared.history.note(f"{name} cannot delete: {type(error).__name__}")


@asynccontextmanager
async def cluster_of(shared: Shared, store: MetadataStore) -> AsyncIterator[Cluster]:
    """What repair and audit work through."""
    pool = BookiePool(store, settings=SETTINGS.pool)
    control = GrpcControl(
        store,
        settings=AdminSettings(deadline_s=3.0, slow_deadline_s=20.0),
        dial=lambda _has_tls: dial(shared.network),
    )
    try:
        yield Cluster(store, pool, control)
    finally:
        await control.close()
        await pool.close()


async def repair_marks(shared: Shared, store: MetadataStore, name: str) -> None:
    """Repairs whenever a bookie has marks, and now and then every ledger: the operator's part."""
    every = shared.scale.mends_every
    async with cluster_of(shared, store) as cluster:
        for look in count(1):
            await asyncio.sleep(shared.scale.repair_s * (0.5 + shared.rng.random()))
            is_mend = bool(every) and look % every == 0
            try:
                marked = () if is_mend else await _marked(cluster)
                if not (is_mend or marked):
                    continue
                settings = replace(REPAIR, writer_grace_s=shared.rng.choice(WRITER_GRACES_S))
                request = RepairRequest(
                    marked, engine="inline", every_ledger=is_mend, settings=settings
                )
                result = await repair(cluster, request)
            except BookieError as error:
                shared.history.note(f"{name}: {type(error).__name__}")
                continue
            note_losses(shared, result)
            what = marked or "every ledger"
            shared.history.note(f"{name} repaired {what}: exit {result['exit_code']}")


async def _marked(cluster: Cluster) -> tuple[BookieId, ...]:
    bookies = await cluster.all_bookies()
    found = [await cluster.control.list_marks(bookie_id) for bookie_id in bookies]
    return tuple(one.bookie_id for one in found if one.marks)


def note_losses(shared: Shared, result: Mapping[str, object]) -> None:
    """What a repair recorded as lost; within the budget nothing may be."""
    losses = result["losses"]
    assert isinstance(losses, list)
    for loss in losses:
        ledger_id = LedgerId(loss["ledger_id"])
        shared.lossy.add(ledger_id)
        shared.history.note(f"repair records a loss of ledger {ledger_id}")
        if not shared.losses_expected and ledger_id not in shared.mislaid:
            shared.history.violate(
                f"a repair recorded a loss of ledger {ledger_id} though the budget was kept: {loss}"
            )
