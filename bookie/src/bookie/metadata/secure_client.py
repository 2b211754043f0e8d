"""kazoo's client with TLS, with logins that are read again, and with an access list on each znode.

kazoo connects on a thread of its own, for ever; what goes wrong there is kept as a sentence
(`trouble`), so that whoever waits in vain hears why. Before each connection the files are looked
at, so that renewed credentials need no restart. kazoo takes a refused login for the end of it all;
here it is one more trouble, since the password may be another at the next try.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SASLException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry
from kazoo.security import ACL

from bookie.errors import SettingsError
from bookie.hosts import at_port
from bookie.metadata.access import OPEN, Access, Place, place_of
from bookie.metadata.connection_trouble import trouble_of
from bookie.metadata.layout import Paths
from bookie.metadata.login import FAILED, SASL, Login, read_login
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Principal, Role, names_of_fleets

log = logging.getLogger(__name__)

SASL_DIGEST: Final = "DIGEST-MD5"
SASL_SERVICE: Final = "zookeeper"

# kazoo writes whole requests to its log at DEBUG: ledgers' passwords, and logins.
logging.getLogger("kazoo.client").addFilter(lambda record: record.levelno >= logging.INFO)


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, under TLS when there is a folder of credentials."""

    def __init__(self, credentials: CredentialsFolder | None) -> None:
        super().__init__()
        self._credentials = credentials

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_kazoo_options: Any
    ) -> socket.socket:
        """A connection after its handshake; OSError, whose words are for `trouble`."""
        if self._credentials is None:
            return _undelayed(socket.create_connection(address, timeout))
        plain = _undelayed(socket.create_connection(address, timeout))
        try:
            context = self._credentials.client_context()
            secured = context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise
        try:
            _check_server(secured, self._credentials.principal)
        except BaseException:
            secured.close()
            raise
        return secured

    def select(self, *sockets: Any, **options: Any) -> Any:
        """What TLS has decrypted already is there to be read, though its socket is silent."""
        ready = [one for one in sockets[0] if isinstance(one, ssl.SSLSocket) and one.pending()]
        if not ready:
            return super().select(*sockets, **options)
        others = [one for one in sockets[0] if one not in ready]
        read, write, failed = super().select(others, *sockets[1:3], 0)
        return ready + list(read), write, failed


