"""What nobody may say, heard on the wire: the promises that make limbo and fencing safe.

1. Asked for an entry that it has acknowledged and is to hold, a bookie never denies it (unknown is
   no denial), and never leaves it out of a list that it calls complete.
2. A normal add that reaches a bookie after it answered a fence is not acknowledged by it.
3. After an unclean stop a bookie acknowledges no normal add of a ledger that was there before, if
   it came back without an entry that it had acknowledged.
4. A LAC that a bookie tells as known is none below what came with a normal add that it took.
5. A recoverer reads on only when enough bookies have answered that they are fenced.
6. A writer that learned that its ledger is fenced begins no more entries of it.
7. Nobody asks the same bookie for the same fence again without a pause.
8. What a recoverer reads fences, while it recovers.
9. A LAC that a bookie tells is none above what the writer itself has sent as acknowledged.
10. Of a deleted ledger of which a bookie has given up all entries it acknowledges no other one.
11. Of an open ledger a repair copies nothing but what its writer has sent as acknowledged.
12. No request is answered more often than it came, and, once faults have ended, none is left
    unanswered whose connection lasts.
The first four hold across every crash and restart of the bookie. Other rules are the history's.
"""

import struct
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Final

from bookie.errors import FrameError
from bookie.frames.frame import FLAG_RECOVERY, FRAME_HEADER, Pattern
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.quorum import fence_covers
from bookie.protocol.status import Status
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.answer_record import AnswerRecord, denied_by
from bookie.testing.simulation.history import History, names
from bookie.testing.simulation.stop_losses import StopLosses
from bookie.wire.native import (
    ENVELOPE,
    ENVELOPE_BYTES,
    FLAG_FENCE,
    MASTER_KEY_BYTES,
    LacReply,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
)

PENDING_MAX: Final = 100_000
ANSWER_S: Final = 10.0
"""After the end of faults, every request must be answered within this time, except waits for a
LAC."""
CONNECT_S: Final = 1.5
"""How long requests that began earlier may wait for their connection."""
REPAIRERS: Final = ("repair", "judge")
FENCES_MAX: Final = 8
"""Fences of one ledger on one bookie by one client within `FENCES_S`; more means retries without a
pause."""
FENCES_S: Final = 1.0
_FENCED_BY: Final = frozenset((Status.UNKNOWN, Status.FENCED))
"""Other answers to a fence that count: such a bookie takes no more adds since its boot."""


@dataclass(frozen=True, slots=True)
class _Add:
    ledger_id: LedgerId
    entry_ids: tuple[EntryId, ...]
    is_recovery: bool
    lac: EntryId
    came_fenced: bool = False
    came_barred: bool = False
    came_late: bool = False
    """Whether it came after the bookie had removed what it had of the ledger."""


def _add(body: memoryview) -> _Add:
    """Parse only the frame's header; the bookie itself checks the other bytes."""
    header = FRAME_HEADER.unpack_from(body, MASTER_KEY_BYTES)
    flags, ledger, first, count, pattern = header[2], header[4], header[5], header[7], header[8:10]
    at = Pattern(*pattern).id_at
    ids = tuple(EntryId(at(first, index)) for index in range(count))
    return _Add(LedgerId(ledger), ids, bool(flags & FLAG_RECOVERY), EntryId(header[6]))


