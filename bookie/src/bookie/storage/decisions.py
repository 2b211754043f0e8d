"""What people decided about this bookie, and who: kept in its indexes, the newest of them.

They outlive the log lines that say the same, and a disk that is lost: every ledger directory has
all. A name is what a certificate proved, or what somebody wrote where none was asked for.
"""

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KEPT_MAX: Final = 1000
"""Decisions in an index; older ones go."""
SHOWN_MAX: Final = 20
"""Of these in memory and in a bookie's health."""
TEXT_MAX: Final = 4096
"""Characters of a name or of what was decided."""
TABLE: Final = "decisions"
CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (at_ms INTEGER, kind TEXT, decided_by TEXT, about TEXT)"
)
"""Made where it is missing: an older version of this program passes it by."""
_INSERT: Final = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)"
_TRIM: Final = f"DELETE FROM {TABLE} WHERE rowid <= (SELECT max(rowid) FROM {TABLE}) - {KEPT_MAX}"


class DecisionKind(StrEnum):
    COOKIE_FIX = "CookieFixApproved"
    COLLECTION = "CollectionApproved"
    LOSS = "LossAccepted"
    RETRACTION = "LossRetracted"


@dataclass(frozen=True, slots=True, order=True)
class PersonDecision:
    """One decision of a person."""

    at_ms: int
    """By the wall clock of the bookie."""
    kind: str
    """A `DecisionKind`, or the word of a later version."""
    by: str
    """Who decided; empty = nobody said so."""
    about: str
    """What was decided, and why where a reason was given."""


def now_ms() -> int:
    """Of the wall clock, for `PersonDecision.at_ms`."""
    return int(time.time() * 1000)


def write_decisions(connection: sqlite3.Connection, decisions: Iterable[PersonDecision]) -> None:
    """Within the transaction of what they are about."""
    rows = [(d.at_ms, d.kind, d.by[:TEXT_MAX], d.about[:TEXT_MAX]) for d in decisions]
    if rows:
        connection.executemany(_INSERT, rows)
        connection.execute(_TRIM)


def read_decisions(connection: sqlite3.Connection) -> list[PersonDecision]:
    """Oldest first."""
    found = connection.execute(f"SELECT at_ms, kind, decided_by, about FROM {TABLE}").fetchall()
    return sorted(PersonDecision(*row) for row in found)


def newest(decisions: Iterable[Iterable[PersonDecision]]) -> tuple[PersonDecision, ...]:
    """Of what several directories have, each once, oldest first."""
    return tuple(sorted({one for each in decisions for one in each})[-SHOWN_MAX:])
