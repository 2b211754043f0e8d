"""What planner tests are written in: a small cluster, bookies in given states, jobs that ran."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie.wire.admin.health import BootRecord, CookieFix, DiskHealth, Health, Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.reports import AuditReport
from bookie_operator.model.task import BookieTask
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import (
    Bookie,
    Exit,
    Job,
    JobKind,
    MetadataView,
    Observed,
    Process,
    Volume,
)
from bookie_operator.plan.actions import template_of
from bookie_operator.tls_view import Authorities, Authority, Certificate, TlsView

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DISKS = (
    {"name": "journal", "role": "journal"},
    {"name": "ledger-0", "role": "ledger"},
    {"name": "ledger-1", "role": "ledger"},
)
HEALTHY = MetadataView(
    url="zks://here:2181/ledgers", reachable=True, instance_id="instance-1", known_since=T0
)


DAY = timedelta(days=1)
SIGNER = Authority("aa", T0 - DAY, T0 + 1000 * DAY)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def manifest(**spec: Any) -> dict[str, Any]:
    """A BookieCluster as a person writes it; keywords replace parts of its spec."""
    base = {"replicas": 4, "storage": {"disks": list(DISKS)}, "repair": {"backoffSeconds": 10}}
    return {
        "apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1",
        "kind": "BookieCluster",
        "metadata": {"name": "demo", "generation": 1},
        "spec": base | spec,
    }


def cluster(**spec: Any) -> BookieCluster:
    return BookieCluster.model_validate(manifest(**spec))


def holder(role: Role, name: str = "") -> Principal:
    return Principal("fleet", "demo", role, name or role.value)


def good(principal: Principal, ends: timedelta = 80 * DAY) -> Certificate:
    """A certificate as it should be, that `SIGNER` signed."""
    hosts = frozenset({principal.server_name, f"{principal.name}.svc"})
    return Certificate("", principal, hosts, T0 - DAY, T0 + ends, "aa", frozenset({"aa"}))


def all_certified(of: BookieCluster) -> TlsView:
    """Everybody of the fleet has a good certificate."""
    holders = [holder(Role.BOOKIE, one) for one in of.spec.bookie_ids]
    holders += [holder(Role.OPERATOR), holder(Role.JOB), holder(Role.CLIENT)]
    return TlsView(
        hosts={one: (f"{one.name}.svc",) for one in holders},
        certificates={one: good(one) for one in holders},
        authorities=Authorities(SIGNER, None, {"aa": SIGNER}),
    )


def volumes_of(bookie_id: str) -> dict[str, Volume]:
    return {d["name"]: Volume(d["name"], f"{bookie_id}-{d['name']}-uid") for d in DISKS}


def bookie(
    bookie_id: str,
    *,
    of: BookieCluster | None = None,
    phase: Phase | None = Phase.SERVING,
    epoch: int = 1,
    reason: str = "CleanStop",
    limbo: int = 0,
    unchecked: int = 0,
    running: bool = True,
    fix: CookieFix | None = None,
    verdicts: Mapping[str, str] | None = None,
    exit_at: float | None = None,
    boot_at: float = 0,
    has_cookie: bool | None = True,
    process_facts: Mapping[str, Any] | None = None,
    **health: Any,
) -> Bookie:
    """One bookie of `of`; by default it serves, clean, in epoch 1. `phase` None = no answer."""
    name = BookieId(bookie_id)
    volumes = volumes_of(bookie_id)
    template = template_of((of or cluster()).spec, name)
    boot = BootRecord(
        epoch=epoch,
        clean=reason in ("CleanStop", "FirstBoot"),
        reason=reason,
        started_at=at(boot_at),
        mode="memory",
        ledgers_fenced=limbo + unchecked,
        ledgers_in_limbo=limbo,
        ledgers_unchecked=unchecked,
    )
    disks = tuple(
        DiskHealth(
            role=disk["role"],
            index=max(0, number - 1),
            disk_id=f"id-{number}",
            verdict=(verdicts or {}).get(disk["name"], "ok"),
            volume_uid=volumes[disk["name"]].uid,
        )
        for number, disk in enumerate(DISKS)
    )
    told = Health(
        phase=phase or Phase.BOOTING,
        boot=boot,
        disks=disks,
        limbo_ledgers=limbo,
        unchecked_ledgers=unchecked,
        cookie_fix=fix,
        **health,
    )
    process = Process(
        instance=f"{bookie_id}-{epoch}",
        running=running,
        revision=template.revision,
        started_at=at(boot_at),
        last_exit=None if exit_at is None else Exit(at(exit_at), -9, "killed by signal 9"),
        tls=template.tls.mode if template.tls else TlsMode.OFF,
    )
    process = replace(process, **(process_facts or {}))
    return Bookie(
        id=name,
        volumes=volumes,
        process=process,
        health=told if running and phase is not None else None,
        is_writable=running and phase is Phase.SERVING,
        is_registered=running and phase in (Phase.SERVING, Phase.READ_ONLY, Phase.DRAINING),
        has_cookie=has_cookie,
    )


def observed(
    *special: Bookie,
    seconds: float = 0,
    of: BookieCluster | None = None,
    jobs: Iterable[Job] = (),
    tasks: Iterable[BookieTask] = (),
    metadata: MetadataView = HEALTHY,
) -> Observed:
    """All bookies of `of` serving, but those given."""
    spec = (of or cluster()).spec
    fleet = {name: bookie(name, of=of) for name in spec.bookie_ids}
    fleet |= {one.id: one for one in special}
    whole = of or cluster()
    return Observed(
        now=at(seconds),
        metadata=metadata,
        bookies=fleet,
        jobs=tuple(jobs),
        tasks=tuple(tasks),
        tls=None if whole.spec.tls.mode is TlsMode.OFF else all_certified(whole),
    )


def fix_request(plan_id: str = "plan-1") -> CookieFix:
    return CookieFix(plan_id, (1,), "ledger disk 0 is empty", "Approve")


CLEAN = AuditReport(ok=1)


def audited(report: AuditReport = CLEAN, attempt: int = 1, *, began: float = 0) -> Job:
    """An audit that has ended, a second after it began."""
    return Job(
        f"demo-audit-{attempt}", JobKind.AUDIT, attempt, running=False,
        started_at=at(began), ended_at=at(began + 1), report=report,
    )  # fmt: skip


def task(kind: str, name: str = "task-1", **spec: Any) -> BookieTask:
    return BookieTask.model_validate(
        {"metadata": {"name": name}, "spec": {"cluster": "demo", "type": kind} | spec}
    )
