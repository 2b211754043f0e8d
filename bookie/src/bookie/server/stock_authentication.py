"""Authentication on the stock port: each connection is barred until its client has shown who it is.

A client shows that by a certificate, which the TLS handshake has verified, or by SASL in AUTH
messages, as with the SASL plugin of Apache's bookie. Every other request before gets UNAUTHORIZED.
Apache's bookie does not answer a wrong password or ticket, so its client waits for a timeout; this
bookie answers with the code and ends the connection. So each guess costs a connection, and no
connection stays unauthenticated for long.

No message names the mechanism: a client whose first AUTH has a token sends a ticket, one whose
first AUTH is empty has a password.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

from bookie.server.kerberos import Kerberos
from bookie.server.settings import Authentication
from bookie.server.state import AuthFailure, Traffic
from bookie.server.users_file import UsersFile
from bookie.tls.principals import Principal
from bookie.wire.stock.auth import (
    NOTHING_ASKED,
    REFUSED,
    REFUSED_TICKET,
    SASL,
    AuthReply,
    sasl_reply,
)
from bookie.wire.stock.digest_md5 import Accepted, Challenge, Denied, Exchange, Service, Step
from bookie.wire.stock.messages import Auth
from bookie.wire.stock.tickets import TICKET_BYTES_MAX, TicketExchange

log = logging.getLogger(__name__)

HOST: Final = "bookkeeper"
"""The host that stock clients name, whatever the bookie's address (`SASL_MD5_DUMMY_HOSTNAME`)."""
NONCE_BYTES: Final = 24
LOOK_INTERVAL_S: Final = 5.0
"""Seconds between two checks whether connected users were removed from the file."""
NAME_CHARACTERS_MAX: Final = 64
"""How many characters of a name are logged, as a stranger may have made it up."""


class Entrant(Protocol):
    """A connection that must be authenticated."""

    is_authenticated: bool

    @property
    def peer(self) -> str:
        """The client's address, for messages."""

    @property
    def lacks_tls(self) -> bool:
        """True when the connection must be under TLS and is not."""

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The client's verified certificate, as `ssl` shows it; empty without one."""

    def abort(self) -> None: ...

    def resume(self) -> None:
        """Pass the waiting AUTH in again, as it is judged now."""


class NoReply(Enum):
    """Why an AUTH gets no answer."""

    EVER = "ever"
    """The client was refused before, or expects no answer."""
    YET = "yet"
    """The AUTH is being judged; `Entrant.resume` is called when it is, and `reply` must be called
    again."""


@dataclass(slots=True)
class Login:
    """One connection that is not authenticated yet."""

    deadline: asyncio.TimerHandle
    """The timer that ends the connection."""
    exchange: Exchange | TicketExchange | None = None
    """The exchange of its AUTH messages; None before the first."""
    judged: "asyncio.Future[Step] | None" = None
    """The result for its last token, which a thread is computing; None when there is none."""


