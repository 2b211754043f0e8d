"""A folder of credentials with the files `tls.crt`, `tls.key` and `ca.crt`, as in a Kubernetes TLS
secret.

When the files cannot be used at first, that is a SettingsError. Files that change are read again
before the next handshake. While they do not fit together, as in the middle of a renewal, the
earlier ones stay in use. `ca.crt` may hold several authorities, for example while one replaces
another.
"""

import ssl
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography import x509

from bookie.errors import SettingsError
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY, stamps
from bookie.tls.principals import Principal
from bookie.tls.renewed_files import RenewedFiles, UnreadableError

OF_ANOTHER_KEY: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
"""OpenSSL's reasons for refusing a key that does not belong to the certificate."""
CIPHERS_OF_1_2: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers allowed in TLS 1.2: authenticated ones with fresh keys for each connection, like all
ciphers of TLS 1.3."""
HANDSHAKES_SETTLE_S: Final = 0.2
"""How long the control plane's gRPC server begins no handshake after its files were renewed."""
MALFORMED: Final = (
    ValueError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Errors that parsing may raise for a certificate that OpenSSL accepts."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the folder held when it was read, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    leaf: x509.Certificate
    """The first certificate of the file: the holder's own."""

    @property
    def principal(self) -> Principal | None:
        """The holder of the credentials; None when the certificate has no name of a fleet."""
        return principal_of(self.leaf)


def principal_of(leaf: x509.Certificate) -> Principal | None:
    """The holder of a certificate; None when it has no name of a fleet, or several."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return Principal.from_names(names.get_values_for_type(x509.UniformResourceIdentifier))


class CredentialsFolder:
    """A folder whose credentials are always the current ones. SettingsError when the folder does
    not hold what it must.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files = RenewedFiles(directory, _Taken, stamp=stamps)

    @property
    def generation(self) -> int:
        """Rises each time changed files came into use."""
        return self._files.generation

    def look(self) -> None:
        """Read files that have changed, after which `generation` shows whether there
        are new ones.
        """
        self._now()

    @property
    def current(self) -> Credentials:
        return self._now().credentials

    @property
    def principal(self) -> Principal | None:
        return self.current.principal

    def server_context(self, clients: ssl.VerifyMode = ssl.CERT_REQUIRED) -> ssl.SSLContext:
        """The context for one more handshake with a client. `clients`: whether the client has to
        show a certificate.
        """
        return self._now().servers[clients]

    def client_context(self) -> ssl.SSLContext:
        """The context for one more handshake with a server, whose name is checked."""
        return self._now().client

    def server_credentials(self) -> Any:
        """The credentials for a gRPC server, whose clients have to show a certificate. At each
        handshake the server asks whether there are new credentials.

        New ones are only given when the files changed, and with a delay: gRPC frees the old ones
        while a handshake on another thread may be about to begin with them (grpc/grpc#36693).
        """
        first = given = self.current

        def changed() -> Any:
            nonlocal given
            now = self.current
            if now is given:  # not by generation: another thread may have looked since
                return None
            given = now
            # gRPC holds the lock that handshakes take when they begin. Those that passed it need
            # only microseconds to take their reference to the old credentials.
            time.sleep(HANDSHAKES_SETTLE_S)
            return _grpc_configuration(now)

        return grpc.dynamic_ssl_server_credentials(
            _grpc_configuration(first), changed, require_client_authentication=True
        )

    def channel_credentials(self) -> Any:
        """The credentials for one gRPC channel, which keeps them as long as it exists."""
        now = self.current
        return grpc.ssl_channel_credentials(now.authorities, now.key, now.certificate)

    def _now(self) -> "_Taken":
        return self._files.look()


class _Taken:
    """The contexts made from files that fit together. SettingsError when they do not fit."""

    def __init__(self, directory: Path) -> None:
        certificate, key, authorities = (
            _read(directory / name) for name in (CERTIFICATE, KEY, AUTHORITIES)
        )
        self.servers = {clients: _server_context(directory, clients) for clients in ssl.VerifyMode}
        """Contexts by whether clients have to show a certificate."""
        self.client = _context(ssl.PROTOCOL_TLS_CLIENT, directory)
        try:
            leaf = x509.load_pem_x509_certificates(certificate)[0]
            _ = leaf.extensions  # parsed only when read
        except MALFORMED as error:
            why = f"expected a certificate that can be parsed ({error})"
            raise SettingsError(f"found {directory / CERTIFICATE}, {why}") from error
        self.credentials = Credentials(certificate, key, authorities, leaf)


def _grpc_configuration(credentials: Credentials) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(credentials.key, credentials.certificate)], credentials.authorities
    )


def _server_context(directory: Path, clients: ssl.VerifyMode) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, directory)
    # New files have new contexts, so that a session is resumed under the same authorities only. In
    # TLS 1.2 a session can be resumed by its id while its first connection exists: Python cannot
    # forbid that.
    context.num_tickets, context.options = 0, context.options | ssl.OP_NO_TICKET
    context.verify_mode = clients
    return context


def _context(protocol: int, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_OF_1_2)
    certificate, key = directory / CERTIFICATE, directory / KEY
    # Load the certificate into a context that nobody uses: when `load_cert_chain` then refuses
    # something, it is the key.
    _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate)
    try:
        context.load_cert_chain(certificate, key, password=partial(_no_password, key))
    except ssl.SSLError as error:
        if error.reason in OF_ANOTHER_KEY:
            why = f"found {key}, expected the key of the first certificate in {certificate}"
        else:
            why = f"found {key}, expected one private key as PEM ({error.reason or error})"
        raise SettingsError(why) from error
    except OSError as error:  # it could be read a moment ago
        raise UnreadableError(
            f"found {directory}, whose {CERTIFICATE} and {KEY} cannot be read ({error.strerror})"
        ) from error
    _load_authorities(context, directory / AUTHORITIES)
    return context


def _no_password(key: Path) -> str:
    # Without a password function, OpenSSL would ask at the terminal.
    raise SettingsError(f"found {key}, which is encrypted, expected one that is not")


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(cadata=_read(path).decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        why = f"expected certificates as PEM ({getattr(error, 'reason', None) or error})"
        raise SettingsError(f"found {path}, {why}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableError(
            f"found {path}, which cannot be read ({error.strerror}), expected a PEM file"
        ) from error
