"""Tickets of Kerberos: a keytab of this bookie's principal, and a thread that reads tickets by it.

MIT's library does that, by the package `gssapi`, which is imported where the settings want it and
nowhere else: it is an extra (`kerberos`), as it has to be built. A ticket that was used is written
to a file, the replay cache. Stock clients do not ask for an answer to their ticket, so nothing of
an exchange is of our making, and that file alone keeps somebody from repeating all of it.

A ticket counts that is to the principal, or to the same service at another host, if the keytab has
that key as well: Apache's client asks for its own host now and then, not for the bookie's. It looks
at its channel for the address, and sets that in a listener which may come after (4.18,
`PerChannelBookieClient.connectionPeer`, `SASLClientAuthProvider`).
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
"""Where MIT's library has its replay caches, for all services of a user."""
FILE_MODE: Final = 0o600
REASON_CHARACTERS_MAX: Final = 200


class Kerberos:
    """As the settings want it; SettingsError names what is missing."""

    def __init__(self, settings: Authentication) -> None:
        # The settings see to these.
        assert settings.keytab is not None and settings.principal is not None
        self._gssapi = _library()
        self._allowed = re.compile(settings.allowed_principals)
        self._credentials = _credentials(self._gssapi, settings)
        self._service = _service(settings.principal)
        # One: a ticket takes less than a millisecond of it, and the cache has one writer at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tickets")

    def exchange(self) -> TicketExchange:
        """With one more client."""
        context = _MitContext(self._gssapi, self._credentials, self._service)
        return TicketExchange(context, self._allowed)

    def step(self, exchange: TicketExchange, token: bytes) -> "asyncio.Future[Step]":
        """In the thread. Who cancels it has it not begun, if it was not."""
        return asyncio.get_running_loop().run_in_executor(self._thread, exchange.step, token)


class _MitContext:
    """`tickets.Context` by MIT's library. Used by one thread at a time."""

    def __init__(self, gssapi: Any, credentials: Any, service: tuple[str, str]) -> None:
        self._service = service
        """See `_service`."""
        self._anonymity = gssapi.RequirementFlag.anonymity
        self._errors = (gssapi.exceptions.GSSError, UnicodeError)
        """What the library raises: names in it are of any bytes, as a stranger has made them up."""
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        # Else an error that has a token for the client would be raised by the next call.
        setattr(self._context, "__DEFER_STEP_ERRORS__", False)  # noqa: B010
        self.initiator = ""
        """Known once it is established."""

    @property
    def is_established(self) -> bool:
        return bool(self.initiator)

    def accept(self, token: bytes) -> bytes:
        try:
            answer = self._context.step(token)
            if not self._context.complete:
                return answer or b""
            if self._anonymity in self._context.actual_flags:
                raise TicketError("found a ticket of nobody, expected one of a principal")
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
            raise TicketError(f"another seal than the ticket's: {_reason(error)}") from error


def replay_cache(settings: Authentication) -> Path:
    """That of the settings, or the one that all services of this user share."""
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
    """It can be written, and is of nobody else; without it every ticket would be refused."""
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
            raise SettingsError(f"authentication.replayCache: found {cache}, which is another's")
    finally:
        os.close(file)


def _service(principal: str) -> tuple[str, str]:
    """What it is and of which realm, without its host."""
    return principal.partition("/")[0], principal.rpartition("@")[2]


def _reason(error: Any) -> str:
    """What Kerberos says, without what GSSAPI says around it: a line for the log."""
    if isinstance(error, UnicodeError):
        return "found a name that is no UTF-8"
    said = "; ".join(error.get_all_statuses(error.min_code, False)) if error.min_code else ""
    printable = (letter if letter.isprintable() else "?" for letter in said or str(error))
    return "".join(printable)[:REASON_CHARACTERS_MAX]
