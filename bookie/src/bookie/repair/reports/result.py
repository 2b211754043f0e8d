"""The result of a run as one JSON object; docs/repair-result.md lists it. `page` is made from it.

The object is complete without the page; lists in it are bounded, and what was cut is counted.
"""

import json
import os
import tempfile
import time
import uuid
from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.protocol.availability import EntrySet
from bookie.repair.judge.counts import COUNT_NAMES, AuditCounts
from bookie.repair.judge.expect import Verdict
from bookie.repair.judge.tally import Tallies
from bookie.repair.look.audit import Audit
from bookie.repair.reports.classes import classes_json, entries_by_class
from bookie.repair.reports.page import page

SCHEMA_VERSION: Final = 1
FINDINGS_MAX: Final = 1000
RANGES_MAX: Final = 100

Document = dict[str, Any]
EMPTY_RACKS: Final[Mapping[BookieId, str]] = MappingProxyType({})


def counts_json(counts: AuditCounts) -> Document:
    """The classes by name; see `expect.Verdict` for what each means."""
    return dict(zip(COUNT_NAMES, counts.row(), strict=True))


def ranges_json(entries: EntrySet) -> Document:
    """`{"entries": n, "ranges": [[first, last], ...], "ranges_left_out": n}`."""
    ranges = entries.ranges()
    return {
        "entries": len(entries),
        "ranges": [list(span) for span in ranges[:RANGES_MAX]],
        "ranges_left_out": max(len(ranges) - RANGES_MAX, 0),
    }


def finding_json(verdict: Verdict) -> Document:
    """One ledger that is not wholly ok: its classes as ranges, and what each bookie lacks."""
    found: Document = {
        "ledger_id": verdict.ledger_id,
        "state": verdict.state.value,
        "through": verdict.through,
    }
    for name, entries in entries_by_class(verdict).items():
        found[name] = ranges_json(entries)
    found["bookies"] = {
        bookie_id: {
            kind: ranges_json(entries)
            for kind in ("missing", "corrupt", "unknown")
            if (entries := getattr(share, kind))
        }
        for bookie_id, share in verdict.shares.items()
        if share.missing or share.unknown
    }
    return found


def audit_json(audit: Audit) -> Document:
    """Counts and the first findings, worst first."""
    worst = sorted(audit.findings, key=_badness)
    return {
        "audit": counts_json(audit.counts),
        "marked_ledgers": audit.marked,
        "unreachable": sorted(audit.unreachable),
        "open_ended": sorted(audit.open_ended)[:FINDINGS_MAX],
        "open_ended_left_out": left_out(audit.open_ended),
        **accepted_json(audit),
        "findings": [finding_json(verdict) for verdict in worst[:FINDINGS_MAX]],
        "findings_left_out": left_out(worst),
        "classes": classes_json(audit.findings),
        "last_copies": audit.last_copies.json(),
        "copies": copies_json(audit.tallies),
    }


def copies_json(tallies: Tallies, racks: Mapping[BookieId, str] = EMPTY_RACKS) -> list[Document]:
    """One row to a bookie; a cluster has few enough to list them all."""
    return [
        {"bookie_id": bookie_id, "rack": racks.get(bookie_id), **asdict(tallies[bookie_id])}
        for bookie_id in sorted(tallies)
    ]


def accepted_json(audit: Audit) -> Document:
    """Ledgers that a person let close at a possible loss: who, when, why, from which entry."""
    return {
        "accepted_losses": [
            {"ledger_id": ledger_id, "record": record.decode("utf-8", "replace")}
            for ledger_id, record in audit.accepted[:FINDINGS_MAX]
        ],
        "accepted_losses_left_out": left_out(audit.accepted),
    }


def left_out(rows: Sized) -> int:
    """How many of these have no place in a list of a result."""
    return max(len(rows) - FINDINGS_MAX, 0)


def _badness(verdict: Verdict) -> tuple[int, ...]:
    return (
        -len(verdict.no_copy),
        -len(verdict.below_ack_quorum),
        -len(verdict.missing),
        verdict.ledger_id,
    )


def exit_code(audit: Audit, *, blocked: int = 0) -> Exit:
    """0 clean, 3 damage found, 4 nothing known to be wrong but not everything known. `blocked`: how
    much else is in the way of knowing it.
    """
    if audit.counts.missing or audit.counts.lost:
        return Exit.FINDINGS
    is_undecided = audit.counts.unknown or audit.open_ended or blocked
    return Exit.UNDECIDED if is_undecided else Exit.OK


def write_result(document: Mapping[str, Any], path: Path) -> None:
    """Write the JSON object, and beside it the page `<name>.html`; each appears whole or not."""
    write_whole(path, json.dumps(document, indent=2) + "\n")
    write_page(document, path.with_suffix(".html"))


def write_page(document: Mapping[str, Any], path: Path) -> None:
    """Write the page for people; it appears whole or not."""
    write_whole(path, page(document))


def write_whole(path: Path, text: str) -> None:
    """The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a run, from which the result object gets its times."""

    run_id: str
    """Random, to tell runs apart."""
    at_ms: int
    """Milliseconds since 1970, by the machine's clock."""
    clock: float
    """The monotonic clock then, in seconds."""

    @classmethod
    def now(cls) -> "Started":
        return cls(uuid.uuid4().hex[:12], int(time.time() * 1000), time.monotonic())

    def json(self, kind: str) -> Document:
        return {
            "schema": SCHEMA_VERSION,
            "kind": kind,
            "run_id": self.run_id,
            "started_at_ms": self.at_ms,
            "seconds": round(time.monotonic() - self.clock, 3),
        }
