"""What jobs of stories report at their end: result objects as an engine writes them.

No two figures of one object are alike, so that fields that are mixed up show.
"""

from collections.abc import Sequence
from typing import Any, Final

Tree = dict[str, Any]
ENGINE: Final[Tree] = {"engine": "inline", "engine_reason": "3 ledgers, fewer than 100000"}
SPARK: Final[Tree] = {
    "engine": "spark-local",
    "engine_reason": "asked for",
    "spark_app_id": "local-17",
    "executors": 6,
}


def audit(*, exit_code: int = 0, **facts: Any) -> Tree:
    """An audit; without `facts` one that found nothing. Of these `classes`, `last_copies`,
    `quorums` and `accepted_losses` are parts of their own, the rest are counts."""
    counts: Tree = {"ledgers": 3, "entries": 40, "ok": 40}
    own = ("classes", "quorums", "last_copies", "accepted_losses")
    parts = {name: facts.pop(name) for name in own if name in facts}
    none: Tree = {"entries": 0, "groups": 0, "entries_left_out": 0, "held_by": []}
    quorums = {"ack_asked": 2, "ack_lowest": 2, "copies_lowest": 2, "ledgers_lowest": [5]}
    whole = {"quorums": quorums, "last_copies": none} | parts
    return ENGINE | whole | {"exit_code": exit_code, "audit": counts | facts}


def last_copies(*holders: str, perhaps: Sequence[str] = ()) -> Tree:
    """Entries of which only these have a copy."""
    row = {"known": list(holders), "perhaps": list(perhaps), "entries": 4, "ledgers": 2}
    return {
        "entries": 4,
        "groups": 1,
        "entries_left_out": 0,
        "held_by": [row | {"first_ledgers": [8, 9]}],
    }


def missing(*holders: str) -> Tree:
    """An audit that found copies missing, and who has what is left."""
    classes = {
        "missing": {"findings": 2, "entries": 4},
        "corrupt": {"findings": 1, "entries": 3},
    }
    return audit(
        exit_code=3,
        ok=33,
        missing=4,
        below_write_quorum=5,
        below_ack_quorum=2,
        classes=classes,
        last_copies=last_copies(*holders),
    )


def repair(**facts: Any) -> Tree:
    whole: Tree = {
        "entries_recovered": 11,
        "entries_copied": 22,
        "entries_copied_closed": 13,
        "ledgers": {"recovered": 4},
    }
    return ENGINE | whole | facts


def undecided(*, waiting: int = 0) -> Tree:
    """A repair that could not close two ledgers."""
    rows = [
        {"ledger": 7, "entry": 12, "last_confirmed": 9, "forgotten_by": ["bookie-0", "bookie-1"]},
        {"ledger": 9, "entry": 3, "last_confirmed": -1, "forgotten_by": ["bookie-1"]},
    ]
    found: Tree = {"ledgers": 2, "through": 9, "first": rows, "waiting": waiting}
    if waiting:
        found["away"] = ["bookie-2"]
    return repair(
        undecided=found, blocked=[{"ledger_id": 7, "reason": "Undecidable", "message": "no quorum"}]
    )


def drain(moved: int, left: int, **facts: Any) -> Tree:
    ledgers = {"moved": moved, "recovered": 1, "blocked": left}
    return SPARK | {"ledgers": ledgers, "ledgers_left": left, "entries_copied": 50} | facts


def rereplication(moved: int, left: int = 0, **facts: Any) -> Tree:
    marks = {"found": 3, "cleared": 3}
    ledgers = {"moved": moved, "blocked": 0}
    whole: Tree = {"ledgers": ledgers, "ledgers_left": left, "marks": marks, "entries_copied": 70}
    return ENGINE | whole | facts


def after(*, exit_code: int = 0, wrong: int = 0, blocked: int = 0, **facts: Any) -> Tree:
    """A scrub, or a repair of findings."""
    whole: Tree = {
        "exit_code": exit_code,
        "ledgers": {"considered": 20, "done_before": 5, "blocked": blocked},
        "audit_after": {"entries": 400, "missing": wrong},
        "corrupt_found": 8,
        "corrupt_replaced": 8,
        "entries_copied": 31,
    }
    return ENGINE | whole | facts
