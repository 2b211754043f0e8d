"""Volumes and processes: create what is missing, grow what is small, restart what is out of date.

Creating and growing is always allowed. A restart is a disruption: one bookie at a time, none while
anything is in limbo or anybody else is out, and within the loss budget. Dead processes are the
platform's to restart, as a kubelet does. Who is to leave is `drains.py`'s concern.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.quantity import is_smaller
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import (
    Action,
    BookieTemplate,
    CreateVolume,
    ExpandVolume,
    InitialiseMetadata,
    Refusal,
    RestartBookie,
    StartBookie,
    template_of,
)
from bookie_operator.plan.budget import Budget
from bookie_operator.plan.certificates import lacks_certificate
from bookie_operator.plan.hung import HUNG, HUNG_AGAIN, RESTARTS_MAX, is_hung
from bookie_operator.plan.named_secrets import UNSEEN, lacks_login, lacks_secret
from bookie_operator.plan.other_store import lineage_refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rack_span import rack_by_rack
from bookie_operator.plan.rollouts import (
    FAILING,
    ROLLOUT_HALTED,
    held_up,
    is_beyond_reach,
    keeps_settings,
    renewed,
)
from bookie_operator.plan.states import Judged

NAMED_MAX: Final = 5
"""Volumes that a message names."""
Steps = tuple[list[Action], list[Refusal]]
SETTINGS_CHANGED: Final = "SettingsChanged"
VOLUME_REPLACED: Final = "VolumeReplaced"
REQUESTED: Final = "Requested"


def provision(
    pass_: Pass, *, kept: Sequence[BookieId] = (), away: Collection[BookieId] = ()
) -> Steps:
    """What must exist before a bookie can run, and then the bookie. Destroys nothing.

    `kept`: bookies that must run although they are not wanted any more; `away`: those that must not
    now, since a job works on their disks.
    """
    names = (*pass_.spec.bookie_ids, *kept)
    if pass_.spec.paused:
        return [], []
    actions: list[Action] = []
    refusals: list[Refusal] = []
    for bookie_id in names:
        present = pass_.observed.bookie(bookie_id).volumes
        template = template_of(pass_.spec, bookie_id)
        actions += [
            CreateVolume(bookie_id, disk) for disk in template.disks if disk.name not in present
        ]
    lineage = lineage_refusal(pass_)
    if lineage is not None:
        return actions, [lineage]
    if not pass_.observed.metadata.reachable:
        return actions, []
    if pass_.observed.metadata.instance_id is None and not _leaves_it_to_bookies(pass_):
        return [*actions, *_initialise(pass_)], []
    is_rolled = False
    for bookie_id in names:
        bookie = pass_.observed.bookie(bookie_id)
        template = template_of(pass_.spec, bookie_id)
        usable = {name for name, one in bookie.volumes.items() if not one.is_terminating}
        complete = usable >= {disk.name for disk in template.disks}
        keeps = is_rolled or keeps_settings(pass_, bookie_id)
        if complete and bookie_id not in away and _needs_start(bookie, template, keeps=keeps):
            lacking = None if keeps else _lacks(pass_, bookie_id, "Start")
            if lacking is not None:
                refusals.append(lacking)
                continue
            actions.append(StartBookie(template, keeps_settings=keeps))
            # One that ran gets new settings, and the next one when that has served with them.
            is_beyond = is_beyond_reach(pass_.judged[bookie_id])
            has_run = bookie.process is not None or pass_.has_booted(bookie_id)
            is_rolled = is_rolled or (not keeps and has_run and not is_beyond)
    return actions, refusals


def _initialise(pass_: Pass) -> list[Action]:
    """Wait for the login, if there is to be one: SecretsUsable says what is wrong with it."""
    return [] if lacks_login(pass_) is not None else [InitialiseMetadata()]


def _leaves_it_to_bookies(pass_: Pass) -> bool:
    """Bookies log in by themselves and make an empty store the cluster's at their boot: they do it
    where the operator may not read the login."""
    lacking = lacks_login(pass_)
    return lacking is not None and lacking.reason == UNSEEN


def expansions(pass_: Pass) -> list[ExpandVolume]:
    """Volumes to let grow now."""
    return [] if pass_.spec.paused else too_small(pass_)


def too_small(pass_: Pass) -> list[ExpandVolume]:
    """Volumes that are smaller than wanted, also while nothing may be done about it; a size that
    cannot be read is left alone."""
    return [
        ExpandVolume(bookie_id, disk)
        for bookie_id in pass_.spec.bookie_ids
        for disk in template_of(pass_.spec, bookie_id).disks
        if (volume := pass_.observed.bookie(bookie_id).volumes.get(disk.name)) is not None
        and not volume.is_terminating
        and is_smaller(volume.size, disk.size)
    ]


def other_classes(pass_: Pass) -> list[Refusal]:
    """Volumes of another class than the spec has by now: a volume keeps the one it was made with.

    Said in one sentence, whatever their number; a class that nobody names may be any.
    """
    found = [
        f"{bookie_id} {disk.name} ({volume.storage_class})"
        for bookie_id in pass_.spec.bookie_ids
        for disk in template_of(pass_.spec, bookie_id).disks
        if (volume := pass_.observed.bookie(bookie_id).volumes.get(disk.name)) is not None
        and disk.storage_class
        and volume.storage_class not in ("", disk.storage_class)
    ]
    if not found:
        return []
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    why = (
        f"{', '.join(found[:NAMED_MAX])}{more}: of another class than the spec's, which counts for "
        "new volumes; replace-disk makes one at a time anew"
    )
    return [Refusal("ChangeClass", "NewVolumesOnly", why)]


def _needs_start(bookie: Bookie, template: BookieTemplate, *, keeps: bool) -> bool:
    """`keeps`: one that ends is started by the platform as it was; one without a process may be
    between two pods, so that the platform says whether it has settings to keep."""
    process = bookie.process
    if process is None:
        return True
    return not keeps and not process.running and process.revision != template.revision


def restarts(pass_: Pass, budget: Budget) -> Steps:
    """Restarts that changed settings, volumes, a hung process or a person ask for. While a bookie
    is out nobody else is taken out, whatever their racks, so that the broken one comes first; one
    that fails with new settings halts the rest; and a rack is finished before the next is begun.
    """
    asked = {one.spec.bookie: one for one in pass_.unfinished(TaskType.RESTART)}
    actions: list[Action] = []
    refusals = []
    for bookie_id in rack_by_rack(pass_, [one.bookie.id for one in renewed(pass_)]):
        one, template = pass_.judged[bookie_id], template_of(pass_.spec, bookie_id)
        held = pass_.spec.is_held_back(bookie_id)
        reason = _restart_reason(one.bookie, template, held=held)
        other = _hung(one, pass_.now) or (
            REQUESTED if is_due(asked.get(bookie_id), one.bookie) else None
        )
        waits = _waits(pass_, bookie_id) if reason == SETTINGS_CHANGED else None
        if waits is not None and other is not None:  # it is restarted as it is
            reason, waits, held = None, None, True
        reason = reason or other
        if one.bookie.process is None or reason is None:
            continue
        if reason == SETTINGS_CHANGED and is_beyond_reach(one):
            continue
        refusal = (
            (waits if waits is not None and waits.predicate == ROLLOUT_HALTED else None)
            or (_given_up(one) if reason == HUNG else None)
            or budget.taking_refusal("Restart", bookie_id, keeps_disks=True)
            or waits
        )
        if refusal is None:
            keeps = held and reason != VOLUME_REPLACED
            actions.append(RestartBookie(template, one.bookie.process.instance, reason, keeps))
        else:
            refusals.append(refusal)
    return actions, refusals


def _waits(pass_: Pass, bookie_id: BookieId) -> Refusal | None:
    """Why it does not get the new settings yet."""
    return held_up(pass_, bookie_id) or _lacks(pass_, bookie_id, "Restart")


def _lacks(pass_: Pass, bookie_id: BookieId, action: str) -> Refusal | None:
    """What it would have to read and could not."""
    return lacks_certificate(pass_, bookie_id, action) or lacks_secret(pass_, bookie_id, action)


def _hung(one: Judged, now: datetime) -> str | None:
    if one.state is not BookieState.UNRESPONSIVE:
        return None
    return HUNG if is_hung(one.bookie, one.silent_since, now) else None


def _given_up(one: Judged) -> Refusal | None:
    if one.hung_restarts < RESTARTS_MAX:
        return None
    why = f"{one.hung_restarts} restarts did not help: look at its log and its disks"
    return Refusal("Restart", HUNG_AGAIN, why, bookie=one.bookie.id)


def is_due(task: BookieTask | None, bookie: Bookie) -> bool:
    """A person asked for a restart of the very process that runs now."""
    process = bookie.process
    if task is None or process is None or not process.running:
        return False
    return task.status.target in ("", process.instance)


def follow_restart(pass_: Pass, task: BookieTask, actions: Sequence[Action]) -> TaskStatus:
    """Follow a requested restart from the old process to a new one that serves."""
    one = pass_.judged[BookieId(task.spec.bookie)]
    process, going = one.bookie.process, task.status.target
    for action in actions:
        if isinstance(action, RestartBookie) and action.template.bookie_id == one.bookie.id:
            return task.status.begun(action.instance, at=pass_.now)
    if not going and (process is None or not process.running):
        why = f"{one.bookie.id} does not run ({one.state.value}): it is started without a task"
        return task.status.ended(TaskPhase.FAILED, why, at=pass_.now)
    if not going or process is None or process.instance == going:
        return task.status
    if one.is_booted:
        return task.status.ended(TaskPhase.SUCCEEDED, "it serves again", at=pass_.now)
    if one.state in FAILING and one.state is not BookieState.DOWN:
        why = f"{one.bookie.id} came back {one.state.value}: {one.message}"
        return task.status.ended(TaskPhase.FAILED, why, at=pass_.now)
    return task.status


def _restart_reason(bookie: Bookie, template: BookieTemplate, *, held: bool) -> str | None:
    process = bookie.process
    if process is None or not process.running:
        return None
    if process.revision != template.revision and not held:
        return SETTINGS_CHANGED
    served = {d.volume_uid for d in bookie.health.disks if d.volume_uid} if bookie.health else set()
    mounted = {volume.uid for volume in bookie.volumes.values()}
    if served and len(mounted) == len(template.disks) and served != mounted:
        return VOLUME_REPLACED
    return None
