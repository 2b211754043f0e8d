"""The status object of a pass: per bookie, totals, blocked actions, and one word for people."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bookie.wire.admin.health import DiskHealth, Health

from bookie_operator.model.base import LONG_TEXT_MAX, whole_milliseconds
from bookie_operator.model.bookie_status import (
    BookieState,
    BookieStatus,
    DiskStatus,
    LastShutdown,
    LimboTotals,
    RepairStatus,
)
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.incidents import Incident
from bookie_operator.model.status import BLOCKED_MAX, Blocked, MetadataStatus
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Process
from bookie_operator.plan.actions import Refusal, template_of
from bookie_operator.plan.episodes import open_incidents
from bookie_operator.plan.lost import gone_since, rereplicated_at
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rack_span import rack_of
from bookie_operator.plan.states import Judged, losses_recorded

_PHASES: Final = {"Draining": "Draining", "RolloutHalted": "Blocked", "Blocked": "Blocked"}
"""Reasons of Progressing that people must see at once."""
READY_STATES = (
    BookieState.SERVING,
    BookieState.LIMBO,
    BookieState.READ_ONLY,
    BookieState.DRAINING,
)
_COMING_WORDS: Final = {
    "Rolling": "Rolling",
    "BookiesStarting": "Starting",
    "WaitingForLease": "WaitingForLease",
}
"""Reason of Progressing -> the phase of a cluster that takes entries, and not all of it serves."""


def bookie_status(
    pass_: Pass,
    one: Judged,
    *,
    repair: RepairStatus | None,
    fix_held: str,
) -> BookieStatus:
    """One bookie's entry; what it does not say now is kept from the previous status."""
    before = pass_.previous.bookie(one.bookie.id)
    health = one.bookie.health
    boot = health.boot if health else None
    process = one.bookie.process
    facts = before or BookieStatus(id=one.bookie.id, state=one.state)
    shutdown = facts.last_shutdown
    if boot is not None:
        shutdown = LastShutdown(clean=boot.clean, reason=boot.reason)
    ends = one.ends
    is_reported = boot is not None and ends.first_kill is not None and boot.epoch > facts.boot_epoch
    # As with the volumes below: an incident starts from where the boot before it ran.
    host = process if process is not None and boot is not None else None
    return BookieStatus(
        id=one.bookie.id,
        state=one.state,
        state_since=_since(one, before, now=pass_.now),
        message=one.message[:1024],
        boot_epoch=boot.epoch if boot else facts.boot_epoch,
        last_shutdown=shutdown,
        mode=boot.mode if boot else facts.mode,
        limbo_ledgers=one.limbo,
        unchecked_ledgers=one.unchecked,
        losses_recorded=losses_recorded(one, before),
        restarts=process.restarts if process else facts.restarts,
        failures=ends.in_row,
        last_end=ends.last,
        first_kill=None if is_reported else ends.first_kill,
        instance=process.instance if process else "",
        revision=process.revision if process else "",
        is_updated=is_updated(pass_, one) if process else None,
        version=health.version if health and health.version else facts.version,
        control=(process.control or "") if process else "",
        silent_since=one.silent_since,
        hung_restarts=one.hung_restarts,
        gone_since=gone_since(pass_, one.bookie.id),
        rereplicated_at=rereplicated_at(pass_, one.bookie.id),
        pod=host.pod if host else facts.pod,
        node=host.node if host else facts.node,
        node_boot_id=host.node_boot_id if host else facts.node_boot_id,
        rack=rack_of(pass_, one.bookie.id),
        advertised=_whole(process.advertised) if process else "",
        tls=_taken(process) if process and one.is_booted else facts.tls,
        disks=_disks(pass_.spec, one, before=facts, health=health),
        repair=repair,
        fix_held=fix_held[:1024],
    )


def _taken(process: Process) -> str:
    return "" if process.tls is TlsMode.OFF else process.tls.value


def _whole(text: str) -> str:
    """The text, or nothing if it is too long: half an address would be a wrong one."""
    return text if len(text) <= LONG_TEXT_MAX else ""


def is_updated(pass_: Pass, one: Judged) -> bool:
    """It runs, or is to be started, with the settings that the spec has for it now."""
    process = one.bookie.process
    wanted = template_of(pass_.spec, one.bookie.id).revision
    return process is not None and process.revision == wanted


def _since(one: Judged, before: BookieStatus | None, *, now: datetime) -> datetime:
    if before is not None and before.state is one.state and before.state_since is not None:
        return before.state_since
    return whole_milliseconds(now)


def replicas(pass_: Pass) -> int:
    """Bookies that run, or did and are to run again: a pod that is replaced is away a moment."""
    known = {one.id for one in pass_.previous.bookies if one.boot_epoch}
    return sum(
        one.bookie.process is not None
        or (bookie_id in known and one.state is not BookieState.LEAVING)
        for bookie_id, one in pass_.judged.items()
    )


