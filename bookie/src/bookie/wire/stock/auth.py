"""Authentication: this bookie has none, and says so as a stock bookie without plugins does."""

from typing import Final

from google.protobuf.message import DecodeError

from bookie.wire.stock.bookkeeper_protocol_pb2 import AuthMessage

AUTH_DISABLED: Final = "AuthDisabledPlugin"
"""The plugin name in an answer that tells a client to go on without authentication."""


def auth_disabled() -> AuthMessage:
    return AuthMessage(authPluginName=AUTH_DISABLED, payload=b"")


def parse_auth(blob: bytes) -> tuple[str, bytes] | None:
    """Name and payload of a client's plugin; None when these are other bytes."""
    try:
        message = AuthMessage.FromString(blob)
        return plugin(message) if message.IsInitialized() else None
    except DecodeError:
        return None


def plugin(message: AuthMessage) -> tuple[str, bytes] | None:
    """Name and payload of a client's plugin; None when the name is no UTF-8."""
    name = message.authPluginName
    # protobuf hands out a string that is no UTF-8 as the bytes it is.
    return (name, message.payload) if isinstance(name, str) else None
