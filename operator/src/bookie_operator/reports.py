"""Reads the result objects of the repair library: counts for status, never proofs.

An engine of another version may say less or more; what is missing counts as nothing reported.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bookie_operator.model.status import (
    CLASS_PATTERN,
    CLASSES_MAX,
    HOLDERS_MAX,
    LEDGERS_MAX,
    MEMBERS_MAX,
    Holders,
    LastCopies,
    QuorumsStatus,
)
from bookie_operator.observed import (
    AuditReport,
    ClassReport,
    DrainReport,
    Job,
    JobKind,
    LossReport,
    MendReport,
    RepairReport,
    RereplicationReport,
    ScrubReport,
)

_CLASSES: Final = (
    "ledgers",
    "entries",
    "ok",
    "missing",
    "unknown",
    "below_write_quorum",
    "below_ack_quorum",
    "no_copy",
    "lost",
)
NAME_MAX: Final = 253
_WRONG: Final = _CLASSES[_CLASSES.index("missing") :]


def with_report(job: Job, tree: Mapping[str, Any]) -> Job:
    """The job with what its result says, by its kind."""
    match job.kind:
        case JobKind.REPAIR:
            return replace(job, repair=repair_report(tree))
        case JobKind.AUDIT:
            return replace(job, audit=audit_report(tree))
        case JobKind.DRAIN:
            return replace(job, drain=drain_report(tree))
        case JobKind.SCRUB:
            return replace(job, scrub=scrub_report(tree))
        case JobKind.REREPLICATE:
            return replace(job, rereplication=rereplication_report(tree))
        case JobKind.MEND:
            return replace(job, mend=mend_report(tree))
        case JobKind.ACCEPT_LOSS:
            return replace(job, loss=loss_report(tree))
        case JobKind.INDEX_REBUILD:
            return job


def drain_report(tree: Mapping[str, Any]) -> DrainReport:
    ledgers = _part(tree, "ledgers")
    return DrainReport(
        ledgers_moved=_count(ledgers, "moved"),
        ledgers_recovered=_count(ledgers, "recovered"),
        ledgers_left=_count(tree, "ledgers_left"),
        ledgers_blocked=_count(ledgers, "blocked"),
        entries_copied=_count(tree, "entries_copied"),
        **_engine(tree),
        message=message_of(tree),
    )


def repair_report(tree: Mapping[str, Any]) -> RepairReport:
    return RepairReport(
        entries_recovered=_count(tree, "entries_recovered"),
        entries_copied=_count(tree, "entries_copied"),
        entries_copied_closed=_count(tree, "entries_copied_closed"),
        ledgers_recovered=_count(_part(tree, "ledgers"), "recovered"),
        **_engine(tree),
        message=message_of(tree),
    )


def audit_report(tree: Mapping[str, Any]) -> AuditReport | None:
    """None when the result holds no findings: the audit did not come to its end."""
    found = _part(tree, "audit")
    accepted = tree.get("accepted_losses")
    if not found:
        return None
    counts: dict[str, Any] = {name: _count(found, name) for name in _CLASSES}
    return AuditReport(
        **counts,
        accepted_losses=len(accepted) if isinstance(accepted, list) else 0,
        classes=_classes(tree),
        quorums=quorums_of(tree),
        last_copies=last_copies_of(tree),
        **_engine(tree),
    )


def _classes(tree: Mapping[str, Any]) -> dict[str, ClassReport]:
    """Of any name: an engine may know classes that we do not."""
    told = _part(tree, "classes")
    names = [name for name in told if re.fullmatch(CLASS_PATTERN, name)][:CLASSES_MAX]
    counts = {name: _part(told, name) for name in names}
    return {n: ClassReport(_count(c, "findings"), _count(c, "entries")) for n, c in counts.items()}


def quorums_of(tree: Mapping[str, Any]) -> QuorumsStatus | None:
    """None when nothing is said of quorums."""
    told = _part(tree, "quorums")
    if not told:
        return None
    lowest = ("ack_asked", "ack_lowest", "copies_lowest")
    return QuorumsStatus(
        **{name: told[name] for name in lowest if _is_count(told.get(name))},
        ledgers_lowest=_counts(told, "ledgers_lowest"),
    )


def last_copies_of(tree: Mapping[str, Any]) -> LastCopies | None:
    """None when nothing is said of them. A row that cannot be read, or was cut off, is missing
    from `groups`, so that nobody takes the rest for all."""
    told = _part(tree, "last_copies")
    if not (_is_count(told.get("groups")) and _is_count(told.get("entries_left_out"))):
        return None
    rows = told.get("held_by")
    return LastCopies(
        entries=_count(told, "entries"),
        groups=told["groups"],
        entries_left_out=told["entries_left_out"],
        held_by=tuple(
            Holders(
                known=tuple(row["known"]),
                perhaps=tuple(row["perhaps"]),
                entries=_count(row, "entries"),
                ledgers=_count(row, "ledgers"),
                first_ledgers=_counts(row, "first_ledgers"),
            )
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, Mapping) and _are_names(row.get("known"), row.get("perhaps"))
        )[:HOLDERS_MAX],
    )


def _are_names(*lists: Any) -> bool:
    return all(
        isinstance(names, list)
        and len(names) <= MEMBERS_MAX
        and all(isinstance(name, str) and len(name) <= NAME_MAX for name in names)
        for names in lists
    )


def _counts(tree: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = tree.get(name)
    return tuple(filter(_is_count, value))[:LEDGERS_MAX] if isinstance(value, list) else ()


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def scrub_report(tree: Mapping[str, Any]) -> ScrubReport | None:
    """None when the result has no closing audit: the scrub did not come to its end."""
    after = _part(tree, "audit_after")
    if not after:
        return None
    ledgers = _part(tree, "ledgers")
    return ScrubReport(
        ledgers=_count(ledgers, "considered") + _count(ledgers, "done_before"),
        entries=_count(after, "entries"),
        corrupt_found=_count(tree, "corrupt_found"),
        corrupt_replaced=_count(tree, "corrupt_replaced"),
        last_copies=last_copies_of(tree),
        wrong=sum(_count(after, name) for name in _WRONG),
        blocked=_count(ledgers, "blocked"),
        message=message_of(tree),
    )


def mend_report(tree: Mapping[str, Any]) -> MendReport | None:
    """None when the result has no closing audit: the repair did not come to its end."""
    after = _part(tree, "audit_after")
    if not after:
        return None
    ledgers = _part(tree, "ledgers")
    return MendReport(
        ledgers=_count(ledgers, "considered") + _count(ledgers, "done_before"),
        blocked=_count(ledgers, "blocked"),
        wrong=sum(_count(after, name) for name in _WRONG),
        entries_copied=_count(tree, "entries_copied"),
        corrupt_replaced=_count(tree, "corrupt_replaced"),
        **_engine(tree),
        message=message_of(tree),
    )


def rereplication_report(tree: Mapping[str, Any]) -> RereplicationReport | None:
    """None when the result says nothing of marks: it did not come to its end."""
    marks = _part(tree, "marks")
    if not marks:
        return None
    ledgers = _part(tree, "ledgers")
    return RereplicationReport(
        ledgers_moved=_count(ledgers, "moved"),
        ledgers_left=_count(tree, "ledgers_left"),
        blocked=_count(ledgers, "blocked"),
        marks_found=_count(marks, "found"),
        marks_cleared=_count(marks, "cleared"),
        entries_copied=_count(tree, "entries_copied"),
        refused=str(tree.get("refused") or "")[:1024],
        **_engine(tree),
        message=message_of(tree),
    )


def loss_report(tree: Mapping[str, Any]) -> LossReport | None:
    """None when the result names no closed ledger: nothing was decided."""
    ledger_id, last = tree.get("ledger_id"), tree.get("last_entry_id")
    if not isinstance(ledger_id, int) or not isinstance(last, int):
        return None
    lost_from, recorded_on = tree.get("lost_from"), tree.get("recorded_on")
    return LossReport(
        ledger_id,
        last,
        lost_from=lost_from if isinstance(lost_from, int) else None,
        recorded_on=tuple(map(str, recorded_on)) if isinstance(recorded_on, list) else (),
    )


def message_of(tree: Mapping[str, Any]) -> str:
    """What is in the way, in a sentence: the number of blocks and the first of them."""
    blocked = tree.get("blocked")
    if isinstance(blocked, list) and blocked and isinstance(blocked[0], Mapping):
        first = blocked[0]
        what = first.get("ledger_id", first.get("bookie_id", ""))
        told = f"{len(blocked)} blocked; {what} {first.get('reason')}: {first.get('message')}"
        return told[:1024]
    return str(tree.get("message") or "")[:1024]


def _engine(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What it ran on, and why on that."""
    return {
        "engine": str(tree.get("engine") or "")[:253],
        "engine_reason": str(tree.get("engine_reason") or "")[:1024],
        "spark_app_id": str(tree.get("spark_app_id") or "")[:253],
        "executors": _count(tree, "executors"),
    }


def _part(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(tree: Mapping[str, Any], name: str) -> int:
    value = tree.get(name, 0)
    return value if isinstance(value, int) and value >= 0 else 0
