"""Degraded: time or a person is needed. One reason, the most pressing of all that apply.

Of what the platform says about containers that do not start, only the first word is read.
"""

from collections.abc import Callable
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.refused import LINEAGE_MISMATCH, RANKED
from bookie_operator.plan.collection import collection_held
from bookie_operator.plan.failures import NAME_TAKEN, is_reported
from bookie_operator.plan.findings import (
    Findings,
    Verdict,
    findings_text,
    mend_text,
    rereplication_text,
    scrub_text,
)
from bookie_operator.plan.invalid import FORBIDDEN
from bookie_operator.plan.rollback import ROLLED_BACK, rolled_back
from bookie_operator.plan.states import UNSCHEDULABLE, Judged, node_lost, refusal_of
from bookie_operator.plan.tls_conditions import certificates_valid

IMAGE_UNAVAILABLE: Final = "ImageUnavailable"
CONTAINER_CONFIG: Final = "ContainerConfig"

_WAITS: Final = {
    "ImagePullBackOff": IMAGE_UNAVAILABLE,
    "InvalidImageName": IMAGE_UNAVAILABLE,
    "ImageInspectError": IMAGE_UNAVAILABLE,
    "RegistryUnavailable": IMAGE_UNAVAILABLE,
    "SignatureValidationFailed": IMAGE_UNAVAILABLE,
    UNSCHEDULABLE: UNSCHEDULABLE,
    "SchedulingGated": UNSCHEDULABLE,
    "CreateContainerConfigError": CONTAINER_CONFIG,
    "CreateContainerError": CONTAINER_CONFIG,
    "RunContainerError": CONTAINER_CONFIG,
    "PreCreateHookError": CONTAINER_CONFIG,
    "PreStartHookError": CONTAINER_CONFIG,
}
NODE_LOST: Final = "NodeLost"
READ_ONLY: Final = "BookieReadOnly"
NAMED_MAX: Final = 3
"""Bookies whose own words a message has."""
_BROKEN: Final = {
    BookieState.CRASH_LOOP: "BookieCrashLoop",
    BookieState.UNRESPONSIVE: "BookieUnresponsive",
    BookieState.DOWN: "BookieDown",
}


def degraded(found: Findings) -> Verdict:
    for look in _LOOKS:
        verdict = look(found)
        if verdict is not None:
            return Verdict("True", *verdict)
    return Verdict("False", "AsWanted", "")


_Reason = tuple[str, str] | None
"""Reason and message of a Degraded that is True; None = this is not it."""


def _loss(found: Findings) -> _Reason:
    return ("PossibleDataLoss", found.loss.message) if found.loss.status == "True" else None


def _lineage(found: Findings) -> _Reason:
    refused = found.refused(LINEAGE_MISMATCH)
    return (LINEAGE_MISMATCH, refused[0].message) if refused else None


def _rolled_back(found: Findings) -> _Reason:
    message = rolled_back(found.pass_)
    return (ROLLED_BACK, message) if message else None


def _forbidden(found: Findings) -> _Reason:
    denied = [one.message for one in found.failures if one.reason == FORBIDDEN]
    message = found.pass_.observed.forbidden or next(iter(denied), "")
    return (FORBIDDEN, message) if message else None


def _failed(found: Findings) -> _Reason:
    """What the operator could not do, in the words of who refused it."""
    failed = [one for one in found.failures if is_reported(one)]
    failed.sort(key=lambda one: one.reason != NAME_TAKEN)
    messages = [
        f"{one.bookie}: {one.action} {one.message}" if one.bookie else f"{one.action} {one.message}"
        for one in failed[:NAMED_MAX]
    ]
    more = len(failed) - NAMED_MAX
    if more > 0:
        messages.append(f"and {more} more, see Blocked")
    return (failed[0].reason, "; ".join(messages)) if failed else None


def _metadata(found: Findings) -> _Reason:
    metadata = found.pass_.observed.metadata
    return None if metadata.reachable else ("MetadataUnreachable", metadata.message)


