"""kazoo's client, extended by TLS, by logins that are read again, and by an access list on each
znode.

kazoo tries to connect on its own thread without end. This client keeps the reason of the last
failure as a sentence (`trouble`), for the error of a caller that waited in vain. It reads the files
before each connection, so that renewed credentials need no restart. kazoo gives up after a refused
login; this client goes on, since the password may be right at the next try.
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

# At DEBUG kazoo logs whole requests, with passwords of ledgers and logins.
logging.getLogger("kazoo.client").addFilter(lambda record: record.levelno >= logging.INFO)


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with TLS if there is a folder of credentials."""

    def __init__(self, credentials: CredentialsFolder | None) -> None:
        super().__init__()
        self._credentials = credentials

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_kazoo_options: Any
    ) -> socket.socket:
        """Open a connection and do its handshake; the text of its OSError is for `trouble`."""
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
        """Like kazoo's, but a TLS socket with decrypted bytes counts as readable even if no bytes
        arrive.
        """
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
    """Refuse another member of the fleet in ZooKeeper's place: a bookie's certificate is also valid
    for localhost.
    """
    certificate = secured.getpeercert()
    found = Principal.of_certificate(certificate)
    if own is None or (found is None and not names_of_fleets(certificate)):
        return  # not a ZooKeeper of a fleet: only the name in its certificate counts
    if found is None or found.role is not Role.ZOOKEEPER or not found.is_of_fleet_of(own):
        raise ssl.SSLCertVerificationError(
            f"found the certificate of {found or 'several'}, expected that of a "
            f"{Role.ZOOKEEPER.value} of {own.namespace}/{own.cluster}"
        )


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection loop, extended to keep the reason of each failure."""

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
    """A transaction whose new znodes get their access lists too."""

    def create(self, path: str, value: bytes = b"", acl: Any = None, **options: Any) -> None:
        super().create(path, value, acl or self.client.list_for(path), **options)


class SecureClient(KazooClient):  # type: ignore[misc]
    """A kazoo client for one cluster."""

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
        """Why there is no connection, as a sentence for people; None while there is one."""
        self.access: Access = OPEN
        """The names in the access lists of new znodes."""
        self.paths: Paths | None = None
        """Paths of the cluster whose znodes the client creates; None when it creates none."""
        self._folder = None if credentials is None else CredentialsFolder(credentials)
        """The credentials for TLS; None without TLS."""
        self._login_path = login
        """The file of the login, which is read before each connection; None without a login."""
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
        """The login as last read."""
        return self._login

    @property
    def principal(self) -> Principal | None:
        """The principal in our certificate; None without TLS, or for a certificate
        that names none.
        """
        return None if self._folder is None else self._folder.principal

    @property
    def shown_as(self) -> str:
        """How the server knows us, for messages."""
        names = [str(one) for one in (self._login, self.principal) if one is not None]
        return " and ".join(names) or "whoever shows no credentials"

    def refresh(self) -> None:
        """Read the login again; if the file cannot be used, the former login stays."""
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
        """kazoo's SASL options for the next connection; None without a SASL login."""
        if self._login is None or self._login.scheme != SASL:
            return None
        return {
            "mechanism": SASL_DIGEST,
            "service": SASL_SERVICE,
            "username": self._login.user,
            "password": self._login.secret,
        }

    def words_for(self, error: BaseException, host: str, port: int) -> str:
        """A sentence about a failed connection, and what to do."""
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
        # Without the list: kazoo would give it to the folders above, too.
        return super().ensure_path_async(path)

    def transaction(self) -> TransactionRequest:
        return _Transaction(self)
