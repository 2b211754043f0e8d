"""A pod that is the driver of Spark executors: what its environment says, Spark's settings.

The operator starts a repair as a Job; its pod runs Spark in client mode and makes executor pods of
the same image. Everything here is a function of the environment; `spark.session` uses it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final

from bookie import pods
from bookie.errors import SettingsError
from bookie.hosts import bracketed
from bookie.pods import BLOCKS_PORT, DRIVER_PORT, GROUP

REQUIRED: Final = (
    "KUBERNETES_SERVICE_HOST", "POD_IP", "POD_NAME", "POD_NAMESPACE", "REPAIR_IMAGE",
)  # fmt: skip
EXECUTORS, EXECUTORS_MAX = 2, 64
START_DEADLINE_S: Final = 120.0
POD_NAME_PREFIX_MAX: Final = 47
JVM_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A quick start and a small heap rather than peak speed: a JVM that lives for seconds."""
TASK_FAILURES_MAX: Final = 8
"""An eviction counts as a failure of the task that ran; Spark's own limit is 4."""
DRIVER_LABEL: Final = f"{GROUP}/driver"


@dataclass(frozen=True, slots=True)
class DriverPod:
    """This pod, and the executors it is to make.

    `memory` is an executor's heap, `overhead` what its Python workers get beside it.
    `start_deadline_s`: how long the work may be without any executor before it is given up.
    """

    api_server: str
    ip: str
    name: str
    namespace: str
    image: str
    executors: int = EXECUTORS
    memory: str = "512m"
    overhead: str = "384m"
    cpu: str = "100m"
    service_account: str = ""
    cluster: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: str = ""
    start_deadline_s: float = START_DEADLINE_S
    template: Mapping[str, Any] = field(default_factory=dict)
    """Metadata and spec of an executor's pod, as the operator wants it; empty: as ours are."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "DriverPod":
        """SettingsError when this is no such pod, or a value makes no sense."""
        if (missing := driver_obstacle(environ)) is not None:
            raise SettingsError(missing)
        optional = {
            "memory": "REPAIR_EXECUTOR_MEMORY",
            "overhead": "REPAIR_EXECUTOR_OVERHEAD",
            "cpu": "REPAIR_EXECUTOR_CPU",
            "service_account": "REPAIR_SERVICE_ACCOUNT",
            "cluster": "REPAIR_CLUSTER",
            "pull_policy": "REPAIR_IMAGE_PULL_POLICY",
            "pull_secrets": "REPAIR_IMAGE_PULL_SECRETS",
        }
        return cls(
            api_server=_address(environ),
            ip=environ["POD_IP"],
            name=environ["POD_NAME"],
            namespace=environ["POD_NAMESPACE"],
            image=environ["REPAIR_IMAGE"],
            executors=int(_number(environ, "REPAIR_EXECUTORS", EXECUTORS, EXECUTORS_MAX)),
            start_deadline_s=_number(
                environ, "REPAIR_START_DEADLINE_SECONDS", START_DEADLINE_S, 86_400
            ),
            template=_template(environ),
            **{name: environ[key] for name, key in optional.items() if environ.get(key)},
        )


def driver_obstacle(environ: Mapping[str, str]) -> str | None:
    """Why this process cannot be a driver of executors in pods, None when it can."""
    missing = [name for name in REQUIRED if not environ.get(name)]
    if not missing:
        return None
    return (
        f"it needs a pod that may make pods, and {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not set (the operator's jobs have them)"
    )


def spark_conf(pod: DriverPod, template: Path) -> dict[str, str]:
    """Spark's settings, besides those that every session has. `template`: of executor pods."""
    conf = {
        "spark.master": f"k8s://https://{pod.api_server}",
        "spark.submit.deployMode": "client",
        "spark.driver.host": bracketed(pod.ip),
        # Spark gives this to its executors as the driver's address.
        "spark.driver.bindAddress": bracketed(pod.ip),
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCKS_PORT),
        "spark.kubernetes.namespace": pod.namespace,
        # The executors belong to the driver's pod: they go when it goes.
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.kubernetes.executor.podNamePrefix": executor_prefix(pod.name),
        "spark.kubernetes.container.image": pod.image,
        "spark.kubernetes.container.image.pullPolicy": pod.pull_policy,
        # What failed stays to be looked at; `executor_pods` takes away what still waits or runs.
        "spark.kubernetes.executor.deleteOnTermination": "false",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": pods.EXECUTOR,
        "spark.kubernetes.executor.request.cores": pod.cpu,
        # The job's role may not make ConfigMaps, and none is needed.
        "spark.kubernetes.executor.disableConfigMap": "true",
        # It may not delete these either, and there are none.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.executor.instances": str(pod.executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": pod.memory,
        # In client mode Spark's own share for Python is a tenth: too little.
        "spark.executor.memoryOverhead": pod.overhead,
        "spark.executor.extraJavaOptions": JVM_FLAGS,
        "spark.dynamicAllocation.enabled": "false",
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
        # All executors work from the start, wherever the rows were made.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
        "spark.locality.wait": "0s",
    }
    if pod.service_account:
        conf["spark.kubernetes.authenticate.executor.serviceAccountName"] = pod.service_account
    if pod.pull_secrets:
        conf["spark.kubernetes.container.image.pullSecrets"] = pod.pull_secrets
    return conf


