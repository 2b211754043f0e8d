"""A folder of credentials: `tls.crt`, `tls.key` and `ca.crt`, the keys of a Kubernetes TLS secret.

Files that cannot be used at first are a SettingsError. Files that change are read again before the
next handshake; while they do not fit together, as in the middle of a renewal, those before stay in
use. `ca.crt` may hold several authorities, as it does while one is replaced by another.
"""

import logging
import ssl
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography import x509

from bookie.errors import SettingsError
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY, Stamps, stamps
from bookie.tls.principals import Principal

log = logging.getLogger(__name__)

OF_ANOTHER_KEY: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
"""How OpenSSL calls a key that is not the certificate's."""
CIPHERS_OF_1_2: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Authenticated ones with keys of their own for each connection, as all of TLS 1.3 are."""
HANDSHAKES_SETTLE_S: Final = 0.2
"""How long gRPC's control plane begins no handshake when its files were renewed."""
MALFORMED: Final = (
    ValueError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What is raised of a certificate that OpenSSL may take for a good one."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the folder held when it was read; PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    leaf: x509.Certificate
    """The first certificate."""

    @property
    def principal(self) -> Principal | None:
        """Who they are of; None when the certificate holds no name of a fleet."""
        return principal_of(self.leaf)


def principal_of(leaf: x509.Certificate) -> Principal | None:
    """Whose certificate it is; None when it holds no name of a fleet, or several."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return Principal.from_names(names.get_values_for_type(x509.UniformResourceIdentifier))


class CredentialsFolder:
    """Credentials as they are now; SettingsError when the folder does not hold what it must."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.generation = 0
        """Rises when other files were taken."""
        self._stamps = self._look()
        self._taken = _Taken(directory)

    def look(self) -> None:
        """Take files that have changed, so that `generation` says whether there are others."""
        self._now()

    @property
    def current(self) -> Credentials:
        return self._now().credentials

    @property
    def principal(self) -> Principal | None:
        return self.current.principal

    def server_context(self, clients: ssl.VerifyMode = ssl.CERT_REQUIRED) -> ssl.SSLContext:
        """For one more handshake with a client; `clients`: whether it has to show a certificate."""
        return self._now().servers[clients]

    def client_context(self) -> ssl.SSLContext:
        """For one more handshake with a server, whose name is checked."""
        return self._now().client

    def server_credentials(self) -> Any:
        """For a gRPC server, whose clients have to show a certificate; it asks at each handshake
        whether there are others.

        Others are never given without need, and not at once: gRPC frees what they replace while a
        handshake on another thread may be about to begin with it (grpc/grpc#36693).
        """
        first = self.current
        given = self.generation

        def changed() -> Any:
            nonlocal given
            now = self.current
            if self.generation == given:
                return None
            given = self.generation
            # gRPC holds the lock by which handshakes begin: those that passed it take hold of what
            # is to be replaced meanwhile, in microseconds.
            time.sleep(HANDSHAKES_SETTLE_S)
            return _grpc_configuration(now)

        return grpc.dynamic_ssl_server_credentials(
            _grpc_configuration(first), changed, require_client_authentication=True
        )

    def channel_credentials(self) -> Any:
        """For one gRPC channel: it keeps them for its life."""
        now = self.current
        return grpc.ssl_channel_credentials(now.authorities, now.key, now.certificate)

    def _now(self) -> "_Taken":
        # A few calls of stat, and no thread: a handshake costs a hundred times that.
        seen = self._look()
        if seen != self._stamps:
            self._stamps = seen
            self._read_again()
        return self._taken

    def _read_again(self) -> None:
        # No thread: it happens once for each renewal, at a cost of milliseconds, and `ssl` parses
        # authorities under the interpreter's lock, so that the event loop would wait all the same.
        try:
            self._taken = _Taken(self.directory)
            self.generation += 1
            log.info("%s was read again: the next handshakes have it", self.directory)
        except SettingsError as error:
            log.warning("TLS goes on with the files it had: %s", error)

    def _look(self) -> Stamps:
        return stamps(self.directory)


class _Taken:
    """Files that fit together, as contexts. SettingsError when they do not."""

    def __init__(self, directory: Path) -> None:
        certificate, key, authorities = (
            _read(directory / name) for name in (CERTIFICATE, KEY, AUTHORITIES)
        )
        self.servers = {clients: _server_context(directory, clients) for clients in ssl.VerifyMode}
        """By whether clients have to show a certificate."""
        self.client = _context(ssl.PROTOCOL_TLS_CLIENT, directory)
        try:
            leaf = x509.load_pem_x509_certificates(certificate)[0]
            _ = leaf.extensions  # they are parsed when somebody asks
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
    # Others have other contexts, so that a session is taken up under the same authorities alone. By
    # its id it is, in TLS 1.2 and while its first connection lives: Python cannot forbid that.
    context.num_tickets, context.options = 0, context.options | ssl.OP_NO_TICKET
    context.verify_mode = clients
    return context


def _context(protocol: int, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_OF_1_2)
    certificate, key = directory / CERTIFICATE, directory / KEY
    # Into a context that nobody uses: what `load_cert_chain` then refuses is the key.
    _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate)
    try:
        context.load_cert_chain(certificate, key, password=partial(_no_password, key))
    except ssl.SSLError as error:
        if error.reason in OF_ANOTHER_KEY:
            why = f"found {key}, expected the key of the first certificate in {certificate}"
        else:
            why = f"found {key}, expected one private key as PEM ({error.reason or error})"
        raise SettingsError(why) from error
    except OSError as error:  # it was there when it was read
        raise SettingsError(
            f"found {directory}, whose {CERTIFICATE} and {KEY} cannot be read ({error.strerror})"
        ) from error
    _load_authorities(context, directory / AUTHORITIES)
    return context


def _no_password(key: Path) -> str:
    # Without it OpenSSL would ask at the terminal.
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
        raise SettingsError(
            f"found {path}, which cannot be read ({error.strerror}), expected a PEM file"
        ) from error
