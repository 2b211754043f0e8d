"""Fences of ledgers of which nothing is here: the metadata store is asked first whether they exist.

Asked once per ledger: afterwards there is a record. A store that does not answer in time is as good
as none; what is then fenced unseen is bounded, and the next collection that has seen the store
deals with it like with any other ledger that is held here.
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
"""At a time; who asks for one more is to come again."""
LOOKUP_S: Final = 2.0
"""Much less than a client waits for an answer."""

Exists = Callable[[LedgerId], Awaitable[bool]]


def in_store(store: MetadataStore) -> Exists:
    """Asks the store. What cannot be read exists all the same."""

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
    """Lets a first fence pass, or says why not."""

    def __init__(self, exists: Exists) -> None:
        self._exists = exists
        self._lookups: set[asyncio.Task[None]] = set()
        """Under way, `LOOKUPS_MAX` at most; each for one fence that waits."""
        self._passing: LedgerId | None = None
        """The ledger whose `go` is running now; None outside of it."""
        self._unconfirmed: set[LedgerId] = set()
        """Fenced while the store could not be asked, until it could."""

    def may_pass(self, ledger_id: LedgerId) -> bool:
        """Inside of `go`: this very ledger was looked up."""
        return ledger_id == self._passing

    def ask(
        self, ledger_id: LedgerId, go: Callable[[], bool | None], refuse: Callable[[Status], None]
    ) -> None:
        """Calls `go` when the fence may be set, and `refuse` otherwise, also when `go` returns
        False: there was no room, and nobody else will try again."""
        if len(self._lookups) >= LOOKUPS_MAX:
            refuse(Status.OVERLOADED)
            return
        lookup = asyncio.get_running_loop().create_task(self._look_up(ledger_id, go, refuse))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._lookups.discard)

    def confirm(self) -> None:
        """The store could be asked for all that is held here: none is unseen any more."""
        self._unconfirmed.clear()

    def end(self) -> None:
        """Nobody is answered any more."""
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
