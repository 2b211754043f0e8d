"""Incidents: from a boot record that tells of an unclean stop to the day limbo was 0 again.

An episode is a bookie and a boot epoch, so that seeing the same boot twice, or restarting the
operator, changes nothing. Only a bookie's own boot record opens an incident and only its own
counts close it; the platform's signals just say when and why the process probably ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bookie.ids import BookieId
from bookie.wire.admin.health import BootRecord

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieStatus
from bookie_operator.model.incidents import INCIDENTS_MAX, Incident, IncidentOutcome
from bookie_operator.model.reports import RepairReport
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import Event
from bookie_operator.plan.causes import cause_of
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import Judged

DISK_KINDS: Final = frozenset({"DiskReplaced", "DiskWiped", "DiskStale", "IdentityLost"})
"""A lost identity is as if all disks were replaced."""
LIMBO_FOUND: Final = "LimboFound"
"""Limbo without a boot record that explains it: an earlier boot's, and its incident is lost."""
_SUMS: Final = (
    "entries_recovered",
    "entries_copied",
    "entries_copied_closed",
    "ledgers_recovered",
)
_HARMLESS: Final = frozenset({"CleanStop", "FirstBoot"})


def advance(pass_: Pass) -> tuple[tuple[Incident, ...], list[Event]]:
    """The incidents after this pass, oldest first, and what people should hear about them."""
    incidents = list(pass_.previous.incidents)
    events: list[Event] = []
    for one in pass_.judged.values():
        opened = _opened(one, pass_.previous.bookie(one.bookie.id), incidents, now=pass_.now)
        if opened is not None:
            incidents = [_superseded(incident, opened) for incident in incidents]
            incidents.append(opened)
            events.append(_opening_event(opened))
    advanced = []
    for incident in incidents:
        after = _updated(incident, pass_.judged.get(BookieId(incident.bookie)), pass_.observed)
        if incident.outcome is IncidentOutcome.OPEN and after.outcome is IncidentOutcome.CLEARED:
            events.append(_clearing_event(after))
        advanced.append(after)
    return _bounded(advanced, pass_.judged), events


def open_incidents(incidents: Iterable[Incident]) -> list[Incident]:
    return [incident for incident in incidents if incident.outcome is IncidentOutcome.OPEN]


def _opened(
    one: Judged,
    before: BookieStatus | None,
    incidents: Sequence[Incident],
    *,
    now: datetime,
) -> Incident | None:
    health = one.bookie.health
    boot = health.boot if health else None
    if boot is None or not one.bookie.process or not one.bookie.process.running:
        return None
    mine = [incident for incident in incidents if incident.bookie == one.bookie.id]
    if any(incident.boot_epoch_after >= boot.epoch for incident in mine):
        return None
    if not boot.clean and boot.reason not in _HARMLESS:
        return _incident(one, _kind(one, boot, before), boot, before=before, now=now)
    if one.is_booted and one.has_marks and not open_incidents(mine):
        return _incident(one, LIMBO_FOUND, boot, before=before, now=now)
    return None


def _kind(one: Judged, boot: BootRecord, before: BookieStatus | None) -> str:
    """A disk that is empty under the volume it always had was wiped, not replaced."""
    if boot.reason != "DiskReplaced" or before is None or one.bookie.health is None:
        return boot.reason
    empty = {d.volume_uid for d in one.bookie.health.disks if d.verdict in ("empty", "new")}
    known = {disk.volume_uid for disk in before.disks if disk.volume_uid}
    return "DiskWiped" if empty and empty <= known else boot.reason


def _incident(
    one: Judged, kind: str, boot: BootRecord, *, before: BookieStatus | None, now: datetime
) -> Incident:
    epoch_before = before.boot_epoch if before else 0
    if not 0 < epoch_before < boot.epoch:
        epoch_before = boot.epoch - 1
    process = one.bookie.process
    assert process is not None, "a running process gave the boot record"
    ends = [end.at for end in (one.ends.first_kill, process.last_exit) if end is not None]
    stopped_at = next((at for at in ends if at <= boot.started_at), None)
    cause = cause_of(process, before, boot, killed=one.ends.first_kill)
    return Incident(
        kind=kind,
        cause=cause.word,
        cause_message=cause.message[:1024],
        bookie=one.bookie.id,
        boot_epoch_before=epoch_before,
        boot_epoch_after=boot.epoch,
        ledgers_fenced=boot.ledgers_fenced,
        ledgers_in_limbo=boot.ledgers_in_limbo,
        ledgers_unchecked=boot.ledgers_unchecked,
        stopped_at=whole_milliseconds(stopped_at) if stopped_at else None,
        detected_at=whole_milliseconds(now),
        seconds_to_detect=_seconds(stopped_at or boot.started_at, now),
    )


def _superseded(incident: Incident, by: Incident) -> Incident:
    if incident.bookie != by.bookie or incident.outcome is not IncidentOutcome.OPEN:
        return incident
    return incident.model_copy(update={"outcome": IncidentOutcome.SUPERSEDED})


