"""A cluster's spec in which every field is something else than its default.

What reads one field in place of another one, or none, makes something else of it.
"""

from typing import Any, Final


def pod_of(name: str) -> dict[str, Any]:
    """What people may add to the pods of one part; every word has the part's name in it."""
    volume = {"name": f"{name}-scratch"}
    return {
        "labels": {f"{name}-label": "1"},
        "annotations": {f"{name}.example.org/note": "2"},
        "env": [{"name": f"OF_{name.upper()}", "value": "3"}],
        "nodeSelector": {f"{name}-node": "4"},
        "tolerations": [{"key": f"{name}-tolerated", "operator": "Exists"}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": f"{name}-near", "labelSelector": {"matchLabels": {"near": name}}}
        ]}},
        "topologySpreadConstraints": [
            {"maxSkew": 5, "topologyKey": f"{name}-spread", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "priorityClassName": f"{name}-priority",
        "runtimeClassName": f"{name}-runtime",
        "schedulerName": f"{name}-scheduler",
        "serviceAccountName": f"{name}-account",
        "podSecurityContext": {"fsGroup": 6000 + len(name)},
        "securityContext": {"runAsUser": 7000 + len(name)},
        "platformAssignsIds": False,
        "sidecars": [{"name": f"{name}-sidecar", "image": "side:8"}],
        "initContainers": [{"name": f"{name}-before", "image": "before:9"}],
        "volumes": [volume | {"emptyDir": {}}],
        "volumeMounts": [volume | {"mountPath": f"/{name}-scratch"}],
    }  # fmt: skip


def sizes(of: int) -> dict[str, Any]:
    return {
        "requests": {"cpu": f"{of}1m", "memory": f"{of}2Mi"},
        "limits": {"cpu": f"{of}3m", "memory": f"{of}4Mi"},
    }


SECRETS: Final[dict[str, Any]] = {
    "authentication": {"mechanisms": ["tls", "digest-md5"], "usersSecret": "stock-users"},
    "metadata": {"connect": "zk://zk:2181/ledgers", "credentialsSecret": "zk-login"},
}
"""A metadata store that somebody else runs, which asks for a login, and clients that log in."""
EMBEDDED: Final[dict[str, Any]] = {
    "embedded": {"size": "11Gi", "storageClass": "fast", "resources": sizes(1)}
}
WHOLE: Final[dict[str, Any]] = {
    "journalWriteData": True,
    "ack": "sync",
    "flushIntervalSeconds": 12.5,
    "compactionBytesPerSecondBusy": 131072,
    "recoveryBytesPerSecondBusy": 262144,
    "collectGraceSeconds": 13.5,
    "collectShareMax": 0.14,
    "noteIdleFlushes": 15,
    "image": "registry.example.org/bookie:16",
    "imagePullPolicy": "Always",
    "imagePullSecrets": ["registry-17", "registry-18"],
    "replicas": 5,
    "excludedOrdinals": [1],
    "resources": sizes(2),
    "scheduling": {
        "nodeSelector": {"disk": "19"},
        "tolerations": [
            {
                "key": "storage",
                "operator": "Equal",
                "value": "20",
                "effect": "NoExecute",
                "tolerationSeconds": 21,
            }
        ],
        "topologyKey": "example.org/room",
        "required": True,
        "priorityClassName": "important-22",
    },
    "rackTopologyKey": "example.org/rack",
    "lostBookieDelaySeconds": 23,
    "quorum": {"ensemble": 4, "write": 3, "ack": 2},
    "metadata": EMBEDDED,
    "storage": {
        "disks": [
            {"name": "journal", "role": "journal", "size": "24Gi", "storageClass": "fast"},
            {"name": "ledger-0", "role": "ledger", "size": "25Gi", "storageClass": "slow"},
            {"name": "ledger-1", "role": "ledger", "size": "26Gi"},
        ]
    },
    "cookieFix": {"policy": "Approve", "windowSeconds": 27},
    "repair": {
        "engine": "spark-kubernetes",
        "image": "registry.example.org/repair:28",
        "executors": 29,
        "executorCpu": "130m",
        "executorMemory": "531Mi",
        "executorMemoryOverhead": "432Mi",
        "resources": sizes(3),
        "startDeadlineSeconds": 133,
        "maxAttempts": 34,
        "backoffSeconds": 35,
        "backoffMaxSeconds": 936,
        "deadlineSeconds": 3637,
    },
    "audit": {
        "schedule": "@every 38m",
        "onFindings": "Report",
        "engine": "spark-local",
        "recheckDelaySeconds": 39,
        "underreplicatedGraceSeconds": 40,
        "minRacks": 3,
    },
    "scrub": {"schedule": "@every 41h", "readBytesPerSecond": 424242, "deadlineSeconds": 4343},
    "taskHistoryLimit": 44,
    "bookiePod": pod_of("bookie"),
    "zookeeperPod": pod_of("keeper"),
    "jobPod": pod_of("job"),
    "executorPod": pod_of("executor"),
    "external": {
        "type": "NodePort",
        "advertisedHost": "{bookie}.example.org",
        "annotations": {"example.org/lb": "45"},
        "zookeeper": True,
    },
    "networkPolicies": {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"client": "46"}}}],
        "metrics": [{"namespaceSelector": {"matchLabels": {"scrapes": "47"}}}],
    },
    "tls": {
        "mode": "Required",
        "lifetimeDays": 48,
        "renewBeforeDays": 9,
        "authorityDays": 490,
        "http": True,
    },
    "authentication": SECRETS["authentication"],
    "retention": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    "gracePeriodSeconds": 51,
    "rollout": {"partition": 1},
    "restartedAt": "2026-05-02",
}
ISSUED: Final[dict[str, Any]] = {"mode": "Required", "issuer": {"name": "corporate"}}
BALANCED: Final[dict[str, Any]] = {
    "type": "LoadBalancer",
    "annotations": {"example.org/lb": "53"},
    "loadBalancerClass": "example.org/class-54",
    "loadBalancerNodePorts": False,
    "sourceRanges": ["192.0.2.0/24"],
    "zookeeper": True,
}