def _disks(
    spec: ClusterSpec, one: Judged, *, before: BookieStatus, health: Health | None
) -> tuple[DiskStatus, ...]:
    known = {disk.name: disk for disk in before.disks}
    # The volumes of the boot whose record is known: an incident starts from the boot before it.
    has_boot_record = health is not None and health.boot is not None
    disks = []
    ledgers = 0
    for wanted in spec.storage.disks:
        index = 0
        if wanted.role is DiskRole.LEDGER:
            index, ledgers = ledgers, ledgers + 1
        seen = _disk_health(health, wanted.role, index)
        old = known.get(wanted.name, DiskStatus(name=wanted.name, role=wanted.role.value))
        disks.append(
            DiskStatus(
                name=wanted.name,
                role=wanted.role.value,
                volume_uid=seen.volume_uid if seen and has_boot_record else old.volume_uid,
                disk_id=seen.disk_id if seen else old.disk_id,
                verdict=seen.verdict if seen else old.verdict,
                total_bytes=seen.total_bytes if seen else old.total_bytes,
            )
        )
    return tuple(disks)


def _disk_health(health: Health | None, role: DiskRole, index: int) -> DiskHealth | None:
    """What the bookie says of its `index`-th disk of this role (it lists them in order)."""
    if health is None:
        return None
    mine = [disk for disk in health.disks if disk.role == role.value]
    return mine[index] if index < len(mine) else None


def limbo_totals(pass_: Pass, *, incidents: Sequence[Incident]) -> LimboTotals:
    cleared = 0
    for bookie_id, one in pass_.judged.items():
        before = pass_.previous.bookie(bookie_id)
        boot = one.bookie.health.boot if one.bookie.health else None
        if before is not None and boot is not None and boot.epoch == before.boot_epoch:
            cleared += max(0, before.limbo_ledgers - one.limbo)
    marked = tuple(bookie_id for bookie_id, one in pass_.judged.items() if one.has_marks)
    since = [i.detected_at for i in open_incidents(incidents) if i.bookie in marked]
    return LimboTotals(
        ledgers=sum(one.limbo for one in pass_.judged.values()),
        unchecked=sum(one.unchecked for one in pass_.judged.values()),
        bookies=marked,
        oldest_since=min(since, default=None),
        cleared_total=pass_.previous.limbo.cleared_total + cleared,
    )


def blocked(pass_: Pass, refusals: Sequence[Refusal]) -> tuple[Blocked, ...]:
    """Refusals as status, each with the time since which the same predicate refuses it.

    Of more than a status can hold the first: those that the planner weighs come before what failed.
    """
    since = {(b.bookie, b.action, b.predicate): b.since for b in pass_.previous.blocked}
    return tuple(
        Blocked(
            bookie=refusal.bookie,
            action=refusal.action,
            predicate=refusal.predicate,
            since=since.get(
                (refusal.bookie, refusal.action, refusal.predicate), whole_milliseconds(pass_.now)
            ),
            message=refusal.message[:1024],
        )
        for refusal in refusals[:BLOCKED_MAX]
    )


def metadata_status(pass_: Pass) -> MetadataStatus:
    """The instance id is kept for life: another one later is another cluster's metadata."""
    seen = pass_.observed.metadata
    known = pass_.previous.metadata.instance_id
    return MetadataStatus(
        url=seen.url or pass_.previous.metadata.url,
        reachable=seen.reachable,
        instance_id=known or seen.instance_id or "",
    )


def phase(conditions: Sequence[Condition], bookies: Sequence[BookieStatus]) -> str:
    """The one word of `kubectl get`."""
    true = {condition.type for condition in conditions if condition.status == "True"}
    for kind, word in (
        (ConditionType.PAUSED, "Paused"),
        (ConditionType.POSSIBLE_DATA_LOSS, "PossibleDataLoss"),
        (ConditionType.REPAIR_STALLED, "RepairStalled"),
        (ConditionType.REPAIR_RUNNING, "Repairing"),
        (ConditionType.LIMBO_PRESENT, "Limbo"),
        (ConditionType.COOKIE_FIX_PENDING, "CookieFix"),
        (ConditionType.DEGRADED, "Degraded"),
    ):
        if kind.value in true:
            return word
    doing = next((c.reason for c in conditions if c.type == ConditionType.PROGRESSING.value), "")
    if doing in _PHASES:
        return _PHASES[doing]
    if ConditionType.AVAILABLE.value not in true:
        has_booted = any(status.boot_epoch for status in bookies)
        return "Unavailable" if has_booted else "Creating"
    return _COMING_WORDS.get(doing, "Running")
