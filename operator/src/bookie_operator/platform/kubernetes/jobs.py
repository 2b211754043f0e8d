"""Repairs, audits and other jobs as batch/v1 Jobs: the manifest, and how a Job ended. Pure.

A Job's pod is the engine itself, and with engine spark-kubernetes the driver of Spark in client
mode; its executors are pods that it makes. The result's summary comes back in the container's
termination message: counts for people. That a bookie is whole again, only the bookie says.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from bookie.pods import BLOCKS_PORT, DRIVER_PORT, container_security, executor_template
from bookie.tls.principals import Principal, Role

from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.quantity import size_bytes
from bookie_operator.model.repair_spec import RepairEngine
from bookie_operator.model.reports import message_of
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.deadlines import deadline_s
from bookie_operator.platform.job_command import job_words, rebuild_words, reports_progress
from bookie_operator.platform.job_facts import facts_of, job_of_facts, started_job
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.bookies import DATA, disk_volume, where_bookies_run
from bookie_operator.platform.kubernetes.credentials import with_credentials
from bookie_operator.platform.kubernetes.named_secrets import with_login
from bookie_operator.platform.kubernetes.overlay import overlaid
from bookie_operator.platform.kubernetes.pods import (
    Part,
    field_env,
    image_of,
    literal,
    pod_security,
    pull_secrets,
    resources,
    scratch,
    value_env,
)
from bookie_operator.platform.kubernetes.view import container_of, moment, waiting_reason
from bookie_operator.reports import with_report

CONTAINER: Final = "repair"
SUMMARY: Final = "/dev/termination-log"
MESSAGE_MAX: Final = 1024
JOBS_MAX: Final = 30
"""Ended jobs beyond this are removed, oldest first."""
TTL_S: Final = 24 * 3600
DEADLINE_SLACK_S: Final = 60
"""The planner stops a late job; Kubernetes does when no operator runs."""
WITH_EXECUTORS: Final = (RepairEngine.AUTO, RepairEngine.SPARK_KUBERNETES)
"""Engines that may make pods: `auto` does for many ledgers."""


def may_need_driver(spec: ClusterSpec) -> bool:
    """A job of this cluster may be the driver of executors."""
    return not {spec.repair.engine, spec.audit.engine}.isdisjoint(WITH_EXECUTORS)


def may_be_driver(job: StartJob) -> bool:
    return job.engine in WITH_EXECUTORS


def command(job: StartJob, metadata_url: str) -> list[str]:
    ending = ["--output", "json", "--summary", SUMMARY]
    if reports_progress(job):
        ending.append("--progress")
    return ["bookie", *job_words(job, metadata_url, ending)]


def job_manifest(
    cluster: BookieCluster,
    job: StartJob,
    *,
    metadata_url: str,
    now: datetime,
    clients: TlsMode = TlsMode.OFF,
) -> Object:
    """`clients`: how it talks to bookies."""
    name, spec = cluster.metadata.name, cluster.spec
    if job.kind is JobKind.INDEX_REBUILD:
        pod = _pod_with_disks(cluster, job)
    else:
        pod = _pod(cluster, command(job, metadata_url), clients, is_driver=may_be_driver(job))
        holder = job.shows or Principal("", name, Role.JOB, "")
        pod = with_credentials(pod, name, holder.role, clients, name=holder.name)
        pod = with_login(pod, spec.metadata.credentials_secret)
    more = {"bookie": job.bookie_id} if job.bookie_id is not None else {}
    if job.kind is JobKind.REREPLICATE:  # another's bookie may have a name that no label can hold
        more = {}
    own = names.labels(name, names.JOBS, **more)
    return {
        "metadata": {
            "name": job.name,
            "labels": own,
            "annotations": {names.JOB_FACTS: _facts(job, now)},
            "ownerReferences": [names.owner(name, cluster.metadata.uid)],
        },
        "spec": {
            "backoffLimit": 0,  # the planner tries again, with its own waits and a new name
            "ttlSecondsAfterFinished": TTL_S,
            "activeDeadlineSeconds": int(deadline_s(spec, job.kind)) + DEADLINE_SLACK_S,
            "template": overlaid(
                {"metadata": {"labels": own}, "spec": pod}, spec.job_pod, is_job=True
            ),
        },
    }


def _facts(job: StartJob, now: datetime) -> str:
    facts = facts_of(started_job(job, at=now))
    at = now.isoformat(timespec="milliseconds")
    return json.dumps(facts | {"startedAt": at}, sort_keys=True)


def _pod(
    cluster: BookieCluster, words: Sequence[str], clients: TlsMode, *, is_driver: bool
) -> Part:
    """With a token and an account that may make pods for a driver of executors alone."""
    spec, name = cluster.spec, cluster.metadata.name
    account = names.driver_account(name) if is_driver else names.repair_account(name)
    home = value_env({"HOME": "/tmp"})
    tmp, tmp_mount = scratch()
    container = {
        "name": CONTAINER,
        **image_of(spec, spec.repair.image),
        "args": [literal(word) for word in words],
        "env": [*(_driver_env(cluster, clients) if is_driver else ()), *home],
        "resources": resources(spec.repair.resources),
        "securityContext": container_security(),
        "terminationMessagePath": SUMMARY,
        "volumeMounts": [tmp_mount],
    }
    if is_driver:
        container["ports"] = [
            {"name": "driver", "containerPort": DRIVER_PORT},
            {"name": "blocks", "containerPort": BLOCKS_PORT},
        ]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "automountServiceAccountToken": is_driver,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [tmp],
        **pull_secrets(spec.image_pull_secrets),
    }


def _driver_env(cluster: BookieCluster, clients: TlsMode) -> list[Part]:
    """What a driver has to know of its own pod and of the executors it is to make."""
    spec, name = cluster.spec, cluster.metadata.name
    fields = {
        "POD_IP": "status.podIP",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
    }
    values = {
        "REPAIR_IMAGE": spec.repair.image,
        "REPAIR_IMAGE_PULL_POLICY": spec.image_pull_policy.value,
        "REPAIR_IMAGE_PULL_SECRETS": ",".join(spec.image_pull_secrets),
        "REPAIR_START_DEADLINE_SECONDS": f"{spec.repair.start_deadline_seconds:g}",
        **executors(cluster, clients),
        "REPAIR_SERVICE_ACCOUNT": names.repair_account(name),
        "REPAIR_CLUSTER": name,
    }
    return [*field_env(fields), *value_env(values)]


def token_account(job: Object) -> str:
    """The account whose token this Job's pod has while it runs; empty = none, or it has ended."""
    pod = job["spec"]["template"]["spec"]
    is_over = _end(job.get("status") or {}) is not None
    has_token = not is_over and pod.get("automountServiceAccountToken", True)
    return str(pod.get("serviceAccountName") or "") if has_token else ""


