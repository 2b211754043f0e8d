"""Decides which principal may call which method of the control plane. Pure.

The principal is in the caller's certificate. Only the operator or a person decides about disks, or
about entries that may be lost. A job may do what repairs need. Only a person may accept a loss, or
the one job that has a certificate for that decision; the operator may also retract one. A bookie
may look, and flush itself before its pod ends. A client of the data ports may call nothing. Without
TLS every caller may do everything: see docs/security.md.
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
"""By method of the service: the roles that may call it. Every method has a line."""
OF_ITSELF: Final = frozenset({"Flush"})
"""Methods that a bookie may call only on itself."""
ASKED_BY: Final[ContextVar[Principal | None]] = ContextVar("ASKED_BY", default=None)
"""The principal whose call is being answered; None without TLS."""


def refused_by_role(method: str, caller: Principal | None, own: Principal | None) -> str:
    """Why this caller may not call the method; empty when it may. `own`: the principal of this
    bookie.
    """
    if own is None:
        return (
            "this bookie's certificate names no fleet, so no caller can be recognised as a member"
        )
    if caller is None:
        return f"{method} is for members of the fleet, found a certificate without one"
    if not caller.is_of_fleet_of(own):
        return f"{method} is for {own.namespace}/{own.cluster}, found {caller}"
    allowed = MAY[method]
    if caller.role not in allowed:
        expected = ", ".join(sorted(allowed))
        return f"{caller} may not call {method}, expected one of: {expected}"
    if caller.role is Role.BOOKIE and method in OF_ITSELF and caller.name != own.name:
        return f"{caller} may call {method} only on its own bookie, found {own.name}"
    return ""


def refused_word(*, by_person: bool) -> str:
    """Why this caller may not record a loss as a person's decision (`by_person`); empty when it
    may.
    """
    caller = ASKED_BY.get()
    if caller is None or not by_person or caller.role in _ACCEPTS:
        return ""
    return (
        f"{caller} may not record a loss as a person's decision, expected one of: "
        f"{', '.join(sorted(_ACCEPTS))}; hand in a BookieTask of type accept-loss, whose job gets "
        "a certificate for that"
    )


def decided_by(said: str) -> str:
    """The name with which a decision is recorded. For a person, or the job that carries out a
    person's decision, it is the name in the certificate, whatever the request says. For another
    caller it is the name in the request, with the caller's own. Without TLS it is the name in the
    request.
    """
    caller = ASKED_BY.get()
    if caller is None:
        return said
    return caller.name if caller.role in _ACCEPTS else f"{said} ({sent_by()} says so)".strip()


def sent_by() -> str:
    """Role and name of the caller, from its certificate; empty without TLS."""
    caller = ASKED_BY.get()
    return "" if caller is None else f"{caller.role.value} {caller.name}"
