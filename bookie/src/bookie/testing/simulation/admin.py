"""The control plane in the simulation: the real servicer and the real client, on its network.

Instead of a gRPC port a bookie offers its servicer to `Network.call`; instead of a channel the
client has a stub whose calls go there. Requests and replies are copied on the way as bytes.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from bookie.server.admin import AdminServicer
from bookie.server.control import Control
from bookie.server.http import Gauges
from bookie.server.state import BookieState
from bookie.testing.simulation.network import Network
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.identity import BOOKIE_ID_KEY


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

    def __init__(self, control: Control, bookie_id: str, network: Network) -> None:
        self.bookie_id = bookie_id
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

    async def answer(self, method: str, request: bytes, meant: str) -> bytes | _Refused:
        """One call, bytes to bytes. A refusal is an answer, whether or not anybody still waits."""
        if meant != self.bookie_id:
            return _Refused(grpc.StatusCode.FAILED_PRECONDITION, f"this is {self.bookie_id}")
        message = _REQUESTS[method]()
        message.ParseFromString(request)
        try:
            reply = await getattr(self.servicer, method)(message, _Context())
        except _Refused as refusal:
            return refusal
        return bytes(reply.SerializeToString())


class NoProbes:
    """Nobody asks over HTTP in the simulation."""

    def __init__(self, _state: BookieState, _gauges: Callable[[], Gauges]) -> None:
        """Takes what the real one takes."""

    async def start(self, _host: str, port: int) -> int:
        return port

    async def stop(self) -> None:
        """Nothing listens."""


class Channel:
    """A target; and its own stub."""

    def __init__(self, network: Network, target: str) -> None:
        self._network = network
        self._target = target

    async def close(self, _grace: float | None = None) -> None:
        """Nothing is open between calls."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _REQUESTS:
            raise AttributeError(method)

        async def call(request: Any, *, timeout: float, metadata: Any) -> Any:
            meant = dict(metadata)[BOOKIE_ID_KEY]
            content = request.SerializeToString()
            try:
                async with asyncio.timeout(timeout):
                    answer = await self._network.call(
                        self._target, lambda port: port.answer(method, content, meant)
                    )
            except TimeoutError:
                raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time") from None
            except ConnectionError as error:
                raise _error(grpc.StatusCode.UNAVAILABLE, str(error)) from None
            if isinstance(answer, _Refused):
                raise _error(answer.code, answer.details)
            reply = _REPLIES[method]()
            reply.ParseFromString(answer)
            return reply

        return call


def dial(network: Network) -> Callable[[str], tuple[Channel, Channel]]:
    """See repair.admin_client.Dial."""

    def to(target: str) -> tuple[Channel, Channel]:
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
