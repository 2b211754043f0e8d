"""Credentials that an attacker has or makes. Shares no code with the product: only openssl's names.

A stranger makes its own authority and writes into its certificate whatever it likes: the name of
the fleet's operator too. Insiders hold a real certificate of a role that may do less.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Attacker:
    """`folder`: with tls.crt, tls.key and ca.crt; None: it goes without TLS."""

    name: str
    folder: Path | None

    def read(self, name: str) -> bytes:
        assert self.folder is not None
        return (self.folder / name).read_bytes()


def forger(folder: Path, *, trusted: Path, uri: str) -> Attacker:
    """Somebody who trusts the fleet, and shows a certificate with this name of its own making."""
    _write(folder, [uri], trusted)
    return Attacker(f"a stranger whose certificate says {uri.rpartition('/')[0][-30:]}", folder)


def oddly_named(folder: Path, what: str, uris: Sequence[str], *, authority: Path) -> Attacker:
    """One whom the fleet's authority (its folder, with the key) gave a certificate of these names:
    an issuer that signs for many gives names by rules, and rules compare letters."""
    _write(folder, uris, authority / "ca.crt", authority)
    return Attacker(f"one whose name {what}", folder)


def _write(folder: Path, uris: Sequence[str], trusted: Path, authority: Path | None = None) -> None:
    """`authority`: who signs; None: the holder itself."""
    folder.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "operator")])
    issuer, signer = name, key
    if authority is not None:
        signing = x509.load_pem_x509_certificate((authority / "tls.crt").read_bytes())
        found = serialization.load_pem_private_key((authority / "tls.key").read_bytes(), None)
        assert isinstance(found, ec.EllipticCurvePrivateKey)
        issuer, signer = signing.subject, found
    now = datetime.datetime.now(datetime.UTC)
    names = [*map(x509.UniformResourceIdentifier, uris), x509.DNSName("localhost"),
             x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "ca.crt").write_bytes(trusted.read_bytes())
