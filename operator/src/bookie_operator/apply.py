"""Carries out one action, and returns the event that tells people about it.

The planner made each action from one observation. The action names what it was planned for, so that
a platform can refuse it when that has changed.
"""

from dataclasses import replace
from typing import Final

from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.pausing import write_paused
from bookie.metadata.store import MetadataStore
from bookie.wire.identity import Identity

from bookie_operator.control import Addressee, Control
from bookie_operator.model.task import recorded_name
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import (
    Action,
    ApproveCollection,
    ApproveCookieFix,
    CertificateAction,
    CreateVolume,
    DeleteTask,
    DrainBookie,
    DropAuthorities,
    Event,
    ExpandVolume,
    InitialiseMetadata,
    IssueCertificate,
    MakeAuthority,
    PauseCollection,
    RemoveBookie,
    ReplaceBookie,
    ReplaceVolume,
    RestartBookie,
    SignWith,
    SpreadTrust,
    StartBookie,
    StartJob,
    StopJob,
    WithdrawCertificate,
    bookie_of,
)
from bookie_operator.platform import Platform

OPERATOR: Final = "bookie-operator"
"""The operator's name in records, for what it approves by the policy of a spec."""


class Applier:
    """Carries out the actions on one cluster."""

    def __init__(self, platform: Platform, control: Control, *, names_proved: bool = False) -> None:
        """`names_proved`: an admission policy makes people use their own names in decisions."""
        self._platform = platform
        self._control = control
        self._names_proved = names_proved

    async def apply(
        self, action: Action, *, observed: Observed, store: MetadataStore | None
    ) -> Event | None:
        """Carry out the action; return its event, or None. Raises the error that prevented it."""
        match action:
            case InitialiseMetadata():
                return await _initialise(store)
            case PauseCollection(paused):
                return await _pause(store, paused)
            case CreateVolume(bookie_id, disk):
                created = await self._platform.create_volume(bookie_id, disk)
                event = Event("VolumeCreated", f"volume {disk.name} created", bookie_id)
                return event if created else None
            case StartBookie(template, keeps_settings):
                begun = await self._platform.start_bookie(template, keeps_settings=keeps_settings)
                event = Event("BookieStarted", "process started", template.bookie_id)
                return event if begun else None
            case RestartBookie(template, instance, reason, keeps_settings):
                begun = await self._platform.restart_bookie(
                    template, instance=instance, keeps_settings=keeps_settings
                )
                event = Event("BookieRestarting", reason, template.bookie_id)
                return event if begun else None
            case ReplaceVolume(bookie_id, disk_name, uid):
                begun = await self._platform.replace_volume(bookie_id, disk_name, uid=uid)
                event = Event("VolumeReplacing", f"volume {disk_name} {uid} goes", bookie_id)
                return event if begun else None
            case ReplaceBookie(bookie_id):
                begun = await self._platform.replace_bookie(action)
                event = Event("BookieReplacing", "all its volumes go", bookie_id, "Warning")
                return event if begun else None
            case ExpandVolume(bookie_id, disk):
                begun = await self._platform.expand_volume(bookie_id, disk)
                event = Event("VolumeExpanding", f"{disk.name} to {disk.size}", bookie_id)
                return event if begun else None
            case RemoveBookie(bookie_id, delete_volumes=delete_volumes):
                begun = await self._platform.remove_bookie(action)
                what = "its volumes go with it" if delete_volumes else "its volumes are kept"
                event = Event("BookieRemoving", f"no ledger names it any more; {what}", bookie_id)
                return event if begun else None
            case DrainBookie(bookie_id, cancel):
                await self._control.drain(_control_of(bookie_id, observed), cancel=cancel)
                if cancel:
                    return Event("DrainCancelled", "it takes entries again", bookie_id)
                return Event("DrainBegun", "it takes no new entries", bookie_id)
            case ApproveCookieFix():
                return await self._approve(action, observed)
            case ApproveCollection():
                return await self._approve_collection(action, observed)
            case StartJob():
                return await self._start(action)
            case StopJob(name, reason):
                await self._platform.stop_job(name)
                return Event("JobStopped", f"{name}: {reason}")
            case DeleteTask(name, uid):
                await self._platform.delete_task(name, uid=uid)
                return None
            case (
                MakeAuthority() | SignWith() | DropAuthorities() | IssueCertificate()
                | SpreadTrust() | WithdrawCertificate()
            ):  # fmt: skip
                await self._platform.certify(action)
                return _certified(action)

    async def _approve(self, action: ApproveCookieFix, observed: Observed) -> Event:
        to = _control_of(action.bookie_id, observed)
        by = self._named(action.approved_by) if action.approved_by else OPERATOR
        await self._control.approve(to, plan_id=action.plan_id, approved_by=by)
        text = f"fix {action.plan_id} approved by {by}"
        return Event("CookieFixApproved", text, action.bookie_id)

    async def _approve_collection(self, action: ApproveCollection, observed: Observed) -> Event:
        to = _control_of(action.bookie_id, observed)
        by = self._named(action.approved_by)
        await self._control.approve_collection(to, plan_id=action.plan_id, approved_by=by)
        text = f"plan {action.plan_id} approved by {by}"
        return Event("CollectionApproved", text, action.bookie_id, "Warning")

    def _named(self, name: str) -> str:
        """A person's name for records; it says if no admission policy proved it, whatever the name
        is: somebody may write the operator's own."""
        return recorded_name(name, is_proved=self._names_proved)

    async def _start(self, job: StartJob) -> Event | None:
        if job.decision is not None:
            by = self._named(job.decision.approved_by)
            job = replace(job, decision=replace(job.decision, approved_by=by))
        if not await self._platform.start_job(job):
            return None
        name = "".join(word.capitalize() for word in job.kind.value.split("-"))
        if job.decision is not None:
            wish = job.decision
            text = f"{job.name}: {wish.named}, by {wish.approved_by}: {wish.reason}"
            return Event(f"{name}Started", text, type="Warning")
        text = f"{job.name} with engine {job.engine}" if job.engine else job.name
        return Event(f"{name}Started", text, job.bookie_id or "")


