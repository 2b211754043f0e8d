"""Kerberos logins of stock clients: reads tickets with this bookie's keytab, in a thread.

MIT's library does the work, through the package `gssapi`. It is imported only when the settings ask
for Kerberos, since it is an extra (`kerberos`) that has to be compiled. The library writes used
tickets to a file, the replay cache. Stock clients do not demand an answer to their ticket, so the
bookie adds nothing of its own to an exchange, and only that file prevents a replay of it.

The bookie accepts a ticket for its principal, and one for the same service on another host if the
keytab has that key as well: Apache's client sometimes asks for a ticket for its own host instead of
the bookie's. The reason is that it takes the address from its channel, which a listener may set too
late (4.18, `PerChannelBookieClient.connectionPeer`, `SASLClientAuthProvider`).
"""

import asyncio
import logging
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bookie.errors import SettingsError
from bookie.server.settings import Authentication
from bookie.wire.stock.digest_md5 import Step
from bookie.wire.stock.tickets import TicketError, TicketExchange

log = logging.getLogger(__name__)

REPLAYS_FOLDER: Final = Path("/var/tmp")
"""Where MIT's library keeps its replay caches, one for all services of a user."""
FILE_MODE: Final = 0o600
REASON_CHARACTERS_MAX: Final = 200


class Kerberos:
    """Kerberos as the settings ask for it; SettingsError names what is missing."""

    def __init__(self, settings: Authentication) -> None:
        # The settings guarantee these.
        assert settings.keytab is not None and settings.principal is not None
        self._gssapi = _library()
        self._allowed = re.compile(settings.allowed_principals)
        self._credentials = _credentials(self._gssapi, settings)
        self._service = _service(settings.principal)
        # One thread suffices: a ticket takes less than a millisecond, and the cache allows one
        # writer at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tickets")

    def exchange(self) -> TicketExchange:
        """Begin the exchange with one client."""
        context = _MitContext(self._gssapi, self._credentials, self._service)
        return TicketExchange(context, self._allowed)

    def step(self, exchange: TicketExchange, token: bytes) -> "asyncio.Future[Step]":
        """Run a step of an exchange in the thread. Cancelling the future prevents a step that has
        not begun.
        """
        return asyncio.get_running_loop().run_in_executor(self._thread, exchange.step, token)


class _MitContext:
    """`tickets.Context` on MIT's library; one thread at a time may use it."""

    def __init__(self, gssapi: Any, credentials: Any, service: tuple[str, str]) -> None:
        self._service = service
        """Service and realm that a ticket must be for; see `_service`."""
        self._anonymity = gssapi.RequirementFlag.anonymity
        self._errors = (gssapi.exceptions.GSSError, UnicodeError)
        """Errors of the library; UnicodeError among them, because a stranger may put any bytes into
        names."""
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        # Otherwise an error with a token for the client would be raised only by the next call.
        setattr(self._context, "__DEFER_STEP_ERRORS__", False)  # noqa: B010
        self.initiator = ""
        """The client's principal, once the context is established; empty before."""

    @property
    def is_established(self) -> bool:
        return bool(self.initiator)

    def accept(self, token: bytes) -> bytes:
        try:
            answer = self._context.step(token)
            if not self._context.complete:
                return answer or b""
            if self._anonymity in self._context.actual_flags:
                raise TicketError("found an anonymous ticket, expected one of a principal")
            asked = str(self._context.target_name)
            if _service(asked) != self._service:
                raise TicketError(f"found a ticket to {asked!r:.100}, expected one to this service")
            self.initiator = str(self._context.initiator_name)
        except self._errors as error:
            raise TicketError(_reason(error)) from error
        return answer or b""

    def seal(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._errors as error:
            raise TicketError(_reason(error)) from error

    def unseal(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(token).message)
        except self._errors as error:
            raise TicketError(
                f"found a seal that is not made with the ticket's key: {_reason(error)}"
            ) from error


def replay_cache(settings: Authentication) -> Path:
    """The replay cache from the settings, or the one that all services of this user share."""
    return settings.replay_cache or REPLAYS_FOLDER / f"krb5_{os.geteuid()}.rcache2"


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise SettingsError(
            f"authentication.mechanisms: found gssapi, but not its library ({error}); install "
            "bookie-operator[kerberos], which needs MIT Kerberos' libraries and a C compiler"
        ) from error
    return gssapi


def _credentials(gssapi: Any, settings: Authentication) -> Any:
    assert settings.keytab is not None
    _check_keytab(settings.keytab)
    cache = replay_cache(settings)
    _check_replay_cache(cache)
    store = {"keytab": f"FILE:{settings.keytab}", "rcache": f"file2:{cache}"}
    kerberos = gssapi.MechType.kerberos
    try:
        name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
        gssapi.Credentials(name=name, usage="accept", mechs=[kerberos], store=store)
        return gssapi.Credentials(usage="accept", mechs=[kerberos], store=store)
    except gssapi.exceptions.GSSError as error:
        raise SettingsError(
            f"authentication.principal: found no key of {settings.principal} in "
            f"{settings.keytab} ({_reason(error)}), expected one as `ktadd` writes it"
        ) from error


def _check_keytab(keytab: Path) -> None:
    try:
        with keytab.open("rb"):
            pass
    except OSError as error:
        raise SettingsError(
            f"authentication.keytab: found {keytab}, which cannot be read ({error.strerror}), "
            "expected a keytab with the key of authentication.principal"
        ) from error


def _check_replay_cache(cache: Path) -> None:
    """Check that the replay cache is writable and belongs to this user: without it every ticket
    would be refused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(cache, flags, FILE_MODE)
    except OSError as error:
        raise SettingsError(
            f"authentication.replayCache: found {cache}, which cannot be written "
            f"({error.strerror}), expected a file of this bookie's user, which may be missing"
        ) from error
    try:
        if os.fstat(file).st_uid != os.geteuid():
            raise SettingsError(
                f"authentication.replayCache: found {cache}, which belongs to another user"
            )
    finally:
        os.close(file)


def _service(principal: str) -> tuple[str, str]:
    """Service and realm of a principal, without its host."""
    return principal.partition("/")[0], principal.rpartition("@")[2]


def _reason(error: Any) -> str:
    """Kerberos' own message without GSSAPI's, as one line for the log."""
    if isinstance(error, UnicodeError):
        return "found a name that is no UTF-8"
    said = "; ".join(error.get_all_statuses(error.min_code, False)) if error.min_code else ""
    printable = (letter if letter.isprintable() else "?" for letter in said or str(error))
    return "".join(printable)[:REASON_CHARACTERS_MAX]