def _updated(incident: Incident, one: Judged | None, observed: Observed) -> Incident:
    update: dict[str, Any] = {}
    jobs = [job for job in observed.jobs if _is_of(job, incident)]
    if jobs:
        update |= _with_reports(incident, jobs)
    if incident.outcome is not IncidentOutcome.OPEN:
        return incident.model_copy(update=update) if update else incident
    if one is None:  # it has left: no ledger named it
        update |= _cleared(incident, observed.now)
        return incident.model_copy(update=update | {"outcome": IncidentOutcome.CLEARED})
    health = one.bookie.health
    boot = health.boot if health else None
    if boot is not None and boot.epoch == incident.boot_epoch_after:
        update |= {
            "ledgers_fenced": max(incident.ledgers_fenced, boot.ledgers_fenced),
            "ledgers_in_limbo": max(incident.ledgers_in_limbo, boot.ledgers_in_limbo),
            "ledgers_unchecked": max(incident.ledgers_unchecked, boot.ledgers_unchecked),
        }
    is_over = incident.cleared_at is not None
    if not is_over and _says_clear(one, incident):
        update |= _cleared(incident, observed.now)
        is_over = True
    # A repair that still audits its own work has its report counted before the incident ends.
    if is_over and not any(job.running for job in jobs):
        update["outcome"] = IncidentOutcome.CLEARED
    return incident.model_copy(update=update) if update else incident


def _cleared(incident: Incident, now: datetime) -> dict[str, Any]:
    if incident.cleared_at is not None:
        return {}
    seconds = _seconds(incident.detected_at, now)
    return {"cleared_at": whole_milliseconds(now), "seconds_to_clear": seconds}


def _says_clear(one: Judged, incident: Incident) -> bool:
    health = one.bookie.health
    return (
        one.is_booted
        and health is not None
        and health.is_fresh
        and health.boot is not None
        and health.boot.epoch >= incident.boot_epoch_after
        and not one.has_marks
    )


def _is_of(job: Job, incident: Incident) -> bool:
    return (
        job.kind is JobKind.REPAIR
        and job.bookie == incident.bookie
        and job.boot_epoch >= incident.boot_epoch_after
        # A later incident of the same bookie takes the jobs of its own epoch.
        and (
            incident.outcome is IncidentOutcome.OPEN or job.boot_epoch == incident.boot_epoch_after
        )
    )


def _with_reports(incident: Incident, jobs: Sequence[Job]) -> dict[str, Any]:
    fresh = [
        (job, report)
        for job in jobs
        if (report := job.reported(RepairReport)) is not None and not job.running
        if job.name not in incident.counted_jobs
    ]
    update: dict[str, Any] = {"attempts": max(incident.attempts, *(job.attempt for job in jobs))}
    for _, report in fresh:
        for name in _SUMS:
            update[name] = update.get(name, getattr(incident, name)) + getattr(report, name)
        update |= {"engine": report.engine, "engine_reason": report.engine_reason}
        if report.spark_app_id:
            update |= {"spark_app_id": report.spark_app_id, "executors": report.executors}
    counted = (*incident.counted_jobs, *(job.name for job, _ in fresh))
    return update | {"counted_jobs": counted[-100:]}


def _bounded(
    incidents: Sequence[Incident], judged: Mapping[BookieId, Judged]
) -> tuple[Incident, ...]:
    """Open ones all stay, and the last of each bookie that is there: by that one it is known which
    of its boots have been reported. Of the others the newest."""
    last = {one.bookie: one for one in incidents if BookieId(one.bookie) in judged}
    surplus = len(incidents) - INCIDENTS_MAX
    kept = []
    for incident in incidents:
        is_needed = (
            incident.outcome is IncidentOutcome.OPEN or last.get(incident.bookie) is incident
        )
        if surplus > 0 and not is_needed:
            surplus -= 1
            continue
        kept.append(incident)
    return tuple(kept)


def _seconds(start: datetime, end: datetime) -> float:
    return round(max(0.0, (end - start).total_seconds()), 3)


def _opening_event(incident: Incident) -> Event:
    why = f"{incident.cause}: {incident.cause_message}" if incident.cause else ""
    return Event(
        reason=incident.kind,
        type="Warning",
        bookie=incident.bookie,
        message=f"boot {incident.boot_epoch_after} found {_found(incident)}: {incident.marks}"
        + (f"; {why}" if why else ""),
        once=_once(incident, incident.kind),
    )


def _found(incident: Incident) -> str:
    if incident.kind == LIMBO_FOUND:
        return "limbo of an earlier boot"
    return "changed disks" if incident.kind in DISK_KINDS else "an unclean stop"


def _once(incident: Incident, word: str) -> str:
    """An episode is a bookie and a boot epoch."""
    return f"{incident.bookie}/{incident.boot_epoch_after}/{word}"


def _clearing_event(incident: Incident) -> Event:
    return Event(
        reason="LimboCleared",
        bookie=incident.bookie,
        message=f"boot {incident.boot_epoch_after}: limbo is 0 after "
        f"{incident.seconds_to_clear} s, {incident.entries_brought_back} entries brought back",
        once=_once(incident, "LimboCleared"),
    )