def _undelayed(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _check_server(secured: ssl.SSLSocket, own: Principal | None) -> None:
    """Refuses others of a fleet in the ZooKeeper's place: a bookie has a name for localhost too."""
    certificate = secured.getpeercert()
    found = Principal.of_certificate(certificate)
    if own is None or (found is None and not names_of_fleets(certificate)):
        return  # a ZooKeeper of somebody's own: the name in its certificate was checked
    if found is None or found.role is not Role.ZOOKEEPER or not found.is_of_fleet_of(own):
        raise ssl.SSLCertVerificationError(
            f"found the certificate of {found or 'several'}, expected that of a "
            f"{Role.ZOOKEEPER.value} of {own.namespace}/{own.cluster}"
        )


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's loop of connections, whose troubles are kept."""

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        client: SecureClient = self.client
        client.refresh()
        self.sasl_options = client.sasl_options()
        try:
            found = super()._connect(host, hostip, port)
        except (AuthFailedError, SASLException) as error:
            client.trouble = client.words_for(error, host, port)
            raise ConnectionDropped(client.trouble) from error
        except ConnectionDropped as error:
            client.trouble = client.words_for(error.__context__ or error, host, port)
            raise
        except KazooTimeoutError as error:
            client.trouble = client.words_for(error, host, port)
            raise
        client.trouble = None
        return found


class _Transaction(TransactionRequest):  # type: ignore[misc]
    """Several changes, in which new znodes get their access lists too."""

    def create(self, path: str, value: bytes = b"", acl: Any = None, **options: Any) -> None:
        super().create(path, value, acl or self.client.list_for(path), **options)


class SecureClient(KazooClient):  # type: ignore[misc]
    """A client of one cluster."""

    def __init__(
        self,
        hosts: str,
        *,
        timeout: float,
        connection_retry: KazooRetry,
        credentials: Path | None = None,
        login: Path | None = None,
    ) -> None:
        """SettingsError when the credentials or the login cannot be used.

        `credentials`: the folder for TLS, None for a plain port. `login`: a file, see `login`.
        """
        self.trouble: str | None = None
        """Why there is no connection, in words for people; None while there is one."""
        self.access: Access = OPEN
        """Who is who in the access lists of new znodes."""
        self.paths: Paths | None = None
        """Of the cluster whose znodes are made; None: none are."""
        self._folder = None if credentials is None else CredentialsFolder(credentials)
        """What is shown under TLS; None: there is none."""
        self._login_path = login
        """Where the login is read again before each connection; None: there is none."""
        self._login = None if login is None else read_login(login)
        super().__init__(
            hosts,
            timeout=timeout,
            connection_retry=connection_retry,
            handler=TlsHandler(self._folder),
            use_ssl=self._folder is not None,  # for kazoo's own log
        )
        self._connection = _Connection(
            self, self._conn_retry.copy(), logger=self.logger, sasl_options=None
        )
        self._use(self._login)

    @property
    def login(self) -> Login | None:
        """As it was last read."""
        return self._login

    @property
    def principal(self) -> Principal | None:
        """Whose certificate is shown; None without TLS, or for one that names nobody of a fleet."""
        return None if self._folder is None else self._folder.principal

    @property
    def shown_as(self) -> str:
        """Who we are to the server, for messages."""
        names = [str(one) for one in (self._login, self.principal) if one is not None]
        return " and ".join(names) or "whoever shows no credentials"

    def refresh(self) -> None:
        """Reads the login again; while the file cannot be used, the one before stays."""
        before = self._login
        if before is None or self._login_path is None:
            return
        try:
            now = read_login(self._login_path)
        except SettingsError as error:
            log.warning("the login for ZooKeeper stays as it was: %s", error)
            return
        renamed = (now.name if one == before.name else one for one in self.access.fleet)
        self._login, self.access = now, replace(self.access, fleet=tuple(renamed))
        self._use(now)

    def _use(self, login: Login | None) -> None:
        if login is not None and login.scheme != SASL:
            self.auth_data = {(login.scheme, f"{login.user}:{login.secret}")}

    def sasl_options(self) -> dict[str, Any] | None:
        """For the next connection; None without a login by SASL."""
        if self._login is None or self._login.scheme != SASL:
            return None
        return {
            "mechanism": SASL_DIGEST,
            "service": SASL_SERVICE,
            "username": self._login.user,
            "password": self._login.secret,
        }

    def words_for(self, error: BaseException, host: str, port: int) -> str:
        """What is wrong with a connection, and what to do."""
        where = at_port(host, port)
        if isinstance(error, AuthFailedError | SASLException):
            return (
                f"{FAILED}: ZooKeeper at {where} refuses the login {self._login} of "
                f"{self._login_path}: correct user and password there, or on the server"
            )
        directory = None if self._folder is None else self._folder.directory
        return trouble_of(error, where=where, directory=directory)

    # New znodes
    def list_for(self, path: str) -> list[ACL]:
        """The access list of a new znode."""
        if self.paths is None:
            return OPEN.list_of(Place.SHARED)
        return self.access.list_of(place_of(path, self.paths) or Place.OWN)

    def create_async(
        self, path: str, value: bytes = b"", acl: Sequence[ACL] | None = None, **options: Any
    ) -> Any:
        return super().create_async(path, value, acl or self.list_for(path), **options)

    def ensure_path_async(self, path: str, acl: Sequence[ACL] | None = None) -> Any:
        # kazoo would give folders the list of what is made in them.
        return super().ensure_path_async(path)

    def transaction(self) -> TransactionRequest:
        return _Transaction(self)
