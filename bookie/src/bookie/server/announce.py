"""The registration of a serving bookie: what it should say now, and whether it says so yet.

The metadata store keeps an announcement up over lost sessions; a change that could not be announced
(read-only on, off) is tried again here until it is.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from bookie.errors import BookieError
from bookie.ids import BookieId
from bookie.metadata.store import (
    ADMIN_ENDPOINT,
    BOOT_EPOCH_PROPERTY,
    RACK_PROPERTY,
    RPC_ENDPOINT,
    RUN_ENDPOINT,
    TLS_AUTH,
    BookieInfo,
    Endpoint,
    MetadataStore,
)
from bookie.server.state import BookieState

log = logging.getLogger(__name__)


class Announcer:
    """Announces one bookie as writable or read-only, as its state has it."""

    def __init__(
        self,
        store: MetadataStore,
        state: BookieState,
        *,
        host: str,
        ports: Mapping[str, int],
        boot_epoch: int,
        rack: Callable[[], str | None] = lambda: None,
        advertised: Callable[[], tuple[Endpoint, ...]] = tuple,
        has_tls: bool = False,
    ) -> None:
        """`rack`: where the bookie is, None = nobody knows. `advertised`: endpoints for clients
        elsewhere. Both block, and are asked in a thread."""
        self._store = store
        self._state = state
        self._bookie_id = BookieId(state.bookie_id)
        protocols = (
            ("stock", RPC_ENDPOINT, RPC_ENDPOINT),
            ("run", RUN_ENDPOINT, RUN_ENDPOINT),
            ("admin", ADMIN_ENDPOINT, "grpc"),
        )
        self._endpoints = tuple(
            Endpoint(endpoint_id, host, ports[name], protocol)
            for name, endpoint_id, protocol in protocols
            if name in ports
        )
        """Of the ports that are open; they stay for the process's life."""
        self._auth = (TLS_AUTH,) if has_tls else ()
        """What each endpoint wants of a client."""
        self._properties = {BOOT_EPOCH_PROPERTY: str(boot_epoch)}
        """What never changes of the registration's properties; the rack is beside them."""
        self._rack = rack
        self._advertised = advertised
        self._turn = asyncio.Lock()
        """One change of the registration at a time."""
        self._announced: BookieInfo | None = None
        """What the store confirmed last; None: nothing yet, or a change is unanswered."""

    @property
    def is_read_only(self) -> bool:
        """The registration says so now, not only the state."""
        return self._announced is not None and self._announced.read_only

    async def _wanted(self) -> BookieInfo:
        rack, advertised = await asyncio.to_thread(lambda: (self._rack(), self._advertised()))
        # A stock client takes the first of its protocol.
        endpoints = [replace(one, auth=self._auth) for one in (*advertised, *self._endpoints)]
        return BookieInfo(
            self._bookie_id,
            tuple(endpoints),
            self._properties | ({RACK_PROPERTY: rack} if rack is not None else {}),
            read_only=not self._state.is_writable,
        )

    async def announce(self) -> None:
        """Announce what is not announced yet; a failure is said in the state and tried again."""
        async with self._turn:
            wanted = await self._wanted()
            if wanted == self._announced or not self._state.phase.serves:
                return
            # Until the store has answered, the registration may say either: what was announced
            # before is announced again as well.
            self._announced = None
            try:
                await self._store.register(wanted)
            except BookieError as error:
                self._state.message = f"serving, but not registered as it is: {error}"
                log.warning("%s", self._state.message)
                return
            self._announced, self._state.message = wanted, ""

    async def withdraw(self) -> None:
        """Best effort: without it the announcement ends with the session."""
        async with self._turn:
            try:
                await self._store.unregister(self._bookie_id)
            except BookieError as error:
                log.warning("not unregistered, the session's end will do it: %s", error)
