"""A small certificate authority of one fleet, which signs the certificates of its members.

Keys are ECDSA on P-256, which our clients and Apache's all accept. The caller passes the time:
nothing here reads a clock. It is for fleets without cert-manager; see docs/security.md.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bookie.errors import SettingsError
from bookie.tls.principals import COMMON_NAME_CHARACTERS_MAX, Principal, Role

SKEW: Final = timedelta(minutes=5)
"""A certificate becomes valid this long before it is made, because the clocks of a fleet differ."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
SERVERS: Final = (Role.BOOKIE, Role.ZOOKEEPER)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key as PEM; the key is PKCS#8 and not encrypted."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority with its key, so that it can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str, *, now: datetime, lifetime: timedelta) -> Self:
        """Make a new authority, which nobody trusts yet."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        usage = _usage(key_cert_sign=True, crl_sign=True)
        builder = _builder(subject, subject, key.public_key(), now=now, lifetime=lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(usage, critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, issued: Issued) -> Self:
        """Read an authority; SettingsError when these are not an authority's certificate and its
        key.
        """
        try:
            certificate = x509.load_pem_x509_certificates(issued.certificate)[0]
            key = serialization.load_pem_private_key(issued.key, None)
        except (ValueError, TypeError) as error:
            raise SettingsError(
                f"expected the certificate of an authority and its key as PEM ({error})"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SettingsError(f"expected an elliptic curve key, found {type(key).__name__}")
        if key.public_key() != certificate.public_key():
            raise SettingsError("the authority's key is not that of its certificate")
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        """The authority's certificate as PEM, for those who are to trust it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def to_issued(self) -> Issued:
        """The authority's certificate and key, as `load` reads them."""
        return Issued(self.pem, _key_pem(self.key))

    def sign(
        self,
        principal: Principal,
        *,
        hosts: Sequence[str] = (),
        now: datetime,
        lifetime: timedelta,
    ) -> Issued:
        """Make a new key for a member of the fleet, and a certificate for it.

        `hosts`: names and addresses under which clients connect to it, in addition to its
        `server_name` and loopback.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject
        ends = min(now + lifetime, self.certificate.not_valid_after_utc)
        builder = _builder(
            _subject(principal.common_name), issuer, key.public_key(), now=now, lifetime=ends - now
        )
        is_server = principal.role in SERVERS
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        purposes += [ExtendedKeyUsageOID.SERVER_AUTH] if is_server else []
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(principal.uri)]
        if is_server:
            names += map(_host, dict.fromkeys((principal.server_name, *hosts, *LOOPBACK)))
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(digital_signature=True), True),
            (x509.ExtendedKeyUsage(purposes), False),
            (x509.SubjectAlternativeName(names), False),
            (own, False),
        ):
            builder = builder.add_extension(extension, critical)
        signed = builder.sign(self.key, hashes.SHA256())
        return Issued(signed.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _subject(name: str) -> x509.Name:
    shown = name[:COMMON_NAME_CHARACTERS_MAX]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, shown)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
