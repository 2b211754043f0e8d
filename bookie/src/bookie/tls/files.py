"""What lies in a folder of credentials, for programs that live in small containers.

The standard library alone: `credentials`, which knows more, brings 50 MiB of libraries with it.
"""

import ssl
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"
FILES: Final = (CERTIFICATE, KEY, AUTHORITIES)

Stamps = list[tuple[int, int, int] | None]


def stamps(directory: Path) -> Stamps:
    """What changes when one of the files does; None for one that is not there."""
    return [_stamp(directory / name) for name in FILES]


def client_context(directory: Path) -> ssl.SSLContext:
    """For handshakes with servers, whose names are checked, with the files of now."""
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
    # Without it OpenSSL would ask at the terminal.
    raise ValueError("the key is encrypted")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()  # of what a link leads to: Kubernetes renews a secret by its link
    except OSError:
        return None
    # Not its content's time: rights that were mended count, too.
    return found.st_ctime_ns, found.st_ino, found.st_size
