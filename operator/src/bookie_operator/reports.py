"""Reads the result objects of the repair engine: counts for status, never proofs.

An engine of another version may say less or more; what is missing counts as nothing reported.
"""

from collections.abc import Mapping
from typing import Any

from bookie_operator.observed import AuditReport, RepairReport


def repair_report(tree: Mapping[str, Any]) -> RepairReport:
    return RepairReport(
        entries_copied=_count(tree, "entries_copied"),
        entries_copied_closed=_count(tree, "entries_copied_closed"),
        ledgers_recovered=_count(tree, "ledgers_recovered"),
        engine=str(tree.get("engine", "")),
        spark_app_id=str(tree.get("spark_app_id") or ""),
        message=message_of(tree),
    )


def audit_report(tree: Mapping[str, Any]) -> AuditReport | None:
    """None when the result holds no findings: the audit did not come to its end."""
    found = tree.get("audit")
    if not isinstance(found, Mapping):
        return None
    return AuditReport(
        ledgers=_count(found, "ledgers"),
        entries=_count(found, "entries"),
        ok=_count(found, "ok"),
        missing=_count(found, "missing"),
        unknown=_count(found, "unknown"),
        below_write_quorum=_count(found, "below_write_quorum"),
        below_ack_quorum=_count(found, "below_ack_quorum"),
        no_copy_left=_count(found, "no_copy_left"),
        engine=str(tree.get("engine", "")),
        spark_app_id=str(tree.get("spark_app_id") or ""),
    )


def message_of(tree: Mapping[str, Any]) -> str:
    return str(tree.get("message") or "")[:1024]


def _count(tree: Mapping[str, Any], name: str) -> int:
    value = tree.get(name, 0)
    return value if isinstance(value, int) and value >= 0 else 0
