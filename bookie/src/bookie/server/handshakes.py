"""The server's part of a TLS handshake whose first bytes were read before it was known to be one.

Both ways into TLS end here: from a connection's first byte (`tls_front`), and by START_TLS
(`connections`, for `stock`).
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from bookie.frames.entry import Buffer

GOODBYE_S: Final = 5.0
"""How long a connection that was closed waits for its client's last word under TLS."""


async def shake_hands(
    transport: asyncio.Transport,
    protocol: asyncio.BaseProtocol,
    context: ssl.SSLContext,
    *,
    first: bytes,
    why_not: Callable[[Mapping[str, Any] | None], str],
    seconds: float,
) -> asyncio.Transport:
    """What `protocol` is to write to from then on; `transport` is not read when it is called.

    `first`: of the client's handshake. `why_not`: why the holder of a certificate is not let in,
    empty when it is. Raises OSError when it is not, or there was no handshake in this time, and
    whatever `ssl` raises, which parses what a stranger wrote; the caller ends the transport.
    """
    loop = asyncio.get_running_loop()
    starting = loop.create_task(
        loop.start_tls(
            transport, protocol, context, server_side=True,
            ssl_handshake_timeout=seconds, ssl_shutdown_timeout=GOODBYE_S,
        )
    )  # fmt: skip
    # One turn: `start_tls` has put its own protocol there, and calls it in the next turn; what was
    # read before comes behind that, and before anything read from then on.
    await asyncio.sleep(0)
    loop.call_soon(_feed_below, transport, first)
    secured = await starting
    if secured is None or secured.is_closing():
        raise ConnectionResetError("closed during the handshake")
    if why := why_not(secured.get_extra_info("peercert")):
        raise ConnectionRefusedError(why)
    return secured


def feed(protocol: asyncio.BufferedProtocol, content: Buffer) -> None:
    """As if they came from the socket now."""
    view = memoryview(content)
    while view:
        room = memoryview(protocol.get_buffer(len(view))).cast("B")
        taken = min(len(room), len(view))
        room[:taken] = view[:taken]
        protocol.buffer_updated(taken)
        view = view[taken:]


def _feed_below(transport: asyncio.Transport, first: bytes) -> None:
    """Gives the bytes to what reads from the transport now."""
    if not transport.is_closing():
        feed(cast(asyncio.BufferedProtocol, transport.get_protocol()), first)
