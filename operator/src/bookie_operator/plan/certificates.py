"""Certificates: who has which, what is to be issued or renewed, and whether a bookie can have TLS.

With the operator's own authority what is missing or wrong is issued again at once. With an issuer
of cert-manager the operator asks and tells, and signs nothing. What runs is never stopped for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bookie.hosts import bare
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.external import External, ExternalType
from bookie_operator.model.tls import (
    AUTHORITIES_MAX,
    CERTIFICATES_MAX,
    AuthorityStatus,
    CertificateStatus,
    DecisionStatus,
    Tls,
    TlsMode,
    TlsStatus,
)
from bookie_operator.plan.actions import CertificateAction, IssueCertificate, Refusal
from bookie_operator.plan.authorities import Rolled, rolled
from bookie_operator.plan.certificate_troubles import (
    EXPIRED,
    MISSING,
    UNUSABLE,
    Trouble,
    issuer_troubles,
    names_needed,
    normal,
    trouble_of,
)
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.tls_modes import all_taken, clients_now
from bookie_operator.tls_view import Authority, TlsView, short_name

PENDING: Final = "CertificatePending"
"""Predicate: what cannot be started before it has a certificate."""
RENEWAL: Final = "it is time"
NEW_AUTHORITY: Final = "another authority signs"
GAIN_MIN: Final = timedelta(hours=1)
"""A renewal has to bring at least so much: what an authority signs ends with it."""
_STOPPING: Final = (MISSING, UNUSABLE, EXPIRED)
"""Troubles with which nobody can serve or ask."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What a pass makes of the certificates."""

    actions: tuple[CertificateAction, ...] = ()
    status: TlsStatus | None = None
    """The certificates; None: TLS is neither wanted nor in use."""
    troubles: tuple[Trouble, ...] = ()
    mends: bool = False
    """The operator itself does something about the troubles."""
    denied: str = ""
    """Why nothing is known, in the platform's words; empty: it is."""

    def with_decision(self, decision: DecisionStatus | None) -> "Certificates":
        """The same; its status remembers this certificate of a decision."""
        if self.status is None or self.status.decision == decision:
            return self
        return replace(self, status=self.status.model_copy(update={"decision": decision}))


NO_CERTIFICATES: Final = Certificates()
"""The plan for a cluster without TLS."""


def certificates(pass_: Pass) -> Certificates:
    """What is to be done about them, and what people should know."""
    tls, before = pass_.spec.tls, pass_.previous.tls or TlsStatus()
    clients = clients_now(tls.mode, all_taken(pass_.observed, pass_.previous))
    if pass_.cluster.spec.tls.mode is TlsMode.OFF and clients is TlsMode.OFF:
        return NO_CERTIFICATES
    modes = {"mode": tls.mode.value, "clients": clients.value}
    view = pass_.observed.tls
    if view is None or view.denied:
        status = before.model_copy(update=modes)
        return Certificates(status=status, denied=view.denied if view else "not looked at yet")
    hosts = hosts_of(view, pass_)
    troubles = _troubles(view, hosts, tls, now=pass_.now)
    step = Rolled() if view.issuer else rolled(view, tls, before, now=pass_.now)
    issued = _issued(view, hosts, step, troubles, tls, now=pass_.now)
    mine = issuer_troubles(view.issuer) if view.issuer else step.troubles
    status = TlsStatus(
        mode=tls.mode.value,
        clients=clients.value,
        rollover=step.rollover,
        since=step.since,
        authorities=_authorities(view),
        certificates=_ends(view),
    )
    is_ours = view.issuer is None and not pass_.spec.paused
    actions = _in_order(step, issued) if is_ours else ()
    return Certificates(actions, status, (*mine, *troubles), is_ours)


def hosts_of(view: TlsView, pass_: Pass) -> dict[Principal, tuple[str, ...]]:
    """Who needs a certificate for what: also the names by which clients outside reach a bookie, and
    the cluster's own ZooKeeper."""
    outside = {
        bookie_id: advertised_hosts(one.process.advertised)
        for bookie_id, one in pass_.observed.bookies.items()
        if one.process is not None
    }
    on_nodes = _nodes_of(pass_.spec.external, outside)
    return {
        principal: tuple(dict.fromkeys([*map(normal, hosts), *_more(principal, outside, on_nodes)]))
        for principal, hosts in view.hosts.items()
    }


def _more(
    principal: Principal, outside: Mapping[BookieId, Sequence[str]], on_nodes: Sequence[str]
) -> Sequence[str]:
    """More names under which outside clients reach this bookie, besides those its platform
    knows."""
    if principal.role is Role.ZOOKEEPER:
        return on_nodes
    return outside.get(BookieId(principal.name), ()) if principal.role is Role.BOOKIE else ()


