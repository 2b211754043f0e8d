"""Adds of stock clients, which come one by one, gathered into runs.

What one read of the socket brings is taken together: per ledger the entries are put into frames of
rising ids, consecutive ones or, where an ensemble is striped, in its pattern. The codec has checked
each entry against its request, so the frames need no second look.
"""

import struct
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from bookie.protocol.availability import ENTRY_ID_MAX, EntrySet
from bookie.protocol.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.runs import (
    CONSECUTIVE,
    FLAG_RECOVERY,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    RUN_ENTRIES_MAX,
    Pattern,
    RunFrame,
    build_run,
)
from bookie.wire.stock.messages import Add

ENTRIES_BYTES_MAX: Final = FRAME_BYTES_MAX - FRAME_HEADER_BYTES
"""Of the entries of one run, each with its place in the length column."""
_COLUMN_BYTES: Final = 4
_LAC: Final = struct.Struct(">16xq")
_entry_id = attrgetter("entry_id")


class Run(NamedTuple):
    """One frame to store, and whose adds it answers."""

    frame: RunFrame
    master_key: bytes
    requests: Sequence[Add]

    @property
    def is_storable(self) -> bool:
        """False: there are no such entry ids."""
        return self.requests[-1].entry_id <= ENTRY_ID_MAX


class _Group:
    """Adds of one ledger with one key and one right, by rising ids."""

    __slots__ = ("is_recovery", "last", "master_key", "requests", "room")

    def __init__(self, first: Add) -> None:
        self.requests: list[Add] = []
        self.master_key = first.master_key
        self.is_recovery = first.is_recovery
        self.last = NO_ENTRY
        self.room = ENTRIES_BYTES_MAX

    def takes(self, request: Add) -> bool:
        """True when the request went into this group, at its end."""
        needed = len(request.entry) + _COLUMN_BYTES
        if (
            request.entry_id <= self.last
            or request.master_key != self.master_key
            or request.is_recovery != self.is_recovery
            or needed > self.room
            or len(self.requests) == RUN_ENTRIES_MAX
        ):
            return False
        self.requests.append(request)
        self.last = request.entry_id
        self.room -= needed
        return True

    def runs(self) -> Iterator[Run]:
        at = 0
        for first, count, pattern in self._spans():
            requests = self.requests[at : at + count]
            yield Run(self._frame(requests, first, pattern), self.master_key, requests)
            at += count

    def _spans(self) -> Sequence[tuple[EntryId, int, Pattern]]:
        """First id, count and pattern of each run."""
        first, count = self.requests[0].entry_id, len(self.requests)
        if self.last - first + 1 == count or self.last > ENTRY_ID_MAX:
            return [(first, count, CONSECUTIVE)]
        ids = map(_entry_id, self.requests)
        return EntrySet.from_ranges((each, each) for each in ids).runs()

    def _frame(self, requests: Sequence[Add], first: EntryId, pattern: Pattern) -> RunFrame:
        entries = [request.entry for request in requests]
        # Also the newest entry of a resent run may carry an older LAC than one before it.
        lac = EntryId(max(NO_ENTRY, max(_LAC.unpack_from(entry)[0] for entry in entries)))
        flags = FLAG_RECOVERY if self.is_recovery else 0
        ledger_id = requests[0].ledger_id
        frame = build_run(ledger_id, first, entries, lac=lac, pattern=pattern, flags=flags)
        return RunFrame(ledger_id, first, lac, len(entries), pattern, flags, memoryview(frame))


class AddGather:
    """Collects the adds of one read of the socket."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._open: dict[LedgerId, _Group] = {}
        """The last group of each ledger: an add never goes before one of its ledger."""

    def add(self, request: Add) -> None:
        group = self._open.get(request.ledger_id)
        if group is None or not group.takes(request):
            group = self._open[request.ledger_id] = _Group(request)
            self._groups.append(group)
            is_taken = group.takes(request)
            assert is_taken, "the codec refuses entries that no frame holds"

    def runs(self) -> Iterator[Run]:
        """What was collected, each ledger's adds in the order in which they came."""
        for group in self._groups:
            yield from group.runs()
