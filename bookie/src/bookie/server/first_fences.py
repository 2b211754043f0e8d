"""Fences of ledgers of which this bookie holds nothing: it first asks the metadata store whether
they exist.

It asks once per ledger, as the fence leaves a record. If the store does not answer in time, the
bookie fences a bounded number of ledgers without asking; the next collection that reaches the store
treats them like every other held ledger.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bookie.errors import BookieError, MetadataFormatError, NoSuchLedgerError
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.admission import rule_first_fence
from bookie.protocol.status import Status

log = logging.getLogger(__name__)

LOOKUPS_MAX: Final = 256
"""How many lookups run at a time; a further fence is answered OVERLOADED."""
LOOKUP_S: Final = 2.0
"""Seconds for a lookup: much less than a client waits for an answer."""

Exists = Callable[[LedgerId], Awaitable[bool]]


def in_store(store: MetadataStore) -> Exists:
    """Make the function that asks the store. A ledger with unreadable metadata exists."""

    async def exists(ledger_id: LedgerId) -> bool:
        try:
            await store.read_ledger(ledger_id)
        except NoSuchLedgerError:
            return False
        except MetadataFormatError:
            pass
        return True

    return exists


class FirstFences:
    """Lets the first fence of a ledger pass, or refuses it."""

    def __init__(self, exists: Exists) -> None:
        self._exists = exists
        self._lookups: set[asyncio.Task[None]] = set()
        """The lookups under way, at most `LOOKUPS_MAX`; each for one waiting fence."""
        self._passing: LedgerId | None = None
        """The ledger whose `go` is running now; None outside of it."""
        self._unconfirmed: set[LedgerId] = set()
        """Ledgers that were fenced while the store could not be asked; emptied when it could."""

    def may_pass(self, ledger_id: LedgerId) -> bool:
        """True inside `go` for the ledger that was looked up."""
        return ledger_id == self._passing

    def ask(
        self, ledger_id: LedgerId, go: Callable[[], bool | None], refuse: Callable[[Status], None]
    ) -> None:
        """Look the ledger up, then call `go` if the fence may be set, else `refuse`. Also call
        `refuse` when `go` returns False: there was no room, and no other code will try again.
        """
        if len(self._lookups) >= LOOKUPS_MAX:
            refuse(Status.OVERLOADED)
            return
        lookup = asyncio.get_running_loop().create_task(self._look_up(ledger_id, go, refuse))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._lookups.discard)

    def confirm(self) -> None:
        """Forget the unconfirmed fences, as a look at the store has covered all held ledgers."""
        self._unconfirmed.clear()

    def end(self) -> None:
        """Cancel the lookups: no fence is answered any more."""
        for lookup in self._lookups:
            lookup.cancel()

    async def _look_up(
        self, ledger_id: LedgerId, go: Callable[[], bool | None], refuse: Callable[[Status], None]
    ) -> None:
        exists: bool | None = None
        why: Exception | None = None
        try:
            async with asyncio.timeout(LOOKUP_S):
                exists = await self._exists(ledger_id)
        except (BookieError, TimeoutError) as error:
            why = error
        status = rule_first_fence(exists, unconfirmed=len(self._unconfirmed))
        if status is not Status.OK:
            refuse(status)
            return
        if exists is None:
            log.warning("ledger %d is fenced and could not be looked up: %s", ledger_id, why)
            self._unconfirmed.add(ledger_id)
        self._passing = ledger_id
        try:
            has_begun = go()
        finally:
            self._passing = None
        if has_begun is False:
            refuse(Status.OVERLOADED)
