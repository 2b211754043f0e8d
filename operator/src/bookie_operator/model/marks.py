"""What the boot that found an incident did to the ledgers of its bookie, as people read it.

A plain unclean stop fences no ledger, so fenced ledgers are named only where there are some.
"""

from bookie_operator.model.status import Incident


def marks_of(incident: Incident) -> str:
    """`7 ledgers fenced, 2 in limbo, 5 unchecked`; without the fenced ones if there are none."""
    fenced, limbo = incident.ledgers_fenced, incident.ledgers_in_limbo
    marks = [(fenced, "fenced")] if fenced else []
    marks += [(limbo, "in limbo"), (incident.ledgers_unchecked, "unchecked")]
    (number, mark), *others = marks
    ledgers = "ledger" if number == 1 else "ledgers"
    return ", ".join([f"{number} {ledgers} {mark}", *(f"{n} {other}" for n, other in others)])
