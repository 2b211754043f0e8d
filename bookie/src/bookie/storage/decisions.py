"""The newest decisions that people made about this bookie, with their names, kept in its indexes.

They outlive the log lines that say the same, and a lost disk, as every ledger directory has all of
them. A name comes from a certificate, or from the request where no certificate is demanded.
"""

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KEPT_MAX: Final = 1000
"""How many decisions an index keeps; older ones are deleted."""
SHOWN_MAX: Final = 20
"""How many of these are in memory and in the health that the control plane shows."""
TEXT_MAX: Final = 4096
"""Limit for the characters of a name or a text."""
TABLE: Final = "decisions"
CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (at_ms INTEGER, kind TEXT, decided_by TEXT, about TEXT)"
)
"""It creates the table where it is missing; older versions of this program ignore the table."""
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
    """When, in milliseconds by the bookie's wall clock."""
    kind: str
    """A `DecisionKind`, or a word of a later version."""
    by: str
    """Who decided; empty = unknown."""
    about: str
    """What was decided, and the reason if one was given."""


def now_ms() -> int:
    """Milliseconds of the wall clock, for `PersonDecision.at_ms`."""
    return int(time.time() * 1000)


def write_decisions(connection: sqlite3.Connection, decisions: Iterable[PersonDecision]) -> None:
    """Insert decisions, within the transaction that carries them out."""
    rows = [(d.at_ms, d.kind, d.by[:TEXT_MAX], d.about[:TEXT_MAX]) for d in decisions]
    if rows:
        connection.executemany(_INSERT, rows)
        connection.execute(_TRIM)


def read_decisions(connection: sqlite3.Connection) -> list[PersonDecision]:
    """Read the decisions of one index, oldest first."""
    found = connection.execute(f"SELECT at_ms, kind, decided_by, about FROM {TABLE}").fetchall()
    return sorted(PersonDecision(*row) for row in found)


def newest(decisions: Iterable[Iterable[PersonDecision]]) -> tuple[PersonDecision, ...]:
    """Merge the decisions of several directories: each once, the newest `SHOWN_MAX`,
    oldest first.
    """
    return tuple(sorted({one for each in decisions for one in each})[-SHOWN_MAX:])