def executors(cluster: BookieCluster, clients: TlsMode) -> dict[str, str]:
    """How many executors Spark makes, of what size, and what is added to their pods."""
    spec, own = cluster.spec, executor_template()
    pod = with_credentials(own["spec"], cluster.metadata.name, Role.JOB, clients)
    pod = with_login(pod, spec.metadata.credentials_secret)
    template = overlaid({**own, "spec": pod}, spec.executor_pod)
    return {
        "REPAIR_EXECUTORS": str(spec.repair.executors),
        "REPAIR_EXECUTOR_CPU": spec.repair.executor_cpu,
        "REPAIR_EXECUTOR_MEMORY": spark_size(spec.repair.executor_memory),
        "REPAIR_EXECUTOR_OVERHEAD": spark_size(spec.repair.executor_memory_overhead),
        "REPAIR_EXECUTOR_TEMPLATE": json.dumps(template, sort_keys=True),
    }


def spark_size(size: str) -> str:
    """A quantity as Spark writes it: `512Mi` is its `512m`; never less than was asked for."""
    return f"{-(-size_bytes(size) // 2**20)}m"


def _pod_with_disks(cluster: BookieCluster, job: StartJob) -> Part:
    """Pod of a job with the bookie's image and volumes, on a node where the bookie could run.

    It needs no network.
    """
    spec, name = cluster.spec, cluster.metadata.name
    assert job.bookie_id is not None, "its disks are somebody's"
    tmp, tmp_mount = scratch()
    folders = {disk: f"{DATA}/{disk}" for disk in job.disks}
    container = {
        "name": CONTAINER,
        **image_of(spec, spec.image),
        "args": ["bookie", *rebuild_words(folders.values())],
        "env": value_env({"HOME": "/tmp"}),
        "resources": resources(spec.resources),
        "securityContext": container_security(),
        "terminationMessagePath": SUMMARY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            tmp_mount,
            *({"name": f"disk-{disk}", "mountPath": path} for disk, path in folders.items()),
        ],
    }
    return {
        "restartPolicy": "Never",
        "serviceAccountName": names.bookie_account(name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [tmp, *(disk_volume(name, job.bookie_id, disk) for disk in job.disks)],
        **where_bookies_run(spec.scheduling),
        **pull_secrets(spec.image_pull_secrets),
    }


def job_of(job: Object, pods: Sequence[Object]) -> Job | None:
    """A Job of ours with what its pod left; None for a foreign one."""
    metadata, status = job["metadata"], job.get("status") or {}
    plain = _plain(metadata)
    if plain is None:
        return None
    ended = _end(status)
    pod = _pod_of(metadata, pods)
    terminated = (container_of(pod, CONTAINER).get("state") or {}).get("terminated") or {}
    tree = _summary(terminated.get("message"))
    return replace(
        with_report(plain, tree) if tree else plain,
        running=ended is None,
        ended_at=max(ended[0], plain.started_at) if ended else None,
        exit_code=terminated.get("exitCode"),
        message=_message(tree, terminated, ended),
        waiting=waiting_reason(pod, CONTAINER) if ended is None and pod else "",
    )


def beyond_history(found: Sequence[Object]) -> list[Object]:
    """Jobs of ours that have ended and are too many, oldest first."""
    bodies = {str(one["metadata"]["name"]): one for one in found}
    jobs = [job for one in found if (job := job_of(one, ())) is not None]
    ended = sorted((job for job in jobs if not job.running), key=lambda job: job.started_at)
    return [bodies[job.name] for job in ended[: max(0, len(ended) - JOBS_MAX)]]


def _plain(metadata: Object) -> Job | None:
    """What was started, as the annotation tells."""
    try:
        facts = json.loads(metadata["annotations"][names.JOB_FACTS])
        job = job_of_facts(metadata["name"], facts)
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    return job if job.started_at.tzinfo is not None else None


def running_pod(job: Object, pods: Sequence[Object]) -> str:
    """Name of the pod whose container works at this Job now; empty = none does."""
    pod = _pod_of(job["metadata"], pods)
    state = container_of(pod, CONTAINER).get("state") or {}
    return str(pod["metadata"]["name"]) if "running" in state else ""


def missed_of_job(job: Object, pods: Sequence[Object]) -> str:
    """Name of the object whose events say why this Job's process does not start; empty = it has
    started, or its pod's status says why."""
    pod = _pod_of(job["metadata"], pods)
    if not pod:
        return str(job["metadata"]["name"])
    state = container_of(pod, CONTAINER).get("state") or {}
    has_started = "running" in state or "terminated" in state
    return "" if has_started or waiting_reason(pod, CONTAINER) else str(pod["metadata"]["name"])


def _pod_of(job: Object, pods: Sequence[Object]) -> Object:
    """A pod that is already deleted leaves no report; the Job's own end is enough."""
    return next((one for one in pods if _is_pod_of(one, job["uid"])), {})


def _is_pod_of(pod: Object, job_uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == job_uid for owner in owners)


def _end(status: Mapping[str, Any]) -> tuple[datetime, str] | None:
    """When the Job ended, and the reason when it did not succeed."""
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True" or condition.get("type") not in ("Complete", "Failed"):
            continue
        at = moment(condition.get("lastTransitionTime"))
        assert at is not None, "the API server stamps every condition"
        failed = condition["type"] == "Failed"
        return at, str(condition.get("message") or "failed") if failed else ""
    return None


def _summary(message: str | None) -> Mapping[str, Any]:
    try:
        tree = json.loads(message or "")
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _message(
    tree: Mapping[str, Any], terminated: Mapping[str, Any], ended: tuple[datetime, str] | None
) -> str:
    if tree:
        return message_of(tree)
    reason = str(terminated.get("reason") or "")
    if terminated and reason != "Completed":
        why = " ".join(str(terminated.get("message") or "").split())
        return why[:MESSAGE_MAX] or f"{reason} (exit code {terminated.get('exitCode')})"
    return ended[1] if ended else ""
