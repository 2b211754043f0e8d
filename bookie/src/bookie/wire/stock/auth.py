"""AUTH messages: who speaks through which plugin, and how a bookie answers.

Apache's own numbers and names (`AuthHandler`, `SASLBookieAuthProviderFactory`), so that stock
clients take what they are sent. Version 2 has no code in an answer to AUTH: a refusal is a token
that no mechanism takes for an answer, at which a stock client gives up with UnauthorizedAccess.
"""

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bookie.wire.stock.bookkeeper_protocol_pb2 import AuthMessage
from bookie.wire.stock.messages import Outcome

AUTH_DISABLED: Final = "AuthDisabledPlugin"
"""The plugin name in an answer after which a client goes on as one that is authenticated."""
SASL: Final = "sasl"
"""The plugin name of Apache's `SASLClientProviderFactory`."""


class AuthReply(NamedTuple):
    """What an AUTH is answered; `payload`: the mechanism's token, in version 3 of an OK only."""

    outcome: Outcome
    plugin_name: str
    payload: bytes = b""

    @property
    def message(self) -> AuthMessage:
        return AuthMessage(authPluginName=self.plugin_name, payload=self.payload)


NOTHING_ASKED: Final = AuthReply(Outcome.OK, AUTH_DISABLED)
"""Of a bookie without authentication, and to a client that is authenticated already."""
REFUSED: Final = AuthReply(Outcome.UNAUTHORIZED, SASL)
REFUSED_TICKET: Final = AuthReply(Outcome.UNAUTHORIZED, SASL, b"\0")
"""The same to a client with a ticket: to its mechanism an empty token is an answer."""


def sasl_reply(token: bytes) -> AuthReply:
    return AuthReply(Outcome.OK, SASL, token)


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
