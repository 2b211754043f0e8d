"""What the stories apply: a small cluster, tasks, the writer's pod."""

from collections.abc import Mapping
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
UID: Final = 10001

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


def writer_pod(namespace: str, metadata_url: str, image: str, *words: str) -> Object:
    """Writes until told to stop, then stays, so that the check finds its notes."""
    script = (
        'python /e2e/writer.py write --folder /state "$@"; '
        'echo "{\\"ended\\": $?}"; exec tail -f /dev/null'
    )
    container = {
        "name": WRITER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script, WRITER, "--metadata", metadata_url, *words],
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
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": WRITER, "namespace": namespace},
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
            "containers": [container],
            "volumes": [
                {"name": "script", "configMap": {"name": WRITER}},
                {"name": "state", "emptyDir": {}},
            ],
        },
    }
