"""Reads credentials: from the bytes of files to what the planner needs. Pure.

If a file cannot be read, the result says why and no error is raised: a person may have written it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bookie.tls.credentials import MALFORMED
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY
from bookie.tls.principals import Principal
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bookie_operator.tls_view import Authorities, Authority, Certificate

NEXT_CERTIFICATE: Final = "next.crt"
NEXT_KEY: Final = "next.key"
"""File names of the authority that will take over."""
FINGERPRINT_CHARACTERS: Final = 40
Files = Mapping[str, bytes]
"""Content by name; credentials have `bookie.tls.files.FILES`."""


def certificate_of(files: Files) -> Certificate:
    """The credentials of one holder, read from these files."""
    lacking = [name for name in (CERTIFICATE, KEY, AUTHORITIES) if not files.get(name)]
    if lacking:
        return Certificate(trouble=f"it has no {', '.join(lacking)}")
    try:
        chain = _certificates(CERTIFICATE, files[CERTIFICATE])
        trusted = _certificates(AUTHORITIES, files[AUTHORITIES])
        _check_key(KEY, files[KEY], chain[0])
        names = _names(chain[0])
    except ValueError as error:
        return Certificate(trouble=str(error))
    return Certificate(
        principal=Principal.from_names(names.get_values_for_type(x509.UniformResourceIdentifier)),
        hosts=frozenset(
            (
                *(name.lower() for name in names.get_values_for_type(x509.DNSName)),
                *map(str, names.get_values_for_type(x509.IPAddress)),
            )
        ),
        not_before=chain[0].not_valid_before_utc,
        not_after=chain[0].not_valid_after_utc,
        signer=_signer(chain, trusted),
        trusted=frozenset(map(fingerprint, trusted)),
    )


def authorities_of(files: Files | None) -> Authorities:
    """The operator's own authority, and the one that will take over; `files` None = there are
    none."""
    if files is None:
        return Authorities(is_new=True)
    try:
        trusted = {
            fingerprint(one): authority_of(one)
            for one in _certificates(AUTHORITIES, files.get(AUTHORITIES, b""))
        }
        signing = _with_key(files, CERTIFICATE, KEY)
        coming = _with_key(files, NEXT_CERTIFICATE, NEXT_KEY)
    except ValueError as error:
        return Authorities(trouble=str(error))
    unknown = [one for one in (signing, coming) if one and one.fingerprint not in trusted]
    if unknown:
        return Authorities(trouble=f"{AUTHORITIES} lacks the authority that signs")
    if signing is None and coming is None:
        return Authorities(trouble=f"it has no {CERTIFICATE}")
    return Authorities(signing, coming, trusted)


def authority_of(certificate: x509.Certificate) -> Authority:
    return Authority(
        fingerprint(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()[:FINGERPRINT_CHARACTERS]


def authorities_in(files: Files) -> dict[str, x509.Certificate]:
    """Authorities that these credentials trust, by fingerprint; none if the file cannot be read."""
    try:
        found = _certificates(AUTHORITIES, files.get(AUTHORITIES, b""))
    except ValueError:
        return {}
    return {fingerprint(one): one for one in found}


def _with_key(files: Files, certificate: str, key: str) -> Authority | None:
    """One of the authorities; None where neither half of it is there."""
    if not files.get(certificate) and not files.get(key):
        return None
    found = _certificates(certificate, files.get(certificate, b""))[0]
    _check_key(key, files.get(key, b""), found)
    return authority_of(found)


def _certificates(name: str, text: bytes) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(text)
        for one in found:
            _ = one.extensions, one.public_key()  # they are parsed when somebody asks
    except (*MALFORMED, UnsupportedAlgorithm) as error:
        raise ValueError(f"{name} holds no certificates as PEM") from error
    return found


def _check_key(name: str, text: bytes, certificate: x509.Certificate) -> None:
    """ValueError where it is not the certificate's; the key is in no message."""
    try:
        key = load_pem_private_key(text, None)
    except Exception as error:  # whatever a library says of a text that is no key
        raise ValueError(f"{name} holds no private key as PEM, without a password") from error
    if key.public_key() != certificate.public_key():
        raise ValueError(f"{name} is not the key of the certificate beside it")


def _names(leaf: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([x509.DNSName("")])


def _signer(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]) -> str:
    """The authority that the leaf leads to, by way of the other certificates in its file."""
    above, current = list(chain[1:]), chain[0]
    while True:
        for one in trusted:
            if _is_signed_by(current, one):
                return fingerprint(one)
        following = next((one for one in above if _is_signed_by(current, one)), None)
        if following is None:
            return ""
        above.remove(following)
        current = following


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
