"""Replaces the operator's own authority by another one so that all processes always trust each
other. Pure.

1. A new authority is made, and nothing is signed by it. Everybody's `ca.crt` gets both.
2. Once all have both, and had time to read them, the new one signs: the old key is dropped, and
   what the old one signed is signed again.
3. Once all have that, and had time, the old one is trusted no more.

Each step depends only on what is observed. `TlsStatus` remembers only since when all processes have
what the step gives them. A lost authority is replaced in the same way: existing certificates are
trusted until the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bookie.tls.principals import Principal

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.tls import Rollover, Tls, TlsStatus
from bookie_operator.plan.actions import (
    CertificateAction,
    DropAuthorities,
    MakeAuthority,
    SignWith,
    SpreadTrust,
)
from bookie_operator.plan.certificate_troubles import (
    AUTHORITY_EXPIRED,
    AUTHORITY_LOST,
    Trouble,
    day,
)
from bookie_operator.tls_view import Authority, Certificate, TlsView


@dataclass(frozen=True, slots=True)
class Rolled:
    """The step that a roll-over has reached, and the next actions."""

    signing: Authority | None = None
    """The authority that signs now; None: none can."""
    actions: tuple[CertificateAction, ...] = ()
    rollover: str = ""
    """`TlsStatus.rollover`"""
    since: datetime | None = None
    """`TlsStatus.since`"""
    troubles: tuple[Trouble, ...] = ()


def rolled(view: TlsView, tls: Tls, previous: TlsStatus, *, now: datetime) -> Rolled:
    """The next step of the operator's own authority."""
    found, usable = view.authorities, _usable(view)
    if found.signing is None and found.coming is None:
        return _in_place_of_none(view, tls, usable)
    if found.coming is not None:
        return _trusting(view, found.coming, previous, now=now)
    assert found.signing is not None
    if len(found.trusted) > 1:
        return _signing(view, found.signing, previous, now=now)
    lasts = found.signing.not_after - now
    actions: tuple[CertificateAction, ...] = _spread(view, usable)
    if lasts < timedelta(days=tls.lifetime_days):
        actions = (_make(tls, keeps=found.trusted, signs=False),)
    troubles: tuple[Trouble, ...] = ()
    if lasts <= timedelta():
        why = f"the authority has been expired since {day(found.signing.not_after)}"
        troubles = (Trouble(AUTHORITY_EXPIRED, "", why),)
    return Rolled(found.signing, actions, troubles=troubles)


def _usable(view: TlsView) -> dict[Principal, Certificate]:
    return {
        principal: found
        for principal in view.hosts
        if (found := view.certificates.get(principal)) is not None and not found.trouble
    }


def _make(tls: Tls, *, keeps: Iterable[str], signs: bool) -> MakeAuthority:
    return MakeAuthority(timedelta(days=tls.authority_days), frozenset(keeps), signs)


def _in_place_of_none(view: TlsView, tls: Tls, usable: dict[Principal, Certificate]) -> Rolled:
    """There is no authority: the first, or one in place of a lost one."""
    keeps = {one for found in usable.values() if found.signer for one in found.trusted}
    found = view.authorities
    troubles: tuple[Trouble, ...] = ()
    if keeps or found.trouble:
        why = found.trouble or "it is not there"
        message = f"the authority cannot sign: {why}; another one takes over"
        troubles = (Trouble(AUTHORITY_LOST, "", message),)
    return Rolled(actions=(_make(tls, keeps=keeps, signs=not keeps),), troubles=troubles)


def _trusting(view: TlsView, coming: Authority, previous: TlsStatus, *, now: datetime) -> Rolled:
    found, usable = view.authorities, _usable(view)
    lacking = _spread(view, usable)
    since = _since(bool(lacking), Rollover.TRUSTING, previous, now=now)
    actions: tuple[CertificateAction, ...] = lacking
    if since is not None and now - since >= view.spreads_within:
        actions = (SignWith(coming.fingerprint),)
    return Rolled(found.signing, actions, Rollover.TRUSTING.value, since)


def _signing(view: TlsView, signing: Authority, previous: TlsStatus, *, now: datetime) -> Rolled:
    usable = _usable(view)
    others = [
        principal
        for principal in view.hosts
        if principal not in usable or usable[principal].signer != signing.fingerprint
    ]
    actions: Sequence[CertificateAction] = _spread(view, usable)
    since = _since(bool(others or actions), Rollover.SIGNING, previous, now=now)
    if since is not None and now - since >= view.spreads_within:
        actions = (DropAuthorities(frozenset({signing.fingerprint})),)
    return Rolled(signing, tuple(actions), Rollover.SIGNING.value, since)


def _spread(view: TlsView, usable: dict[Principal, Certificate]) -> tuple[SpreadTrust, ...]:
    """Actions for holders with a working certificate that do not trust all the right
    authorities."""
    wanted = frozenset(view.authorities.trusted)
    return tuple(
        SpreadTrust(principal, wanted)
        for principal, found in usable.items()
        if found.trusted != wanted
    )


def _since(
    is_lacking: bool, step: Rollover, previous: TlsStatus, *, now: datetime
) -> datetime | None:
    """Since when all processes have what this step gives; None: not all have it."""
    if is_lacking:
        return None
    known = previous.since if previous.rollover == step.value else None
    return known or whole_milliseconds(now)
