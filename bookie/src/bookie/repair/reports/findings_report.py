"""What an audit found becomes part of its result object: since when, what is new, what has healed.

A finding is logged in full when it is first seen, where a history is kept; later it only counts.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore, Unreadable
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import Racks
from bookie.repair.judge.adherence import SOFT, STRICT, Misplaced, misplaced_json
from bookie.repair.judge.expect import Verdict, members
from bookie.repair.judge.quorums import LOW, low_count, low_json, quorums_json
from bookie.repair.look.audit import Audit, read_ledgers
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
    store: MetadataStore,
    *,
    is_deep: bool,
    chosen: Collection[LedgerId] | None,
    now_ms: int,
    findings: Sequence[Document],
) -> Document:
    """The fields of all findings but those of entries; `findings`, which are these, get times."""

    keys = [*_keys(found), *_other_keys(others)]
    check = _FindingCheck(found, others.racks, is_deep=is_deep, chosen=chosen)
    await check.look_up(store, await history.read(), keys)

    def change(before: History) -> Update:
        may_be_there = partial(check.may_be_there, before=before)
        return updated(before, keys, now_ms=now_ms, may_be_there=may_be_there)

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
        self, found: Audit, racks: Racks, *, is_deep: bool, chosen: Collection[LedgerId] | None
    ) -> None:
        self._chosen, self._racks, self._is_deep = chosen, racks, is_deep
        self._unsure = {v.ledger_id for v in found.findings if _is_unsure(v)} | found.skipped
        """Ledgers of which not everything is known: a finding that is missing now is not healed."""
        self._unsure |= {ledger_id for ledger_id, _error in found.unreadable}
        is_away = bool(found.tallies.keys() - racks.of.keys())
        self._may_be_more = is_away and racks.count < racks.min_racks
        """Whether a bookie that is away may be in one more rack, of which the rule would know."""
        self._looked_up = frozenset[LedgerId]()
        self._ledgers: Mapping[LedgerId, LedgerMetadata | None] = {}
        """The metadata of those that exist, None = it cannot be read."""

    async def look_up(self, store: MetadataStore, before: History, keys: Collection[Key]) -> None:
        """Read the metadata of ledgers whose former findings were not found now, and may exist."""
        gone = before.seen.keys() - set(keys)
        doubtful = (key.ledger_id for key in gone if self._is_in_doubt(key, before))
        self._looked_up = frozenset(LedgerId(i) for i in doubtful if i is not None)
        unreadable: Unreadable = {}
        found = await read_ledgers(store, sorted(self._looked_up), unreadable=unreadable)
        self._ledgers = dict.fromkeys(unreadable) | {i: one.value for i, one in found.items()}

    def may_be_there(self, key: Key, before: History) -> bool:
        """Whether such a finding of the history `before` is not over."""
        if not self._is_asked_about(key):
            return True
        if not self._is_in_doubt(key, before) or key.ledger_id is None:
            return False
        ledger_id = LedgerId(key.ledger_id)
        metadata = self._ledgers.get(ledger_id)
        if metadata is None:  # deleted, if somebody looked; what cannot be read may be anything
            return ledger_id not in self._looked_up or ledger_id in self._ledgers
        if key.name in OF_ENTRIES:
            return True
        # The best is assumed of a member of unknown rack: that is no reason to call it mended.
        return self._may_be_more or not all(b in self._racks.of for b in members(metadata))

    def _is_asked_about(self, key: Key) -> bool:
        return self._chosen is None or key.ledger_id in self._chosen

    def _is_in_doubt(self, key: Key, before: History) -> bool:
        """Whether this audit did not see all that it takes to call it healed."""
        if not self._is_asked_about(key) or key.ledger_id is None:
            return False
        if key.name not in OF_ENTRIES:
            return key.name in (STRICT, SOFT)
        # Corrupt copies count as missing ones, too, and only a deep audit can see them.
        is_rotten = not self._is_deep and Key(CORRUPT, key.ledger_id) in before.seen
        return is_rotten or key.ledger_id in self._unsure


def _is_unsure(verdict: Verdict) -> bool:
    """Of some copy it is not known whether it exists, whatever is known of the entry's others."""
    return any(share.unknown for share in verdict.shares.values())


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