def executor_template(pod: DriverPod) -> dict[str, Any]:
    """The pod of an executor, as the operator wants it or else as ours are, with our labels."""
    template = pod.template or pods.executor_template()
    labels = {
        **template["metadata"].get("labels", {}),
        "app.kubernetes.io/name": "repair",
        f"{GROUP}/component": "executor",
        DRIVER_LABEL: pod.name,
    }
    if pod.cluster:
        labels |= {"app.kubernetes.io/instance": pod.cluster, f"{GROUP}/cluster": pod.cluster}
        labels["app.kubernetes.io/managed-by"] = "bookie-operator"
    metadata = {**template["metadata"], "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def executor_pod(pod: DriverPod) -> dict[str, Any]:
    """A pod as Spark makes an executor's of that template, as far as quotas and policies see it."""
    made = executor_template(pod)
    first, *others = made["spec"]["containers"]
    memory = f"{mebibytes(pod.memory) + mebibytes(pod.overhead)}Mi"
    resources = {"requests": {"cpu": pod.cpu, "memory": memory}, "limits": {"memory": memory}}
    container = {**first, "image": pod.image, "resources": resources}
    metadata = {**made["metadata"], "generateName": f"{executor_prefix(pod.name)}-exec-"}
    spec = {**made["spec"], "containers": [container, *others], "restartPolicy": "Never"}
    if pod.service_account:
        spec["serviceAccountName"] = pod.service_account
    return {**made, "metadata": metadata, "spec": spec}


def executor_prefix(driver: str) -> str:
    """What the names of a driver's executors begin with: no other driver has it, since executors
    of earlier jobs are kept for a while and Kubernetes takes a name once."""
    if len(driver) <= POD_NAME_PREFIX_MAX:
        return driver.rstrip("-.")
    digest = hashlib.sha256(driver.encode()).hexdigest()[:8]
    return f"{driver[: POD_NAME_PREFIX_MAX - len(digest) - 1].rstrip('-.')}-{digest}"


def mebibytes(size: str) -> int:
    """Of a size as Spark takes it: 512m, 2g, 1gb, or 512 of MiB; 0 of what it would refuse."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", size.lower())
    if found is None:
        return 0
    units = {"k": 1 / 1024, "m": 1, "": 1, "g": 1024, "t": 1024**2}
    return ceil(int(found[1]) * units[found[2]])


def _address(environ: Mapping[str, str]) -> str:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    return f"{bracketed(host)}:{port}"


def _template(environ: Mapping[str, str]) -> Mapping[str, Any]:
    given = environ.get("REPAIR_EXECUTOR_TEMPLATE") or "{}"
    try:
        found: Mapping[str, Any] = json.loads(given)
        if not found or (found["metadata"] is not None and found["spec"]["containers"]):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise SettingsError(
        f"REPAIR_EXECUTOR_TEMPLATE is {given[:100]!r}, expected metadata and spec of a pod as JSON"
    )


def _number(environ: Mapping[str, str], name: str, default: float, most: float) -> float:
    given = environ.get(name) or default
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 1 <= value <= most:
        raise SettingsError(f"{name} is {given!r}, expected a number from 1 to {most:g}")
    return value
