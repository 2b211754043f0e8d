"""The certificate for one decision: made when its job can begin, and deleted once the job has
ended.

All other jobs share a certificate with which no bookie accepts a person's decision about a loss. If
the person has a certificate of their own, the job uses that, and none is made or deleted. Only one
decision is carried out at a time, so there is at most one such certificate; the status says whose,
before it is made.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bookie.tls.principals import Principal, Role

from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.tls import DecisionStatus, TlsMode
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import CertificateAction, IssueCertificate, WithdrawCertificate
from bookie_operator.plan.certificate_troubles import trouble_of
from bookie_operator.plan.certificates import Certificates
from bookie_operator.plan.deadlines import deadline_s
from bookie_operator.plan.passes import Pass
from bookie_operator.tls_view import TlsView

SLACK: Final = timedelta(hours=1)
"""What a certificate lasts beyond the longest run of its job, which is yet to begin."""


@dataclass(frozen=True, slots=True)
class DecisionCertificate:
    """What the job of a decision is to show, and what is to be done for that."""

    holder: Principal | None = None
    """The principal that the job shows; None without TLS, when no bookie asks."""
    lacks: str = ""
    """Why the job cannot begin yet; empty: it can."""
    actions: tuple[CertificateAction, ...] = ()
    status: DecisionStatus | None = None
    """What the status is to remember; None: nothing that would have to be taken away."""


def decision_lifetime(spec: ClusterSpec) -> timedelta:
    """How long its certificate is valid."""
    return _longest_run(spec) + SLACK


def _longest_run(spec: ClusterSpec) -> timedelta:
    return timedelta(seconds=deadline_s(spec, JobKind.ACCEPT_LOSS))


NONE_NEEDED: Final = DecisionCertificate()


def certificate_for(pass_: Pass, made: Certificates, job: str, by: str) -> DecisionCertificate:
    """What this job shows, by the word of `by`."""
    if made.status is None or made.status.clients == TlsMode.OFF.value:
        return NONE_NEEDED
    view = pass_.observed.tls
    if view is None or view.denied or by not in view.deciding:
        why = view.denied if view is not None and view.denied else "not looked at yet"
        return DecisionCertificate(lacks=f"no certificate is known: {why}")
    holder = view.deciding[by]
    longest = _longest_run(pass_.spec)
    trouble = trouble_of(view, holder, now=pass_.now, reported_before=longest)
    is_own = holder.role is Role.PERSON
    status = None if is_own else DecisionStatus(job=job, by=by)
    if trouble is None:
        return DecisionCertificate(holder, status=status)
    actions = () if is_own else _issued(pass_, view, holder, trouble.message)
    return DecisionCertificate(holder, trouble.message, actions, status)


def _issued(
    pass_: Pass, view: TlsView, holder: Principal, why: str
) -> tuple[IssueCertificate, ...]:
    """The action that signs it; empty if an issuer signs, which the platform asks, or if nobody
    can."""
    signing = view.authorities.signing
    if view.issuer is not None or signing is None or signing.not_after <= pass_.now:
        return ()
    lifetime = decision_lifetime(pass_.spec)
    return (IssueCertificate(holder, (), lifetime, signing.fingerprint, f"a decision: {why}"),)


def left_behind(pass_: Pass, made: Certificates, waiting: Collection[str]) -> DecisionCertificate:
    """What is to be taken away: `lacks` says what is left. `waiting`: jobs that are yet to
    begin."""
    held = pass_.previous.tls.decision if pass_.previous.tls is not None else None
    if held is None or made.status is None:
        return NONE_NEEDED
    jobs = {job.name: job.running for job in pass_.observed.jobs}
    if jobs.get(held.job, held.job in waiting):
        return DecisionCertificate(status=held)  # it is in use, or about to be
    view = pass_.observed.tls
    if view is None or view.denied or held.by not in view.deciding:
        return DecisionCertificate(lacks=f"the certificate of {held.job} is unseen", status=held)
    holder = view.deciding[held.by]
    if holder.role is Role.PERSON or holder not in view.certificates:
        return NONE_NEEDED
    place = view.places.get(holder, "")
    withdrawn = WithdrawCertificate(holder, f"{held.job} is over")
    return DecisionCertificate(holder, f"{place} is yet to be taken away", (withdrawn,), held)
