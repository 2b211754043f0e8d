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
    """What lies where credentials of one holder are looked for."""

    trouble: str = ""
    """Why they cannot be used at all, in words; the fields below say nothing then."""
    principal: Principal | None = None
    """Who they are of; None when no name of a fleet is in it."""
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
    """Whose key signs now; None: there is none that can be used."""
    coming: Authority | None = None
    """Whose key will sign once everybody trusts it; None: none is to."""
    trusted: Mapping[str, Authority] = field(default_factory=dict)
    """By fingerprint, those that everybody is to trust."""
    trouble: str = ""
    """Why what lies there cannot be used, in words; empty: it can, or nothing was ever made."""
    is_new: bool = False
    """Nothing lies there."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The issuer of cert-manager that the spec names."""

    name: str
    """As people write it, `ClusterIssuer corporate`."""
    trouble: str = ""
    """Why it signs nothing, in words; empty: it is ready."""
    is_there: bool = True
    """Somebody has made it."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Holder's name -> what cert-manager says of its Certificate that is not ready."""


@dataclass(frozen=True, slots=True)
class TlsView:
    """Everything of one cluster."""

    hosts: Mapping[Principal, tuple[str, ...]]
    """Who is to have a certificate, and by which names they are dialled inside."""
    certificates: Mapping[Principal, Certificate] = field(default_factory=dict)
    """What each has; one that is not here has nothing."""
    places: Mapping[Principal, str] = field(default_factory=dict)
    """Where people find what each has: `Secret demo-bookie-0-tls`."""
    authorities: Authorities = Authorities()
    """Of the operator; empty where an issuer signs."""
    issuer: Issuer | None = None
    """None: the operator signs itself."""
    deciding: Mapping[str, Principal] = field(default_factory=dict)
    """Who decides about a loss, by the name in the task -> whose certificate the job shows."""
    spreads_within: timedelta = timedelta()
    """How long what was written takes until every process reads it."""
    denied: str = ""
    """Why nothing could be looked at, in the platform's words; empty: it could."""


def short_name(principal: Principal) -> str:
    """How people call a holder: a bookie by its id, another one by its role."""
    return principal.name if principal.role is Role.BOOKIE else principal.role.value
