"""Throwaway certificates for tests of TLS: an authority, and what it signs, valid for two days.

Each holder has a folder of credentials, and the same as single files, `NAME.pem` and `NAME.key`,
for clients that take those.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtensionOID

from bookie.tls import authority as signing
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY
from bookie.tls.principals import Principal, Role

LIFETIME: Final = timedelta(days=2)
NAMESPACE: Final = "lab"
MAIL, DNS, URI = 0x81, 0x82, 0x86
"""Kinds of alternative names, as DER has them."""
SEQUENCE: Final = 0x30
SHORT: Final = 128


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, PEM files; `folder`: both with the authority's certificate."""

    certificate: Path
    key: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates of the fleet `lab/<cluster>`; files are in `folder`."""

    folder: Path
    own: Identity
    cluster: str
    signer: signing.Authority

    @classmethod
    def make(cls, folder: Path, name: str, *, cluster: str = "demo") -> "Authority":
        folder.mkdir(parents=True, exist_ok=True)
        signer = signing.Authority.make(name, now=datetime.now(UTC), lifetime=LIFETIME)
        own = _written(folder, name, signer.to_issued(), signer.pem)
        return cls(folder, own, cluster, signer)

    def sign(
        self,
        name: str,
        role: Role = Role.CLIENT,
        *,
        cluster: str = "",
        file: str = "",
        since: timedelta = timedelta(0),
    ) -> Identity:
        """A certificate for one of the fleet, or of another that this authority signs for, too.

        `file`: name of the files, when not the holder's. `since`: how long ago it was made.
        """
        principal = Principal(NAMESPACE, cluster or self.cluster, role, name)
        issued = self.signer.sign(principal, now=datetime.now(UTC) - since, lifetime=LIFETIME)
        return _written(self.folder, file or name, issued, self.signer.pem)

    def sign_raw(self, file: str, names: Sequence[tuple[int, bytes]]) -> Identity:
        """A client's certificate with these alternative names, kind and bytes, whatever they are;
        `file`: name of the files."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        builder = x509.CertificateBuilder(self.signer.certificate.subject, x509.Name([]))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - LIFETIME).not_valid_after(now + LIFETIME)
        builder = builder.add_extension(_names(names), critical=False)
        made = builder.sign(self.signer.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return _written(self.folder, file, signing.Issued(made, pem), self.signer.pem)


def _names(names: Iterable[tuple[int, bytes]]) -> x509.UnrecognizedExtension:
    content = b"".join(bytes([tag, len(name)]) + name for tag, name in names)
    assert len(content) < SHORT, "longer ones have their length in another form"
    return x509.UnrecognizedExtension(
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes([SEQUENCE, len(content)]) + content
    )


def _written(folder: Path, name: str, issued: signing.Issued, trusted: bytes) -> Identity:
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / name)
    made.folder.mkdir(exist_ok=True)
    for path, content in (
        (made.certificate, issued.certificate),
        (made.key, issued.key),
        (made.folder / CERTIFICATE, issued.certificate),
        (made.folder / KEY, issued.key),
        (made.folder / AUTHORITIES, trusted),
    ):
        path.write_bytes(content)
    return made
