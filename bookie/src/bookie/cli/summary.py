"""The summary of a result: at most 4096 bytes, which fit in a pod's termination message.

`bookie repair`, `audit` and the other jobs write it with `--summary PATH`, also when they fail; the
operator reads it. It keeps counts, replaces lists by their length and first rows, and cuts texts,
so that it is always one whole JSON object. docs/repair-result.md lists the fields.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bookie.repair.reports.result import Document

SUMMARY_BYTES_MAX: Final = 4096
"""What Kubernetes keeps of a termination message."""
TEXT_MAX: Final = 1024
NAMES_MAX: Final = 16
_SAME: Final = (
    "kind", "run_id", "exit_code", "seconds", "engine", "engine_reason", "spark_app_id",
    "executors", "bookie_id", "refused", "ledgers", "ledgers_left", "entries_recovered",
    "entries_copied", "entries_copied_closed", "bytes_copied", "corrupt_copies", "corrupt_found",
    "corrupt_replaced", "audit", "lost_bookies", "marks", "progress",
    "audit_before", "audit_after", "marked_ledgers", "classes", "underreplicated_skipped",
    "quorums", "last_copies", "undecided",
)  # fmt: skip


def summary_of(document: Mapping[str, Any]) -> Document:
    """The counts of a result object, and the length and first rows of its lists."""
    blocked = document.get("blocked") or []
    blocks = _count(document, "blocked")
    accepted = [row["ledger_id"] for row in document.get("accepted_losses") or ()]
    return {
        **{name: document[name] for name in _SAME if name in document},
        "executor_names": list(document.get("executor_names") or ())[:NAMES_MAX],
        "losses": _count(document, "losses"),
        "unreachable": list(document.get("unreachable") or ())[:NAMES_MAX],
        "blocked_count": blocks,
        "first_block": blocked[0] if blocked else None,
        "message": _message(document, blocks),
        "accepted_loss_count": _count(document, "accepted_losses"),
        "accepted_losses": accepted,
    }


def failure_of(kind: str, *, exit_code: int, message: str) -> Document:
    """The summary of work that failed."""
    return {"kind": kind, "exit_code": exit_code, "message": message}


def summary_bytes(summary: Mapping[str, Any], *, bytes_max: int = SUMMARY_BYTES_MAX) -> bytes:
    """One JSON object of at most `bytes_max` bytes: the longest parts are cut first."""
    parts = {name: _cut(value) for name, value in summary.items()}
    while len(encoded := _encode(parts)) > bytes_max:
        longest = max(parts, key=lambda name: (len(_encode(parts[name])), name))
        _halve(parts, longest)
    return encoded


def write_summary(summary: Mapping[str, Any], path: Path) -> None:
    """Write into the file itself: a termination log is a mount, so no file can be renamed over
    it."""
    path.write_bytes(summary_bytes(summary))


def _count(document: Mapping[str, Any], name: str) -> int:
    """Rows of a list of the result, with those that had no place in it."""
    return len(document.get(name) or ()) + int(document.get(f"{name}_left_out") or 0)


def _message(document: Mapping[str, Any], blocks: int) -> str:
    if not blocks:
        return str(document.get("refused") or "")
    first = document["blocked"][0]
    what = first.get("ledger_id", first.get("bookie_id", ""))
    return f"{blocks} blocked; {what} {first.get('reason')}: {first.get('message')}"


def _cut(value: Any) -> Any:
    return value[:TEXT_MAX] if isinstance(value, str) else value


def _encode(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is no character; as an escape it is legal JSON.
    return text.encode("utf-8", "backslashreplace")


def _halve(parts: dict[str, Any], name: str) -> None:
    """Shorten this part, or remove it when it cannot be shortened."""
    value = parts[name]
    if isinstance(value, str | list) and len(value) > 1:
        parts[name] = value[: len(value) // 2]
    elif isinstance(value, dict) and value:
        _halve(value := dict(value), max(value, key=lambda key: len(_encode(value[key]))))
        parts[name] = value
    else:
        del parts[name]
