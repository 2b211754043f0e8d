"""Reads the result objects of the repair engine: counts for status, never proofs.

An engine of another version may say less or more; what is missing counts as nothing reported.
"""

from collections.abc import Mapping
from typing import Any, Final

from bookie_operator.observed import AuditReport, RepairReport

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


def repair_report(tree: Mapping[str, Any]) -> RepairReport:
    return RepairReport(
        entries_recovered=_count(tree, "entries_recovered"),
        entries_copied=_count(tree, "entries_copied"),
        entries_copied_closed=_count(tree, "entries_copied_closed"),
        ledgers_recovered=_count(_part(tree, "ledgers"), "recovered"),
        engine=str(tree.get("engine", "")),
        spark_app_id=str(tree.get("spark_app_id") or ""),
        message=message_of(tree),
    )


def audit_report(tree: Mapping[str, Any]) -> AuditReport | None:
    """None when the result holds no findings: the audit did not come to its end."""
    found = _part(tree, "audit")
    accepted = tree.get("accepted_losses")
    if not found:
        return None
    return AuditReport(
        **{name: _count(found, name) for name in _CLASSES},
        accepted_losses=len(accepted) if isinstance(accepted, list) else 0,
        engine=str(tree.get("engine", "")),
        spark_app_id=str(tree.get("spark_app_id") or ""),
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


def _part(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(tree: Mapping[str, Any], name: str) -> int:
    value = tree.get(name, 0)
    return value if isinstance(value, int) and value >= 0 else 0
