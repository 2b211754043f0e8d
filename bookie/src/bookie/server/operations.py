"""What a bookie does with a request, whatever the wire: facts, `protocol.admission`, disk, answer.

`server.requests` (native messages) and `server.stock` (BookKeeper's) decode, call here, and encode
what the `Then` is told. Everything runs in the event loop's thread, one request to its end before
the next, so that a ledger never changes between its ruling and what follows from it. Only reads of
the disk leave the thread. What returns a bool returns False when there is no room: nothing
happened, and the asker is resumed when it may try again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from bookie.points import passing
from bookie.protocol.admission import (
    TAKEN,
    LedgerFacts,
    Ruling,
    absent_status,
    rule_add,
    rule_force,
    rule_read,
    rule_read_lac,
    rule_write_lac,
)
from bookie.protocol.availability import EntrySet
from bookie.protocol.errors import DiskFullError, StorageError
from bookie.protocol.ids import EntryId, LedgerId
from bookie.protocol.runs import LoneRun, RunFrame
from bookie.protocol.status import Status
from bookie.server.durable import DurableFacts
from bookie.server.later import Later
from bookie.server.pacing import Pacing
from bookie.server.state import BookieState, Phase
from bookie.server.waits import LacWaits
from bookie.storage.engine import Boundary, DirectoryUsage, Storage, StoredRead
from bookie.storage.records import LedgerRecord
from bookie.wire.native import MESSAGE_BYTES_MAX, LacReply, LacRequest, ReadReply, ReadRequest

READ_BYTES_MAX: Final = MESSAGE_BYTES_MAX // 2
"""Most bytes one read is answered with, whatever it asks for; one run more may come on top."""
READS_PER_CONNECTION_MAX: Final = 16
STANDING_MAX: Final = 4096
"""Ledgers whose last ruling on an add is kept."""

_SERVING: Final = Phase.SERVING
"""Nothing makes the bookie read-only. A member of an enum is dear to name."""

Then = Callable[[Status, Any, str], None]
"""Called once: the status, what was found (None unless OK or said), and the reason of a refusal."""


class Asker(Protocol):
    """Whose requests they are: a connection."""

    reads_under_way: int
    """Kept here, and bounded: replies may be large and the client slow."""

    def resume(self) -> None:
        """There is room again."""


class Operations:
    """Everything that clients may ask of one bookie. Made in the event loop's thread."""

    def __init__(
        self,
        storage: Storage,
        state: BookieState,
        *,
        reader: Executor,
        reads_in_flight_max: int,
        pacing: Pacing,
    ) -> None:
        self._storage = storage
        self.state = state
        self._reads_in_flight_max = reads_in_flight_max
        self._reader = reader
        self._pacing = pacing
        self._later = Later()
        self._known = storage.known
        self._facts = DurableFacts(storage)
        self._waits = LacWaits(state.traffic)
        self._reads_in_flight = 0
        self._standing: dict[LedgerId, tuple[LedgerRecord | None, Boundary | None, bytes]] = {}
        """What a normal add was taken on, of each ledger: all that its ruling looked at."""
        self._waiting: dict[Asker, None] = {}
        """Connections whose next message found no room, in the order in which they came."""
        self._loop = asyncio.get_running_loop()
        self.on_storage_failure: Callable[[StorageError], None] = lambda _error: None
        storage.on_room = self._resume_waiting

    def forget(self, asker: Asker) -> None:
        """The connection is gone: nobody to resume or to answer."""
        self._waiting.pop(asker, None)
        self._waits.forget(asker)

    def end(self) -> None:
        """Answers that were put off are given now: what they say is true, a stop does not wait."""
        self._later.end()

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

    def lac_of(self, ledger_id: LedgerId) -> LacReply:
        """The LAC and the last entry, as far as they are known here."""
        return LacReply(self._storage.lac(ledger_id), self._storage.last_entry_id(ledger_id))

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
            self.state.traffic.fences += 1
        if changed != record:
            self._facts.persist(changed)

    # Adds
    def add(self, asker: Asker, frame: RunFrame, *, master_key: bytes, then: Then) -> bool:
        """Store a run. FrameError when it is too long for the log."""
        ledger_id, is_recovery = frame.ledger_id, frame.is_recovery
        ruling = self._rule_add(ledger_id, master_key, is_recovery)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, ledger_id)
            return True
        self._apply(ledger_id, ruling, master_key)
        bulk_bytes = len(frame.buffer) if is_recovery else 0
        stored = partial(self._added, then, ledger_id, bulk_bytes)
        if not self._storage.add_run(frame, done=stored):
            self._waiting[asker] = None
            return False
        if not is_recovery:
            self._pacing.normal_add()
        self._taken(ledger_id, lac=frame.lac, entries=frame.count, size=len(frame.buffer))
        return True

    def add_at_once(self, run: LoneRun, *, master_key: bytes) -> bool:
        """Take a client's add of one entry if it is stored, and may be answered, on return.

        That is so where memory is what the mode promises, nothing that the ruling on the ledger's
        last add saw has changed (records and boundaries are values, put anew when they change: the
        same ones rule the same), and no fact is on its way to a disk. False of any other: nothing
        happened, and `add` is to be asked.
        """
        ledger_id, _entry_id, lac, flags, frame = run
        state, known, stood = self.state, self._known, self._standing.get(ledger_id)
        if (
            flags
            or stood is None
            or stood[0] is not known.records.get(ledger_id)
            or stood[1] is not known.fence
            or stood[2] != master_key
            or state.phase is not _SERVING
            or not self._facts.are_settled
            or not self._storage.add_at_once(run)
        ):
            return False
        passing("add: stored, not answered")
        self._pacing.normal_add()
        self._taken(ledger_id, lac=lac, entries=1, size=len(frame))
        return True

    def _rule_add(self, ledger_id: LedgerId, master_key: bytes, is_recovery: bool) -> Ruling:
        # Looked up once: other threads change them, and what is kept must be what was ruled on.
        record, boundary = self._storage.record(ledger_id), self._storage.boundary()
        ruling = rule_add(
            _add_facts(ledger_id, record, boundary),
            master_key=master_key,
            is_recovery=is_recovery,
            is_writable=self.state.is_writable,
        )
        if ruling is TAKEN and not is_recovery:
            if len(self._standing) >= STANDING_MAX:
                self._standing.clear()
            self._standing[ledger_id] = (record, boundary, master_key)
        return ruling

    def _added(
        self, then: Then, ledger_id: LedgerId, bulk_bytes: int, error: StorageError | None
    ) -> None:
        if error is not None:
            self._failed(then, error)
            return
        if not bulk_bytes:
            self._stored(then, ledger_id)
            return
        # Who repairs has so much unanswered at a time: late answers are what holds it back.
        delay_s = self._pacing.recovery_delay_s(bulk_bytes)
        self._later.call(delay_s, partial(self._stored, then, ledger_id))

    def _stored(self, then: Then, ledger_id: LedgerId) -> None:
        passing("add: stored, not answered")
        if self._facts.are_durable(ledger_id):
            then(Status.OK, None, "")
        else:
            self._facts.when_durable(ledger_id, partial(self._answer, then))

    def _taken(self, ledger_id: LedgerId, *, lac: EntryId, entries: int, size: int) -> None:
        """Count a run, and tell those who wait for its LAC."""
        traffic = self.state.traffic
        traffic.runs_added += 1
        traffic.entries_added += entries
        traffic.bytes_added += size
        self._waits.lac_moved(ledger_id, lac)

    # Reads
    def read(self, asker: Asker, request: ReadRequest, *, fence: bool, then: Then) -> bool:
        """Entries of a ledger; `then` is given a ReadReply."""
        if not self._has_read_room(asker):
            self._waiting[asker] = None
            return False
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read(facts, master_key=request.master_key, fence=fence)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        self._apply(request.ledger_id, ruling, request.master_key)
        self._begin_read(asker)
        start = partial(self._start_read, asker, request, then)
        if fence:
            self._facts.when_durable(request.ledger_id, start)
        else:
            start(None)
        return True

    def _start_read(
        self, asker: Asker, request: ReadRequest, then: Then, error: StorageError | None
    ) -> None:
        if error is not None:
            self._end_read(asker)
            self._failed(then, error)
            return
        if not self.state.phase.serves:
            self._end_read(asker)
            then(Status.NOT_READY, None, "")
            return
        # Judged before the index is asked: a mark that is cleared meanwhile must not turn what this
        # read did not see yet into a denial.
        facts = self.facts_of(request.ledger_id)
        reading = self._loop.run_in_executor(self._reader, self._read_disk, request)
        reading.add_done_callback(partial(self._finish_read, asker, then, facts))

    def _read_disk(self, request: ReadRequest) -> StoredRead:
        return self._storage.read(
            request.ledger_id,
            first=request.first,
            last=request.last,
            bytes_max=min(request.bytes_max, READ_BYTES_MAX),
        )

    def _finish_read(
        self,
        asker: Asker,
        then: Then,
        facts: LedgerFacts,
        reading: "asyncio.Future[StoredRead]",
    ) -> None:
        self._end_read(asker)
        error = reading.exception()
        if error is not None:
            self._failed(then, error)
            return
        found = reading.result()
        self.state.traffic.reads += 1
        self.state.traffic.bytes_read += sum(map(len, found.runs))
        reply = ReadReply(
            lac=facts.lac,
            last_entry_id=facts.last_entry_id,
            answered_through=found.answered_through,
            absent=absent_status(facts),
            unknown=tuple(found.unreadable),
            runs=tuple(found.runs),
        )
        then(Status.OK, reply, "")

    def _has_read_room(self, asker: Asker) -> bool:
        return (
            self._reads_in_flight < self._reads_in_flight_max
            and asker.reads_under_way < READS_PER_CONNECTION_MAX
        )

    def _begin_read(self, asker: Asker) -> None:
        self._reads_in_flight += 1
        asker.reads_under_way += 1

    def _end_read(self, asker: Asker) -> None:
        self._reads_in_flight -= 1
        asker.reads_under_way -= 1
        self._resume_waiting()

    def list_entries(self, asker: Asker, ledger_id: LedgerId, *, then: Then) -> bool:
        """The entries stored here as an EntrySet; also with a status that says none is denied."""
        if not self._has_read_room(asker):
            self._waiting[asker] = None
            return False
        facts = self.facts_of(ledger_id)
        if not facts.is_here or facts.may_have_forgotten:
            self._refuse(then, absent_status(facts), ledger_id)
            return True
        self._begin_read(asker)
        listing = self._loop.run_in_executor(self._reader, self._storage.held, ledger_id)
        listing.add_done_callback(partial(self._listed, asker, then))
        return True

    def _listed(self, asker: Asker, then: Then, listing: "asyncio.Future[EntrySet]") -> None:
        self._end_read(asker)
        error = listing.exception()
        if error is not None:
            self._failed(then, error)
        else:
            then(Status.OK, listing.result(), "")

    # LAC
    def read_lac(self, request: LacRequest, *, fence: bool, then: Then) -> None:
        """The LAC; `then` is given a LacReply, with UNKNOWN also what may be too low."""
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=fence)
        self._apply(request.ledger_id, ruling, request.master_key)
        if not ruling.is_ok and not ruling.fence:
            self._refuse(then, ruling.status, request.ledger_id)
            return
        answer = partial(self._answer_lac, then, request.ledger_id, ruling.status)
        if ruling.fence:
            self._facts.when_durable(request.ledger_id, answer)
        else:
            answer(None)

    def _answer_lac(
        self, then: Then, ledger_id: LedgerId, status: Status, error: StorageError | None
    ) -> None:
        if error is not None:
            self._failed(then, error)
            return
        passing("fence: durable, not answered")
        then(status, self.lac_of(ledger_id), "")

    def write_lac(self, request: LacRequest, *, then: Then, body: bytes = b"") -> None:
        """An explicit LAC; answered when it is durable. `body`: as a stock client signed it."""
        ruling = rule_write_lac(
            self.facts_of(request.ledger_id),
            master_key=request.master_key,
            is_writable=self.state.is_writable,
        )
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return
        record = self._storage.record(request.ledger_id) or LedgerRecord(request.ledger_id)
        lac = max(record.explicit_lac, request.lac)
        self._facts.persist(
            replace(record, explicit_lac=lac, master_key=request.master_key, lac_body=body)
        )
        self._facts.when_durable(request.ledger_id, partial(self._answer, then))
        self._waits.lac_moved(request.ledger_id, lac)

    def lac_body(self, ledger_id: LedgerId) -> bytes:
        """The highest explicit LAC that a stock client signed; empty when there is none."""
        record = self._storage.record(ledger_id)
        return record.lac_body if record is not None else b""

    def wait_lac(self, asker: Asker, request: LacRequest, *, then: Then) -> None:
        """Long poll: `then` is given a LacReply once the LAC exceeds `lac`, or after the time."""
        facts = self.facts_of(request.ledger_id)
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=False)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
        elif facts.lac > request.lac:
            then(Status.OK, self.lac_of(request.ledger_id), "")
        elif not self._waits.add(asker, request, partial(self._waited, request.ledger_id, then)):
            self._refuse_for(then, Status.OVERLOADED, "too many long polls")

    def _waited(self, ledger_id: LedgerId, then: Then) -> None:
        then(Status.OK, self.lac_of(ledger_id), "")

    # Force
    def force(self, asker: Asker, request: LacRequest, *, then: Then) -> bool:
        """OK once every entry of the ledger that was taken before is durable."""
        facts = self.facts_of(request.ledger_id)
        ruling = rule_force(facts, master_key=request.master_key)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        if not self._has_read_room(asker):
            self._waiting[asker] = None
            return False
        self._begin_read(asker)
        syncing = self._loop.run_in_executor(self._reader, self._storage.checkpoint)
        syncing.add_done_callback(partial(self._forced, asker, then))
        return True

    def _forced(self, asker: Asker, then: Then, syncing: "asyncio.Future[None]") -> None:
        self._end_read(asker)
        error = syncing.exception()
        if error is not None:
            self._failed(then, error)
        else:
            then(Status.OK, None, "")

    # Disks
    def space(self, asker: Asker, *, then: Then) -> bool:
        """The ledger disks; `then` is given a list of DirectoryUsage."""
        if not self._has_read_room(asker):
            self._waiting[asker] = None
            return False
        self._begin_read(asker)
        measuring = self._loop.run_in_executor(self._reader, self._storage.usage)
        measuring.add_done_callback(partial(self._measured, asker, then))
        return True

    def _measured(
        self, asker: Asker, then: Then, measuring: "asyncio.Future[list[DirectoryUsage]]"
    ) -> None:
        self._end_read(asker)
        error = measuring.exception()
        if error is not None:
            self._failed(then, error)
        else:
            then(Status.OK, measuring.result()[1:], "")

    # Answers
    def _answer(self, then: Then, error: StorageError | None) -> None:
        if error is not None:
            self._failed(then, error)
        else:
            then(Status.OK, None, "")

    def _failed(self, then: Then, error: BaseException) -> None:
        """A disk's error is an unknown outcome to the client, and the end of this bookie (R7)."""
        status = Status.READ_ONLY if isinstance(error, DiskFullError) else Status.IO_ERROR
        self._refuse_for(then, status, str(error))
        if isinstance(error, StorageError) and self._storage.failure is not None:
            self.on_storage_failure(error)

    def _refuse(self, then: Then, status: Status, ledger_id: LedgerId) -> None:
        self._refuse_for(then, status, f"ledger {ledger_id}")

    def _refuse_for(self, then: Then, status: Status, reason: str) -> None:
        self.state.traffic.refused[status] += 1
        then(status, None, reason)

    def _resume_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for asker in waiting:
            asker.resume()


def _add_facts(
    ledger_id: LedgerId, record: LedgerRecord | None, boundary: Boundary | None
) -> LedgerFacts:
    """As much of them as `rule_add` looks at."""
    is_behind = boundary is not None and boundary.covers(ledger_id)
    if record is None:
        return LedgerFacts(behind_boundary=is_behind)
    return LedgerFacts(
        master_key=record.master_key,
        fenced=record.fenced,
        limbo=record.limbo,
        deleted=record.deleted,
        behind_boundary=is_behind,
    )
