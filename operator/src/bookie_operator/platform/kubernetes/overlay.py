"""A pod template of the operator's with what people add to it. Pure.

What the operator needs stays: its labels, variables, volumes and mounts. What says where a pod may
run and as whom is the people's, who know their nodes and policies.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bookie_operator.model.pod_overlay import PodOverlay
from bookie_operator.platform.kubernetes.api import Object

IDS: Final = ("runAsUser", "runAsGroup", "fsGroup")


def overlaid(template: Object, overlay: PodOverlay | None, *, is_job: bool = False) -> Object:
    """`template`: metadata and spec of a pod whose first container is the operator's. `is_job`: it
    ends with that container, whatever runs beside it."""
    if overlay is None:
        return template
    beside, first_ones = overlay.sidecars, overlay.init_containers
    if is_job:
        lasting = ({**one, "restartPolicy": "Always"} for one in beside)
        beside, first_ones = (), (*first_ones, *lasting)
    metadata, spec = template["metadata"], template["spec"]
    first, *others = spec["containers"]
    security = merged(spec.get("securityContext") or {}, overlay.pod_security_context)
    if overlay.platform_assigns_ids:
        security = {name: value for name, value in security.items() if name not in IDS}
    more = {
        "securityContext": security,
        "containers": [_container(first, overlay), *others, *beside],
        "initContainers": [*(spec.get("initContainers") or ()), *first_ones],
        "volumes": [*spec["volumes"], *overlay.volumes],
        "nodeSelector": {**overlay.node_selector, **(spec.get("nodeSelector") or {})},
        "tolerations": [*(spec.get("tolerations") or ()), *overlay.tolerations],
        "affinity": {**(spec.get("affinity") or {}), **overlay.affinity},
        "topologySpreadConstraints": overlay.topology_spread_constraints
        or spec.get("topologySpreadConstraints"),
        "priorityClassName": overlay.priority_class_name or spec.get("priorityClassName"),
        "runtimeClassName": overlay.runtime_class_name,
        "schedulerName": overlay.scheduler_name,
        "serviceAccountName": overlay.service_account_name or spec.get("serviceAccountName"),
    }
    return {
        "metadata": {
            **metadata,
            "labels": {**overlay.labels, **metadata.get("labels", {})},
            "annotations": {**overlay.annotations, **metadata.get("annotations", {})},
        },
        "spec": {**spec, **{name: _listed(value) for name, value in more.items() if value}},
    }


def _container(own: Object, overlay: PodOverlay) -> Object:
    return {
        **own,
        "env": _added(own.get("env") or (), overlay.env),
        "volumeMounts": [*own["volumeMounts"], *overlay.volume_mounts],
        "securityContext": merged(own["securityContext"], overlay.security_context),
    }


def _added(own: Sequence[Object], more: Sequence[Mapping[str, Any]]) -> list[Object]:
    """Add items by name; those that the operator's container needs are not replaced."""
    names = {one["name"] for one in own}
    return [*own, *(dict(one) for one in more if one["name"] not in names)]


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Object:
    """Mapping by mapping; anything else of `over` replaces what lies under it."""
    found = dict(under)
    for key, value in over.items():
        before = found.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[key] = merged(before, value) if both and before is not None else value
    return found


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
