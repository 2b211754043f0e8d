"""The native port's requests: gather facts, ask `protocol.admission`, persist, answer.

Everything here runs in the event loop's thread, one message to its end before the next, so that a
ledger never changes between its ruling and what follows from it. Only reads of the disk leave the
thread. `handle` returns False when there is no room; the connection keeps the message until then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bookie.points import passing
from bookie.protocol.admission import (
    LedgerFacts,
    Ruling,
    absent_status,
    rule_add,
    rule_force,
    rule_read,
    rule_read_lac,
    rule_write_lac,
)
from bookie.protocol.errors import DiskFullError, FrameError, StorageError
from bookie.protocol.ids import LedgerId
from bookie.protocol.runs import RunFrame
from bookie.protocol.status import Status
from bookie.server.connections import RunConnection
from bookie.server.durable import DurableFacts
from bookie.server.later import Later
from bookie.server.pacing import Pacing
from bookie.server.state import BookieState
from bookie.server.waits import LacWaits
from bookie.storage.engine import Storage, StoredRead
from bookie.storage.records import LedgerRecord
from bookie.wire.native import (
    FLAG_FENCE,
    MESSAGE_BYTES_MAX,
    Envelope,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    parse_add,
    refuse_hello,
)

log = logging.getLogger(__name__)

READ_BYTES_MAX: Final = MESSAGE_BYTES_MAX // 2
"""Most bytes one read is answered with, whatever it asks for; one run more may come on top."""
READS_PER_CONNECTION_MAX: Final = 16
LAST_REPLIES_S: Final = 2.0
"""How long a stop waits for clients to take the replies that were given."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be under way at once."""

    connections: int
    reads_in_flight: int


