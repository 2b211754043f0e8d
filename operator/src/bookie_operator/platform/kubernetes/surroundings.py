"""What a cluster needs around its bookies: services, accounts, disruption budget, ZooKeeper. Pure.

`platform` applies all of it, again and again; the disruption budget follows the status, so that no
node drain takes a bookie away while entries are in limbo.
"""

from typing import Final

from bookie.pods import container_security
from bookie.tls.principals import Role

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.metadata_spec import EmbeddedMetadata
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.tls_modes import TLS_SCHEME, store_has_tls
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.bookies import PORTS
from bookie_operator.platform.kubernetes.credentials import with_credentials
from bookie_operator.platform.kubernetes.overlay import overlaid
from bookie_operator.platform.kubernetes.pods import (
    Part,
    image_of,
    pod_security,
    pull_secrets,
    resources,
    scratch,
)

ZOOKEEPER_PORT: Final = 2181
ZOOKEEPER_METRICS_PORT: Final = 7000
EXECUTOR_VERBS: Final = ("get", "list", "watch", "create", "delete")
"""All that a Spark driver needs with `executor.disableConfigMap`; it needs them on pods only."""
Wanted = tuple[Kind, Object]


def services(cluster: BookieCluster) -> list[Wanted]:
    """Headless: a name for every pod, also while it boots, which bookies register and clients look
    up. The other: any bookie that serves."""
    ports = [{"name": name, "port": port, "targetPort": name} for name, port in PORTS.items()]
    chosen = names.selector(cluster.metadata.name, names.BOOKIE)
    headless = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": chosen,
        "ports": ports,
    }
    client = {"selector": chosen, "ports": [port for port in ports if port["name"] != "admin"]}
    name = cluster.metadata.name
    return [
        (SERVICE, owned(cluster, names.headless_service(name), names.BOOKIE, {"spec": headless})),
        (SERVICE, owned(cluster, name, names.BOOKIE, {"spec": client})),
    ]


def accounts(cluster: BookieCluster) -> list[Wanted]:
    """Service accounts of bookies and ZooKeeper, and of jobs and executors, without rights or
    tokens."""
    name = cluster.metadata.name
    of = {names.bookie_account(name): names.BOOKIE, names.repair_account(name): names.JOBS}
    return [_account(cluster, account, component) for account, component in of.items()]


def driver_account(cluster: BookieCluster) -> Wanted:
    """Service account of the driver of a repair in Spark, which creates and deletes executor
    pods."""
    return _account(cluster, names.driver_account(cluster.metadata.name), names.JOBS)


