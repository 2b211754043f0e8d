"""Facts of ledgers on their way to the disk, and the replies that wait for them.

A fence, a master key or an explicit LAC counts in memory at once and is answered when durable (R9).
Every reply about a ledger whose facts are still on their way waits here for the latest write, which
carries all facts there were. A write that failed (a full disk passes) leaves memory ahead of the
disk: the facts are written again before anything else is said of that ledger.
"""

from collections.abc import Callable
from functools import partial

from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage

Done = Callable[[StorageError | None], None]
Waiting = list[Done]


class DurableFacts:
    """Per ledger, the writes under way in order, each with the replies that wait for it.

    Bounded by the requests in flight, which the connections bound.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._under_way: dict[LedgerId, list[Waiting]] = {}
        """Of each ledger that has any, in the order in which they were begun; no list is empty."""
        self._undurable: set[LedgerId] = set()
        """Ledgers of which a write failed and none was begun since."""

    def persist(self, record: LedgerRecord) -> None:
        """Count the record at once, write it, and make later `when_durable` calls wait for it."""
        ledger_id = record.ledger_id
        waiting: Waiting = []
        self._under_way.setdefault(ledger_id, []).append(waiting)
        self._undurable.discard(ledger_id)
        self._storage.put_record(record, done=partial(self._written, ledger_id, waiting))

    def are_durable(self, ledger_id: LedgerId) -> bool:
        """True when all facts given so far are, so that `when_durable` would call at once."""
        return (
            ledger_id not in self._under_way
            and ledger_id not in self._undurable
            and self._storage.failure is None
        )

    def when_durable(self, ledger_id: LedgerId, then: Done) -> None:
        """Call `then` when all facts given so far are durable: at once if none is under way."""
        if ledger_id in self._undurable:
            self.persist(self._storage.record(ledger_id) or LedgerRecord(ledger_id))
        writes = self._under_way.get(ledger_id)
        if writes:
            writes[-1].append(then)
        else:
            then(self._storage.failure)

    def _written(self, ledger_id: LedgerId, waiting: Waiting, error: StorageError | None) -> None:
        # By identity: a write that finds no room may end before one that waits for its sync.
        writes = self._under_way[ledger_id]
        del writes[next(at for at, one in enumerate(writes) if one is waiting)]
        if not writes:
            del self._under_way[ledger_id]
        if error is not None:
            self._undurable.add(ledger_id)
        for then in waiting:
            then(error)
