"""Facts of ledgers on their way to the disk, and the replies that wait for them.

A fence, a master key or an explicit LAC counts in memory at once and is answered when durable (R9).
Every reply about a ledger whose facts are still on their way waits here for the latest of them.
"""

from collections import deque
from collections.abc import Callable

from bookie.protocol.errors import StorageError
from bookie.protocol.ids import LedgerId
from bookie.storage.engine import Storage
from bookie.storage.records import LedgerRecord

Done = Callable[[StorageError | None], None]


class DurableFacts:
    """Per ledger, the writes under way in order, each with the replies that wait for it.

    Bounded by the requests in flight, which the connections bound.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._under_way: dict[LedgerId, deque[list[Done]]] = {}

    def persist(self, record: LedgerRecord) -> None:
        """Count the record at once, write it, and make later `when_durable` calls wait for it."""
        self._under_way.setdefault(record.ledger_id, deque()).append([])
        self._storage.put_record(record, done=lambda error: self._written(record.ledger_id, error))

    def when_durable(self, ledger_id: LedgerId, then: Done) -> None:
        """Call `then` when all facts given so far are durable: at once if none is under way."""
        writes = self._under_way.get(ledger_id)
        if writes:
            writes[-1].append(then)
        else:
            then(self._storage.failure)

    def _written(self, ledger_id: LedgerId, error: StorageError | None) -> None:
        writes = self._under_way[ledger_id]
        waiting = writes.popleft()
        if not writes:
            del self._under_way[ledger_id]
        for then in waiting:
            then(error)
