"""Permits: for which ledgers a normal add needs no ruling, since nothing changed after the last
one.

A permit is the master key under which `rule_add` ruled a ledger's last normal add TAKEN. No code
checks whether the ruling would still be the same. Instead, every fact that the ruling uses can be
changed by one function only, and that function drops the permit:

| what the ruling looks at | changed by | which drops |
|---|---|---|
| the ledger's record: key, fence, limbo, tombstone | `Ledgers._put` | that ledger's permit |
| the boundaries | the setters of `Ledgers.fence` and `Ledgers.unchecked` | all permits |
| phase, reasons to be read-only, lease: all of `BookieState` | its `__setattr__` | all permits |

Threads. The loop's thread L looks up `keys`, rules and grants; other threads T (deletions, marks)
change records with the storage's lock held. The lock here is the last in the order of locks, and
never held for long.

- T changes, then drops, then L asks: there is no permit, and the ruling sees the change.
- L asks, then T changes and drops, then L stores the entry: the add counts as ruled before the
  change, as it does when T comes between a ruling and what follows from it. Fences are put by L
  itself, one request to its end before the next, so they never come in between; a tombstone does,
  and a checkpoint drops what was stored under it (`LedgerDirectory.drop_late`).
- L rules on the state before, T changes and drops (nothing: there is no permit yet), L grants: it
  would stand forever. So L takes `version` before it looks at anything, T raises it when it drops,
  and a grant as of another version does nothing.
- T changes, L takes `version`, rules on the new state and grants, T drops: the next add is ruled.
"""

import threading
from typing import Final

from bookie.ids import LedgerId

PERMITS_MAX: Final = 4096
"""How many ledgers have a permit; beyond it all permits are dropped, which costs one ruling
each."""


class AddPermits:
    """The permits of one bookie: by ledger, the key whose adds need no ruling. Any thread may call
    it.
    """

    __slots__ = ("_lock", "keys", "version")

    def __init__(self) -> None:
        self.keys: Final[dict[LedgerId, bytes]] = {}
        """The permits. Callers look them up without a lock or a call; only the methods change
        them."""
        self.version = 0
        """How often permits were dropped; only grows."""
        self._lock = threading.Lock()

    def grant(self, ledger_id: LedgerId, master_key: bytes, *, as_of: int) -> None:
        """Grant a permit after a normal add was ruled TAKEN; the caller read `as_of` from `version`
        before it gathered the facts.
        """
        with self._lock:
            if as_of != self.version:
                return
            if len(self.keys) >= PERMITS_MAX:
                self.keys.clear()
            self.keys[ledger_id] = master_key
            assert 0 < len(self.keys) <= PERMITS_MAX

    def drop(self, ledger_id: LedgerId) -> None:
        """Drop this ledger's permit, since a fact for its ruling has changed."""
        with self._lock:
            self.version += 1
            self.keys.pop(ledger_id, None)

    def drop_all(self) -> None:
        """Drop all permits, since a fact for every ruling has changed."""
        with self._lock:
            self.version += 1
            self.keys.clear()
