"""Carries out requests from either wire: gather facts, ask `protocol.admission`, use the storage,
answer.

`server.requests` (native messages) and `server.stock` (BookKeeper's) decode a request, call a
method here, and encode what its `Then` gets. Everything runs in the event loop's thread, one
request to its end before the next, so that a ledger never changes between its ruling and what
follows from it. Only disk reads leave the thread. A method that returns a bool returns False when
there is no room: then nothing happened, and the asker is resumed when it may try again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final

from bookie.errors import DiskFullError, StorageError
from bookie.frames.frame import RunFrame
from bookie.ids import LedgerId
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
from bookie.protocol.availability import GROUP, EntrySet
from bookie.protocol.status import Status
from bookie.server.askers import Asker, WaitingAskers
from bookie.server.delayed_calls import DelayedCalls
from bookie.server.disk_reads import DiskReads, expected_bytes
from bookie.server.durable import DurableFacts
from bookie.server.first_fences import FirstFences
from bookie.server.ledger_facts import add_facts, changed_by, facts_of
from bookie.server.pacing import Pacing
from bookie.server.replies import ReplyLimits, ReplyRoom
from bookie.server.state import BookieState
from bookie.server.waits import LacWaits
from bookie.storage.acks import Taken
from bookie.storage.reading import StoredRead
from bookie.storage.records import LedgerRecord
from bookie.storage.space import DirectoryUsage
from bookie.storage.storage import Storage
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest

_DONE: Final = Taken.DONE
_NO_ROOM: Final = Taken.NO_ROOM

Then = Callable[[Status, Any, str], None]
"""Called once with the status, what was found (None unless OK, or as the method says), and the
reason of a refusal."""


class Operations:
    """All operations that clients may ask of one bookie. Create it in the event loop's thread."""

    def __init__(
        self,
        storage: Storage,
        state: BookieState,
        *,
        reader: Executor,
        reads_in_flight_max: int,
        pacing: Pacing,
        first_fences: FirstFences,
        room: ReplyRoom | None = None,
    ) -> None:
        self._storage = storage
        self._waits_for_disk = storage.waits_for_disk
        self._permits = storage.permits.keys
        """By ledger: the key whose normal adds need no ruling. It is only read here."""
        self._first_fences = first_fences
        """Asked before the bookie fences a ledger of which it holds nothing."""
        self.state = state
        """Phase, lease and counters; every change of it, except of counters, drops all permits."""
        self._room = room or ReplyRoom(ReplyLimits(), state.traffic)
        """Counts and bounds the bytes of replies to reads, over all connections."""
        self._askers = WaitingAskers(before=lambda: self._reads.read_again())
        """Connections that wait for room."""
        self._reads = DiskReads(
            storage,
            reader,
            self._room,
            in_flight_max=reads_in_flight_max,
            on_room=self._askers.resume,
            waits=state.traffic.read_waits,
        )
        """Runs the disk reads in threads."""
        self._pacing = pacing
        """Called at every normal add; says by how much to delay the answers to recovery adds."""
        self._delayed = DelayedCalls()
        """Delayed answers to recovery adds."""
        self._facts = DurableFacts(storage, on_room=self._askers.resume_soon)
        """Records that are being written, and the answers that wait for them."""
        self._waits = LacWaits(state.traffic)
        """The long polls; `traffic.long_polls` counts them."""
        self.on_storage_failure: Callable[[StorageError], None] = lambda _error: None
        """Called when a request has met a final failure of the storage."""
        storage.on_room = self._askers.resume
        state.on_change = storage.permits.drop_all

    def forget(self, asker: Asker) -> None:
        """Forget a connection that is gone."""
        self._askers.forget(asker)
        self._waits.forget(asker)
        self._reads.forget(asker)

    def replies_left(self, asker: Asker, size: int) -> None:
        """Note that `size` bytes of replies to reads have left, or are gone with
        their connection.
        """
        self._room.give_back(asker, size)
        if self._askers or self._reads.are_waiting:
            self._askers.resume_soon()

    def end(self) -> None:
        """Give all delayed answers now: they are true already, and a stop must not
        wait for them.
        """
        self._first_fences.end()
        self._delayed.end()

    # Facts
    def facts_of(self, ledger_id: LedgerId) -> LedgerFacts:
        """All facts about the ledger at this moment."""
        # The process may have slept since the bytes of the request arrived.
        return facts_of(self._storage, ledger_id, is_leased=self.state.look_at_lease())

    def lac_of(self, ledger_id: LedgerId) -> LacReply:
        """The LAC and the last entry of the ledger, as far as this bookie knows them."""
        return LacReply(self._storage.lac(ledger_id), self._storage.last_entry_id(ledger_id))

    def _is_first(self, facts: LedgerFacts, ledger_id: LedgerId) -> bool:
        return not facts.is_known and not self._first_fences.may_pass(ledger_id)

    def _no_fence(self, then: Then, status: Status) -> None:
        self._refuse_for(then, status, "this bookie has nothing of it, nor is it known to exist")

    def _apply(self, ledger_id: LedgerId, ruling: Ruling, master_key: bytes) -> None:
        """Begin to write what the ruling says must be durable; in memory it counts from now on."""
        if not (ruling.learn_key or ruling.fence or ruling.note):
            return
        record = self._storage.record(ledger_id) or LedgerRecord(ledger_id)
        changed = changed_by(ruling, record, master_key=master_key)
        self.state.traffic.fences += changed.fenced and not record.fenced
        if changed != record:
            self._facts.persist(changed)

    # Adds
    def add(self, asker: Asker, frame: RunFrame, *, master_key: bytes, then: Then) -> bool:
        """Store a run. FrameError when it is too long for the log.

        In memory mode `then` has been called when this returns, unless facts about the ledger are
        being written.
        """
        ledger_id, size = frame.ledger_id, len(frame.buffer)
        is_recovery = bool(frame.flags and frame.is_recovery)
        if is_recovery or self._permits.get(ledger_id) != master_key:
            if not self._facts.has_room:
                return self._wait_for_room(asker, ledger_id)
            ruling = self._rule_add(ledger_id, master_key, is_recovery)
            if not ruling.is_ok:
                self._refuse(then, ruling.status, ledger_id)
                return True
            self._apply(ledger_id, ruling, master_key)
        began = perf_counter() if self._waits_for_disk else 0.0
        added = partial(self._added, then, ledger_id, size if is_recovery else 0, began)
        taken = self._storage.add_run(frame, done=added)
        if taken is _NO_ROOM:
            self._askers.add(asker)
            return False
        if not is_recovery:
            self._pacing.normal_add()
        traffic = self.state.traffic
        traffic.runs_added += 1
        traffic.entries_added += frame.count
        traffic.bytes_added += size
        if traffic.long_polls:
            self._waits.lac_moved(ledger_id, frame.lac)
        if taken is _DONE:
            if is_recovery:
                added(None)
            else:
                self._stored(then, ledger_id)
        return True

    def _rule_add(self, ledger_id: LedgerId, master_key: bytes, is_recovery: bool) -> Ruling:
        """Rule on an add. If the ruling is TAKEN, the next normal add needs none."""
        permits, storage = self._storage.permits, self._storage
        as_of = permits.version  # before the facts: see `permits`
        facts = add_facts(storage, ledger_id, is_leased=self.state.look_at_lease())
        ruling = rule_add(
            facts,
            master_key=master_key,
            is_recovery=is_recovery,
            is_writable=self.state.is_writable,
        )
        if ruling is TAKEN and not is_recovery:
            permits.grant(ledger_id, master_key, as_of=as_of)
        return ruling

    def _added(
        self,
        then: Then,
        ledger_id: LedgerId,
        bulk_bytes: int,
        began: float,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            self._failed(then, error)
            return
        if began:
            self.state.traffic.add_waits.observe(perf_counter() - began)
        if not bulk_bytes:
            self._stored(then, ledger_id)
            return
        # A repairer has a limited number of adds unanswered at a time, so late answers slow it
        # down.
        delay_s = self._pacing.recovery_delay_s(bulk_bytes)
        self._delayed.call(delay_s, partial(self._stored, then, ledger_id))

    def _stored(self, then: Then, ledger_id: LedgerId) -> None:
        passing("add: stored, not answered")
        if self._facts.are_durable(ledger_id):
            self._done(then)
        else:
            self._facts.when_durable(ledger_id, partial(self._answer, then))

    # Reads
    def read(self, asker: Asker, request: ReadRequest, *, fence: bool, then: Then) -> bool:
        """Read entries of a ledger; `then` gets a ReadReply."""
        reserved = expected_bytes(request)
        if not self._reads.has_room(asker, reserved) or (fence and not self._facts.has_room):
            return self._wait_for_room(asker, request.ledger_id)
        facts = self.facts_of(request.ledger_id)
        if fence and self._is_first(facts, request.ledger_id):
            again = partial(self.read, asker, request, fence=True, then=then)
            self._first_fences.ask(request.ledger_id, again, partial(self._no_fence, then))
            return True
        ruling = rule_read(facts, master_key=request.master_key, fence=fence)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        self._apply(request.ledger_id, ruling, request.master_key)
        self._reads.begin(asker, reserved)
        start = partial(self._start_read, asker, request, reserved, fence, then)
        if fence:
            self._facts.when_durable(request.ledger_id, start)
        else:
            start(None)
        return True

    def _start_read(
        self,
        asker: Asker,
        request: ReadRequest,
        reserved: int,
        fence: bool,
        then: Then,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            self._reads.end(asker, reserved)
            self._failed(then, error)
            return
        if not self.state.phase.serves or (fence and not self.state.look_at_lease()):
            self._reads.end(asker, reserved)
            then(Status.NOT_READY, None, "")
            return
        # Decide this before the read of the index: a mark that is cleared meanwhile must not turn
        # an entry that this read does not see yet into a denial.
        facts = self.facts_of(request.ledger_id)
        absent = absent_status(facts, fence=fence)
        answer = partial(self._answer_read, then, facts, absent)
        self._reads.read(asker, request, reserved, answer)

    def _answer_read(
        self,
        then: Then,
        facts: LedgerFacts,
        absent: Status,
        found: StoredRead | None,
        error: BaseException | None,
    ) -> None:
        if found is None:
            assert error is not None
            self._failed(then, error)
            return
        if facts.is_leased and not self.state.look_at_lease():
            self._lease_is_over(then)
            return
        self.state.traffic.reads += 1
        self.state.traffic.bytes_read += sum(map(len, found.runs))
        reply = ReadReply(
            lac=facts.lac,
            last_entry_id=facts.last_entry_id,
            answered_through=found.answered_through,
            absent=absent,
            unknown=tuple(found.unreadable),
            runs=tuple(found.runs),
        )
        then(Status.OK, reply, "")

    def list_entries(self, asker: Asker, ledger_id: LedgerId, *, then: Then) -> bool:
        """List the entries that this bookie holds of a ledger; `then` gets an EntrySet. Refused
        when the bookie may have forgotten entries.
        """
        if not self._reads.has_room(asker):
            self._askers.add(asker)
            return False
        facts = self.facts_of(ledger_id)
        if not facts.is_here or facts.may_have_forgotten:
            self._refuse(then, absent_status(facts), ledger_id)
            return True
        self._reads.begin(asker)
        self._reads.ask(self._storage.held, ledger_id, then=partial(self._listed, asker, then))
        return True

    def _listed(self, asker: Asker, then: Then, listing: "asyncio.Future[EntrySet]") -> None:
        self._reads.end(asker)
        error = listing.exception()
        if error is not None:
            self._failed(then, error)
            return
        held = listing.result()
        size = len(held.starts) * GROUP.itemsize
        if not self._room.has(asker, size):
            self._refuse_for(then, Status.OVERLOADED, "too many replies wait for their clients")
            return
        self._room.take(asker, size)
        asker.owe(size)
        self._done(then, held)

    # LAC
    def read_lac(self, asker: Asker, request: LacRequest, *, fence: bool, then: Then) -> bool:
        """Read the LAC; `then` gets a LacReply. With UNKNOWN it gets one too, whose LAC may be too
        low.
        """
        if fence and not self._facts.has_room:
            return self._wait_for_room(asker, request.ledger_id)
        facts = self.facts_of(request.ledger_id)
        if fence and self._is_first(facts, request.ledger_id):
            again = partial(self.read_lac, asker, request, fence=True, then=then)
            self._first_fences.ask(request.ledger_id, again, partial(self._no_fence, then))
            return True
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=fence)
        self._apply(request.ledger_id, ruling, request.master_key)
        if not ruling.is_ok and not ruling.fence:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        answer = partial(self._answer_lac, then, request.ledger_id, ruling.status)
        if ruling.fence:
            self._facts.when_durable(request.ledger_id, answer)
        else:
            answer(None)
        return True

    def _answer_lac(
        self, then: Then, ledger_id: LedgerId, status: Status, error: StorageError | None
    ) -> None:
        if error is not None:
            self._failed(then, error)
            return
        passing("fence: durable, not answered")
        if status is Status.OK and not self.state.look_at_lease():
            self._lease_is_over(then)
        else:
            then(status, self.lac_of(ledger_id), "")

    def write_lac(
        self, asker: Asker, request: LacRequest, *, then: Then, body: bytes = b""
    ) -> bool:
        """Store an explicit LAC and answer when it is durable. `body`: the LAC as a stock client
        signed it.
        """
        if not self._facts.has_room:
            return self._wait_for_room(asker, request.ledger_id)
        ruling = rule_write_lac(
            self.facts_of(request.ledger_id),
            master_key=request.master_key,
            is_writable=self.state.is_writable,
        )
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        record = self._storage.record(request.ledger_id) or LedgerRecord(request.ledger_id)
        lac = max(record.explicit_lac, request.lac)
        key = request.master_key
        self._facts.persist(replace(record, explicit_lac=lac, master_key=key, lac_body=body))
        self._facts.when_durable(request.ledger_id, partial(self._answer, then))
        self._waits.lac_moved(request.ledger_id, lac)
        return True

    def lac_body(self, ledger_id: LedgerId) -> bytes:
        """The highest explicit LAC as a stock client signed it; empty when there is none."""
        record = self._storage.record(ledger_id)
        return record.lac_body if record is not None else b""

    def wait_lac(self, asker: Asker, request: LacRequest, *, then: Then) -> None:
        """Long poll: `then` gets a LacReply once the LAC exceeds `request.lac`, or after the
        timeout.
        """
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
        """Answer OK once every entry of the ledger that was added before is durable."""
        facts = self.facts_of(request.ledger_id)
        ruling = rule_force(facts, master_key=request.master_key)
        if not ruling.is_ok:
            self._refuse(then, ruling.status, request.ledger_id)
            return True
        if not self._reads.has_room(asker):
            self._askers.add(asker)
            return False
        self._reads.begin(asker)
        self._reads.ask(
            self._storage.maintenance.checkpoint, then=partial(self._forced, asker, then)
        )
        return True

    def _forced(self, asker: Asker, then: Then, syncing: "asyncio.Future[None]") -> None:
        self._reads.end(asker)
        self._answer(then, syncing.exception())

    # Disks
    def space(self, asker: Asker, *, then: Then) -> bool:
        """Measure the ledger disks; `then` gets a list of DirectoryUsage."""
        if not self._reads.has_room(asker):
            self._askers.add(asker)
            return False
        self._reads.begin(asker)
        self._reads.ask(self._storage.maintenance.usage, then=partial(self._measured, asker, then))
        return True

    def _measured(
        self, asker: Asker, then: Then, measuring: "asyncio.Future[list[DirectoryUsage]]"
    ) -> None:
        self._reads.end(asker)
        error = measuring.exception()
        if error is not None:
            self._failed(then, error)
        else:
            then(Status.OK, measuring.result()[1:], "")

    # Answers
    def _answer(self, then: Then, error: BaseException | None) -> None:
        if error is not None:
            self._failed(then, error)
        else:
            self._done(then)

    def _done(self, then: Then, found: Any = None) -> None:
        """Answer OK, but not if the lease has run out since the ruling: the process may have slept
        meanwhile, and its successor knows nothing of what it did.
        """
        if self.state.look_at_lease():
            then(Status.OK, found, "")
        else:
            self._lease_is_over(then)

    def _lease_is_over(self, then: Then) -> None:
        self._refuse_for(then, Status.NOT_READY, "the lease ran out before this was answered")

    def _failed(self, then: Then, error: BaseException) -> None:
        """Answer a disk error: the outcome is unknown to the client, and a final failure ends the
        bookie (R7).
        """
        status = Status.READ_ONLY if isinstance(error, DiskFullError) else Status.IO_ERROR
        self._refuse_for(then, status, str(error))
        if isinstance(error, StorageError) and self._storage.failure is not None:
            self.on_storage_failure(error)

    def _refuse(self, then: Then, status: Status, ledger_id: LedgerId) -> None:
        self._refuse_for(then, status, f"ledger {ledger_id}")

    def _refuse_for(self, then: Then, status: Status, reason: str) -> None:
        self.state.traffic.refused[status] += 1
        then(status, None, reason)

    def _wait_for_room(self, asker: Asker, ledger_id: LedgerId) -> bool:
        """Return False and resume the asker later; not if its fence was looked up, since
        `first_fences` answers then.
        """
        if not self._first_fences.may_pass(ledger_id):
            self._askers.add(asker)
        return False
