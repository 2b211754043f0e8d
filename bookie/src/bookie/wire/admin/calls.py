"""Asking a bookie's control plane, and making sure who answered: every caller's way.

What comes back has been checked against whom the caller meant. Only a call for somebody's health
may mean whoever is there; who is there is told with the answer.
"""

import asyncio
from typing import Any, Final

from bookie.errors import FrameError, UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity, refusal

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
_METHODS: Final = {method.input_type.name: method.name for method in _SERVICE.methods}
_WHILE_BOOTING: Final = (pb.GetHealthRequest, pb.ApproveCookieFixRequest)
"""What a bookie that boots can answer, and decides nothing about anybody's entries."""
_SHOWN_BY_HEALTH: Final = (pb.DrainRequest, pb.ApproveCookieFixRequest)
"""What was asked for is done or not when the next health says so, whoever took it: here the word of
an older version, which does not say who it is and yet looks at the id that is meant, is enough."""
CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    # An address may be there before anything listens, and packets to it may vanish: by default one
    # such attempt hangs for 20 s, and a name is looked up again after 30 s only.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ("grpc.service_config_disable_resolution", 1),
)


async def ask(
    stub: Any, request: Any, *, meant: Identity | None, timeout_s: float
) -> tuple[Any, Identity]:
    """The reply to one request, and who made it.

    `meant` None: whoever is there, for a health only. UnavailableError when another answered, or
    one that does not say who it is; grpc's own error when nobody did, or it refused.
    """
    method = getattr(stub, _METHODS[type(request).__name__])
    metadata = () if meant is None else meant.to_metadata()
    call = method(request, timeout=timeout_s, metadata=metadata)
    try:
        reply = await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled the caller: the channel was closed, as its bookie has another address.
        raise UnavailableError(f"the call was cut off: {type(request).__name__}") from None
    told = _told(await call.initial_metadata(), reply)
    if told is None:
        if meant is not None and isinstance(request, _SHOWN_BY_HEALTH):
            return reply, meant
        raise UnavailableError(
            "a bookie does not say who it is: it is of an older version, upgrade it"
        )
    if meant is not None:
        booting = isinstance(request, _WHILE_BOOTING)
        why = refusal(meant, told, while_booting=booting)
        if why:
            raise UnavailableError(f"another answers at the address of {meant.bookie}: {why}")
    return reply, told


def _told(metadata: Any, reply: Any) -> Identity | None:
    """Who made the reply; None = one of an older version, which says it in its health only."""
    try:
        told = Identity.from_metadata(metadata or ())
    except FrameError as error:
        raise UnavailableError(f"a bookie does not say who it is: {error}") from error
    if told is None and isinstance(reply, pb.Health):
        return Identity(reply.instance_id, reply.bookie_id, reply.boot.boot_epoch)
    return told
