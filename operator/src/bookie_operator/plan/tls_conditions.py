"""CertificatesValid and TlsInForce: whether certificates work, and what bookies take by now.

Both are absent from a cluster that has nothing to do with TLS. What they say changes with what
happens, not with the hours that a certificate has left.
"""

from typing import Final

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.certificate_troubles import MISSING, Trouble, day
from bookie_operator.plan.certificates import PENDING
from bookie_operator.plan.findings import Findings, Verdict
from bookie_operator.plan.tls_modes import farthest, taken_modes

NAMED_MAX: Final = 5
"""Certificates and bookies that a message names."""
_STEPS: Final = {
    TlsMode.OFF: "ReturningToPlain",
    TlsMode.ACCEPTED: "Accepting",
    TlsMode.REQUIRED: "Requiring",
}
"""Why bookies do not take yet what the spec says: they are on the way to this mode."""


def certificates_valid(found: Findings) -> Verdict:
    """Every certificate can be used, and nobody has forgotten to renew one."""
    made = found.certificates
    if made.denied:
        return Verdict("Unknown", "CertificatesUnseen", made.denied)
    if _are_first(found):
        return Verdict("Unknown", "CertificatesPending", _named(made.troubles))
    if made.troubles:
        return Verdict("False", made.troubles[0].reason, _named(made.troubles))
    ends = made.status.certificates if made.status is not None else ()
    first = f"the first to end is that of {ends[0].name}, at {day(ends[0].ends)}" if ends else ""
    return Verdict("True", "AllValid", first)


def _are_first(found: Findings) -> bool:
    """What is missing was never there, and is on its way."""
    before = found.pass_.previous.tls
    known = {one.name for one in before.certificates} if before is not None else set()
    troubles = found.certificates.troubles
    return bool(troubles) and all(
        one.reason == MISSING and one.name not in known for one in troubles
    )


def _named(troubles: tuple[Trouble, ...]) -> str:
    more = len(troubles) - NAMED_MAX
    sentences = [one.message for one in troubles[:NAMED_MAX]]
    return "; ".join([*sentences, f"and {more} more"] if more > 0 else sentences)


def tls_in_force(found: Findings) -> Verdict:
    """Every bookie takes what the spec says."""
    pass_ = found.pass_
    asked, now = pass_.cluster.spec.tls.mode, pass_.spec.tls.mode
    wanted = farthest(pass_.cluster.spec, pass_.previous)
    taken = taken_modes(pass_.observed, pass_.previous)
    lacking = {name: sorted(modes - {now}) for name, modes in taken.items() if modes - {now}}
    others = [f"{name} ({'/'.join(modes)})" for name, modes in lacking.items()]
    if wanted is now and not others and wanted is not asked:
        message = f"{asked.value} cannot be reached: ZooKeeper uses TLS and keeps it"
        return Verdict("False", "ZooKeeperHasTls", f"{message}; every bookie takes {now.value}")
    if wanted is now and not others:
        return Verdict("True", "InForce", f"every bookie takes {wanted.value}")
    waiting = found.refused(PENDING)
    if waiting:
        return Verdict("False", "IssuingCertificates", waiting[0].message)
    more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
    message = f"bookies go to {now.value}, one by one"
    message += f", on the way to {wanted.value}" if wanted is not now else ""
    message += f"; not yet: {', '.join(others[:NAMED_MAX])}{more}" if others else ""
    return Verdict("False", _STEPS[now], message)


def tls_verdicts(found: Findings) -> dict[ConditionType, Verdict]:
    """Both conditions; none of a cluster without TLS."""
    if found.certificates.status is None:
        return {}
    return {
        ConditionType.CERTIFICATES_VALID: certificates_valid(found),
        ConditionType.TLS_IN_FORCE: tls_in_force(found),
    }
