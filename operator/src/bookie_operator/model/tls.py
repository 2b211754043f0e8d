"""TLS of a cluster: who signs its certificates, for how long, and what the bookies' ports accept.

`Tls` is the wanted state in the spec. `TlsStatus` is what the planner concluded, and its only
memory of a roll-over of authorities or of a change from plain to TLS.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints, model_validator

from bookie_operator.model.base import Resource, ShortText, StatusPart, rule

CERT_MANAGER: Final = "cert-manager.io"
CERTIFICATES_MAX: Final = 128
AUTHORITIES_MAX: Final = 8


class TlsMode(StrEnum):
    """Whether the ports of bookies accept TLS, plain connections, or both."""

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
    """`Issuer`, in the cluster's namespace, or `ClusterIssuer`."""
    group: ShortText = CERT_MANAGER
    """API group of the issuer; set it for issuers that cert-manager itself does not provide."""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


class Tls(Resource):
    """Certificates of the cluster, and whether clients need one."""

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
    """`Off`: ports do not use TLS; `Accepted`: they accept connections with and without TLS;
    `Required`: only with TLS. Between Off and Required, the operator by itself uses Accepted as a
    step, bookie after bookie."""
    issuer: CertificateIssuer | None = None
    """Issuer of cert-manager that signs the certificates. Absent: the operator makes an authority
    of its own for this cluster. It can change only while `mode` is Off."""
    lifetime_days: Annotated[int, Field(ge=2, le=825)] = 90
    """How many days a certificate is valid."""
    renew_before_days: Annotated[int, Field(ge=1, le=824)] = 30
    """How many days before its end a certificate is renewed."""
    authority_days: Annotated[int, Field(ge=30, le=7300)] = 1825
    """How many days the operator's own authority is valid. A new one takes over before its end, and
    both are trusted meanwhile. Without effect if `issuer` is set."""
    http: bool = False
    """True: the bookies' port for metrics and health uses TLS too."""

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
    """Every process gets the new authority to trust beside the old one; it does not sign yet."""
    SIGNING = "Signing"
    """The new authority signs again what the old one had signed."""


class AuthorityStatus(StatusPart):
    """An authority that is trusted."""

    fingerprint: ShortText
    """SHA-256 of its certificate, hexadecimal."""
    ends: AwareDatetime
    """Until when it is valid."""
    signs: bool = False
    """Whether this authority signs certificates now."""


class CertificateStatus(StatusPart):
    """A certificate of one process of the cluster."""

    name: ShortText
    """Whose certificate it is: a bookie's id, or `operator`, `job`, `client`, `person`,
    `zookeeper`."""
    ends: AwareDatetime
    """Until when it is valid."""


class DecisionStatus(StatusPart):
    """A certificate that was made for the job of one decision of a person."""

    job: ShortText
    """Name of the job."""
    by: ShortText
    """Who decided, as the task says."""


def _by_keys(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class TlsStatus(StatusPart):
    """Certificates and TLS when the operator last looked; absent while there are no
    certificates."""

    mode: ShortText = TlsMode.OFF.value
    """The mode that bookies should have now; between Off and Required it is Accepted."""
    clients: ShortText = TlsMode.OFF.value
    """How the operator and its jobs connect to bookies; with `Accepted` they connect without TLS to
    a bookie that does not use it yet."""
    rollover: ShortText = ""
    """Step from one authority to the next, `Trusting` or `Signing`; empty = there is only one."""
    since: AwareDatetime | None = None
    """When every process was found to have what this step of the roll-over gives it; absent before
    that, and without a roll-over."""
    authorities: Annotated[
        tuple[AuthorityStatus, ...],
        Field(max_length=AUTHORITIES_MAX, json_schema_extra=_by_keys("fingerprint")),
    ] = ()
    """Authorities that are trusted; two while one takes over from the other."""
    certificates: Annotated[
        tuple[CertificateStatus, ...],
        Field(max_length=CERTIFICATES_MAX, json_schema_extra=_by_keys("name")),
    ] = ()
    """Certificates that can be read, in the order in which they end."""
    decision: DecisionStatus | None = None
    """The certificate for a decision that is being carried out, until it is deleted; absent: there
    is none."""