def _refused_boots(found: Findings) -> _Reason:
    names = found.in_states(BookieState.REFUSED)
    if not names:
        return None
    reasons = {name: refusal_of(found.pass_.judged[name]) for name in names}
    if len(names) > 1 and all(_is_all_foreign(found.pass_.judged[name]) for name in names):
        reason = LINEAGE_MISMATCH  # nobody mixes up every volume of several bookies
    else:
        reason = min(reasons.values(), key=RANKED.index)
        names.sort(key=lambda name: reasons[name] != reason)
    return reason, f"{', '.join(names)}: {found.pass_.judged[names[0]].message}"


def _is_all_foreign(one: Judged) -> bool:
    disks = one.bookie.health.disks if one.bookie.health else ()
    return bool(disks) and all(disk.verdict == "foreign" for disk in disks)


def _changed_disks(found: Findings) -> _Reason:
    for predicate in ("SuspectDisk", "MultipleBookiesChanged"):
        refused = found.refused(predicate)
        if refused:
            return predicate, f"{refused[0].bookie}: {refused[0].message}"
    return None


def _lost_nodes(found: Findings) -> _Reason:
    """The message for lost nodes, which names several bookies of one node together."""
    lost = {name: node_lost(one.bookie) for name, one in found.pass_.judged.items()}
    names = [name for name, trouble in lost.items() if trouble]
    if not names:
        return None
    troubles = dict.fromkeys(lost[name].removeprefix("its ") for name in names)
    return NODE_LOST, f"{', '.join(names)}: {'; '.join(troubles)}"


def _not_started(found: Findings) -> _Reason:
    for bookie_id, one in found.pass_.judged.items():
        reason = waiting_word(one)
        if reason:
            return reason, f"{bookie_id}: {one.message}"
    return None


def waiting_word(one: Judged) -> str:
    """Why the container of a bookie does not start; empty when it does, or soon will."""
    process = one.bookie.process
    if process is None or process.running or one.state is BookieState.LEAVING:
        return ""
    word = process.waiting.partition(":")[0].strip()
    if word.startswith("ErrImage"):
        return IMAGE_UNAVAILABLE
    return _WAITS.get(word, "")


def _broken(found: Findings) -> _Reason:
    for state, reason in _BROKEN.items():
        names = found.in_states(state)
        if names:
            return reason, f"{', '.join(names)}: {_message(found, names[0])}"
    return None


def _message(found: Findings, name: BookieId) -> str:
    return found.pass_.judged[name].message


def _read_only(found: Findings) -> _Reason:
    """Full disks, or a person's word; who drains is read-only for a reason of ours."""
    names = found.in_states(BookieState.READ_ONLY)
    if not names:
        return None
    return READ_ONLY, "; ".join(f"{name}: {_message(found, name)}" for name in names[:NAMED_MAX])


def _stalled(found: Findings) -> _Reason:
    stalled = found.repairs.stalled
    return ("RepairStalled", ", ".join(stalled)) if stalled else None


def _audit(found: Findings) -> _Reason:
    if found.audit.clean is not False:
        return None
    return "AuditFindings", findings_text(found.audit) + mend_text(found.mend)


def _scrub(found: Findings) -> _Reason:
    return ("ScrubFindings", scrub_text(found.scrub)) if found.scrub.clean is False else None


def _rereplication(found: Findings) -> _Reason:
    done = found.rereplication
    is_left = done.clean is False
    return ("RereplicationFindings", rereplication_text(done)) if is_left else None


def _collection(found: Findings) -> _Reason:
    held = collection_held(found.pass_)
    return ("CollectionHeld", held.message) if held.status == "True" else None


def _certificates(found: Findings) -> _Reason:
    """What the operator does not mend itself: an issuer has to, or a person."""
    made = found.certificates
    if made.status is None or made.mends:
        return None
    verdict = certificates_valid(found)
    is_wrong = verdict.status == "False" or bool(made.denied)
    return ("CertificatesInvalid", f"{verdict.reason}: {verdict.message}") if is_wrong else None


_LOOKS: Final[tuple[Callable[[Findings], _Reason], ...]] = (
    _loss,
    _lineage,
    _rolled_back,
    _forbidden,
    _metadata,
    _refused_boots,
    _changed_disks,
    _lost_nodes,
    _not_started,
    _failed,
    _certificates,
    _broken,
    _read_only,
    _stalled,
    _audit,
    _scrub,
    _rereplication,
    _collection,
)
