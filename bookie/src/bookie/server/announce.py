"""Keeps the registration of a serving bookie in the metadata store up to date.

The metadata store client renews a registration after a lost session. If a change, such as read-only
on or off, cannot be registered, this module tries again until it is.
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
    """Registers one bookie as writable or read-only, according to its state."""

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
        """`rack`: returns the bookie's rack, None = unknown. `advertised`: returns endpoints for
        clients elsewhere. Both block, so they are called in a thread.
        """
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
        """The endpoints of the open ports; they stay the same for the process's life."""
        self._auth = (TLS_AUTH,) if has_tls else ()
        """The authentication methods that each endpoint names."""
        self._properties = {BOOT_EPOCH_PROPERTY: str(boot_epoch)}
        """The properties of the registration that never change; the rack is added to them."""
        self._rack = rack
        self._advertised = advertised
        self._turn = asyncio.Lock()
        """Held during a change of the registration: one at a time."""
        self._announced: BookieInfo | None = None
        """The registration that the store confirmed last; None before the first, and while a change
        is unanswered."""

    @property
    def is_read_only(self) -> bool:
        """True when the registration, not only the state, says read-only."""
        return self._announced is not None and self._announced.read_only

    async def _wanted(self) -> BookieInfo:
        rack, advertised = await asyncio.to_thread(lambda: (self._rack(), self._advertised()))
        # A stock client takes the first endpoint of its protocol.
        endpoints = [replace(one, auth=self._auth) for one in (*advertised, *self._endpoints)]
        return BookieInfo(
            self._bookie_id,
            tuple(endpoints),
            self._properties | ({RACK_PROPERTY: rack} if rack is not None else {}),
            read_only=not self._state.is_writable,
        )

    async def announce(self) -> None:
        """Register the bookie unless it is registered as it should be. A failure goes into the
        state's message, and the next call tries again.
        """
        async with self._turn:
            wanted = await self._wanted()
            if wanted == self._announced or not self._state.phase.serves:
                return
            # Until the store answers, the registration may have either value, so even the former
            # one must be registered again.
            self._announced = None
            try:
                await self._store.register(wanted)
            except BookieError as error:
                self._state.message = f"serving, but not registered as it is: {error}"
                log.warning("%s", self._state.message)
                return
            self._announced, self._state.message = wanted, ""

    async def withdraw(self) -> None:
        """Unregister the bookie, as a best effort: otherwise the registration ends with the
        session.
        """
        async with self._turn:
            try:
                await self._store.unregister(self._bookie_id)
            except BookieError as error:
                log.warning("cannot unregister, the registration ends with the session: %s", error)
