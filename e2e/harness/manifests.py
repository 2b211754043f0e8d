"""What the stories apply: a small cluster, tasks, the writer's pod."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.kube import Object
from harness.settings import ROOT, TAG

API: Final = "bookkeeper.bookie-operator.dev/v1alpha1"
CLUSTER: Final = "demo"
BOOKIE_IMAGE: Final = f"bookie-operator/bookie:{TAG}"
REPAIR_IMAGE: Final = f"bookie-operator/repair:{TAG}"
WRITER: Final = "writer"
WRITER_SCRIPT: Final = ROOT / "e2e" / "pods" / "writer.py"
JUDGE: Final = "judge"
JUDGE_FOLDER: Final = "/judge"
JUDGE_SCRIPT: Final = r"""
cat >/judge/run <<'END'
java=$(python -c 'from bookie.metadata.java import find_java; print(find_java())')
exec "$java" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir=/notes \
    -Dlog4j2.configurationFile=/judge/log4j2.properties \
    -cp '/judge/classes:/judge/lib/*' judge.Main "$@"
END
exec tail -f /dev/null
"""
"""Makes `run`, which starts the judge with the Java that jobs have, and stays."""
UID: Final = 10001
CREDENTIALS: Final = "/etc/bookie/tls"
"""Of a client, where users mount theirs as well."""
JOB_CREDENTIALS: Final = "/etc/bookie/job"
"""Of the cluster's jobs, for what asks bookies' control planes: clients may call nothing there."""
OFF: Final = "Off"
ACCEPTED: Final = "Accepted"
REQUIRED: Final = "Required"
"""`spec.tls.mode`, and how a pod of ours talks: without credentials, with them also to those who
have none, or under TLS alone."""

SPEC: Final[Object] = {
    "image": BOOKIE_IMAGE,
    "imagePullPolicy": "IfNotPresent",
    "replicas": 4,
    "journalWriteData": False,
    "ack": "memory",
    "flushIntervalSeconds": 10,
    "quorum": {"ensemble": 3, "write": 3, "ack": 2},
    "metadata": {"embedded": {}},
    "storage": {
        "disks": [
            {"name": "journal", "role": "journal", "size": "1Gi"},
            {"name": "ledger-0", "role": "ledger", "size": "1Gi"},
            {"name": "ledger-1", "role": "ledger", "size": "1Gi"},
        ]
    },
    "cookieFix": {"policy": "Auto", "windowSeconds": 600},
    "repair": {"image": REPAIR_IMAGE, "engine": "auto", "backoffSeconds": 2},
    "audit": {"schedule": "@never"},
    "gracePeriodSeconds": 60,
}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Object:
    """`base` with `change` over it, mapping by mapping."""
    found = dict(base)
    for key, value in change.items():
        before = found.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[key] = merged(before, value) if both and before is not None else value
    return found


def cluster(namespace: str, change: Mapping[str, Any], *, name: str = CLUSTER) -> Object:
    return {
        "apiVersion": API,
        "kind": "BookieCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merged(SPEC, change),
    }


def task(namespace: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": API,
        "kind": "BookieTask",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"cluster": CLUSTER, **spec},
    }


def quota(namespace: str, name: str, hard: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": dict(hard)},
    }


def storage_class(name: str, provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def namespace(name: str) -> Object:
    """With the strictest pod security, so that every pod of the product meets it."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


def writer_script(namespace: str, script: Path = WRITER_SCRIPT) -> Object:
    text = script.read_text(encoding="utf-8")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": WRITER, "namespace": namespace},
        "data": {"writer.py": text},
    }


def writer_pod(
    namespace: str,
    metadata_url: str,
    image: str,
    *words: str,
    name: str = WRITER,
    clients: str = REQUIRED,
) -> Object:
    """Writes until told to stop, then stays, so that the check finds its notes."""
    script = (
        'python /e2e/writer.py write --folder /state "$@"; '
        'echo "{\\"ended\\": $?}"; exec tail -f /dev/null'
    )
    container: Object = {
        "name": WRITER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script, WRITER, "--metadata", metadata_url, *words],
        "env": credentials_env(clients),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "script", "mountPath": "/e2e"},
            {"name": "state", "mountPath": "/state"},
        ],
    }
    volumes: list[Object] = [
        {"name": "script", "configMap": {"name": WRITER}},
        {"name": "state", "emptyDir": {}},
    ]
    if clients != OFF:
        for holder, folder in (("client", CREDENTIALS), ("job", JOB_CREDENTIALS)):
            container["volumeMounts"].append(mount(holder, folder))
            volumes.append(secret_volume(holder))
    return pod(namespace, name, container, volumes)


def judge_pod(namespace: str, clients: str) -> Object:
    """Where the judge writes and checks when it is asked to."""
    container: Object = {
        "name": JUDGE,
        "image": REPAIR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", JUDGE_SCRIPT],
        "resources": {"requests": {"cpu": "20m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "judge", "mountPath": JUDGE_FOLDER},
            {"name": "notes", "mountPath": "/notes"},
        ],
    }
    volumes: list[Object] = [{"name": name, "emptyDir": {}} for name in ("judge", "notes")]
    if clients != OFF:
        container["volumeMounts"].append(mount("client", CREDENTIALS))
        volumes.append(secret_volume("client"))
    return pod(namespace, JUDGE, container, volumes)


def tls_words(clients: str) -> list[str]:
    """What the judge is started with beside its address."""
    return [] if clients == OFF else ["--tls", CREDENTIALS]


def credentials_env(clients: str) -> list[Object]:
    """What a client of ours is started with; nothing where it talks plain."""
    if clients == OFF:
        return []
    env: list[Object] = [{"name": "BOOKIE_TLS__DIRECTORY", "value": CREDENTIALS}]
    return env + ([{"name": "BOOKIE_TLS__MODE", "value": clients}] if clients == ACCEPTED else [])


def mount(holder: str, folder: str) -> Object:
    return {"name": f"{holder}-tls", "mountPath": folder, "readOnly": True}


def secret_volume(holder: str) -> Object:
    """The credentials of one of the cluster: `client`, `job`, `bookie-0`."""
    source = {"secretName": f"{CLUSTER}-{holder}-tls", "defaultMode": 0o440}
    return {"name": f"{holder}-tls", "secret": source}


def pod(
    namespace: str, name: str, container: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]
) -> Object:
    """One that the strictest pod security takes, without a token."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": UID,
                "fsGroup": UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [dict(container)],
            "volumes": list(volumes),
        },
    }
