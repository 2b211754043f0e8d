"""Disks replaced on request: one disk of a serving bookie, or all disks of one that is away.

Both remove the content of the disks, so the loss budget must allow it. Before one disk is replaced,
its bookie is stopped. A bookie whose node or volumes are permanently lost cannot be stopped: all
its volumes are replaced at once, and it starts with empty ones on any node with room, in limbo as
after any lost disk. This is never done for a bookie that is registered or answers.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus, TaskType
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import Action, Refusal, ReplaceBookie, ReplaceVolume
from bookie_operator.plan.budget import Budget
from bookie_operator.plan.lost import gone_since, may_be_gone
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.states import node_lost

UID_LENGTH: Final = 6
"""Characters of each volume's uid in the status of a task, which has 253 for up to 32 disks; the
uids are in the order of the disks, which never changes."""
Replacement = ReplaceVolume | ReplaceBookie


def replacements(pass_: Pass, budget: Budget) -> tuple[list[Replacement], list[Refusal]]:
    """Disks and bookies to replace, gated like every other disruption."""
    actions: list[Replacement] = []
    refusals = []
    whole = list(_bookies(pass_))
    single = dict.fromkeys([*_disks(pass_), *_deleted_in_use(pass_)])
    at_once = {one.bookie_id for one in whole}  # its volumes are on their way already, all of them
    wanted: list[Replacement] = [*whole, *(o for o in single if o.bookie_id not in at_once)]
    for action in wanted:
        refusal = _refusal(budget, action)
        if refusal is None:
            actions.append(action)
        else:
            refusals.append(refusal)
    return actions, refusals


def _refusal(budget: Budget, action: Replacement) -> Refusal | None:
    if isinstance(action, ReplaceBookie):  # it is out already
        return budget.refusal("ReplaceBookie", action.bookie_id)
    return budget.taking_refusal("ReplaceDisk", action.bookie_id, keeps_disks=False)


def _disks(pass_: Pass) -> Iterator[ReplaceVolume]:
    for task in pass_.unfinished(TaskType.REPLACE_DISK):
        bookie_id = BookieId(task.spec.bookie)
        volume = pass_.observed.bookie(bookie_id).volumes.get(task.spec.disk)
        if volume is None or task.status.target not in ("", volume.uid):
            continue
        yield ReplaceVolume(bookie_id, task.spec.disk, uid=volume.uid)


def _deleted_in_use(pass_: Pass) -> Iterator[ReplaceVolume]:
    """A volume that somebody deleted stays as long as its bookie runs: let it go in good order."""
    for bookie_id in pass_.spec.bookie_ids:
        bookie = pass_.observed.bookie(bookie_id)
        if bookie.process is None:
            continue
        for volume in bookie.volumes.values():
            if volume.is_terminating:
                yield ReplaceVolume(bookie_id, volume.disk, uid=volume.uid)


def _bookies(pass_: Pass) -> Iterator[ReplaceBookie]:
    for task in pass_.unfinished(TaskType.REPLACE_BOOKIE):
        bookie_id = BookieId(task.spec.bookie)
        if bookie_id not in pass_.spec.bookie_ids or gone_since(pass_, bookie_id) is None:
            continue
        old, bookie = _old_volumes(pass_, task), pass_.observed.bookie(bookie_id)
        if old:
            yield ReplaceBookie(
                bookie_id,
                volumes=tuple((one.disk, one.uid) for one in old),
                instance=bookie.process.instance if bookie.process else "",
                is_node_lost=bool(node_lost(bookie)),
            )


def _old_volumes(pass_: Pass, task: BookieTask) -> list[Volume]:
    """The volumes to replace: all that existed when the task began."""
    volumes = pass_.observed.bookie(BookieId(task.spec.bookie)).volumes
    if not task.status.target:
        return list(volumes.values())
    begun = zip(pass_.spec.storage.disks, task.status.target.split(","), strict=False)
    return [
        volumes[disk.name]
        for disk, uid in begun
        if disk.name in volumes and volumes[disk.name].uid[:UID_LENGTH] == uid
    ]


def _target(pass_: Pass, action: ReplaceBookie) -> str:
    uids = dict(action.volumes)
    disks = pass_.spec.storage.disks
    return ",".join(uids[disk.name][:UID_LENGTH] if disk.name in uids else "-" for disk in disks)


def mistake(pass_: Pass, task: BookieTask) -> str:
    """Why this can never be carried out on this cluster; empty = it can."""
    disks = [disk.name for disk in pass_.spec.storage.disks]
    if task.spec.type is TaskType.REPLACE_DISK and task.spec.disk not in disks:
        return f"bookies have no disk {task.spec.disk}: expected one of {', '.join(disks)}"
    if task.spec.type is not TaskType.REPLACE_BOOKIE or task.status.phase is TaskPhase.RUNNING:
        return ""
    if may_be_gone(pass_, BookieId(task.spec.bookie)):
        return ""
    return (
        f"{task.spec.bookie} is registered, or answers, or has never served: replace-bookie is "
        "for one that is away for good; of one that serves use replace-disk"
    )


def follow_disk(pass_: Pass, task: BookieTask, actions: Sequence[Action]) -> TaskStatus:
    """Follow the task from the old volume to the new one."""
    for action in actions:
        if (
            isinstance(action, ReplaceVolume)
            and action.bookie_id == task.spec.bookie
            and action.disk == task.spec.disk
        ):
            return task.status.begun(action.uid, at=pass_.now)
    volume = pass_.observed.bookie(BookieId(task.spec.bookie)).volumes.get(task.spec.disk)
    if task.status.target and volume is not None and volume.uid != task.status.target:
        why = f"the new volume is {volume.uid}"
        return task.status.ended(TaskPhase.SUCCEEDED, why, at=pass_.now)
    return task.status


def follow_bookie(pass_: Pass, task: BookieTask, actions: Sequence[Action]) -> TaskStatus:
    """Follow the task until all old volumes are gone and every disk has a new one."""
    bookie_id = BookieId(task.spec.bookie)
    for action in actions:
        if isinstance(action, ReplaceBookie) and action.bookie_id == bookie_id:
            if task.status.target:
                return task.status
            return task.status.begun(_target(pass_, action), at=pass_.now)
    if not task.status.target:
        return task.status
    old, volumes = _old_volumes(pass_, task), pass_.observed.bookie(bookie_id).volumes
    if not old and len(volumes) == len(pass_.spec.storage.disks):
        why = "it has new volumes; a repair brings its copies back"
        return task.status.ended(TaskPhase.SUCCEEDED, why, at=pass_.now)
    if old and gone_since(pass_, bookie_id) is None:
        why = "it came back before its volumes were given up: nothing more is taken from it"
        return task.status.ended(TaskPhase.FAILED, why, at=pass_.now)
    return task.status
