"""Gathers the facts about one ledger from the storage, for `protocol.admission`, and puts its
ruling into the ledger's record.
"""

from dataclasses import replace

from bookie.ids import LedgerId
from bookie.protocol.admission import LedgerFacts, Ruling
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage


def facts_of(storage: Storage, ledger_id: LedgerId, *, is_leased: bool) -> LedgerFacts:
    """All facts about the ledger at this moment."""
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
        is_leased=is_leased,
    )


def add_facts(storage: Storage, ledger_id: LedgerId, *, is_leased: bool) -> LedgerFacts:
    """Only the facts that `rule_add` reads: adds are hot."""
    record, boundary, needs_note = (
        storage.record(ledger_id),
        storage.boundary(),
        storage.needs_notes,
    )
    is_behind = boundary is not None and boundary.covers(ledger_id)
    is_unchecked = storage.is_unchecked(ledger_id)
    if record is None:
        return LedgerFacts(
            unchecked=is_unchecked,
            behind_boundary=is_behind,
            is_leased=is_leased,
            is_noted=not needs_note,
        )
    return LedgerFacts(
        master_key=record.master_key,
        fenced=record.fenced,
        limbo=record.limbo,
        unchecked=is_unchecked,
        deleted=record.deleted,
        behind_boundary=is_behind,
        is_leased=is_leased,
        is_noted=record.noted or not needs_note,
    )


def changed_by(ruling: Ruling, record: LedgerRecord, *, master_key: bytes) -> LedgerRecord:
    """The record with what the ruling says must be durable before the answer."""
    if ruling.learn_key:
        record = replace(record, master_key=master_key)
    if ruling.fence:
        record = replace(record, fenced=True)
    if ruling.note:
        record = replace(record, noted=True)
    return record
