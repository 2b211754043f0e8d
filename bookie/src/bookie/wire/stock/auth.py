"""AUTH messages of the stock wire: what a client's authentication plugin sends, and how a bookie
answers.

Numbers and names are Apache's (`AuthHandler`, `SASLBookieAuthProviderFactory`), so that stock
clients understand them. In version 2 an answer to AUTH has no code. There a refusal is a token that
no mechanism accepts as an answer, and a stock client then gives up with UnauthorizedAccess.
"""

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bookie.wire.stock.bookkeeper_protocol_pb2 import AuthMessage
from bookie.wire.stock.messages import Outcome

AUTH_DISABLED: Final = "AuthDisabledPlugin"
"""The plugin name in an answer that tells a client that it need not authenticate."""
SASL: Final = "sasl"
"""The plugin name of Apache's `SASLClientProviderFactory`."""


class AuthReply(NamedTuple):
    """The answer to an AUTH. `payload`: the mechanism's token; version 3 sends it with OK only."""

    outcome: Outcome
    plugin_name: str
    payload: bytes = b""

    @property
    def message(self) -> AuthMessage:
        return AuthMessage(authPluginName=self.plugin_name, payload=self.payload)


NOTHING_ASKED: Final = AuthReply(Outcome.OK, AUTH_DISABLED)
"""The answer of a bookie without authentication, and the answer to a client that is authenticated
already."""
REFUSED: Final = AuthReply(Outcome.UNAUTHORIZED, SASL)
REFUSED_TICKET: Final = AuthReply(Outcome.UNAUTHORIZED, SASL, b"\0")
"""The refusal for a client that authenticates with a ticket: its mechanism accepts an empty token
as an answer, so this one has a byte."""


def sasl_reply(token: bytes) -> AuthReply:
    return AuthReply(Outcome.OK, SASL, token)


def parse_auth(blob: bytes) -> tuple[str, bytes] | None:
    """Name and payload of a client's plugin; None when `blob` is not such a message."""
    try:
        message = AuthMessage.FromString(blob)
        return plugin(message) if message.IsInitialized() else None
    except DecodeError:
        return None


def plugin(message: AuthMessage) -> tuple[str, bytes] | None:
    """Name and payload of a client's plugin; None when the name is no UTF-8."""
    name = message.authPluginName
    # protobuf returns a string that is no UTF-8 as bytes.
    return (name, message.payload) if isinstance(name, str) else None