class StockAuthentication:
    """Authentication as the settings ask for it; SettingsError when the file of users cannot be
    used.
    """

    def __init__(self, settings: Authentication, traffic: Traffic) -> None:
        self._settings = settings
        self._traffic = traffic
        self._users: UsersFile | None = None
        """The users with passwords; None = passwords are not accepted."""
        if "digest-md5" in settings.mechanisms:
            assert settings.users_file is not None  # the settings guarantee that
            self._users = UsersFile(settings.users_file, settings.realm)
        self._kerberos = Kerberos(settings) if "gssapi" in settings.mechanisms else None
        """The reader of tickets; None = tickets are not accepted."""
        self._service = Service(settings.realm, f"{settings.service_name}/{HOST}")
        self._logins: dict[Entrant, Login] = {}
        """The logins of all barred connections in order of arrival, without those about to be
        closed."""
        self._user_of: dict[Entrant, str] = {}
        """The user of each open connection that authenticated by password."""
        self._looking: asyncio.TimerHandle | None = None
        """The timer of the next check of these users; None while there are none."""

    @property
    def greeting_bytes_max(self) -> int:
        """The longest first token of a client; a stock client sends it before the TLS handshake."""
        return 0 if self._kerberos is None else TICKET_BYTES_MAX

    def opened(self, entrant: Entrant) -> None:
        """Bar a new connection until it is authenticated."""
        entrant.is_authenticated = False
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self._settings.login_seconds, self._expire, entrant)
        self._logins[entrant] = Login(deadline)
        self.secured(entrant)  # if it is let in at once, it displaces no other
        if len(self._logins) > self._settings.unauthenticated_connections:
            # An honest client needs milliseconds, so cut off the one that has waited longest.
            self._end(next(iter(self._logins)), AuthFailure.CROWD, "too many connections are not")
        self._count()

    def secured(self, entrant: Entrant) -> None:
        """Authenticate a connection that is under TLS by its certificate; called before any message
        that arrived under TLS is taken.
        """
        if "tls" in self._settings.mechanisms and entrant in self._logins:
            certificate = entrant.certificate
            if certificate:
                self._let_in(entrant, f"certificate of {_holder(certificate)}")

    def closed(self, entrant: Entrant) -> None:
        self._forget(entrant)
        self._user_of.pop(entrant, None)
        if not self._user_of and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def reply(self, entrant: Entrant, request: Auth) -> AuthReply | NoReply:
        """The answer to an AUTH; the caller closes the connection after an answer
        that is not OK.
        """
        if entrant.is_authenticated:
            # The last message of DIGEST-MD5, or of a client that its certificate has authenticated.
            return NOTHING_ASKED
        login = self._logins.get(entrant)
        if login is None:
            return NoReply.EVER
        if entrant.lacks_tls:
            # Without TLS others could overhear a password, even if only as a hash.
            why = "TLS is required, and the connection has none"
            return self._refuse(entrant, AuthFailure.PLAIN, "", why, has_ticket=_speaks(request))
        exchange = login.exchange = login.exchange or self._begun(request)
        if exchange is None:
            why = f"found plugin {request.plugin_name!r:.66}, expected one that is enabled here"
            return self._refuse(entrant, AuthFailure.PLUGIN, "", why, has_ticket=_speaks(request))
        has_ticket = isinstance(exchange, TicketExchange)
        match self._step(entrant, login, exchange, request.payload):
            case None:
                return NoReply.YET
            case Challenge(token):
                return sasl_reply(token)
            case Accepted(token, user):
                self._let_in(entrant, f"{'ticket' if has_ticket else 'password'} of {user!r}")
                if has_ticket:  # its client counts itself as authenticated already
                    return NoReply.EVER
                self._watch(entrant, user)
                return sasl_reply(token)
            case Denied(user, why):
                kind = AuthFailure.CREDENTIALS
                return self._refuse(entrant, kind, user, why, has_ticket=has_ticket)

    def _begun(self, request: Auth) -> Exchange | TicketExchange | None:
        """Begin the exchange for a client's first AUTH; None when it asks for a mechanism that is
        not accepted.
        """
        if request.plugin_name != SASL:
            return None
        if self._kerberos is not None and _speaks(request):
            return self._kerberos.exchange()
        if self._users is None:
            return None
        return Exchange(self._service, secrets.token_hex(NONCE_BYTES).encode())

    def _step(
        self, entrant: Entrant, login: Login, exchange: Exchange | TicketExchange, token: bytes
    ) -> Step | None:
        """Give a token to the exchange; None when a thread is still judging it."""
        if isinstance(exchange, Exchange):
            assert self._users is not None
            return exchange.step(token, self._users.keys())
        if login.judged is None:
            assert self._kerberos is not None
            login.judged = self._kerberos.step(exchange, token)
            login.judged.add_done_callback(partial(self._go_on, entrant))
        if not login.judged.done():
            return None
        judged, login.judged = login.judged, None
        return judged.result()

    def _go_on(self, entrant: Entrant, _judged: "asyncio.Future[Step]") -> None:
        if entrant in self._logins:
            entrant.resume()

    def _watch(self, entrant: Entrant, user: str) -> None:
        """Watch a connection, which may stay as long as its user is in the file."""
        self._user_of[entrant] = user
        if self._looking is None and self._users is not None:
            self._schedule_look(self._users)

    def _schedule_look(self, users: UsersFile) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_INTERVAL_S, self._look, users)

    def _look(self, users: UsersFile) -> None:
        """Cut off connections whose user was removed from the file. If only the password was
        changed they may stay, so that passwords can be changed without an interruption.
        """
        keys = users.keys()
        for entrant in [found for found, user in self._user_of.items() if user not in keys]:
            user = self._user_of.pop(entrant)
            log.warning("cut off %s: %r is no longer a user", entrant.peer, user)
            entrant.abort()
        self._looking = None
        if self._user_of:
            self._schedule_look(users)

    def _refuse(
        self, entrant: Entrant, kind: AuthFailure, user: str, why: str, *, has_ticket: bool
    ) -> AuthReply:
        name = f" as {user[:NAME_CHARACTERS_MAX]!r}" if user else ""
        log.warning("refuse %s%s: not authenticated: %s", entrant.peer, name, why)
        self._traffic.authentication_failures[kind] += 1
        self._forget(entrant)
        return REFUSED_TICKET if has_ticket else REFUSED

    def _let_in(self, entrant: Entrant, by: str) -> None:
        entrant.is_authenticated = True
        self._forget(entrant)
        log.info("%s is authenticated by the %s", entrant.peer, by)

    def _expire(self, entrant: Entrant) -> None:
        seconds = self._settings.login_seconds
        self._end(entrant, AuthFailure.SILENCE, f"it had {seconds:g} s to authenticate")

    def _end(self, entrant: Entrant, kind: AuthFailure, why: str) -> None:
        log.warning("cut off %s, which is not authenticated: %s", entrant.peer, why)
        self._traffic.authentication_failures[kind] += 1
        self._forget(entrant)
        entrant.abort()

    def _forget(self, entrant: Entrant) -> None:
        login = self._logins.pop(entrant, None)
        if login is not None:
            login.deadline.cancel()
            if login.judged is not None:
                login.judged.cancel()
            self._count()

    def _count(self) -> None:
        self._traffic.unauthenticated = len(self._logins)


def _speaks(request: Auth) -> bool:
    """True when the client's first AUTH has a token: a ticket."""
    return bool(request.payload)


def _holder(certificate: Mapping[str, Any]) -> str:
    """The holder of a certificate, for the log."""
    principal = Principal.of_certificate(certificate)
    if principal is not None:
        return str(principal)
    subject = [f"{key}={value}" for part in certificate.get("subject", ()) for key, value in part]
    return ",".join(subject) or "nobody"
