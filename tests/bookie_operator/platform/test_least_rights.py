"""Who of a cluster's pods may ask the API server anything: Spark's driver, and nobody else."""

from typing import Any

import pytest
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import LossDecision
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    JOB,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Object,
)
from bookie_operator.platform.kubernetes.jobs import executors, token_account
from kubernetes_lab import Lab, repair_job

DRIVER = "demo-spark-driver"
WITHOUT = {"repair": {"engine": "inline"}, "audit": {"engine": "spark-local"}}
"""A spec whose jobs make no pods."""
DECISION = LossDecision("7", 4, "burnt", approved_by="ann")
REPAIR = "demo-bookie-0-2-1"


async def settled(lab: Lab) -> Lab:
    await lab.reach_metadata()
    await lab.platform.jobs()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert failed == {}
    return lab


def change(lab: Lab, spec: dict[str, Any]) -> None:
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(spec))


def rights(lab: Lab) -> set[str]:
    """Names of roles, and of those who have them."""
    roles = {one["metadata"]["name"] for one in lab.api.all(ROLE)}
    subjects = {who["name"] for one in lab.api.all(ROLE_BINDING) for who in one["subjects"]}
    assert roles == {one["metadata"]["name"] for one in lab.api.all(ROLE_BINDING)} == subjects
    return roles


async def job_pod(lab: Lab | None = None, **facts: Any) -> Object:
    lab = lab or Lab()
    await lab.reach_metadata()
    assert await lab.platform.start_job(repair_job(**facts))
    pod: Object = lab.api.the(JOB, REPAIR)["spec"]["template"]["spec"]
    return pod


def account_of(pod: Object) -> tuple[str, bool]:
    return pod["serviceAccountName"], pod["automountServiceAccountToken"]


# Which pods have a token


@pytest.mark.parametrize("engine", ["auto", "spark-kubernetes"])
@pytest.mark.parametrize("kind", [JobKind.REPAIR, JobKind.AUDIT, JobKind.DRAIN, JobKind.MEND])
async def test_a_job_that_may_make_executors_has_the_drivers_account(
    kind: JobKind, engine: str
) -> None:
    assert account_of(await job_pod(kind=kind, engine=engine)) == (DRIVER, True)


@pytest.mark.parametrize(
    "facts",
    [
        {"engine": "inline"},
        {"engine": "spark-local"},
        {"engine": "inline", "kind": JobKind.SCRUB},
        {"engine": "", "kind": JobKind.ACCEPT_LOSS, "decision": DECISION},
    ],
)
async def test_any_other_job_has_no_token_no_right_and_no_port(facts: dict[str, Any]) -> None:
    pod = await job_pod(**facts)
    assert account_of(pod) == ("demo-repair", False)
    [container] = pod["containers"]
    assert "ports" not in container and container["env"] == [{"name": "HOME", "value": "/tmp"}]


async def test_bookies_zookeeper_and_what_builds_an_index_have_no_token() -> None:
    lab = Lab(metadata={"embedded": {}})
    await lab.run_bookie()
    facts: dict[str, Any] = {"kind": JobKind.INDEX_REBUILD, "engine": "", "disks": ("ledger-1",)}
    for _ in range(3):
        await lab.platform.start_job(repair_job(**facts))
        lab.controllers.settle()
    made = [one for kind in (STATEFUL_SET, JOB) for one in lab.api.all(kind)]
    pods = [one["spec"]["template"]["spec"] for one in made]
    assert len(pods) == 3
    assert {account_of(pod) for pod in pods} == {("demo-bookie", False)}


async def test_executors_have_neither_the_drivers_account_nor_a_token() -> None:
    pod = await job_pod(engine="auto")
    values = {one["name"]: one.get("value", "") for one in pod["containers"][0]["env"]}
    assert values["REPAIR_SERVICE_ACCOUNT"] == "demo-repair"
    assert (
        '"automountServiceAccountToken": false'
        in executors(Lab().cluster, TlsMode.OFF)["REPAIR_EXECUTOR_TEMPLATE"]
    )


@pytest.mark.parametrize(("said", "has"), [(None, True), (True, True), (False, False)])
@pytest.mark.parametrize("ended", [False, True])
def test_a_pod_that_says_nothing_of_a_token_has_one_until_its_job_has_ended(
    said: bool | None, has: bool, ended: bool
) -> None:
    """As Kubernetes has it: the rights of its account stay as long."""
    mounts = {} if said is None else {"automountServiceAccountToken": said}
    pod = {"serviceAccountName": "demo-spark-driver", **mounts}
    end = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    job = {"spec": {"template": {"spec": pod}}, "status": {"conditions": [end] if ended else []}}
    assert token_account(job) == ("demo-spark-driver" if has and not ended else "")


async def test_an_account_that_a_spec_names_gives_no_token_to_a_job_that_needs_none() -> None:
    lab = Lab(jobPod={"serviceAccountName": "admin"})
    assert account_of(await job_pod(lab, engine="inline")) == ("admin", False)


# Whether there are rights at all


@pytest.mark.parametrize("path", ["repair", "audit"])
@pytest.mark.parametrize("engine", ["auto", "spark-kubernetes"])
async def test_one_engine_that_may_make_executors_is_enough(path: str, engine: str) -> None:
    lab = await settled(Lab(**(WITHOUT | {path: {"engine": engine}})))
    assert rights(lab) == {DRIVER}


async def test_without_executors_there_is_no_role_and_no_drivers_account() -> None:
    lab = await settled(Lab(**WITHOUT))
    assert rights(lab) == set()
    accounts = {one["metadata"]["name"]: one for one in lab.api.all(SERVICE_ACCOUNT)}
    assert set(accounts) == {"demo-bookie", "demo-repair"}
    assert not any(one["automountServiceAccountToken"] for one in accounts.values())


async def test_rights_go_when_no_engine_needs_them_any_more() -> None:
    lab = await settled(Lab())
    assert rights(lab) == {DRIVER}
    change(lab, WITHOUT)
    await settled(lab)
    assert rights(lab) == set()


async def test_rights_of_an_operator_of_before_go_too() -> None:
    lab = Lab(**WITHOUT)
    labels = names.labels("demo", names.JOBS)
    for kind in (ROLE, ROLE_BINDING):
        who = [{"kind": "ServiceAccount", "name": "demo-repair"}]
        lab.api.put(kind, {"metadata": {"name": "demo-repair", "labels": labels}, "subjects": who})
    await settled(lab)
    assert rights(lab) == set()


async def test_a_driver_that_runs_keeps_its_rights_until_it_has_ended() -> None:
    lab = Lab()
    await job_pod(lab, engine="auto")
    lab.controllers.settle()
    change(lab, WITHOUT)
    await settled(lab)
    assert rights(lab) == {DRIVER}
    lab.controllers.end_job(REPAIR, {})
    await settled(lab)
    assert rights(lab) == set()


async def test_a_role_of_somebody_else_is_left_alone() -> None:
    lab = Lab(**WITHOUT)
    lab.api.put(ROLE, {"metadata": {"name": "theirs"}, "rules": []})
    await settled(lab)
    assert [one["metadata"]["name"] for one in lab.api.all(ROLE)] == ["theirs"]


async def test_at_rest_nobody_is_asked_about_rights() -> None:
    lab = await settled(Lab(**WITHOUT))
    lab.api.calls.clear()
    await settled(lab)
    assert not {kind for _verb, kind, _name in lab.api.calls} & {ROLE.name, ROLE_BINDING.name}
