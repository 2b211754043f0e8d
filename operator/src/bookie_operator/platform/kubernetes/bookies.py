"""Objects of one bookie: its settings, its claims, its StatefulSet. Pure; `platform` applies them.

A bookie's settings lie in an immutable ConfigMap named by their content, and the pod names it, so
that a container that restarts by itself keeps the settings it had: only the planner changes them.
"""

from collections.abc import Mapping
from typing import Any, Final

from bookie.ids import BookieId
from bookie.pods import ADVERTISED_FILE, RACK_FILE, container_security
from bookie.tls.principals import Role
from bookie.yaml_text import parse_yaml

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.pod_options import Scheduling
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import BookieTemplate, DiskTemplate
from bookie_operator.platform.bookie_settings import settings_text
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, STATEFUL_SET, Kind, Object
from bookie_operator.platform.kubernetes.credentials import DIRECTORY, with_credentials
from bookie_operator.platform.kubernetes.named_secrets import (
    LOGIN_FILE,
    USERS_FILE,
    with_login,
    with_users,
)
from bookie_operator.platform.kubernetes.overlay import overlaid
from bookie_operator.platform.kubernetes.pods import (
    Part,
    image_of,
    pod_security,
    pull_secrets,
    resources,
    scratch,
    value_env,
)

CONTAINER: Final = "bookie"
SETTINGS_FILE: Final = "bookie.yaml"
SETTINGS_FOLDER: Final = "/etc/bookie"
DATA: Final = "/data"
STOCK_PORT: Final = 3181
RUN_PORT: Final = 3182
ADMIN_PORT: Final = 3183
HTTP_PORT: Final = 8080
PORTS: Final = {"run": RUN_PORT, "stock": STOCK_PORT, "admin": ADMIN_PORT, "http": HTTP_PORT}
"""Ports by the names that settings, containers and services use."""


def pod_settings(template: BookieTemplate, volumes: Mapping[str, Volume], metadata_url: str) -> str:
    """The settings of a bookie in a pod; its host comes from the container's environment."""
    return settings_text(
        template,
        volumes,
        metadata_url=metadata_url,
        directories={disk.name: f"{DATA}/{disk.name}" for disk in template.disks},
        ports=PORTS,
        credentials=DIRECTORY,
        users_file=USERS_FILE,
        login_file=LOGIN_FILE,
    )


def settings_map(cluster: BookieCluster, bookie_id: BookieId, text: str) -> Object:
    name = cluster.metadata.name
    return {
        "metadata": {
            "name": names.settings_name(name, bookie_id, text),
            "labels": names.labels(name, names.BOOKIE, bookie=bookie_id),
            "ownerReferences": [names.owner(name, cluster.metadata.uid)],
        },
        "immutable": True,
        "data": {SETTINGS_FILE: text},
    }


def claim(cluster: str, bookie_id: BookieId, disk: DiskTemplate, *, access_mode: str) -> Object:
    """A volume claim. No owner: data outlives the cluster's object."""
    wanted: Object = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": disk.size}},
    }
    if disk.storage_class:
        wanted["storageClassName"] = disk.storage_class
    return {
        "metadata": {
            "name": names.claim_name(cluster, bookie_id, disk.name),
            "labels": names.labels(cluster, names.BOOKIE, bookie=bookie_id, disk=disk.name),
        },
        "spec": wanted,
    }


def bookie_set(
    cluster: BookieCluster, template: BookieTemplate, *, settings: str, metadata_url: str
) -> Object:
    """The StatefulSet of one bookie. OnDelete: only the planner replaces a running pod."""
    name, bookie_id = cluster.metadata.name, template.bookie_id
    own = names.labels(name, names.BOOKIE, bookie=bookie_id)
    pod = _pod(cluster, template, settings=settings, metadata_url=metadata_url)
    mode = template.tls.mode if template.tls is not None else TlsMode.OFF
    asked = template.authentication
    pod = with_users(pod, asked.users_secret if asked is not None else "")
    pod = with_login(pod, template.login_secret)
    annotations = {names.REVISION: template.revision}
    if mode is not TlsMode.OFF:
        annotations[names.TLS_MODE] = mode.value
    return {
        "metadata": {
            "name": names.set_name(name, bookie_id),
            "labels": own,
            "ownerReferences": [names.owner(name, cluster.metadata.uid)],
        },
        "spec": {
            "serviceName": names.headless_service(name),
            "replicas": 1,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": bookie_selector(name, bookie_id)},
            "template": overlaid(
                {
                    "metadata": {"labels": own, "annotations": annotations},
                    "spec": with_credentials(pod, name, Role.BOOKIE, mode, name=bookie_id),
                },
                cluster.spec.bookie_pod,
            ),
        },
    }


def bookie_objects(
    cluster: BookieCluster, template: BookieTemplate, text: str, *, metadata_url: str
) -> list[tuple[Kind, Object]]:
    """What a bookie needs to run on its volumes: its settings first."""
    settings = settings_map(cluster, template.bookie_id, text)
    name = settings["metadata"]["name"]
    wanted = bookie_set(cluster, template, settings=name, metadata_url=metadata_url)
    return [(CONFIG_MAP, settings), (STATEFUL_SET, wanted)]


def settings_of(stateful_set: Object) -> str:
    """Name of the ConfigMap that its pods have for settings; empty = it names none."""
    for volume in stateful_set["spec"]["template"]["spec"].get("volumes") or ():
        if volume.get("name") == "settings":
            return str((volume.get("configMap") or {}).get("name", ""))
    return ""


