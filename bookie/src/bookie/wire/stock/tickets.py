"""The server's side of one exchange of SASL GSSAPI (RFC 4752), without a security layer. Sans-I/O.

    client                                  server
      ticket                            ->
                                        <-  that it could read the ticket, if the client asks for it
      ""                                ->
                                        <-  sealed: there is no security layer
      sealed: none, then; its name      ->

The client's seal shows that the ticket was not stolen: an eavesdropper sees the ticket, but not the
key in it. A `Context` reads tickets and checks seals; it may block, and so may a step. Whether the
principal is allowed is decided before the offer: after its last message a stock client takes itself
for authenticated, and no answer reaches it any more.
"""

import re
from enum import Enum
from typing import Final, Protocol

from bookie.wire.stock.digest_md5 import Accepted, Challenge, Denied, Step

TICKET_BYTES_MAX: Final = 64 * 1024
"""Largest token: Active Directory's tickets, with the groups of a user, have up to 48,000 bytes."""
NO_LAYER: Final = 1
OFFER: Final = bytes([NO_LAYER, 0, 0, 0])
"""The server's offer: no security layer, and so a maximum size of 0 for messages under it."""


class TicketError(Exception):
    """Raised when a token is not what it must be; the message is for our log."""


class Context(Protocol):
    """The security context with one client (GSSAPI's term). Each method may block, and may raise
    TicketError.
    """

    def accept(self, token: bytes) -> bytes:
        """Take one step to establish the context; returns what to send to the client, empty when
        that is nothing.
        """

    @property
    def is_established(self) -> bool:
        """True when the ticket was right and `initiator` is known."""

    @property
    def initiator(self) -> str:
        """The client's principal."""

    def seal(self, message: bytes) -> bytes:
        """Seal a message with the ticket's key."""

    def unseal(self, token: bytes) -> bytes:
        """Open what the client has sealed with the ticket's key."""


class _State(Enum):
    BEGUN = "begun"
    ANSWERED = "answered"
    OFFERED = "offered"
    ENDED = "ended"


class TicketExchange:
    """One exchange with a client. It never raises, whatever the client sends."""

    def __init__(self, context: Context, allowed: re.Pattern[str]) -> None:
        """`allowed`: the expression that a whole principal must match to be allowed."""
        self._context = context
        self._allowed = allowed
        self._state = _State.BEGUN
        """It only moves forward: nothing is accepted twice, or after a denial."""

    def step(self, token: bytes) -> Step:
        state, self._state = self._state, _State.ENDED
        if len(token) > TICKET_BYTES_MAX:
            return Denied("", f"found a token of {len(token)} bytes, expected {TICKET_BYTES_MAX}")
        try:
            if state is _State.BEGUN:
                return self._accept(token)
            if state is _State.ANSWERED:
                return self._offer(token)
            if state is _State.OFFERED:
                return self._judge(token)
        except TicketError as error:
            return Denied("", str(error))
        return Denied("", "the exchange has ended")

    def _accept(self, token: bytes) -> Step:
        answer = self._context.accept(token)
        if not self._context.is_established:
            return Denied("", "found half a ticket, expected a whole one")
        user = self._context.initiator
        if not self._allowed.fullmatch(user):
            return Denied(user, f"no match of {self._allowed.pattern!r:.100}")
        if answer:
            self._state = _State.ANSWERED
            return Challenge(answer)
        return self._offer(b"")

    def _offer(self, token: bytes) -> Step:
        if token:
            return Denied(self._context.initiator, "found a token, expected an empty one")
        self._state = _State.OFFERED
        return Challenge(self._context.seal(OFFER))

    def _judge(self, token: bytes) -> Step:
        user = self._context.initiator
        choice = self._context.unseal(token)
        # The size that follows is for a security layer: there is none, and Java's client sends its
        # own limit.
        if len(choice) < len(OFFER) or choice[0] != NO_LAYER:
            return Denied(user, "it wants a security layer, expected none")
        # The user to act for: nobody may act for somebody else here. Without a name it acts for
        # itself.
        if choice[len(OFFER) :] not in (b"", user.encode()):
            return Denied(user, "it acts for another principal")
        return Accepted(b"", user)
