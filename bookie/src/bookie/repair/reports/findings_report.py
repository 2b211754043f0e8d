"""What an audit found becomes part of its result object: since when, what is new, what has healed.

A finding is logged in full when it is first seen, where a history is kept; later it only counts.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.repair.judge.adherence import Misplaced, misplaced_json
from bookie.repair.judge.quorums import LOW, low_count, low_json, quorums_json
from bookie.repair.look.audit import Audit
from bookie.repair.look.underreplication_grace import Overdue
from bookie.repair.reports.classes import (
    OF_ENTRIES,
    OF_OTHERS,
    SILENT,
    UNDERREPLICATED,
    UNREADABLE,
    classes_json,
    entries_by_class,
)
from bookie.repair.reports.finding_history import (
    History,
    Keeper,
    Key,
    NoHistory,
    Seen,
    Update,
    healed_json,
    seen_json,
    updated,
)
from bookie.repair.reports.result import FINDINGS_MAX, Document, copies_json, finding_json

log = logging.getLogger(__name__)

CORRUPT: Final = "corrupt"


@dataclass(frozen=True, slots=True)
class OtherFindings:
    """Findings that are about no entries: silent bookies, misplaced ledgers, marks that stay,
    metadata that nobody can read, and ledgers with a lower ack quorum than this one, None = any.
    """

    silent: Sequence[BookieId]
    misplaced: Sequence[Misplaced]
    overdue: Overdue
    racks: Racks
    ack_quorum: int | None = None
    unreadable: Sequence[tuple[LedgerId, MetadataFormatError]] = ()


async def findings_report(
    found: Audit,
    others: OtherFindings,
    history: Keeper,
    *,
    is_deep: bool,
    chosen: Collection[LedgerId] | None,
    now_ms: int,
    findings: Sequence[Document],
) -> Document:
    """The fields of all findings but those of entries; `findings`, which are these, get times."""

    def change(before: History) -> Update:
        doubt = _FindingCheck(found, before, is_deep=is_deep, chosen=chosen)
        keys = [*_keys(found), *_other_keys(others)]
        return updated(before, keys, now_ms=now_ms, may_be_there=doubt.may_be_there)

    made = await history.update(change)
    seen = made.history.seen
    for finding in findings:
        finding |= _times(seen, [Key(name, finding["ledger_id"]) for name in OF_ENTRIES])
    document = _others_json(others, seen, now_ms) | {
        "healed": [healed_json(key, at) for key, at in made.healed[:FINDINGS_MAX]],
        "healed_left_out": max(len(made.healed) - FINDINGS_MAX, 0),
        "underreplicated_skipped": len(found.skipped),
        "racks": others.racks.count,
        "copies": copies_json(found.tallies, others.racks.of),
        "quorums": quorums_json(found.quorums, others.ack_quorum),
        "low_ack_quorums": low_json(found.quorums, others.ack_quorum),
        "classes": classes_json(found.findings) | _other_classes(found, others),
    }
    if not isinstance(history, NoHistory):
        _log(made, found, document)
    return document


# Keys
def _keys(found: Audit) -> Iterable[Key]:
    for verdict in found.findings:
        for name in entries_by_class(verdict):
            yield Key(name, verdict.ledger_id)


def _other_keys(others: OtherFindings) -> Iterable[Key]:
    yield from (Key(SILENT, bookie_id=bookie_id) for bookie_id in others.silent)
    yield from (Key(one.name, one.ledger_id) for one in others.misplaced)
    yield from (Key(UNREADABLE, ledger_id) for ledger_id, _error in others.unreadable)
    yield from (Key(UNDERREPLICATED, mark.ledger_id) for mark in others.overdue.oldest)


class _FindingCheck:
    """Decides which former findings this audit could not see although they may still exist."""

    def __init__(
        self, found: Audit, before: History, *, is_deep: bool, chosen: Collection[LedgerId] | None
    ) -> None:
        self._chosen = chosen
        self._unsure = {v.ledger_id for v in found.findings if v.unknown} | found.skipped
        """Ledgers of which not everything is known: a finding that is missing now is not healed."""
        self._unsure |= {ledger_id for ledger_id, _error in found.unreadable}
        if not is_deep:
            # Corrupt copies count as missing ones, too, and only a deep audit can see them.
            rotten = (key.ledger_id for key in before.seen if key.name == CORRUPT)
            self._unsure |= {LedgerId(i) for i in rotten if i is not None}

    def may_be_there(self, key: Key) -> bool:
        if key.ledger_id is None or self._chosen is not None:
            return self._chosen is not None and key.ledger_id not in self._chosen
        return key.name in OF_ENTRIES and key.ledger_id in self._unsure


# Document
def _times(seen: Mapping[Key, Seen], keys: Iterable[Key]) -> Document:
    known = {key.name: seen[key] for key in keys if key in seen}
    if not known:
        return {}
    first = min(at.first_ms for at in known.values())
    last = max(at.last_ms for at in known.values())
    return seen_json(Seen(first, last)) | {
        "first_seen_by_class": {name: at.first_ms for name, at in known.items()}
    }


def _others_json(others: OtherFindings, seen: Mapping[Key, Seen], now_ms: int) -> Document:
    silent = [
        {"bookie_id": bookie_id, **seen_json(seen[Key(SILENT, bookie_id=bookie_id)])}
        for bookie_id in others.silent
    ]
    marked = [
        row | seen_json(seen[Key(UNDERREPLICATED, row["ledger_id"])])
        for row in others.overdue.json(now_ms)
    ]
    unreadable = [
        {"ledger_id": i, "message": str(error), **seen_json(seen[Key(UNREADABLE, i)])}
        for i, error in others.unreadable[:FINDINGS_MAX]
    ]
    placed = [
        misplaced_json(one, others.racks) | seen_json(seen[Key(one.name, one.ledger_id)])
        for one in others.misplaced[:FINDINGS_MAX]
    ]
    return {
        "silent_bookies": silent,
        "unreadable_ledgers": unreadable,
        "unreadable_ledgers_left_out": len(others.unreadable) - len(unreadable),
        "underreplicated": marked,
        "underreplicated_left_out": others.overdue.count - len(marked),
        "misplaced": placed,
        "misplaced_left_out": len(others.misplaced) - len(placed),
    }


def _other_classes(found: Audit, others: OtherFindings) -> Document:
    counts = dict.fromkeys(OF_OTHERS, 0)
    counts[SILENT] = len(others.silent)
    counts[UNREADABLE] = len(others.unreadable)
    counts[UNDERREPLICATED] = others.overdue.count
    counts[LOW] = low_count(found.quorums, others.ack_quorum)
    for one in others.misplaced:
        counts[one.name] += 1
    return {name: {"findings": count, "entries": 0} for name, count in counts.items()}


# Log
def _log(made: Update, found: Audit, document: Document) -> None:
    fresh = set(made.fresh)
    ledgers = {key.ledger_id for key in fresh if key.name in OF_ENTRIES}
    new: list[Any] = [v for v in found.findings if v.ledger_id in ledgers]
    for verdict in new[:FINDINGS_MAX]:
        log.warning("first seen: %s", json.dumps(finding_json(verdict)))
    for name in ("silent_bookies", "unreadable_ledgers", "underreplicated", "misplaced"):
        for row in document[name]:
            if row["first_seen_ms"] == row["last_seen_ms"]:
                log.warning("first seen: %s", json.dumps(row))
    if len(new) > FINDINGS_MAX:
        log.warning("first seen: %d more ledgers", len(new) - FINDINGS_MAX)
    counts = {k: v["findings"] for k, v in document["classes"].items() if v["findings"]}
    level = logging.WARNING if counts or made.healed else logging.INFO
    log.log(level, "findings by class: %s; healed: %d", json.dumps(counts), len(made.healed))