class RunService:
    """Answers the native port of one bookie."""

    def __init__(
        self,
        storage: Storage,
        state: BookieState,
        *,
        reader: Executor,
        bounds: Bounds,
        pacing: Pacing,
    ) -> None:
        self._storage = storage
        self._state = state
        self._reader = reader
        self._bounds = bounds
        self._pacing = pacing
        self._later = Later()
        self._facts = DurableFacts(storage)
        self._waits = LacWaits(self._lac_reply, state.traffic)
        self._reads_in_flight = 0
        self._waiting: dict[RunConnection, None] = {}
        """Connections whose next message found no room, in the order in which they came."""
        self._connections: dict[RunConnection, None] = {}
        """Those that are open, in the order in which they came."""
        self._one_closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.on_storage_failure: Callable[[StorageError], None] = lambda _error: None
        storage.on_room = self._resume_waiting
        self._handlers: dict[Op, Callable[[Envelope, RunConnection], bool]] = {
            Op.ADD_RUN: self._add,
            Op.READ: self._read,
            Op.READ_LAC: self._read_lac,
            Op.WRITE_LAC: self._write_lac,
            Op.WAIT_LAC: self._wait_lac,
            Op.FORCE: self._force,
        }

    # Connections
    def opened(self, connection: RunConnection) -> None:
        self._connections[connection] = None
        self._state.traffic.connections = len(self._connections)
        if len(self._connections) > self._bounds.connections:
            log.warning("refuse a connection: %d are open", self._bounds.connections)
            connection.close()

    def closed(self, connection: RunConnection) -> None:
        self._connections.pop(connection, None)
        self._waiting.pop(connection, None)
        self._waits.forget(connection)
        self._one_closed.set()
        self._state.traffic.connections = len(self._connections)

    async def end_connections(self) -> None:
        """Close all; whoever does not take its last replies in time is cut off.

        Answers that were put off are given now: what they say is true, and a stop does not wait.
        """
        self._later.end()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_REPLIES_S):
                while self._connections:
                    self._one_closed.clear()
                    await self._one_closed.wait()
        for connection in list(self._connections):
            connection.abort()

    def handle(self, envelope: Envelope, connection: RunConnection) -> bool:
        """Take one message; False when there is no room for it now."""
        if envelope.op is Op.HELLO or not connection.is_greeted:
            self._greet(envelope, connection)
            return True
        if not self._state.phase.serves:
            self._refuse(connection, envelope, Status.NOT_READY, self._state.phase.name)
            return True
        try:
            taken = self._handlers[envelope.op](envelope, connection)
        except FrameError as error:
            self._refuse(connection, envelope, Status.BAD_REQUEST, str(error))
            return True
        if not taken:
            self._waiting[connection] = None
        return taken

    def _greet(self, envelope: Envelope, connection: RunConnection) -> None:
        """Whoever means another bookie, or does not say, must not take our answers for its."""
        refusal = "the first message of a connection must be HELLO"
        if envelope.op is Op.HELLO:
            refusal = refuse_hello(envelope.body, own_id=self._state.bookie_id)
        if refusal:
            log.warning("refuse a connection: %s", refusal)
            self._refuse(connection, envelope, Status.BAD_REQUEST, refusal)
            connection.close()
            return
        connection.is_greeted = True
        connection.reply(Op.HELLO, Status.OK, envelope.request_id)

    # Facts
    def facts_of(self, ledger_id: LedgerId) -> LedgerFacts:
        """What this bookie knows of the ledger now."""
        storage = self._storage
        found = storage.record(ledger_id)
        record = found or LedgerRecord(ledger_id)
        boundary = storage.boundary()
        last = storage.last_entry_id(ledger_id)
        return LedgerFacts(
            is_known=found is not None or last >= 0,
            master_key=record.master_key,
            fenced=record.fenced,
            limbo=record.limbo,
            unchecked=storage.is_unchecked(ledger_id),
            deleted=record.deleted,
            behind_boundary=boundary is not None and boundary.covers(ledger_id),
            lac=storage.lac(ledger_id),
            last_entry_id=last,
        )

    def _apply(self, ledger_id: LedgerId, ruling: Ruling, master_key: bytes) -> None:
        """Write what the ruling says must be durable; in memory it counts from now on."""
        if not (ruling.learn_key or ruling.fence):
            return
        record = self._storage.record(ledger_id) or LedgerRecord(ledger_id)
        changed = record
        if ruling.learn_key:
            changed = replace(changed, master_key=master_key)
        if ruling.fence and not record.fenced:
            changed = replace(changed, fenced=True)
            self._state.traffic.fences += 1
        if changed != record:
            self._facts.persist(changed)

    # Adds
    def _add(self, envelope: Envelope, connection: RunConnection) -> bool:
        master_key, frame = parse_add(envelope.body)
        ruling = rule_add(
            self.facts_of(frame.ledger_id),
            master_key=master_key,
            is_recovery=frame.is_recovery,
            is_writable=self._state.is_writable,
        )
        if not ruling.is_ok:
            self._refuse(connection, envelope, ruling.status, f"ledger {frame.ledger_id}")
            return True
        self._apply(frame.ledger_id, ruling, master_key)
        bulk_bytes = len(frame.buffer) if frame.is_recovery else 0
        stored = partial(self._added, connection, envelope.request_id, frame.ledger_id, bulk_bytes)
        if not self._storage.add_run(frame, done=stored):
            return False
        if not frame.is_recovery:
            self._pacing.normal_add()
        self._count_add(frame)
        self._waits.lac_moved(frame.ledger_id, frame.lac)
        return True

    def _added(
        self,
        connection: RunConnection,
        request_id: int,
        ledger_id: LedgerId,
        bulk_bytes: int,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            self._failed(connection, Op.ADD_RUN, request_id, error)
            return
        if not bulk_bytes:
            self._stored(connection, request_id, ledger_id)
            return
        # Who repairs has so much unanswered at a time: late answers are what holds it back.
        delay_s = self._pacing.recovery_delay_s(bulk_bytes)
        self._later.call(delay_s, partial(self._stored, connection, request_id, ledger_id))

    def _stored(self, connection: RunConnection, request_id: int, ledger_id: LedgerId) -> None:
        passing("add: stored, not answered")
        self._facts.when_durable(
            ledger_id, partial(self._answer, connection, Op.ADD_RUN, request_id)
        )

    def _count_add(self, frame: RunFrame) -> None:
        traffic = self._state.traffic
        traffic.runs_added += 1
        traffic.entries_added += frame.count
        traffic.bytes_added += len(frame.buffer)

    # Reads
    def _read(self, envelope: Envelope, connection: RunConnection) -> bool:
        if not self._has_read_room(connection):
            return False
        request = ReadRequest.decode(envelope.body)
        fence = bool(envelope.code & FLAG_FENCE)
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read(facts, master_key=request.master_key, fence=fence)
        if not ruling.is_ok:
            self._refuse(connection, envelope, ruling.status, f"ledger {request.ledger_id}")
            return True
        self._apply(request.ledger_id, ruling, request.master_key)
        self._begin_read(connection)
        start = partial(self._start_read, connection, envelope.request_id, request)
        if fence:
            self._facts.when_durable(request.ledger_id, start)
        else:
            start(None)
        return True

    def _start_read(
        self,
        connection: RunConnection,
        request_id: int,
        request: ReadRequest,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            self._end_read(connection)
            self._failed(connection, Op.READ, request_id, error)
            return
        if not self._state.phase.serves:
            self._end_read(connection)
            connection.reply(Op.READ, Status.NOT_READY, request_id)
            return
        # Judged before the index is asked: a mark that is cleared meanwhile must not turn what this
        # read did not see yet into a denial.
        facts = self.facts_of(request.ledger_id)
        reading = self._loop.run_in_executor(self._reader, self._read_disk, request)
        reading.add_done_callback(partial(self._finish_read, connection, request_id, facts))

    def _read_disk(self, request: ReadRequest) -> StoredRead:
        return self._storage.read(
            request.ledger_id,
            first=request.first,
            last=request.last,
            bytes_max=min(request.bytes_max, READ_BYTES_MAX),
        )

    def _finish_read(
        self,
        connection: RunConnection,
        request_id: int,
        facts: LedgerFacts,
        reading: "asyncio.Future[StoredRead]",
    ) -> None:
        self._end_read(connection)
        error = reading.exception()
        if error is not None:
            self._failed(connection, Op.READ, request_id, error)
            return
        found = reading.result()
        self._state.traffic.reads += 1
        self._state.traffic.bytes_read += sum(map(len, found.runs))
        reply = ReadReply(
            lac=facts.lac,
            last_entry_id=facts.last_entry_id,
            answered_through=found.answered_through,
            absent=absent_status(facts),
            unknown=tuple(found.unreadable),
            runs=tuple(found.runs),
        )
        connection.reply(Op.READ, Status.OK, request_id, reply.encode())

    def _has_read_room(self, connection: RunConnection) -> bool:
        return (
            self._reads_in_flight < self._bounds.reads_in_flight
            and connection.reads_under_way < READS_PER_CONNECTION_MAX
        )

    def _begin_read(self, connection: RunConnection) -> None:
        self._reads_in_flight += 1
        connection.reads_under_way += 1

    def _end_read(self, connection: RunConnection) -> None:
        self._reads_in_flight -= 1
        connection.reads_under_way -= 1
        self._resume_waiting()

    # LAC
    def _read_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = LacRequest.decode(envelope.body)
        fence = bool(envelope.code & FLAG_FENCE)
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=fence)
        self._apply(request.ledger_id, ruling, request.master_key)
        if not ruling.is_ok and not ruling.fence:
            self._refuse(connection, envelope, ruling.status, f"ledger {request.ledger_id}")
            return True
        answer = partial(
            self._answer_lac, connection, envelope.request_id, request.ledger_id, ruling.status
        )
        if ruling.fence:
            self._facts.when_durable(request.ledger_id, answer)
        else:
            answer(None)
        return True

    def _answer_lac(
        self,
        connection: RunConnection,
        request_id: int,
        ledger_id: LedgerId,
        status: Status,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            self._failed(connection, Op.READ_LAC, request_id, error)
            return
        passing("fence: durable, not answered")
        connection.reply(Op.READ_LAC, status, request_id, (self._lac_reply(ledger_id),))

    def _lac_reply(self, ledger_id: LedgerId) -> bytes:
        storage = self._storage
        return LacReply(storage.lac(ledger_id), storage.last_entry_id(ledger_id)).encode()

    def _write_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = LacRequest.decode(envelope.body)
        ruling = rule_write_lac(self.facts_of(request.ledger_id), master_key=request.master_key)
        if not ruling.is_ok:
            self._refuse(connection, envelope, ruling.status, f"ledger {request.ledger_id}")
            return True
        record = self._storage.record(request.ledger_id) or LedgerRecord(request.ledger_id)
        lac = max(record.explicit_lac, request.lac)
        self._facts.persist(replace(record, explicit_lac=lac, master_key=request.master_key))
        self._facts.when_durable(
            request.ledger_id,
            partial(self._answer, connection, Op.WRITE_LAC, envelope.request_id),
        )
        self._waits.lac_moved(request.ledger_id, lac)
        return True

    def _wait_lac(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = LacRequest.decode(envelope.body)
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=False)
        if not ruling.is_ok:
            self._refuse(connection, envelope, ruling.status, f"ledger {request.ledger_id}")
        elif facts.lac > request.lac:
            reply = (self._lac_reply(request.ledger_id),)
            connection.reply(Op.WAIT_LAC, Status.OK, envelope.request_id, reply)
        elif not self._waits.add(request, connection, envelope.request_id):
            self._refuse(connection, envelope, Status.OVERLOADED, "too many long polls")
        return True

    # Force
    def _force(self, envelope: Envelope, connection: RunConnection) -> bool:
        request = LacRequest.decode(envelope.body)
        facts = self.facts_of(request.ledger_id)
        ruling = rule_force(facts, master_key=request.master_key)
        if not ruling.is_ok:
            self._refuse(connection, envelope, ruling.status, f"ledger {request.ledger_id}")
            return True
        if not self._has_read_room(connection):
            return False
        self._begin_read(connection)
        syncing = self._loop.run_in_executor(self._reader, self._storage.checkpoint)
        syncing.add_done_callback(partial(self._forced, connection, envelope.request_id))
        return True

    def _forced(
        self, connection: RunConnection, request_id: int, syncing: "asyncio.Future[None]"
    ) -> None:
        self._end_read(connection)
        error = syncing.exception()
        if error is not None:
            self._failed(connection, Op.FORCE, request_id, error)
        else:
            connection.reply(Op.FORCE, Status.OK, request_id)

    # Answers
    def _answer(
        self, connection: RunConnection, op: Op, request_id: int, error: StorageError | None
    ) -> None:
        if error is not None:
            self._failed(connection, op, request_id, error)
        else:
            connection.reply(op, Status.OK, request_id)

    def _failed(
        self, connection: RunConnection, op: Op, request_id: int, error: BaseException
    ) -> None:
        """A disk's error is an unknown outcome to the client, and the end of this bookie (R7)."""
        status = Status.READ_ONLY if isinstance(error, DiskFullError) else Status.IO_ERROR
        self._state.traffic.refused[status] += 1
        connection.reply(op, status, request_id, (str(error).encode(),))
        if isinstance(error, StorageError) and self._storage.failure is not None:
            self.on_storage_failure(error)

    def _refuse(
        self, connection: RunConnection, envelope: Envelope, status: Status, message: str
    ) -> None:
        self._state.traffic.refused[status] += 1
        connection.refuse(envelope, status, message)

    def _resume_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.resume()