def _certified(action: CertificateAction) -> Event | None:
    """The event of an action on certificates; None for SpreadTrust, which `status.tls` shows."""
    match action:
        case MakeAuthority(keeps=keeps, signs=signs):
            how = "it signs" if signs else f"trusted beside {len(keeps)}, before it signs"
            return Event("AuthorityMade", f"an authority was made: {how}")
        case SignWith(fingerprint):
            return Event("AuthoritySigns", f"authority {fingerprint} signs from now on")
        case DropAuthorities():
            return Event("AuthorityDropped", "the authority of before is trusted no more")
        case IssueCertificate(principal, reason=reason):
            return Event("CertificateIssued", f"{principal}: {reason}", bookie_of(action))
        case WithdrawCertificate(principal, reason):
            return Event("CertificateWithdrawn", f"{principal}: {reason}")
        case SpreadTrust():
            return None


def _control_of(bookie_id: BookieId, observed: Observed) -> Addressee:
    """The address of a bookie's control plane, and the process that was observed there."""
    bookie = observed.bookie(bookie_id)
    process, health = bookie.process, bookie.health
    if process is None or process.control is None or health is None:
        raise UnavailableError(f"{bookie_id} has no control plane to ask")
    cluster = observed.metadata.instance_id or health.instance_id
    epoch = health.boot.epoch if health.boot is not None else 0
    meant = Identity(cluster, bookie_id, epoch)
    return Addressee(process.control, meant, has_tls=process.has_tls)


async def _initialise(store: MetadataStore | None) -> Event:
    if store is None:
        raise UnavailableError("the metadata store is not open")
    instance_id = await store.initialise()
    return Event("MetadataInitialised", f"instance id {instance_id}")


async def _pause(store: MetadataStore | None, paused: bool) -> Event:
    if store is None:
        raise UnavailableError("the metadata store is not open")
    await write_paused(store, paused)
    if paused:
        return Event("CollectionPaused", "bookies drop no deleted ledgers")
    return Event("CollectionResumed", "bookies drop deleted ledgers again")
