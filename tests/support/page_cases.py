"""Result objects to make pages of: a healthy cluster, and one with something of everything."""

from typing import Any

NASTY = "<script>alert(1)</script>"
AT_MS = 1_795_000_000_000


def entry_set(*ranges: tuple[int, int]) -> dict[str, Any]:
    count = sum(last - first + 1 for first, last in ranges)
    return {"entries": count, "ranges": [list(span) for span in ranges], "ranges_left_out": 0}


def row(bookie_id: str, owed: int, *, missing: int = 0, corrupt: int = 0, unknown: int = 0) -> Any:
    held = owed - missing - unknown
    return {
        "bookie_id": bookie_id,
        "owed": owed,
        "held": held,
        "missing": missing,
        "unknown": unknown,
        "corrupt": corrupt,
    }


def healthy() -> dict[str, Any]:
    """Four bookies, all there."""
    copies = [row(f"bookie-{n}", 750_000 + n * 1000) for n in range(4)]
    counts = {"ledgers": 1000, "entries": 1_002_000, "ok": 1_002_000, "missing": 0, "unknown": 0}
    classes = {name: {"findings": 0, "entries": 0} for name in ("no_copy", "missing", "corrupt")}
    return _document(0) | {"audit": counts, "classes": classes, "copies": copies, "findings": []}


def damaged() -> dict[str, Any]:
    """One lacks entries, one has bit rot, one is silent; and a bookie has a nasty name."""
    copies = [
        row("bookie-0", 1_000_000),
        row("bookie-1", 1_000_000, missing=12, corrupt=4),
        row("bookie-2", 900_000, unknown=900_000),
        row(NASTY, 400_000, missing=3),
    ]
    classes = {
        "no_copy": {"findings": 1, "entries": 2},
        "missing": {"findings": 2, "entries": 13},
        "corrupt": {"findings": 1, "entries": 4},
        "unknown": {"findings": 900, "entries": 899_000},
        "silent_bookie": {"findings": 1, "entries": 0},
    }
    findings = [_finding(7, NASTY), _finding(8, "bookie-1"), _finding(9, "bookie-1")]
    silent = [{"bookie_id": "bookie-2", "first_seen_ms": AT_MS, "last_seen_ms": AT_MS + 60_000}]
    healed = [{"class": "missing", "ledger_id": 3, "first_seen_ms": AT_MS, "last_seen_ms": AT_MS}]
    counts = {"ledgers": 1000, "entries": 1_100_000, "ok": 200_987, "missing": 13}
    return _document(3) | {
        "audit": counts | {"unknown": 899_000, "corrupt": 4},
        "classes": classes,
        "copies": copies,
        "findings": findings,
        "silent_bookies": silent,
        "healed": healed,
        "unreachable": ["bookie-2"],
    }


def _document(exit_code: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "audit",
        "run_id": "0123456789ab",
        "started_at_ms": AT_MS,
        "seconds": 12.3,
        "metadata": "zk://127.0.0.1:2181/ledgers",
        "engine": "inline",
        "engine_reason": "1000 ledgers, fewer than 100000",
        "exit_code": exit_code,
    }


def _finding(ledger_id: int, bookie_id: str) -> dict[str, Any]:
    return {
        "ledger_id": ledger_id,
        "state": "CLOSED",
        "through": 999,
        "missing": entry_set((3, 5), (9, 9)),
        "no_copy": entry_set((4, 5)),
        "bookies": {bookie_id: {"missing": entry_set((3, 5), (9, 9))}},
        "first_seen_ms": AT_MS - 86_400_000,
        "last_seen_ms": AT_MS,
    }
