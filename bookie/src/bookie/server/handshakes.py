"""The server's side of a TLS handshake whose first bytes were read already.

Both ways into TLS use it: TLS from a connection's first byte (`tls_front`), and START_TLS
(`connections`, for `stock`).
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from bookie.frames.entry import Buffer

GOODBYE_S: Final = 5.0
"""Seconds for which a closed connection waits for its client to end TLS."""


async def shake_hands(
    transport: asyncio.Transport,
    protocol: asyncio.BaseProtocol,
    context: ssl.SSLContext,
    *,
    first: bytes,
    why_not: Callable[[Mapping[str, Any] | None], str],
    seconds: float,
) -> asyncio.Transport:
    """Do the handshake and return the transport to which `protocol` must write from then on.
    `transport` must be paused for reading when this is called.

    `first`: the first bytes of the client's handshake. `why_not`: returns why the holder of a
    certificate is refused, empty when it is let in. Raises OSError when it is refused or the
    handshake takes longer than `seconds`, and any error of `ssl`, which parses bytes of a stranger.
    After an error the caller must close the transport.
    """
    loop = asyncio.get_running_loop()
    starting = loop.create_task(
        loop.start_tls(
            transport, protocol, context, server_side=True,
            ssl_handshake_timeout=seconds, ssl_shutdown_timeout=GOODBYE_S,
        )
    )  # fmt: skip
    # Wait one turn of the loop: by then `start_tls` has set its own protocol, which it calls in the
    # next turn. The bytes read before are fed after that call, and before any byte read from then
    # on.
    await asyncio.sleep(0)
    loop.call_soon(_feed_below, transport, first)
    secured = await starting
    if secured is None or secured.is_closing():
        raise ConnectionResetError("closed during the handshake")
    if why := why_not(secured.get_extra_info("peercert")):
        raise ConnectionRefusedError(why)
    return secured


def feed(protocol: asyncio.BufferedProtocol, content: Buffer) -> None:
    """Give bytes to a protocol as if they came from the socket now."""
    view = memoryview(content)
    while view:
        room = memoryview(protocol.get_buffer(len(view))).cast("B")
        taken = min(len(room), len(view))
        room[:taken] = view[:taken]
        protocol.buffer_updated(taken)
        view = view[taken:]


def _feed_below(transport: asyncio.Transport, first: bytes) -> None:
    """Give the bytes to the protocol that reads from the transport now."""
    if not transport.is_closing():
        feed(cast(asyncio.BufferedProtocol, transport.get_protocol()), first)
