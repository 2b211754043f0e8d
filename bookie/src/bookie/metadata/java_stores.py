"""Converts a folder of credentials to the two files that ZooKeeper's Java reads.

The server's own certificate is a PEM file: the key, in PKCS#8, and the certificates behind it. The
trusted authorities are a JKS file: from PEM, ZooKeeper 3.9 keeps only one authority for each name,
but a new authority usually has the name of the one it replaces. `renewal` writes both again when
the folder changes. This module uses only the standard library, since it runs beside the server in a
small container.
"""

import hashlib
import os
import re
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY, client_context

KEYSTORE: Final = "keystore.pem"
TRUSTSTORE: Final = "truststore.jks"
PKCS8: Final = b"-----BEGIN PRIVATE KEY-----"
CERTIFICATES: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
OWN: Final = 0o600

_JKS_HEAD: Final = struct.pack(">II", 0xFEEDFEED, 2)
_TRUSTED_CERTIFICATE: Final = 2
_JKS_SALT: Final = b"Mighty Aphrodite"


def write_stores(credentials: Path, target: Path) -> None:
    """Write both files. SettingsError when the folder's files do not fit together, as in the middle
    of a renewal: then the former files stay.
    """
    client_context(credentials)
    try:
        key, certificate, authorities = (
            (credentials / name).read_bytes() for name in (KEY, CERTIFICATE, AUTHORITIES)
        )
    except OSError as error:
        raise SettingsError(f"found {credentials}, which cannot be read ({error})") from error
    if PKCS8 not in key:
        raise SettingsError(
            f"found {credentials / KEY} in another form, expected a PKCS#8 key (it begins with "
            f"{PKCS8.decode()}): ZooKeeper's Java reads no other; cert-manager writes it with "
            "privateKey.encoding: PKCS8"
        )
    found = CERTIFICATES.findall(authorities.decode("ascii", "ignore"))
    # Trusted authorities first: so nobody meets a certificate of a new authority before that is
    # trusted here.
    _replace(target / TRUSTSTORE, truststore([ssl.PEM_cert_to_DER_cert(pem) for pem in found]))
    _replace(target / KEYSTORE, key.rstrip() + b"\n" + certificate)


def truststore(certificates: Sequence[bytes]) -> bytes:
    """A JKS file without a password that trusts these certificates (DER), whatever their names."""
    entries = [_entry(f"authority-{n}", der) for n, der in enumerate(certificates)]
    body = _JKS_HEAD + struct.pack(">I", len(entries)) + b"".join(entries)
    return body + hashlib.sha1(_JKS_SALT + body, usedforsecurity=False).digest()


def _entry(alias: str, der: bytes) -> bytes:
    head = struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(alias) + struct.pack(">Q", 0)
    return head + _utf("X.509") + struct.pack(">I", len(der)) + der


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, so that the server never reads half of it; only its user may read
    it.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
