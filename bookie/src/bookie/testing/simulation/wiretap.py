"""What no bookie may say, heard on the wire: the two promises that make limbo and fencing safe.

1. Asked for an entry that it has acknowledged and is to hold, a bookie never denies it (unknown is
   no denial).
2. A normal add that reaches a bookie after it answered a fence is not acknowledged by it.
Both hold across every crash and restart of the bookie. Other rules are the history's.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from bookie.protocol.availability import EntrySet
from bookie.protocol.errors import FrameError
from bookie.protocol.ids import BookieId, EntryId, LedgerId
from bookie.protocol.runs import FLAG_RECOVERY, FRAME_HEADER, Pattern, parse_run
from bookie.protocol.status import Status
from bookie.testing.simulation.history import History, names
from bookie.wire.native import (
    FLAG_FENCE,
    MASTER_KEY_BYTES,
    LacRequest,
    Op,
    ReadReply,
    ReadRequest,
    parse_envelope,
)

PENDING_MAX: Final = 100_000


@dataclass(slots=True)
class _Pledges:
    """Of one bookie about one ledger."""

    acked: dict[EntryId, int] = field(default_factory=dict)
    """Entry -> when, by the tap's own count of what it heard."""
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class _Add:
    ledger_id: LedgerId
    entry_ids: tuple[EntryId, ...]
    is_recovery: bool
    came_fenced: bool = False


def _add(body: memoryview) -> _Add:
    """From the frame's header alone: its bytes are the bookie's to check."""
    header = FRAME_HEADER.unpack_from(body, MASTER_KEY_BYTES)
    flags, ledger, first, count, pattern = header[2], header[4], header[5], header[7], header[8:10]
    at = Pattern(*pattern).id_at
    ids = tuple(EntryId(at(first, index)) for index in range(count))
    return _Add(LedgerId(ledger), ids, bool(flags & FLAG_RECOVERY))


@dataclass(frozen=True, slots=True)
class _Asked:
    request: ReadRequest | LacRequest
    flags: int
    at: int


class Wiretap:
    """See network.Tap."""

    def __init__(self, history: History, lost: Callable[[str, LedgerId], EntrySet]) -> None:
        """`lost`: what a bookie has durably recorded as lost, and so rightly denies."""
        self._history = history
        self._lost = lost
        self._pledges: dict[tuple[str, LedgerId], _Pledges] = {}
        self._pending: dict[tuple[int, int], _Add | _Asked] = {}
        self._messages = 0
        self._excused: set[str] = set()

    def _of(self, bookie: str, ledger_id: LedgerId) -> _Pledges:
        return self._pledges.setdefault((bookie, ledger_id), _Pledges())

    def excuse(self, bookie: str) -> None:
        """Its disk had lied about what was durable: it breaks promises that it cannot know of."""
        self._excused.add(bookie)

    # What a bookie hears
    def heard(self, bookie: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        self._messages += 1
        try:
            envelope = parse_envelope(message)
            key = (connection, envelope.request_id)
            if envelope.op is Op.ADD_RUN:
                add = _add(envelope.body)
                fenced = self._of(bookie, add.ledger_id).fenced
                self._pending.setdefault(key, replace(add, came_fenced=fenced))
            elif envelope.op is Op.READ:
                request = ReadRequest.decode(envelope.body)
                self._pending[key] = _Asked(request, envelope.code, self._messages)
            elif envelope.op is Op.READ_LAC:
                asked = LacRequest.decode(envelope.body)
                self._pending[key] = _Asked(asked, envelope.code, self._messages)
        except (FrameError, struct.error):
            return  # the bookie refuses it as well
        assert len(self._pending) < PENDING_MAX

    # What it says
    def said(self, bookie: str, connection: int, message: bytes) -> None:
        """See network.Tap."""
        envelope = parse_envelope(message)
        asked = self._pending.get((connection, envelope.request_id))
        if asked is None or envelope.code not in Status._value2member_map_:
            return
        status = Status(envelope.code)
        if isinstance(asked, _Add):
            if status is Status.OK:
                self._acked(bookie, asked)
            return
        if bookie in self._excused:
            return
        if asked.flags & FLAG_FENCE and status.is_known:
            self._of(bookie, asked.request.ledger_id).fenced = True
        if isinstance(asked.request, ReadRequest):
            self._check_denials(
                bookie, asked.request, asked.at, _denied(asked.request, status, envelope.body)
            )

    def _acked(self, bookie: str, add: _Add) -> None:
        ledger_id = add.ledger_id
        if add.came_fenced and not add.is_recovery and bookie not in self._excused:
            self._history.violate(
                f"{bookie} acknowledged {add.entry_ids[0]} of ledger {ledger_id}, which "
                "came after it had answered a fence"
            )
        self._of(bookie, ledger_id).acked.update(dict.fromkeys(add.entry_ids, self._messages))

    def has_acknowledged(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """For the history: this bookie has said at some time that it stored the entry."""
        return entry_id in self._of(bookie, ledger_id).acked

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
            for i, acked_at in pledges.acked.items()
            if first <= i <= last
            and acked_at < asked_at
            and i not in spared
            and i not in self._lost(bookie, request.ledger_id)
            and self._owes(bookie, request, i)
        )
        if broken:
            self._history.violate(
                f"{bookie} denied {broken[0]} of ledger {request.ledger_id}, which it had "
                f"acknowledged and is to hold ({len(broken)} such entries)"
            )

    def _owes(self, bookie: str, request: ReadRequest, entry_id: EntryId) -> bool:
        metadata = self._history.ledger(request.ledger_id).metadata
        if metadata is None or (metadata.is_closed and entry_id > metadata.last_entry_id):
            return False
        return names(metadata, BookieId(bookie), entry_id)


def _denied(
    request: ReadRequest, status: Status, body: memoryview
) -> tuple[int, int, set[int]] | None:
    """First and last id that the reply speaks of, and those of them it does not deny."""
    if status.is_denial:
        return request.first, request.last, set()
    if status is not Status.OK:
        return None
    reply = ReadReply.decode(body)
    if not reply.absent.is_denial:
        return None
    spared: set[int] = {i for run in reply.runs for i in parse_run(run).entry_ids()}
    for first, last in reply.unknown:
        spared.update(range(max(first, request.first), min(last, request.last) + 1))
    return request.first, min(request.last, reply.answered_through), spared
