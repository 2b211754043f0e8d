"""The control plane in the simulation: the real servicer and the real client, on its network.

Instead of a gRPC port a bookie offers its servicer to `Network.call`; instead of a channel the
client has a stub whose calls go there. Requests and replies are copied on the way as bytes, and
each side says who it is, as on the real one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import grpc

from bookie.ids import LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.status import Status
from bookie.server.admin import AdminServicer, IdentityGuard
from bookie.server.control import Control
from bookie.server.http import MeasureGauges
from bookie.server.state import BookieState
from bookie.testing.simulation.network import Network
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity

Metadata = tuple[tuple[str, str], ...]


class _Refused(Exception):
    """What a servicer aborted with."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class _Context:
    """What servicers use of a gRPC context."""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise _Refused(code, details)


class AdminPort:
    """See server.lifecycle.Listener."""

    def __init__(self, control: Control, network: Network) -> None:
        self._control = control
        self._guard = IdentityGuard(control.identity, control.hear_epoch)
        self.servicer = AdminServicer(control)
        self._network = network
        self._target = ""

    async def start(self, host: str, port: int) -> int:
        chosen = port or self._network.next_port()
        self._target = f"{host}:{chosen}"
        self._network.serve(self._target, self)
        return chosen

    async def stop(self) -> None:
        self._network.unserve(self._target, self)

    async def answer(self, method: str, request: bytes, metadata: Metadata) -> "_Reply | _Refused":
        """One call, bytes to bytes. A refusal is an answer, whether or not anybody still waits."""
        why = self._guard.judge(method, metadata)
        if why:
            return _Refused(grpc.StatusCode.FAILED_PRECONDITION, why)
        own, meant = self._control.identity(), Identity.from_metadata(metadata)
        if meant is not None and self._network.identities is not None:
            self._network.identities.check(meant, own, f"answered a {method} to somebody")
        message = _REQUESTS[method]()
        message.ParseFromString(request)
        asked = self._network.tap.moment if self._network.tap is not None else 0
        try:
            reply = await getattr(self.servicer, method)(message, _Context())
        except _Refused as refusal:
            return refusal
        if isinstance(reply, pb.GetAvailabilityReply):
            self._tell(own.bookie, reply, asked)
        if isinstance(reply, pb.ClearLimboReply) and self._network.tap is not None:
            for result in reply.results:
                if result.cleared:
                    self._network.tap.cleared(own.bookie, LedgerId(result.ledger_id))
        return own.to_metadata(), bytes(reply.SerializeToString())

    def _tell(self, bookie: str, reply: pb.GetAvailabilityReply, asked: int) -> None:
        """What it calls its complete list is heard by the tap."""
        for one in reply.ledgers:
            status, tap = Status(one.status), self._network.tap
            if tap is not None and (status is Status.OK or status.is_denial):
                held, lost = (EntrySet.decode(b) if b else EMPTY for b in (one.entries, one.lost))
                tap.listed(
                    bookie,
                    LedgerId(one.ledger_id),
                    held,
                    lost,
                    asked=asked,
                )


_Reply = tuple[Metadata, bytes]


class NoProbes:
    """A replacement for the HTTP server, which nobody uses in the simulation."""

    def __init__(self, _state: BookieState, _gauges: MeasureGauges, *_others: object) -> None:
        """Accepts the same arguments as the real one."""

    async def start(self, _host: str, port: int) -> int:
        return port

    async def stop(self) -> None:
        """Do nothing: nothing listens."""


class Channel:
    """A target; and its own stub."""

    def __init__(self, network: Network, target: str) -> None:
        self._network = network
        self._target = target

    async def close(self, _grace: float | None = None) -> None:
        """Do nothing: nothing is open between calls."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _REQUESTS:
            raise AttributeError(method)

        async def call(request: Any, timeout_s: float, metadata: Metadata) -> tuple[Metadata, Any]:
            content = request.SerializeToString()
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await self._network.call(
                        self._target, lambda port: port.answer(method, content, metadata)
                    )
            except TimeoutError:
                raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time") from None
            except ConnectionError as error:
                raise _error(grpc.StatusCode.UNAVAILABLE, str(error)) from None
            if isinstance(answer, _Refused):
                raise _error(answer.code, answer.details)
            metadata_back, content = answer
            reply = _REPLIES[method]()
            reply.ParseFromString(content)
            return metadata_back, reply

        return lambda request, *, timeout, metadata: _Call(call(request, timeout, metadata))


class _Call:
    """What callers use of one of grpc's: awaited for the reply, then asked for its metadata."""

    def __init__(self, work: Awaitable[tuple[Metadata, Any]]) -> None:
        self._work = work
        self._told: Metadata = ()

    def __await__(self) -> Generator[Any, None, Any]:
        self._told, reply = yield from self._work.__await__()
        return reply

    async def initial_metadata(self) -> Metadata:
        return self._told


def dial(network: Network) -> Callable[[str, str], tuple[Channel, Channel]]:
    """See wire.admin.client.Dial."""

    def to(target: str, _bookie_id: str) -> tuple[Channel, Channel]:
        channel = Channel(network, target)
        return channel, channel

    return to


def _error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details, details)


def _messages() -> tuple[dict[str, Any], dict[str, Any]]:
    """Method -> class of its request, of its reply."""
    service = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
    requests, replies = {}, {}
    for method in service.methods:
        requests[method.name] = getattr(pb, method.input_type.name)
        replies[method.name] = getattr(pb, method.output_type.name)
    return requests, replies


_REQUESTS, _REPLIES = _messages()
