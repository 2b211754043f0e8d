"""What is wrong with a certificate, in one word and in a sentence. Pure."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bookie.tls.principals import Principal, Role

from bookie_operator.tls_view import Certificate, Issuer, TlsView, short_name

MISSING: Final = "CertificateMissing"
UNUSABLE: Final = "CertificateUnusable"
EXPIRED: Final = "CertificateExpired"
EXPIRING: Final = "CertificateExpiring"
CLOCK_OFF: Final = "ClockOff"
WRONG_NAME: Final = "WrongName"
WRONG_AUTHORITY: Final = "WrongAuthority"
AUTHORITY_LOST: Final = "AuthorityLost"
AUTHORITY_EXPIRED: Final = "AuthorityExpired"
ISSUER_MISSING: Final = "IssuerMissing"
ISSUER_NOT_READY: Final = "IssuerNotReady"
NOT_ISSUED: Final = "NotIssued"
_SERVERS: Final = (Role.BOOKIE, Role.ZOOKEEPER)


class Trouble(NamedTuple):
    """Something that is wrong, and whose it is."""

    reason: str
    """One word, which programs may read."""
    name: str
    """Whose certificate it is, for people; empty: the authority or the issuer itself."""
    message: str
    """The same as a sentence."""


def trouble_of(
    view: TlsView,
    principal: Principal,
    hosts: Sequence[str] = (),
    *,
    now: datetime,
    reported_before: timedelta,
) -> Trouble | None:
    """What is wrong with what this holder has, the worst of it; None: nothing is.

    `hosts`: by which it is dialled, beside its own name. `reported_before`: so long before its end
    a certificate should have been renewed long since.
    """
    found = view.certificates.get(principal)
    place, name = view.places.get(principal, ""), short_name(principal)
    if found is None:
        return Trouble(MISSING, name, f"{place} is not there")
    reason, why = _wrong(found, principal, hosts, now=now, reported_before=reported_before)
    return Trouble(reason, name, f"{place} {why}") if reason else None


def _wrong(
    found: Certificate,
    principal: Principal,
    hosts: Sequence[str],
    *,
    now: datetime,
    reported_before: timedelta,
) -> tuple[str, str]:
    """The word and why; empty: nothing is wrong."""
    lacking = [host for host in names_needed(principal, hosts) if host not in found.hosts]
    if found.trouble:
        return UNUSABLE, f"cannot be used: {found.trouble}"
    if found.principal != principal:
        return WRONG_NAME, f"is of {found.principal or 'nobody of a fleet'}, not of {principal}"
    if not found.signer:
        return WRONG_AUTHORITY, "is signed by none of the authorities in its ca.crt"
    if found.not_before > now:
        return CLOCK_OFF, (
            f"is valid from {day(found.not_before)} on, and it is {day(now)} here: the clock of "
            "whoever signed it is ahead, or the operator's is behind"
        )
    if found.not_after <= now:
        return EXPIRED, f"has been expired since {day(found.not_after)}"
    if lacking:
        return WRONG_NAME, f"is not valid for {', '.join(lacking)}"
    if found.not_after - now < reported_before:
        return EXPIRING, f"ends at {day(found.not_after)}, and nobody has renewed it"
    return "", ""


def names_needed(principal: Principal, hosts: Sequence[str]) -> list[str]:
    """What a server's certificate must be valid for: its own name, and what it is dialled by."""
    if principal.role not in _SERVERS:
        return []
    return [principal.server_name, *map(normal, hosts)]


def normal(host: str) -> str:
    """A host as in a certificate: addresses are written in one form."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def issuer_troubles(issuer: Issuer) -> list[Trouble]:
    """What cert-manager says of the issuer and of what it does not sign."""
    if not issuer.is_there:
        return [Trouble(ISSUER_MISSING, "", f"{issuer.name} is not there: {issuer.trouble}")]
    if issuer.trouble:
        return [Trouble(ISSUER_NOT_READY, "", f"{issuer.name} is not ready: {issuer.trouble}")]
    return [
        Trouble(NOT_ISSUED, name, f"{issuer.name} does not sign: {why}")
        for name, why in issuer.refused.items()
    ]


def day(moment: datetime) -> str:
    """A time as messages have it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
