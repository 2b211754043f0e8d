"""Facts about ledgers that are being written to disk, and the replies that wait for that.

A fence, a master key or an explicit LAC counts in memory at once, and the bookie answers when it is
durable (R9). While facts about a ledger are being written, every reply about this ledger waits here
for the latest write, which contains all its facts. A failed write leaves memory ahead of the disk
(a full disk is temporary): then the facts are written again before the next reply about that
ledger.
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
"""Limit for the writes under way and the replies that wait for them, over all ledgers; each takes a
few hundred bytes."""


class DurableFacts:
    """By ledger: the writes under way in order, each with the replies that wait for it.

    It is bounded: a caller must check `has_room` before it writes a fact, and try again after
    `on_room`. When it is full, all permits are dropped, so that every add checks too, as its reply
    may have to wait here.
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
        """Called once there is room again, in the middle of answers."""
        self._waiting_max = waiting_max
        self._waiting = 0
        """The number of writes under way and waiting replies in `_under_way`."""
        self._was_full = False
        """True when a caller may be waiting for `on_room`."""
        self._under_way: dict[LedgerId, list[Waiting]] = {}
        """By ledger: its writes under way, in order of their begin; no list is empty."""
        self._undurable: set[LedgerId] = set()
        """Ledgers whose last write failed."""

    def persist(self, record: LedgerRecord) -> None:
        """Count the record at once, write it, and make later `when_durable` calls wait for it."""
        ledger_id = record.ledger_id
        waiting: Waiting = []
        self._count(1)
        self._under_way.setdefault(ledger_id, []).append(waiting)
        self._undurable.discard(ledger_id)
        self._storage.put_record(record, done=partial(self._written, ledger_id, waiting))

    def are_durable(self, ledger_id: LedgerId) -> bool:
        """True when all facts given so far are durable, so that `when_durable` would
        call at once.
        """
        return (
            ledger_id not in self._under_way
            and ledger_id not in self._undurable
            and self._storage.failure is None
        )

    def when_durable(self, ledger_id: LedgerId, then: Done) -> None:
        """Call `then` when all facts given so far are durable: at once if no write is under way."""
        if ledger_id in self._undurable:
            self.persist(self._storage.record(ledger_id) or LedgerRecord(ledger_id))
        writes = self._under_way.get(ledger_id)
        if writes:
            self._count(1)
            writes[-1].append(then)
        else:
            then(self._storage.failure)

    def _written(self, ledger_id: LedgerId, waiting: Waiting, error: StorageError | None) -> None:
        # Find it by identity: a write that finds no room may end before one that waits for its
        # sync.
        writes = self._under_way[ledger_id]
        del writes[next(at for at, one in enumerate(writes) if one is waiting)]
        if not writes:
            del self._under_way[ledger_id]
        if error is not None:
            self._undurable.add(ledger_id)
        self._count(-1 - len(waiting))
        is_room_again = self._was_full and self.has_room
        if is_room_again:
            self._was_full = False  # the answers below may fill it again
        for then in waiting:
            then(error)
        if is_room_again:
            self._on_room()

    @property
    def has_room(self) -> bool:
        """True when there is room for another write, and for the replies to requests
        taken before.
        """
        return self._waiting < self._waiting_max

    def _count(self, more: int) -> None:
        self._waiting += more
        if more > 0 and not self.has_room and not self._was_full:
            self._was_full = True
            self._storage.permits.drop_all()

    def _check(self) -> None:
        """Assert the invariants between two events of the loop; for tests."""
        assert all(self._under_way.values())
        assert self._waiting == sum(1 + len(one) for w in self._under_way.values() for one in w)
        assert self.has_room or self._was_full