@dataclass(frozen=True, slots=True)
class _Asked:
    request: ReadRequest | LacRequest
    flags: int
    at: int


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that waits for an answer on its connection."""

    answers: int
    """How often it came minus how often it was answered; never 0."""
    op: Op
    at: float
    """When it last came, or was last answered once of several times."""


class Wiretap:
    """See network.Tap."""

    def __init__(
        self,
        history: History,
        lost: Callable[[str, LedgerId], EntrySet],
        held: Callable[[str, LedgerId], EntrySet | None],
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`lost`: what a bookie has durably recorded as lost, and so rightly denies. `held`: what
        it has now, None while it does not serve.
        """
        self._history = history
        self._now = now
        self._lost = lost
        self._held = held
        self._pledges: dict[tuple[str, LedgerId], AnswerRecord] = {}
        self._pending: dict[tuple[int, int], _Add | _Asked] = {}
        self._messages = 0
        self._excused: set[str] = set()
        self._distrusted: set[str] = set()
        self.mislaid: Container[LedgerId] = ()
        """Ledgers that bookies could rightly drop: to who fences alone they must not deny them."""
        self.on_cleared: Callable[[str, LedgerId], None] = lambda _bookie, _ledger: None
        self.on_answer: Callable[[str, str], None] = lambda _bookie, _what: None
        """Called with each answer that a bookie must stand for: fence, add, recovery add, clear."""
        self._brought: dict[LedgerId, set[str]] = {}
        """Ledger -> bookies that have taken copies of it from a recovery."""
        self._lacs: dict[LedgerId, EntryId] = {}
        """Ledger -> the highest LAC that its writer has sent."""
        self._stop_losses = StopLosses(held, lambda *of: self._of(*of).acked, self._owed)
        """What unclean stops took."""
        self._bookie_of: dict[int, str] = {}
        """The bookie at the end of each connection."""
        self._asked_by: dict[tuple[int, int], str] = {}
        """Unanswered fencing requests -> the client that sent them."""
        self._fences: dict[tuple[str, LedgerId], set[str]] = {}
        """Client and ledger -> bookies that answered that they are fenced."""
        self._sent: dict[tuple[str, LedgerId], EntryId] = {}
        """Writer and its ledger -> the highest entry that it has sent."""
        self._stopped: dict[tuple[str, LedgerId], tuple[EntryId, float]] = {}
        """The value of `_sent` when the writer learned of the fence, and when that was."""
        self._recent: dict[tuple[str, int, LedgerId], deque[float]] = {}
        self._unanswered: dict[tuple[int, int], _Request] = {}
        """Requests without an answer, by connection and request id."""

    def _of(self, bookie: str, ledger_id: LedgerId) -> AnswerRecord:
        return self._pledges.setdefault((bookie, ledger_id), AnswerRecord())

    def excuse(self, bookie: str) -> None:
        """Excuse a bookie whose disk lied about durability: it breaks promises without knowing."""
        self._excused.add(bookie)

    def distrust(self, bookie: str) -> None:
        """Note that its copies may be wrong: it stops listing copies that it rejects."""
        self._distrusted.add(bookie)

    def stopped_uncleanly(self, name: str, *, lost_disk: bool = False) -> None:
        """It served, and may have forgotten, with `lost_disk` fences as well: what it forgot takes
        no other normal add there.
        """
        self._stop_losses.stopped(name, self._history.ledgers, lost_disk=lost_disk)

    # What a bookie hears
    def heard(self, bookie: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        self._messages += 1
        self._bookie_of[connection] = bookie
        self._count(bookie, connection, message, 1)
        self._stop_losses.look(bookie)
        try:
            envelope = parse_envelope(message)
            key = (connection, envelope.request_id)
            if envelope.op is Op.ADD_RUN:
                add = _add(envelope.body)
                fenced = self._of(bookie, add.ledger_id).fenced
                barred = self._stop_losses.bars(bookie, add.ledger_id)
                late = self._of(bookie, add.ledger_id).is_given_up
                asked = replace(add, came_fenced=fenced, came_barred=barred, came_late=late)
                self._pending.setdefault(key, asked)
            elif envelope.op is Op.READ:
                request = ReadRequest.decode(envelope.body)
                self._pending[key] = _Asked(request, envelope.code, self._messages)
            elif envelope.op is Op.READ_LAC:
                wanted = LacRequest.decode(envelope.body)
                self._pending[key] = _Asked(wanted, envelope.code, self._messages)
        except (FrameError, struct.error):
            return  # the bookie refuses it as well
        assert len(self._pending) < PENDING_MAX

    # What it says
    def said(self, bookie: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        self._count(bookie, connection, message, -1)
        envelope = parse_envelope(message)
        asked = self._pending.get((connection, envelope.request_id))
        if asked is None or envelope.code not in Status._value2member_map_:
            return
        status = Status(envelope.code)
        if isinstance(asked, _Add):
            if status is Status.OK:
                self._acked(bookie, asked)
            return
        if asked.flags & FLAG_FENCE and (status.is_known or status in _FENCED_BY):
            self.on_answer(bookie, "fence")
            client = self._asked_by.get((connection, envelope.request_id), "")
            self._fences.setdefault((client, asked.request.ledger_id), set()).add(bookie)
        if bookie in self._excused:
            return
        if asked.flags & FLAG_FENCE and (status.is_known or status in _FENCED_BY):
            self._of(bookie, asked.request.ledger_id).fenced = True
        if isinstance(asked.request, LacRequest) and status is Status.OK:
            lac = LacReply.decode(envelope.body).lac
            self._check_lac(bookie, asked, lac)
            self._check_learned(bookie, asked.request.ledger_id, lac)
        if isinstance(asked.request, ReadRequest) and status is Status.OK:
            self._check_learned(
                bookie, asked.request.ledger_id, ReadReply.decode(envelope.body).lac
            )
        is_dropped = asked.request.ledger_id in self.mislaid and not asked.flags & FLAG_FENCE
        if isinstance(asked.request, ReadRequest) and not is_dropped:
            self._check_denials(
                bookie, asked.request, asked.at, denied_by(asked.request, status, envelope.body)
            )

    def _count(self, bookie: str, connection: int, message: bytes, more: int) -> None:
        _size, op, _code, _zero, request_id = ENVELOPE.unpack_from(message)
        key = connection, request_id
        before = self._unanswered.pop(key, None)
        left = more if before is None else before.answers + more
        if left > 0:
            self._unanswered[key] = _Request(left, Op(op), self._now())
        elif left < 0:
            self._history.violate(f"{bookie} answered {Op(op).name} once more than it was asked")

    def calmed_down(self, lasting: Container[int]) -> None:
        """No fault came for `ANSWER_S`; `lasting`: connections that still have both ends."""
        for (connection, _request), one in self._unanswered.items():
            is_late = one.at <= self._now() - ANSWER_S and one.op is not Op.WAIT_LAC
            if is_late and connection in lasting:
                bookie = self._bookie_of[connection]
                self._history.violate(
                    f"{bookie} never answered {one.op.name}, asked at {one.at:.1f}"
                )

    def _acked(self, bookie: str, add: _Add) -> None:
        ledger_id = add.ledger_id
        if add.came_fenced and not add.is_recovery and bookie not in self._excused:
            self._history.violate(
                f"{bookie} acknowledged {add.entry_ids[0]} of ledger {ledger_id}, which "
                "came after it had answered a fence"
            )
        elif add.came_barred and not add.is_recovery and bookie not in self._excused:
            self._history.violate(
                f"{bookie} acknowledged {add.entry_ids[0]} of ledger {ledger_id}, of which it "
                "lacked entries when it came back: neither mark nor fence has kept it out"
            )
        elif add.came_late and not add.is_recovery and bookie not in self._excused:
            self._history.violate(
                f"{bookie} acknowledged {add.entry_ids[0]} of ledger {ledger_id}, which is deleted "
                "and of which it had given up all that it had"
            )
        if add.is_recovery:
            self._brought.setdefault(ledger_id, set()).add(bookie)
        self.on_answer(bookie, "recovery add" if add.is_recovery else "add")
        pledges = self._of(bookie, ledger_id)
        pledges.acked.update(dict.fromkeys(add.entry_ids, self._messages))
        pledges.taken_back.difference_update(add.entry_ids)
        if add.lac > pledges.lac and not add.is_recovery:
            pledges.lac, pledges.lac_at = add.lac, self._messages

    def _check_lac(self, bookie: str, asked: _Asked, lac: EntryId) -> None:
        pledges = self._of(bookie, asked.request.ledger_id)
        if lac < pledges.lac and pledges.lac_at < asked.at:
            self._history.violate(
                f"{bookie} told a LAC of {lac} for ledger {asked.request.ledger_id} as if it "
                f"knew, though it had acknowledged one of {pledges.lac}"
            )

    def _check_learned(self, bookie: str, ledger_id: LedgerId, lac: EntryId) -> None:
        """A recovery adds what it found with the LAC that it learned, whatever comes of it."""
        if lac > self._lacs.get(ledger_id, NO_ENTRY):
            self._history.violate(
                f"{bookie} told a LAC of {lac} for ledger {ledger_id}, whose writer has sent none "
                f"above {self._lacs.get(ledger_id, NO_ENTRY)}"
            )

    # What clients say and hear
    def sent(self, client: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        _size, op, code, _zero, request_id = ENVELOPE.unpack_from(message)
        if op == Op.ADD_RUN:
            add = _add(memoryview(message)[ENVELOPE_BYTES:])
            self._check_stopped(client, add)
            if add.is_recovery:
                self._check_mend(client, add)
            else:
                self._writer_says(add.ledger_id, add.lac)
        elif op == Op.WRITE_LAC:
            said = LacRequest.decode(memoryview(message)[ENVELOPE_BYTES:])
            self._writer_says(said.ledger_id, said.lac)
        elif op == Op.READ and not code & FLAG_FENCE:
            self._check_fencing(client, ReadRequest.decode(message[ENVELOPE_BYTES:]))
        elif op in (Op.READ, Op.READ_LAC) and code & FLAG_FENCE:
            self._asked_by[connection, request_id] = client
            body = memoryview(message)[ENVELOPE_BYTES:]
            if op == Op.READ:
                self._check_coverage(client, ReadRequest.decode(body).ledger_id)
            else:
                self._check_pause(client, connection, LacRequest.decode(body).ledger_id)

    def _check_mend(self, client: str, add: _Add) -> None:
        """A recovery that finds such a copy takes the entry for one that may be acknowledged. What
        is before the last fragment is: the writer's word for it is the fragment.
        """
        metadata = self._history.ledger(add.ledger_id).metadata
        if metadata is None or metadata.state is not LedgerState.OPEN:
            return
        lac = self._lacs.get(add.ledger_id, NO_ENTRY)
        known = max(lac, metadata.last_fragment.first_entry_id - 1)
        if add.entry_ids[-1] > known:
            self._history.violate(
                f"{client} copies {add.entry_ids[-1]} of ledger {add.ledger_id}, which is open "
                f"and whose writer has sent no LAC above {known}"
            )

    def _writer_says(self, ledger_id: LedgerId, lac: EntryId) -> None:
        self._lacs[ledger_id] = max(lac, self._lacs.get(ledger_id, NO_ENTRY))

    def answered(self, client: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        _size, op, code, _zero, request_id = ENVELOPE.unpack_from(message)
        if op != Op.ADD_RUN or code != Status.FENCED:
            return
        asked = self._pending.get((connection, request_id))
        if isinstance(asked, _Add) and not asked.is_recovery and self._names(asked, connection):
            key = (client, asked.ledger_id)
            self._stopped.setdefault(key, (self._sent.get(key, NO_ENTRY), self._now()))

    def _names(self, asked: _Add, connection: int) -> bool:
        """The bookie at the other end is still a member: its word counts for the writer."""
        metadata = self._history.ledger(asked.ledger_id).metadata
        bookie = self._bookie_of.get(connection)
        return metadata is not None and bookie in metadata.last_fragment.ensemble

    def _check_stopped(self, client: str, add: _Add) -> None:
        key, last = (client, add.ledger_id), add.entry_ids[-1]
        if add.is_recovery:
            return
        self._sent[key] = max(last, self._sent.get(key, NO_ENTRY))
        stopped, since = self._stopped.get(key, (last, 0.0))
        if last > stopped and self._now() - since > CONNECT_S:
            self._history.violate(
                f"{client} began {last} of ledger {add.ledger_id} though it had been told at "
                f"{since:.3f} s that the ledger is fenced, when {stopped} was its last"
            )

    def _check_fencing(self, client: str, request: ReadRequest) -> None:
        """One entry alone may be read without: the last, for its length, when the end is found. A
        repair reads what it copies, too; every other client that fences is a recoverer.
        """
        is_recoverer = (client, request.ledger_id) in self._fences
        if not is_recoverer or request.first == request.last or client.startswith(REPAIRERS):
            return
        metadata = self._history.ledger(request.ledger_id).metadata
        if metadata is not None and metadata.state is LedgerState.IN_RECOVERY:
            self._history.violate(
                f"{client} reads {request.first}..{request.last} of ledger {request.ledger_id}, "
                "which it recovers, without a fence"
            )

    def _check_coverage(self, client: str, ledger_id: LedgerId) -> None:
        metadata = self._history.ledger(ledger_id).metadata
        if metadata is None or metadata.state is not LedgerState.IN_RECOVERY:
            return
        known = self._fences.get((client, ledger_id), set())
        ensemble = metadata.last_fragment.ensemble
        fenced = [place for place, bookie in enumerate(ensemble) if bookie in known]
        if not fence_covers(
            fenced,
            ensemble_size=metadata.ensemble_size,
            write_quorum=metadata.write_quorum,
            ack_quorum=metadata.ack_quorum,
        ):
            self._history.violate(
                f"{client} reads ledger {ledger_id} for its recovery though of "
                f"{', '.join(ensemble)} only {', '.join(sorted(known)) or 'nobody'} is fenced"
            )

    def _check_pause(self, client: str, connection: int, ledger_id: LedgerId) -> None:
        times = self._recent.setdefault((client, connection, ledger_id), deque(maxlen=FENCES_MAX))
        if len(times) == FENCES_MAX and self._now() - times[0] < FENCES_S:
            self._history.violate(
                f"{client} asked for the fence of ledger {ledger_id} more than {FENCES_MAX} times "
                f"within {FENCES_S:.0f} s: a retry without a pause"
            )
        times.append(self._now())

    # What a bookie lists on its control plane
    @property
    def moment(self) -> int:
        """See network.Tap."""
        return self._messages

    def listed(
        self, bookie: str, ledger_id: LedgerId, held: EntrySet, lost: EntrySet, *, asked: int
    ) -> None:
        """See network.Tap."""
        pledges = self._of(bookie, ledger_id)
        pledges.listed = held
        if bookie in self._excused | self._distrusted or ledger_id in self.mislaid:
            return
        missing = [
            i
            for i, acked_at in pledges.pledged.items()
            if acked_at < asked
            and i not in held
            and i not in lost
            and self._owes(bookie, ledger_id, i)
        ]
        if missing:
            self._history.violate(
                f"{bookie} listed what it holds of ledger {ledger_id} without {min(missing)}, "
                f"which it had acknowledged and is to hold ({len(missing)} such entries)"
            )

    def cleared(self, bookie: str, ledger_id: LedgerId) -> None:
        """See network.Tap."""
        # A repair brings back what it is to hold. A higher LAC came with entries that a change of
        # the ensemble took from it; to a recovery a LAC is where it begins, not where it ends.
        self._of(bookie, ledger_id).lac = NO_ENTRY
        self.on_cleared(bookie, ledger_id)
        self.on_answer(bookie, "clear")

    # What others ask of it
    def newcomers(self) -> list[str]:
        """Bookies with a copy by a recovery whose ledger does not name them yet."""
        found: set[str] = set()
        for ledger_id, bookies in self._brought.items():
            metadata = self._history.ledger(ledger_id).metadata
            if metadata is not None and metadata.state is LedgerState.IN_RECOVERY:
                found |= bookies - set(metadata.last_fragment.ensemble)
        return sorted(found)

    def pledged(self, bookie: str, ledger_id: LedgerId) -> EntrySet:
        """What it has acknowledged of the ledger, and is to hold by its metadata of now."""
        pledged = sorted(self._of(bookie, ledger_id).pledged)
        return EntrySet.from_ids([i for i in pledged if self._owes(bookie, ledger_id, i)])

    def _owed(self, bookie: str, ledger_id: LedgerId) -> EntrySet:
        return self.pledged(bookie, ledger_id) - self._lost(bookie, ledger_id)

    def changed(self, before: LedgerMetadata | None, after: LedgerMetadata | None) -> None:
        """The store holds `after` in place of `before`: a writer's change takes back what others
        than the members of both have acknowledged of the fragment that it begins, and from whom it
        names nowhere the LAC that came with it.
        """
        if before is None or after is None or after.state is not LedgerState.OPEN:
            return
        old, new = before.last_fragment.ensemble, after.last_fragment.ensemble
        staying = {one for one, other in zip(old, new, strict=True) if one == other}
        for (bookie, ledger_id), pledges in self._pledges.items():
            if ledger_id == after.ledger_id and bookie not in staying:
                first = after.last_fragment.first_entry_id
                pledges.taken_back.update(i for i in pledges.acked if i >= first)
                if not any(bookie in fragment.ensemble for fragment in after.fragments):
                    pledges.lac = NO_ENTRY

    def has_acked(self, bookie: str, ledger_id: LedgerId) -> bool:
        return bool(self._of(bookie, ledger_id).acked)

    def given_up(self, bookie: str, ledger_id: LedgerId) -> None:
        """Note that the bookie has nothing of a deleted ledger. Unless a stop took that, it has
        removed it, and takes no add any more (S40).
        """
        if not self._stop_losses.took(bookie, ledger_id):
            self._of(bookie, ledger_id).is_given_up = True

    def learned_fenced(self, ledger_id: LedgerId) -> bool:
        """Whether some writer has learned that the ledger is fenced."""
        return any(ledger == ledger_id for _client, ledger in self._stopped)

    def has_acknowledged(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Whether this bookie has ever said that it stored the entry."""
        pledges = self._of(bookie, ledger_id)
        return entry_id in pledges.acked or entry_id in pledges.listed

    def _check_denials(
        self,
        bookie: str,
        request: ReadRequest,
        asked_at: int,
        denied: tuple[int, int, set[int]] | None,
    ) -> None:
        if denied is None:
            return
        first, last, spared = denied
        pledges = self._of(bookie, request.ledger_id)
        broken = sorted(
            i
            for i, acked_at in pledges.pledged.items()
            if first <= i <= last
            and acked_at < asked_at
            and i not in spared
            and i not in self._lost(bookie, request.ledger_id)
            and self._owes(bookie, request.ledger_id, i)
        )
        if broken:
            self._history.violate(
                f"{bookie} denied {broken[0]} of ledger {request.ledger_id}, which it had "
                f"acknowledged and is to hold ({len(broken)} such entries)"
            )

    def _owes(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        metadata = self._history.ledger(ledger_id).metadata
        if metadata is None or (metadata.is_closed and entry_id > metadata.last_entry_id):
            return False
        return names(metadata, BookieId(bookie), entry_id)
