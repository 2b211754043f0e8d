"""Who may ask on the stock port: each connection is barred until its client has shown who it is.

By a certificate, which the TLS handshake has verified; or by SASL in AUTH messages, as to Apache's
bookie with its SASL plugin: whatever else is asked before gets UNAUTHORIZED. Apache's bookie leaves
a wrong password without an answer, until its client's timeout; here it gets the code, and the
connection ends. So a guess costs a connection, and none lives unauthenticated for long.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bookie.server.settings import Authentication
from bookie.server.state import AuthFailure, Traffic
from bookie.server.users_file import UsersFile
from bookie.tls.principals import Principal
from bookie.wire.stock.auth import NOTHING_ASKED, REFUSED, SASL, AuthReply, sasl_reply
from bookie.wire.stock.digest_md5 import Accepted, Challenge, Denied, Exchange, Service
from bookie.wire.stock.messages import Auth

log = logging.getLogger(__name__)

HOST: Final = "bookkeeper"
"""Whom stock clients ask for, whatever the bookie's address (`SASL_MD5_DUMMY_HOSTNAME`)."""
NONCE_BYTES: Final = 24
LOOK_INTERVAL_S: Final = 5.0
"""Between looks whether users who are in were taken out of the file."""
NAME_CHARACTERS_MAX: Final = 64
"""Of a name in the log, which a stranger may have made up."""


class Entrant(Protocol):
    """A connection that is let in or not."""

    is_authenticated: bool

    @property
    def peer(self) -> str:
        """Its address."""

    @property
    def lacks_tls(self) -> bool:
        """It must be under TLS, and is not."""

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The client's, verified, as `ssl` shows it; empty without one."""

    def abort(self) -> None: ...


@dataclass(slots=True)
class Login:
    """One connection that is not authenticated yet."""

    deadline: asyncio.TimerHandle
    """Ends the connection."""
    exchange: Exchange | None = None
    """Of its AUTH messages; None before the first."""


class StockAuthentication:
    """As the settings want it; SettingsError when the file of users cannot be used."""

    def __init__(self, settings: Authentication, traffic: Traffic) -> None:
        self._settings = settings
        self._traffic = traffic
        self._users: UsersFile | None = None
        """None: passwords are no way in."""
        if "digest-md5" in settings.mechanisms:
            assert settings.users_file is not None  # the settings see to that
            self._users = UsersFile(settings.users_file, settings.realm)
        self._service = Service(settings.realm, f"{settings.service_name}/{HOST}")
        self._logins: dict[Entrant, Login] = {}
        """Of all open connections that are barred, but those that are about to be closed; the one
        that came first is first."""
        self._user_of: dict[Entrant, str] = {}
        """Of all open connections that a password has let in."""
        self._looking: asyncio.TimerHandle | None = None
        """The next look at them; None while there are none."""

    def opened(self, entrant: Entrant) -> None:
        """From here on it is barred."""
        entrant.is_authenticated = False
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self._settings.login_seconds, self._expire, entrant)
        self._logins[entrant] = Login(deadline)
        self.secured(entrant)  # who is let in at once crowds nobody out
        if len(self._logins) > self._settings.unauthenticated_connections:
            # Who means it needs milliseconds: the longer one has waited, the less it is missed.
            self._end(next(iter(self._logins)), AuthFailure.CROWD, "too many are")
        self._count()

    def secured(self, entrant: Entrant) -> None:
        """It may be under TLS now; called before anything is taken that came under it."""
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

    def reply(self, entrant: Entrant, request: Auth) -> AuthReply | None:
        """What an AUTH is answered; close after what is not OK. None: nothing, it was refused."""
        if entrant.is_authenticated:
            # A client's last word after DIGEST-MD5, or one that its certificate has let in.
            return NOTHING_ASKED
        login = self._logins.get(entrant)
        if login is None:
            return None
        if entrant.lacks_tls:
            # Nothing of a password is to be heard by others, be it a hash.
            return self._refuse(entrant, AuthFailure.PLAIN, "", "TLS is required, and it is plain")
        if request.plugin_name != SASL or self._users is None:
            why = f"found plugin {request.plugin_name!r:.66}, expected a way in that is open here"
            return self._refuse(entrant, AuthFailure.PLUGIN, "", why)
        if login.exchange is None:
            login.exchange = Exchange(self._service, secrets.token_hex(NONCE_BYTES).encode())
        match login.exchange.step(request.payload, self._users.keys()):
            case Challenge(token):
                return sasl_reply(token)
            case Accepted(token, user):
                self._let_in(entrant, f"password of {user!r}")
                self._user_of[entrant] = user
                if self._looking is None:
                    self._schedule_look(self._users)
                return sasl_reply(token)
            case Denied(user, why):
                return self._refuse(entrant, AuthFailure.CREDENTIALS, user, why)

    def _schedule_look(self, users: UsersFile) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_INTERVAL_S, self._look, users)

    def _look(self, users: UsersFile) -> None:
        """Who was taken out of the file goes; whose password is another one now may stay, so that
        passwords are changed without a gap."""
        keys = users.keys()
        for entrant in [found for found, user in self._user_of.items() if user not in keys]:
            user = self._user_of.pop(entrant)
            log.warning("cut off %s: %r is no user any more", entrant.peer, user)
            entrant.abort()
        self._looking = None
        if self._user_of:
            self._schedule_look(users)

    def _refuse(self, entrant: Entrant, kind: AuthFailure, user: str, why: str) -> AuthReply:
        name = f" as {user[:NAME_CHARACTERS_MAX]!r}" if user else ""
        log.warning("refuse %s%s: not authenticated: %s", entrant.peer, name, why)
        self._traffic.authentication_failures[kind] += 1
        self._forget(entrant)
        return REFUSED

    def _let_in(self, entrant: Entrant, by: str) -> None:
        entrant.is_authenticated = True
        self._forget(entrant)
        log.info("%s is authenticated by the %s", entrant.peer, by)

    def _expire(self, entrant: Entrant) -> None:
        seconds = self._settings.login_seconds
        self._end(entrant, AuthFailure.SILENCE, f"it had {seconds:g} s")

    def _end(self, entrant: Entrant, kind: AuthFailure, why: str) -> None:
        log.warning("cut off %s, which is not authenticated: %s", entrant.peer, why)
        self._traffic.authentication_failures[kind] += 1
        self._forget(entrant)
        entrant.abort()

    def _forget(self, entrant: Entrant) -> None:
        login = self._logins.pop(entrant, None)
        if login is not None:
            login.deadline.cancel()
            self._count()

    def _count(self) -> None:
        self._traffic.unauthenticated = len(self._logins)


def _holder(certificate: Mapping[str, Any]) -> str:
    """Whose it is, for the log."""
    principal = Principal.of_certificate(certificate)
    if principal is not None:
        return str(principal)
    subject = [f"{key}={value}" for part in certificate.get("subject", ()) for key, value in part]
    return ",".join(subject) or "nobody"