def _nodes_of(external: External | None, outside: Mapping[BookieId, Sequence[str]]) -> list[str]:
    """Hosts at whose ports clients outside reach a ZooKeeper: the nodes of bookies, in order."""
    if external is None or not external.zookeeper or external.type is not ExternalType.NODE_PORT:
        return []
    return sorted({host for hosts in outside.values() for host in hosts})


def advertised_hosts(addresses: str) -> list[str]:
    """Hosts of `stock=host:port run=host:port`."""
    parts = (part.partition("=")[2].rpartition(":")[0] for part in addresses.split())
    return [normal(bare(host)) for host in parts if host]


def _troubles(
    view: TlsView, hosts: dict[Principal, tuple[str, ...]], tls: Tls, *, now: datetime
) -> list[Trouble]:
    early = timedelta(days=tls.renew_before_days) / 2
    found = (
        trouble_of(view, principal, names, now=now, reported_before=early)
        for principal, names in hosts.items()
    )
    return [one for one in found if one is not None]


def _issued(
    view: TlsView,
    hosts: dict[Principal, tuple[str, ...]],
    step: Rolled,
    troubles: Sequence[Trouble],
    tls: Tls,
    *,
    now: datetime,
) -> list[IssueCertificate]:
    """What the authority that signs now is to sign: what is missing, wrong, or soon to end."""
    signing = step.signing
    if signing is None or signing.not_after <= now:
        return []
    words = {one.name: f"{one.reason}: {one.message}" for one in troubles}
    lifetime = timedelta(days=tls.lifetime_days)
    made = []
    for principal, names in hosts.items():
        why = words.get(short_name(principal)) or _due(view, principal, signing, tls, now=now)
        if why:
            asked = tuple(names) if names_needed(principal, names) else ()
            issue = IssueCertificate(principal, asked, lifetime, signing.fingerprint, why)
            made.append(issue)
    return made


def _due(
    view: TlsView, principal: Principal, signing: Authority, tls: Tls, *, now: datetime
) -> str:
    """Why something that works is signed again; empty: it is not."""
    found = view.certificates[principal]
    if found.signer != signing.fingerprint:
        return NEW_AUTHORITY
    ends = min(now + timedelta(days=tls.lifetime_days), signing.not_after)
    is_late = found.not_after - now < timedelta(days=tls.renew_before_days)
    return RENEWAL if is_late and ends - found.not_after >= GAIN_MIN else ""


def _in_order(step: Rolled, issued: Iterable[IssueCertificate]) -> tuple[CertificateAction, ...]:
    """All actions; a holder who gets a new certificate gets the authorities with it."""
    found = {one.principal: one for one in issued}
    rest = [one for one in step.actions if getattr(one, "principal", None) not in found]
    return (*rest, *found.values())


def _authorities(view: TlsView) -> tuple[AuthorityStatus, ...]:
    signing = view.authorities.signing
    found = sorted(view.authorities.trusted.values(), key=lambda one: one.not_after)
    return tuple(
        AuthorityStatus(
            fingerprint=one.fingerprint,
            ends=whole_milliseconds(one.not_after),
            signs=signing is not None and signing.fingerprint == one.fingerprint,
        )
        for one in found[-AUTHORITIES_MAX:]
    )


def _ends(view: TlsView) -> tuple[CertificateStatus, ...]:
    found = [
        CertificateStatus(name=short_name(principal), ends=whole_milliseconds(one.not_after))
        for principal, one in view.certificates.items()
        if principal in view.hosts and not one.trouble
    ]
    return tuple(sorted(found, key=lambda one: (one.ends, one.name))[:CERTIFICATES_MAX])


def lacks_certificate(pass_: Pass, bookie_id: BookieId, action: str) -> Refusal | None:
    """Why a bookie is not started with TLS now: it, or who has to reach it then, lacks what it
    takes."""
    tls = pass_.spec.tls
    if tls.mode is TlsMode.OFF:
        return None
    view = pass_.observed.tls
    if view is None or view.denied:
        why = f"no certificate is known: {view.denied if view else 'not looked at yet'}"
        return Refusal(action, PENDING, why, bookie=bookie_id)
    needed = [
        principal
        for principal in view.hosts
        if principal.role in (Role.OPERATOR, Role.JOB) or principal.name == bookie_id
    ]
    for principal in needed:
        found = trouble_of(view, principal, now=pass_.now, reported_before=timedelta())
        if found is not None and found.reason in _STOPPING:
            return Refusal(action, PENDING, found.message, bookie=bookie_id)
    return None
