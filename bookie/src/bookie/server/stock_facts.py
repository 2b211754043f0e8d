"""Requests of stock clients other than adds and reads of entries: LACs, force, lists of entries,
disk space.
"""

from functools import partial

from bookie.frames.entry import Buffer
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.admission import LedgerFacts
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.server.operations import Operations
from bookie.server.stock_answers import NO_KEY, Origin
from bookie.server.stock_reads import FoundEntries
from bookie.storage.space import DirectoryUsage
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest
from bookie.wire.stock.messages import (
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    ReadLac,
    WriteLac,
    outcome_of,
)


class FactService:
    """Serves these requests of one bookie. Every method returns False when there is no room."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    # LAC
    def read_lac(self, origin: Origin, request: ReadLac) -> bool:
        """Answer with the LAC as a client signed it and the last entry; refused when the bookie may
        have forgotten entries.
        """
        asked = LacRequest(request.ledger_id, NO_KEY, NO_ENTRY, 0)
        then = partial(self._read_last, origin, request)
        return self._operations.read_lac(origin.client, asked, fence=False, then=then)

    def _read_last(
        self,
        origin: Origin,
        request: ReadLac,
        status: Status,
        found: LacReply | None,
        _reason: str,
    ) -> None:
        if status is not Status.OK or found is None:
            origin.refuse(request, status)
        elif found.last_entry_id == NO_ENTRY:
            self._answer_lac(origin, request, None, absent=Status.NO_SUCH_ENTRY)
        else:
            origin.client.do(partial(self._read_entry, origin, request, found.last_entry_id))

    def _read_entry(self, origin: Origin, request: ReadLac, entry_id: EntryId) -> bool:
        asked = ReadRequest(request.ledger_id, entry_id, entry_id, 1, NO_KEY)
        then = partial(self._answer_with_entry, origin, request, entry_id)
        return self._operations.read(origin.client, asked, fence=False, then=then)

    def _answer_with_entry(
        self,
        origin: Origin,
        request: ReadLac,
        entry_id: EntryId,
        status: Status,
        reply: ReadReply | None,
        _reason: str,
    ) -> None:
        if reply is None:
            origin.refuse(request, status)
            return
        found = FoundEntries(reply, [entry_id])
        absent = found.status(entry_id)
        if absent in (Status.OK, Status.NO_SUCH_ENTRY):
            self._answer_lac(origin, request, found.entry(entry_id), absent=absent)
        else:
            origin.refuse(request, absent)

    def _answer_lac(
        self, origin: Origin, request: ReadLac, entry: Buffer | None, *, absent: Status
    ) -> None:
        """`absent`: the status to answer when there is neither a LAC nor an entry."""
        body = self._operations.lac_body(request.ledger_id) or None
        if body is None and entry is None:
            origin.refuse(request, absent)
            return
        answer = origin.wire.answer_read_lac(request, Outcome.OK, lac_body=body, last_entry=entry)
        origin.client.send(answer)

    def write_lac(self, origin: Origin, request: WriteLac) -> bool:
        """Store the LAC verbatim, and answer when it is durable."""
        asked = LacRequest(request.ledger_id, request.master_key, request.lac, 0)
        then = partial(_answer_write_lac, origin, request)
        return self._operations.write_lac(origin.client, asked, then=then, body=request.body)

    # Force
    def force(self, origin: Origin, request: Force) -> bool:
        """Answer OK when all entries added before are durable. A force has no key on this wire."""
        facts = self._operations.facts_of(request.ledger_id)
        if _never_had_any(facts):
            _answer_force(origin, request, Status.OK, None, "")
            return True
        asked = LacRequest(request.ledger_id, facts.master_key or NO_KEY, NO_ENTRY, 0)
        then = partial(_answer_force, origin, request)
        return self._operations.force(origin.client, asked, then=then)

    # Lists
    def list_entries(self, origin: Origin, request: ListEntries) -> bool:
        then = partial(_answer_list, origin, request)
        return self._operations.list_entries(origin.client, request.ledger_id, then=then)

    # Disks
    def bookie_info(self, origin: Origin, request: BookieInfo) -> bool:
        return self._operations.space(origin.client, then=partial(_answer_info, origin, request))


def _never_had_any(facts: LedgerFacts) -> bool:
    """True when this bookie never got an entry of the ledger: a writer forces its whole ensemble,
    also bookies without entries.
    """
    return not (facts.is_known or facts.may_have_forgotten or facts.deleted)


def _answer_write_lac(
    origin: Origin, request: WriteLac, status: Status, _found: None, _reason: str
) -> None:
    origin.client.send([origin.wire.answer_write_lac(request, outcome_of(status))])


def _answer_force(
    origin: Origin, request: Force, status: Status, _found: None, _reason: str
) -> None:
    origin.client.send([origin.wire.answer_force(request, outcome_of(status))])


def _answer_list(
    origin: Origin, request: ListEntries, status: Status, entries: EntrySet | None, _reason: str
) -> None:
    outcome = outcome_of(status)
    origin.client.send(origin.wire.answer_list_entries(request, outcome, entries))


def _answer_info(
    origin: Origin,
    request: BookieInfo,
    status: Status,
    disks: list[DirectoryUsage] | None,
    _reason: str,
) -> None:
    total = sum(disk.total_bytes for disk in disks or ())
    free = sum(disk.free_bytes for disk in disks or ())
    answer = origin.wire.answer_bookie_info(
        request, outcome_of(status), total_bytes=total, free_bytes=free
    )
    origin.client.send([answer])
