"""Who may call what of the control plane, by the name in the caller's certificate. Pure.

Whoever decides about entries that may be gone, or about disks, is the operator or a person. A job
does what repairs need. A person's word about a loss, that it is one or is none, is theirs to give,
or of the one job that was given a certificate for it. A bookie may look, and have itself flushed
before its pod ends. A client of the data ports has no business here. Without TLS everybody may
everything: see docs/security.md.
"""

from contextvars import ContextVar
from typing import Final

from bookie.tls.principals import Principal, Role

_LOOKS: Final = frozenset({Role.OPERATOR, Role.PERSON, Role.JOB, Role.BOOKIE})
_REPAIRS: Final = frozenset({Role.OPERATOR, Role.PERSON, Role.JOB})
_ACCEPTS: Final = frozenset({Role.PERSON, Role.DECISION})
_DECIDES: Final = frozenset({Role.OPERATOR, Role.PERSON})
MAY: Final = {
    "GetHealth": _LOOKS | {Role.DECISION},
    "ListLimbo": _LOOKS,
    "GetAvailability": _LOOKS | {Role.DECISION},
    "Flush": _LOOKS,
    "ClearLimbo": _REPAIRS,
    "RecordLoss": _REPAIRS | {Role.DECISION},
    "RecheckEntries": _REPAIRS,
    "RetractLoss": _DECIDES | {Role.DECISION},
    "ApproveCookieFix": _DECIDES,
    "ApproveCollection": _DECIDES,
    "SetReadOnly": _DECIDES,
    "Drain": _DECIDES,
}
"""Every method of the service has a line."""
OF_ITSELF: Final = frozenset({"Flush"})
"""What a bookie may have done to itself only."""
ASKED_BY: Final[ContextVar[Principal | None]] = ContextVar("ASKED_BY", default=None)
"""Whose call is being answered; None without TLS."""


def refused_by_role(method: str, caller: Principal | None, own: Principal | None) -> str:
    """Why this caller may not; empty when it may. `own`: of the bookie that is asked."""
    if own is None:
        return "this bookie's certificate names no fleet, so that nobody can be known as its own"
    if caller is None:
        return f"{method} is for the fleet's own, found a certificate that names none of them"
    if not caller.is_of_fleet_of(own):
        return f"{method} is for {own.namespace}/{own.cluster}, found {caller}"
    allowed = MAY[method]
    if caller.role not in allowed:
        expected = ", ".join(sorted(allowed))
        return f"{caller} may not call {method}, expected one of: {expected}"
    if caller.role is Role.BOOKIE and method in OF_ITSELF and caller.name != own.name:
        return f"{caller} may call {method} of itself only, found {own.name}"
    return ""


def refused_word(*, by_person: bool) -> str:
    """Why this caller may not record a loss by this word; empty when it may."""
    caller = ASKED_BY.get()
    if caller is None or not by_person or caller.role in _ACCEPTS:
        return ""
    return (
        f"{caller} may not record a loss by a person's word, expected one of: "
        f"{', '.join(sorted(_ACCEPTS))}; hand in a BookieTask of type accept-loss, whose job gets "
        "a certificate for that"
    )


def decided_by(said: str) -> str:
    """The name that a decision is recorded with: a person's own, whatever the request says, also
    where the job of their decision asks; what another one says with the name of who said so; what
    anybody wrote where nobody is known."""
    caller = ASKED_BY.get()
    if caller is None:
        return said
    return caller.name if caller.role in _ACCEPTS else f"{said} ({sent_by()} says so)".strip()


def sent_by() -> str:
    """Whose call is being answered, by its certificate: role and name; empty without TLS."""
    caller = ASKED_BY.get()
    return "" if caller is None else f"{caller.role.value} {caller.name}"
