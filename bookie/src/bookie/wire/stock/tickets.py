"""SASL GSSAPI (RFC 4752), the server's side of one exchange, without a security layer. Sans-I/O.

    client                                  server
      ticket                            ->
                                        <-  that it could read the ticket, if the client asks for it
      ""                                ->
                                        <-  sealed: there is no security layer
      sealed: none, then; its name      ->

The client's seal shows that it is no thief: a ticket is seen by whoever listens, the key in it is
not. What reads tickets and checks seals is a `Context`; it blocks, and so does a step. Whether the
principal may come in is judged before the offer: after its last word a stock client takes itself
for authenticated, and no answer reaches it any more.
"""

import re
from enum import Enum
from typing import Final, Protocol

from bookie.wire.stock.digest_md5 import Accepted, Challenge, Denied, Step

TICKET_BYTES_MAX: Final = 64 * 1024
"""Of a token: Active Directory's tickets, with the groups of a user, end at 48,000."""
NO_LAYER: Final = 1
OFFER: Final = bytes([NO_LAYER, 0, 0, 0])
"""No security layer, and so no bytes that one may send under it."""


class TicketError(Exception):
    """A token is not what it must be; the sentence is for our log."""


class Context(Protocol):
    """What is agreed on with one client. Each method raises TicketError, and may block."""

    def accept(self, token: bytes) -> bytes:
        """One step towards it; what the client is to be sent, empty when that is nothing."""

    @property
    def is_established(self) -> bool:
        """The ticket was right, and `initiator` is known."""

    @property
    def initiator(self) -> str:
        """The client's principal."""

    def seal(self, message: bytes) -> bytes:
        """With the ticket's key."""

    def unseal(self, token: bytes) -> bytes:
        """What the client has sealed with it."""


class _State(Enum):
    BEGUN = "begun"
    ANSWERED = "answered"
    OFFERED = "offered"
    ENDED = "ended"


class TicketExchange:
    """One exchange. Never raises, whatever the client sends."""

    def __init__(self, context: Context, allowed: re.Pattern[str]) -> None:
        """`allowed`: what the whole of a principal must match to come in."""
        self._context = context
        self._allowed = allowed
        self._state = _State.BEGUN
        """Only forward: nothing is accepted twice, nor after a denial."""

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
        # The size behind it is of a layer: there is none, and Java's client names its own.
        if len(choice) < len(OFFER) or choice[0] != NO_LAYER:
            return Denied(user, "it wants a security layer, expected none")
        # Who acts for somebody else: nobody here. Without a name it acts for itself.
        if choice[len(OFFER) :] not in (b"", user.encode()):
            return Denied(user, "it acts for another principal")
        return Accepted(b"", user)
