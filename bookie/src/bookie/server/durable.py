"""Facts of ledgers on their way to the disk, and the replies that wait for them.

A fence, a master key or an explicit LAC counts in memory at once and is answered when durable (R9).
Every reply about a ledger whose facts are still on their way waits here for the latest write, which
carries all facts there were. A write that failed (a full disk passes) leaves memory ahead of the
disk: the facts are written again before anything else is said of that ledger.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.acks import Done
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage

Waiting = list[Done]

WAITING_MAX: Final = 65_536
"""Writes under way and replies that wait for them, of all ledgers; a few hundred bytes each."""


class DurableFacts:
    """Per ledger, the writes under way in order, each with the replies that wait for it.

    Bounded: who wants to write a fact asks `has_room` before, and comes again after `on_room`. The
    permits end when it is full, so that every add asks as well: its reply may have to wait here.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        on_room: Callable[[], None] = lambda: None,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._storage = storage
        self._on_room = on_room
        """Called in the middle of answers, once there is room again."""
        self._waiting_max = waiting_max
        self._waiting = 0
        """Writes under way and replies that wait for them: the lengths of `_under_way`'s lists."""
        self._was_full = False
        """Somebody may wait for `on_room`."""
        self._under_way: dict[LedgerId, list[Waiting]] = {}
        """Of each ledger that has any, in the order in which they were begun; no list is empty."""
        self._undurable: set[LedgerId] = set()
        """Ledgers of which a write failed and none was begun since."""

    def persist(self, record: LedgerRecord) -> None:
        """Count the record at once, write it, and make later `when_durable` calls wait for it."""
        ledger_id = record.ledger_id
        waiting: Waiting = []
        self._count(1)
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
            self._count(1)
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
        self._count(-1 - len(waiting))
        is_room_again = self._was_full and self.has_room
        if is_room_again:
            self._was_full = False  # the answers may fill it again
        for then in waiting:
            then(error)
        if is_room_again:
            self._on_room()

    @property
    def has_room(self) -> bool:
        """There is room for one more write, and for the replies to what was taken before."""
        return self._waiting < self._waiting_max

    def _count(self, more: int) -> None:
        self._waiting += more
        if more > 0 and not self.has_room and not self._was_full:
            self._was_full = True
            self._storage.permits.drop_all()

    def _check(self) -> None:
        """For tests, between two events of the loop."""
        assert all(self._under_way.values())
        assert self._waiting == sum(1 + len(one) for w in self._under_way.values() for one in w)
        assert self.has_room or self._was_full
