"""Long polls for a LAC: each is answered when the ledger's LAC advances, or at its timeout."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bookie.ids import EntryId, LedgerId
from bookie.server.state import Traffic
from bookie.wire.native import LacRequest

WAITS_MAX = 10_000
TIMEOUT_MS_MAX = 60_000


@dataclass(eq=False, slots=True)
class _Wait:
    """One long poll."""

    ledger_id: LedgerId
    """The ledger whose LAC is awaited."""
    lac: EntryId
    """The LAC that the asker has; only a higher one is an answer."""
    asker: object
    """The connection that asked, compared by identity."""
    then: Callable[[], None]
    """Called once, when the LAC has advanced or the time is over."""
    timer: asyncio.TimerHandle | None = None
    """The timer of the timeout; None only until `add` has set it."""


class LacWaits:
    """The long polls of all connections."""

    def __init__(self, traffic: Traffic) -> None:
        self._waits: dict[LedgerId, dict[_Wait, None]] = {}
        """The long polls by ledger, oldest first; no ledger without polls. Traffic.long_polls
        counts them."""
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()

    def add(self, asker: object, request: LacRequest, then: Callable[[], None]) -> bool:
        """Call `then` once the ledger's LAC exceeds `request.lac`, or after the timeout.

        False when too many wait.
        """
        if self._traffic.long_polls >= WAITS_MAX:
            return False
        wait = _Wait(request.ledger_id, request.lac, asker, then)
        seconds = max(1, min(request.timeout_ms, TIMEOUT_MS_MAX)) / 1000
        wait.timer = self._loop.call_later(seconds, self._finish, wait)
        self._waits.setdefault(request.ledger_id, {})[wait] = None
        self._traffic.long_polls += 1
        return True

    def lac_moved(self, ledger_id: LedgerId, lac: EntryId) -> None:
        """Answer the polls that waited for a LAC above a lower one."""
        waits = self._waits.get(ledger_id)
        if waits:
            for wait in [wait for wait in waits if wait.lac < lac]:
                self._finish(wait)

    def forget(self, asker: object) -> None:
        """Drop the polls of a connection that is gone."""
        for waits in list(self._waits.values()):
            for wait in [wait for wait in waits if wait.asker is asker]:
                self._remove(wait)

    def _finish(self, wait: _Wait) -> None:
        self._remove(wait)
        wait.then()

    def _remove(self, wait: _Wait) -> None:
        assert wait.timer is not None
        wait.timer.cancel()
        waits = self._waits[wait.ledger_id]
        waits.pop(wait, None)
        if not waits:
            del self._waits[wait.ledger_id]
        self._traffic.long_polls -= 1

    def _check(self) -> None:
        """Assert the invariants between two events of the loop; for tests."""
        assert all(self._waits.values()), "the last poll of a ledger takes its entry along"
        assert self._traffic.long_polls == sum(map(len, self._waits.values())) <= WAITS_MAX
        for ledger_id, waits in self._waits.items():
            for wait in waits:
                assert wait.ledger_id == ledger_id
                assert wait.timer is not None and not wait.timer.cancelled()
