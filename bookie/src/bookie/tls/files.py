"""The files in a folder of credentials, for programs that run in small containers.

This module uses only the standard library: `credentials`, which can do more, needs 50 MiB of
libraries.
"""

import ssl
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"
FILES: Final = (CERTIFICATE, KEY, AUTHORITIES)

Stamp = tuple[int, int, int] | None


def stamps(directory: Path) -> tuple[Stamp, ...]:
    """Values that change when one of the files changes; None for a file that does not exist."""
    return tuple(stamp(directory / name) for name in FILES)


def stamp(path: Path) -> Stamp:
    """A value that changes when the file does; None when it does not exist."""
    try:
        found = path.stat()  # follows links: Kubernetes renews a secret by changing a link
    except OSError:
        return None
    # Not the time of the content: corrected permissions have to count as a change, too.
    return found.st_ctime_ns, found.st_ino, found.st_size


def client_context(directory: Path) -> ssl.SSLContext:
    """A context for handshakes with servers, whose names are checked; it uses the files as they are
    now.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(directory / AUTHORITIES)
        context.load_cert_chain(directory / CERTIFICATE, directory / KEY, password=_refused)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"found {directory}, whose {', '.join(FILES)} cannot be used ({error}), expected a "
            "certificate, its key and the authorities that are trusted, as PEM"
        ) from error
    return context


def _refused() -> str:
    # Without a password function, OpenSSL would ask at the terminal.
    raise ValueError("the key is encrypted")
