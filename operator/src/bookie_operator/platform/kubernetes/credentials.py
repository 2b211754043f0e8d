"""Which Secrets hold credentials, and how pods mount them. Pure.

Each holder has its own Secret, and a pod mounts one of them. No pod mounts the authority's Secret,
which has its key. A bookie's settings and all our clients read from `DIRECTORY`.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.external import PLACE
from bookie_operator.model.tls import TlsMode
from bookie_operator.platform.credential_files import Files
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import SECRET, Object
from bookie_operator.platform.kubernetes.pods import Part, value_env
from bookie_operator.platform.local_credentials import client_environment

DIRECTORY: Final = "/etc/bookie/tls"
VOLUME: Final = "disk--tls"
"""Nobody else's: people's volumes may not begin with `disk-`, and a disk's name begins with a
letter. A name of its own would have to be kept from people, who may have it in a spec already."""
OWNER_AND_GROUP: Final = 0o440
"""Rights of the files in a pod, whose user has the volumes' group."""
TLS_TYPE: Final = "kubernetes.io/tls"
OF_CERTIFICATE: Final = "cert-manager.io/certificate-name"
"""Annotation of a Secret that cert-manager writes: by which Certificate."""
NAME_CHARACTERS: Final = 12
AUTHORITY_TYPE: Final = "Opaque"


def secret_name(cluster: str, holder: Principal | None) -> str:
    """Name of the Secret of a holder; None: of the authority."""
    if holder is None:
        return f"{cluster}-ca"
    of = holder.name if holder.role is Role.BOOKIE else holder.role.value
    if holder.role is Role.DECISION:  # a person's name may be anything
        of = f"{of}-{hashlib.sha256(holder.name.encode()).hexdigest()[:NAME_CHARACTERS]}"
    return f"{cluster}-{of}-tls"


def secret(cluster: BookieCluster, holder: Principal | None, files: Files) -> Object:
    name = cluster.metadata.name
    return {
        "metadata": {
            "name": secret_name(name, holder),
            "labels": names.labels(name, names.TLS),
            "ownerReferences": [names.owner(name, cluster.metadata.uid)],
        },
        "type": AUTHORITY_TYPE if holder is None else TLS_TYPE,
        "data": {key: base64.b64encode(text).decode("ascii") for key, text in files.items()},
    }


def is_written_by_cert_manager(found: Object) -> bool:
    """A Certificate of cert-manager stands behind this Secret, or did when it was written last."""
    return bool((found["metadata"].get("annotations") or {}).get(OF_CERTIFICATE))


def files_of(found: Object) -> Files:
    """What a Secret holds; a value that cannot be decoded is none."""
    return {key: _decoded(text) for key, text in (found.get("data") or {}).items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def place(cluster: str, holder: Principal) -> str:
    return f"{SECRET.name} {secret_name(cluster, holder)}"


def holders(
    cluster: BookieCluster, bookie_ids: tuple[BookieId, ...]
) -> dict[Principal, tuple[str, ...]]:
    """All holders, and the names under which they are reached inside the Kubernetes cluster."""
    name, namespace = cluster.metadata.name, cluster.metadata.namespace
    services = [
        f"{service}{suffix}"
        for service in (name, names.headless_service(name))
        for suffix in (f".{namespace}.svc", f".{namespace}", "")
    ]
    found: dict[Principal, tuple[str, ...]] = {
        Principal(namespace, name, Role.BOOKIE, bookie_id): (
            names.bookie_host(name, namespace, bookie_id),
            *services,
        )
        for bookie_id in bookie_ids
    }
    for role in (Role.OPERATOR, Role.JOB, Role.CLIENT):
        found[Principal(namespace, name, role, role.value)] = ()
    if cluster.spec.metadata.embedded is not None:
        keeper = Principal(namespace, name, Role.ZOOKEEPER, Role.ZOOKEEPER.value)
        found[keeper] = _zookeeper_hosts(cluster)
    return found


def _zookeeper_hosts(cluster: BookieCluster) -> tuple[str, ...]:
    name, namespace = names.zookeeper_name(cluster.metadata.name), cluster.metadata.namespace
    external = cluster.spec.external
    outside = external.advertised_host if external is not None and external.zookeeper else None
    more = (outside.replace(PLACE, names.ZOOKEEPER),) if outside else ()
    return (f"{name}.{namespace}.svc", f"{name}.{namespace}", name, *more)


# What a pod has of them


def with_credentials(
    pod: Mapping[str, Any],
    cluster: str,
    role: Role,
    mode: TlsMode,
    *,
    name: str = "",
) -> Part:
    """A pod whose first container has the credentials of this role, and talks so; as it is where
    that is plain. `name`: the holder's, where there are several of the role."""
    if mode is TlsMode.OFF:
        return dict(pod)
    secret = secret_name(cluster, Principal("", cluster, role, name or role.value))
    env = client_environment(DIRECTORY, mode)
    return with_secret(pod, {"secretName": secret}, volume=VOLUME, folder=DIRECTORY, env=env)


def with_secret(
    pod: Mapping[str, Any],
    source: Part,
    *,
    volume: str,
    folder: str,
    env: Mapping[str, str] | None = None,
) -> Part:
    """A pod whose first container has the files of a Secret in this folder, and these variables.

    No subPath: a kubelet never renews such a mount.
    """
    first, *others = pod["containers"]
    mount = {"name": volume, "mountPath": folder, "readOnly": True}
    container = {**first, "volumeMounts": [*first["volumeMounts"], mount]}
    if env:
        container["env"] = [*(first.get("env") or ()), *value_env(env)]
    secret = {**source, "defaultMode": OWNER_AND_GROUP}
    volumes = [*pod["volumes"], {"name": volume, "secret": secret}]
    return {**pod, "containers": [container, *others], "volumes": volumes}