def driver_rights(cluster: BookieCluster) -> list[Wanted]:
    """The role with the rights of that account, and the binding that grants it."""
    account = names.driver_account(cluster.metadata.name)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(EXECUTOR_VERBS)}]
    binding: Object = {
        "roleRef": {"apiGroup": ROLE.group, "kind": ROLE.name, "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account}],
    }
    return [
        (ROLE, owned(cluster, account, names.JOBS, {"rules": rules})),
        (ROLE_BINDING, owned(cluster, account, names.JOBS, binding)),
    ]


def _account(cluster: BookieCluster, name: str, component: str) -> Wanted:
    closed: Object = {"automountServiceAccountToken": False}
    return SERVICE_ACCOUNT, owned(cluster, name, component, closed)


def disruption_budget(cluster: BookieCluster, allowed: int) -> Wanted:
    """`allowed` voluntary disruptions at once: 0 while anything is in limbo or not known."""
    name = cluster.metadata.name
    spec = {
        "maxUnavailable": allowed,
        "selector": {"matchLabels": names.selector(name, names.BOOKIE)},
        "unhealthyPodEvictionPolicy": "IfHealthyBudget",
    }
    return BUDGET, owned(cluster, names.headless_service(name), names.BOOKIE, {"spec": spec})


def zookeeper_url(cluster: BookieCluster) -> str:
    name, namespace = cluster.metadata.name, cluster.metadata.namespace
    scheme = TLS_SCHEME if store_has_tls(cluster.spec, cluster.status) else "zk"
    return f"{scheme}://{names.zookeeper_name(name)}.{namespace}.svc:{ZOOKEEPER_PORT}/ledgers"


def zookeeper(cluster: BookieCluster) -> list[Wanted]:
    """One ZooKeeper server with a stable address, from the repair image."""
    wanted = cluster.spec.metadata.embedded
    assert wanted is not None, "asked for a cluster that has a ZooKeeper elsewhere"
    name = names.zookeeper_name(cluster.metadata.name)
    has_tls = store_has_tls(cluster.spec, cluster.status)
    chosen = names.selector(cluster.metadata.name, names.ZOOKEEPER)
    service = {
        "selector": chosen,
        "ports": [{"name": "client", "port": ZOOKEEPER_PORT, "targetPort": "client"}],
    }
    server = {
        "serviceName": name,
        "replicas": 1,
        "podManagementPolicy": "Parallel",
        # A new repair image must not take the metadata away: it counts from the next restart on.
        "updateStrategy": {"type": "OnDelete"},
        "selector": {"matchLabels": chosen},
        "template": overlaid(
            {
                "metadata": {"labels": names.labels(cluster.metadata.name, names.ZOOKEEPER)},
                "spec": with_credentials(
                    _zookeeper_pod(cluster, wanted),
                    cluster.metadata.name,
                    Role.ZOOKEEPER,
                    TlsMode.REQUIRED if has_tls else TlsMode.OFF,
                ),
            },
            cluster.spec.zookeeper_pod,
        ),
    }
    return [
        (SERVICE, owned(cluster, name, names.ZOOKEEPER, {"spec": service})),
        (STATEFUL_SET, owned(cluster, name, names.ZOOKEEPER, {"spec": server})),
    ]


def zookeeper_claim(cluster: BookieCluster, *, access_mode: str) -> Object:
    """ZooKeeper's volume claim. It has no owner: without the metadata nobody can use bookies'
    data."""
    wanted = cluster.spec.metadata.embedded
    assert wanted is not None
    name = cluster.metadata.name
    spec: Object = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": wanted.size}},
    }
    if wanted.storage_class:
        spec["storageClassName"] = wanted.storage_class
    return {
        "metadata": {
            "name": f"{names.zookeeper_name(name)}-data",
            "labels": names.labels(name, names.ZOOKEEPER),
        },
        "spec": spec,
    }


def _zookeeper_pod(cluster: BookieCluster, wanted: EmbeddedMetadata) -> Part:
    spec = cluster.spec
    tmp, tmp_mount = scratch(size="64Mi")
    claim = f"{names.zookeeper_name(cluster.metadata.name)}-data"
    container = {
        "name": "zookeeper",
        **image_of(spec, spec.repair.image),
        "args": [
            *("python", "-m", "bookie.metadata.server", "--directory", "/data"),
            *("--port", str(ZOOKEEPER_PORT), "--bind", "0.0.0.0"),
        ],
        # The image's entry point reads it. One of an older version does not, and starts as ever.
        "env": [
            {"name": "BOOKIE_ZOOKEEPER_METRICS_PORT", "value": str(ZOOKEEPER_METRICS_PORT)},
        ],
        "ports": [
            {"name": "client", "containerPort": ZOOKEEPER_PORT},
            {"name": "metrics", "containerPort": ZOOKEEPER_METRICS_PORT},
        ],
        "readinessProbe": {
            "tcpSocket": {"port": "client"},
            "periodSeconds": 3,
            "failureThreshold": 3,
        },
        "resources": resources(wanted.resources),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, tmp_mount],
    }
    return {
        "serviceAccountName": names.bookie_account(cluster.metadata.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}, tmp],
        **pull_secrets(spec.image_pull_secrets),
    }


def owned(cluster: BookieCluster, name: str, component: str, body: Object, **more: str) -> Object:
    """An object that goes with the cluster. `more`: labels of its own."""
    return {
        "metadata": {
            "name": name,
            "labels": names.labels(cluster.metadata.name, component, **more),
            "ownerReferences": [names.owner(cluster.metadata.name, cluster.metadata.uid)],
        },
        **body,
    }