def volumes_named(settings: Object) -> set[str]:
    """Uids of the volumes that the settings of this ConfigMap are for; none, where these are not a
    bookie's: people may have a StatefulSet name any ConfigMap."""
    try:
        [tree] = parse_yaml(settings["data"][SETTINGS_FILE])
        return {str(disk.get("volumeUid")) for disk in (tree["journal"], *tree["ledgers"])}
    except (KeyError, TypeError, AttributeError, ValueError):
        return set()


def bookie_selector(cluster: str, bookie_id: BookieId) -> dict[str, str]:
    return {**names.selector(cluster, names.BOOKIE), names.BOOKIE_LABEL: bookie_id}


def _pod(
    cluster: BookieCluster, template: BookieTemplate, *, settings: str, metadata_url: str
) -> Part:
    spec, name = cluster.spec, cluster.metadata.name
    tmp, tmp_mount = scratch(size="64Mi")
    volumes = [
        {"name": "settings", "configMap": {"name": settings}},
        *(disk_volume(name, template.bookie_id, disk.name) for disk in template.disks),
        tmp,
        _node_volume(),
    ]
    return {
        "serviceAccountName": names.bookie_account(name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # its variables would be read as settings
        "terminationGracePeriodSeconds": spec.grace_period_seconds,
        "securityContext": pod_security(),
        "containers": [_container(cluster, template, tmp_mount, metadata_url=metadata_url)],
        "volumes": volumes,
        **_placed(spec.scheduling, name),
        **pull_secrets(spec.image_pull_secrets),
    }


def _node_volume() -> Part:
    """What the operator wrote about the pod, as files; each is empty until it has."""
    files = ((RACK_FILE, names.RACK), (ADVERTISED_FILE, names.ADVERTISED))
    items = [
        {"path": file.name, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for file, annotation in files
    ]
    return {"name": "node", "downwardAPI": {"items": items}}


def disk_volume(cluster: str, bookie_id: BookieId, disk: str) -> Part:
    """A volume of a pod: the bookie's claim of this disk."""
    claimed = {"claimName": names.claim_name(cluster, bookie_id, disk)}
    return {"name": f"disk-{disk}", "persistentVolumeClaim": claimed}


def _container(
    cluster: BookieCluster, template: BookieTemplate, tmp: Part, *, metadata_url: str
) -> Part:
    spec, own = cluster.spec, cluster.metadata
    values = {
        "BOOKIE_HOST": names.bookie_host(own.name, own.namespace, template.bookie_id),
        "BOOKIE_BIND": "0.0.0.0",
        # The setting again, where a person's `kubectl exec POD -- bookie ...` finds it.
        "BOOKIE_METADATA": metadata_url,
    }
    return {
        "name": CONTAINER,
        **image_of(spec, template.image),
        "args": ["bookie", "serve", "--config", f"{SETTINGS_FOLDER}/{SETTINGS_FILE}"],
        "env": value_env(values),
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "resources": resources(spec.resources),
        "securityContext": container_security(),
        # No liveness or startup probe: a bookie that boots for long must never be killed, since
        # every kill is one more unclean stop. Readiness is "can serve", not "limbo is 0".
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"} | _scheme(template),
            "periodSeconds": 3,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        },
        "lifecycle": {
            "preStop": {"exec": {"command": flush_command(spec.grace_period_seconds)}},
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": True},
            *({"name": f"disk-{d.name}", "mountPath": f"{DATA}/{d.name}"} for d in template.disks),
            tmp,
            {"name": "node", "mountPath": str(RACK_FILE.parent), "readOnly": True},
        ],
    }


def _scheme(template: BookieTemplate) -> Part:
    """The scheme with which a probe calls the HTTP port; a kubelet neither checks nor shows
    certificates."""
    return {"scheme": "HTTPS"} if template.tls is not None and template.tls.http else {}


def flush_command(grace_period_s: int) -> list[str]:
    """Flush while still serving, in half of the time at most: the stop needs the rest.

    Of the bookie on this pod's loopback, whose family the command finds out.
    """
    seconds = str(max(1, grace_period_s // 2))
    return ["bookie", "flush", "--timeout", seconds]


def _placed(scheduling: Scheduling, cluster: str) -> Part:
    """Bookies apart from each other, as evenly as nodes and zones allow."""
    mine = {"matchLabels": names.selector(cluster, names.BOOKIE)}
    term: dict[str, Any] = {"labelSelector": mine, "topologyKey": scheduling.topology_key}
    apart: Part
    if scheduling.required:
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        weighted = {"weight": 100, "podAffinityTerm": term}
        apart = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    placed: Part = {
        "affinity": {"podAntiAffinity": apart},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": mine,
            }
        ],
    }
    placed |= where_bookies_run(scheduling)
    if scheduling.priority_class_name:
        placed["priorityClassName"] = scheduling.priority_class_name
    return placed


def where_bookies_run(scheduling: Scheduling) -> Part:
    """Nodes that a bookie's pod may be on, and so its volumes."""
    placed: Part = {}
    if scheduling.node_selector:
        placed["nodeSelector"] = dict(scheduling.node_selector)
    if scheduling.tolerations:
        placed["tolerations"] = [
            {key: value for key, value in toleration.as_dict().items() if value != ""}
            for toleration in scheduling.tolerations
        ]
    return placed
