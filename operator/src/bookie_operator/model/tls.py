"""TLS of a cluster: who signs its certificates, for how long, and what the bookies' ports take.

The wanted half stands in the spec; `TlsStatus` is what the planner concluded, and its only memory
of a roll-over or of a way from plain to TLS.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints, model_validator

from bookie_operator.model.base import Resource, ShortText, StatusPart, rule

CERT_MANAGER: Final = "cert-manager.io"
CERTIFICATES_MAX: Final = 128
AUTHORITIES_MAX: Final = 8


class TlsMode(StrEnum):
    """What the ports of bookies take."""

    OFF = "Off"
    ACCEPTED = "Accepted"
    REQUIRED = "Required"


class IssuerKind(StrEnum):
    ISSUER = "Issuer"
    CLUSTER_ISSUER = "ClusterIssuer"


class CertificateIssuer(Resource):
    """An issuer of cert-manager."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """Name of the issuer."""
    kind: IssuerKind = IssuerKind.ISSUER
    """`Issuer`, one of the cluster's namespace, or `ClusterIssuer`."""
    group: ShortText = CERT_MANAGER
    """API group of the issuer; another than cert-manager's own for an issuer of somebody else's."""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


class Tls(Resource):
    """Certificates of the cluster, and who is let in without one."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "self.renewBeforeDays < self.lifetimeDays",
                    "tls.renewBeforeDays must be less than tls.lifetimeDays",
                ),
                rule(
                    "self.authorityDays >= 2 * self.lifetimeDays",
                    "tls.authorityDays must be at least twice tls.lifetimeDays: an authority has "
                    "to outlive what it signs",
                ),
                rule(
                    "self.mode == 'Off' || oldSelf.mode == 'Off' || "
                    "(has(self.issuer) == has(oldSelf.issuer) && "
                    "(!has(self.issuer) || self.issuer == oldSelf.issuer))",
                    "tls.issuer can change only while tls.mode is Off: nobody would trust both",
                ),
            ]
        }
    )

    mode: TlsMode = TlsMode.REQUIRED
    """`Off`: ports are plain; `Accepted`: they take TLS and plain; `Required`: TLS alone. From Off
    to Required the operator goes by itself by way of Accepted, bookie after bookie, and back."""
    issuer: CertificateIssuer | None = None
    """Who signs: an issuer of cert-manager. Absent: a small authority that the operator makes and
    keeps for this cluster alone. It can change only while `mode` is Off."""
    lifetime_days: Annotated[int, Field(ge=2, le=825)] = 90
    """How long a certificate is valid."""
    renew_before_days: Annotated[int, Field(ge=1, le=824)] = 30
    """How long before its end a certificate is renewed."""
    authority_days: Annotated[int, Field(ge=30, le=7300)] = 1825
    """How long the operator's own authority is valid; a new one takes over in time, and both are
    trusted meanwhile. Without effect with `issuer`."""
    http: bool = False
    """True: the bookies' port of metrics and health speaks TLS as well."""

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.renew_before_days >= self.lifetime_days:
            raise ValueError(
                f"renewBeforeDays: found {self.renew_before_days}, expected less than lifetimeDays "
                f"({self.lifetime_days})"
            )
        if self.authority_days < 2 * self.lifetime_days:
            raise ValueError(
                f"authorityDays: found {self.authority_days}, expected at least twice lifetimeDays "
                f"({self.lifetime_days}): an authority has to outlive what it signs"
            )
        return self


def tls_mistakes(old: Tls, new: Tls) -> list[str]:
    """Why a live cluster may not go from `old` to `new`; CEL has the same."""
    if TlsMode.OFF in (old.mode, new.mode) or old.issuer == new.issuer:
        return []
    found = new.issuer or "the operator's own authority"
    return [
        f"spec.tls.issuer: found {found}, expected {old.issuer or 'none'} as long as tls.mode is "
        "not Off: nobody would trust both"
    ]


class Rollover(StrEnum):
    """A step from one authority to the next."""

    TRUSTING = "Trusting"
    """Everybody is given the new one to trust, beside the old; nothing is signed by it yet."""
    SIGNING = "Signing"
    """What the old one signed is signed by the new one."""


class AuthorityStatus(StatusPart):
    """An authority that is trusted."""

    fingerprint: ShortText
    """SHA-256 of its certificate, hexadecimal."""
    ends: AwareDatetime
    """Until when it is valid."""
    signs: bool = False
    """Certificates are signed by this one now."""


class CertificateStatus(StatusPart):
    """A certificate of one of the cluster."""

    name: ShortText
    """Whose it is: a bookie's id, or `operator`, `job`, `client`, `person`, `zookeeper`."""
    ends: AwareDatetime
    """Until when it is valid."""


class DecisionStatus(StatusPart):
    """A certificate that was made for the job of one decision of a person."""

    job: ShortText
    """Name of the job."""
    by: ShortText
    """Who decided, as the task says it."""


def _by_keys(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class TlsStatus(StatusPart):
    """Certificates and TLS as the last look found them; absent while nobody has any."""

    mode: ShortText = TlsMode.OFF.value
    """What bookies are to run with now: on the way from Off to Required it is Accepted."""
    clients: ShortText = TlsMode.OFF.value
    """How the operator and its jobs talk to bookies: `Accepted` lets them talk plain to a bookie
    that has no TLS yet."""
    rollover: ShortText = ""
    """Step from one authority to the next, `Trusting` or `Signing`; empty = there is only one."""
    since: AwareDatetime | None = None
    """When everybody was found to have what this step of the roll-over gives them; absent before
    that, and without one."""
    authorities: Annotated[
        tuple[AuthorityStatus, ...],
        Field(max_length=AUTHORITIES_MAX, json_schema_extra=_by_keys("fingerprint")),
    ] = ()
    """Authorities that are trusted: two while one takes over from the other."""
    certificates: Annotated[
        tuple[CertificateStatus, ...],
        Field(max_length=CERTIFICATES_MAX, json_schema_extra=_by_keys("name")),
    ] = ()
    """Certificates that can be read, the one that ends first before the others."""
    decision: DecisionStatus | None = None
    """The certificate of a decision that is being carried out, until it was taken away; absent:
    there is none."""
