"""Certificates as a platform found them, as frozen values: what the planner knows of TLS.

Names, times and fingerprints only. Keys stay with the platform, which reads them from secrets or
folders and signs there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bookie.tls.principals import Principal, Role

EVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority's certificate."""

    fingerprint: str
    """SHA-256 of its certificate, hexadecimal: its name everywhere."""
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate that was found for one holder."""

    trouble: str = ""
    """Why the credentials cannot be used at all, in words; then the fields below are empty."""
    principal: Principal | None = None
    """Whose certificate it is; None if it has no name of a fleet."""
    hosts: frozenset[str] = frozenset()
    """DNS names and addresses that it is valid for."""
    not_before: datetime = EVER
    not_after: datetime = EVER
    signer: str = ""
    """Fingerprint of the authority that signed it; empty: none that its holder trusts."""
    trusted: frozenset[str] = frozenset()
    """Fingerprints of the authorities that its holder trusts."""


@dataclass(frozen=True, slots=True)
class Authorities:
    """The operator's own authority of one cluster, and the one that takes over from it."""

    signing: Authority | None = None
    """The authority that signs now; None: none can be used."""
    coming: Authority | None = None
    """The authority that will sign once everybody trusts it; None: there is none."""
    trusted: Mapping[str, Authority] = field(default_factory=dict)
    """Authorities that everybody should trust, by fingerprint."""
    trouble: str = ""
    """Why the stored authority cannot be used, in words; empty: it can, or none was ever made."""
    is_new: bool = False
    """Whether no authority is stored."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The issuer of cert-manager that the spec names."""

    name: str
    """Kind and name, such as `ClusterIssuer corporate`."""
    trouble: str = ""
    """Why it signs nothing, in words; empty: it is ready."""
    is_there: bool = True
    """Whether the issuer exists."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Holder's name -> why cert-manager says that its Certificate is not ready."""


@dataclass(frozen=True, slots=True)
class TlsView:
    """All certificates and authorities of one cluster."""

    hosts: Mapping[Principal, tuple[str, ...]]
    """Who should have a certificate, and under which names they are reached inside the cluster."""
    certificates: Mapping[Principal, Certificate] = field(default_factory=dict)
    """The certificate of each holder that has one."""
    places: Mapping[Principal, str] = field(default_factory=dict)
    """Where each holder's credentials are stored, for people: `Secret demo-bookie-0-tls`."""
    authorities: Authorities = Authorities()
    """The operator's own authorities; empty if an issuer signs."""
    issuer: Issuer | None = None
    """The issuer; None: the operator signs itself."""
    deciding: Mapping[str, Principal] = field(default_factory=dict)
    """Name of a person in a task about a loss -> whose certificate the task's job shows."""
    spreads_within: timedelta = timedelta()
    """How long it takes until every process reads what was written."""
    denied: str = ""
    """Why the certificates could not be read, in the platform's words; empty: they could."""


def short_name(principal: Principal) -> str:
    """A holder's short name for people: a bookie's id, otherwise the role."""
    return principal.name if principal.role is Role.BOOKIE else principal.role.value
