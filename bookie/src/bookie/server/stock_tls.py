"""What TLS on the stock port is made of: certificates, key and authorities, from files.

A file that cannot be used when the bookie starts is a SettingsError. Files that change later are
read again for the next handshake; where they do not fit together, as in the middle of a renewal,
the ones before stay in use. The upgrade of a connection is in `stock` and `connections`.
"""

import logging
import os
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.server.settings import Tls

log = logging.getLogger(__name__)

OF_ANOTHER_KEY: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
"""How OpenSSL calls a key that is not the certificate's."""
CLIENTS: Final = {
    "required": ssl.CERT_REQUIRED,
    "optional": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
}

Stamps = Sequence[tuple[int, int, int] | None]


class StockTls:
    """TLS as the settings want it; SettingsError when a file is not what it must be."""

    def __init__(self, settings: Tls) -> None:
        self.is_required = settings.required
        self.handshake_s = settings.handshake_seconds
        self._settings = settings
        self._stamps = _stamps(settings)
        self._context = _context(settings)

    def context(self) -> ssl.SSLContext:
        """For one more handshake, of the files as they are now."""
        # A few calls of stat, and no thread: a handshake costs a hundred times that.
        stamps = _stamps(self._settings)
        if stamps != self._stamps:
            self._stamps = stamps
            self._read_again()
        return self._context

    def _read_again(self) -> None:
        # No thread: it happens once for each renewal, at a cost of milliseconds, and `ssl` parses
        # authorities under the interpreter's lock, so that the event loop would wait all the same.
        try:
            self._context = _context(self._settings)
            log.info("certificates were read again: the next handshakes have them")
        except SettingsError as error:
            log.warning("TLS goes on with the files it had: %s", error)


def _stamps(settings: Tls) -> Stamps:
    """What changes when a file does, by file; None where there is none."""
    files = (settings.certificate_file, settings.key_file, settings.client_ca_file)
    return [None if path is None else _stamp(path) for path in files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)  # of what a link leads to: Kubernetes renews a secret by its link
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _context(settings: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # No session is taken up again: every connection is held against the authorities of now.
    context.num_tickets, context.options = 0, context.options | ssl.OP_NO_TICKET
    _load_identity(context, settings)
    context.verify_mode = CLIENTS[settings.clients]
    if settings.client_ca_file is not None:
        _load_authorities(context, "tls.clientCaFile", settings.client_ca_file)
    return context


def _load_identity(context: ssl.SSLContext, settings: Tls) -> None:
    certificate, key = settings.certificate_file, settings.key_file
    # Into a context that nobody uses: what `load_cert_chain` then refuses is the key.
    unused = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_authorities(unused, "tls.certificateFile", certificate)
    _read("tls.keyFile", key)
    try:
        context.load_cert_chain(certificate, key, password=partial(_no_password, key))
    except ssl.SSLError as error:
        if error.reason in OF_ANOTHER_KEY:
            why = f"found {key}, expected the key of the first certificate in {certificate}"
        else:
            why = f"found {key}, expected one private key as PEM ({error.reason or error})"
        raise SettingsError(f"tls.keyFile: {why}") from error


def _no_password(key: Path) -> str:
    # Without it OpenSSL would ask at the terminal.
    raise SettingsError(f"tls.keyFile: found {key}, which is encrypted, expected one that is not")


def _load_authorities(context: ssl.SSLContext, setting: str, path: Path) -> None:
    try:
        context.load_verify_locations(cadata=_read(setting, path).decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        why = f"expected certificates as PEM ({getattr(error, 'reason', None) or error})"
        raise SettingsError(f"{setting}: found {path}, {why}") from error


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = f"found {path}, which cannot be read ({error.strerror}), expected a PEM file"
        raise SettingsError(f"{setting}: {why}") from error
