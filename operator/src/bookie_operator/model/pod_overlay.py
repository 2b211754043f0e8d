"""What people add to the pods that the operator makes: labels, sidecars, scheduling, security.

One rule applies to all parts: what the operator needs stays as it is, and additions are put beside
it. Names that the operator itself uses are refused here and by CEL rules; otherwise Kubernetes
would refuse a pod template with two volumes of one name, but only when the pod is created. The
content of an affinity or a sidecar is checked only by the API server.
"""

from typing import Annotated, Any, Final, Self

from pydantic import Field, JsonValue, StringConstraints, WithJsonSchema, model_validator

from bookie_operator.model.base import GROUP, OPEN_OBJECT, LongText, Resource, ShortText, rule

OWN_CONTAINERS: Final = ("bookie", "zookeeper", "repair", "executor")
OWN_VOLUMES: Final = ("settings", "tmp", "node", "data")
DISK_VOLUMES: Final = "disk-"
OWN_PATHS: Final = ("/data", "/etc/bookie", "/etc/bookie-node", "/tmp")
OWN_VARIABLES: Final = "BOOKIE_"
"""Prefix of variables that are settings of a bookie: they would change settings without a
revision."""
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 253}
_MEANINGS: Final = {
    "name": "Its name, which must differ from all others in the pod.",
    "mountPath": "Path in the container; not under the operator's own paths.",
}


def _named(*needed: str, **rules: JsonValue) -> dict[str, Any]:
    """Schema of an object that needs these fields, and may have any other field that Kubernetes
    knows."""
    properties = {name: _NAME | {"description": _MEANINGS[name]} for name in needed}
    return OPEN_OBJECT | {"properties": properties, "required": list(needed), **rules}


def _cel(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


Anything = Annotated[dict[str, JsonValue], WithJsonSchema(OPEN_OBJECT)]
Container = Annotated[
    dict[str, JsonValue],
    WithJsonSchema(
        _named(
            "name",
            **{
                "x-kubernetes-validations": [
                    rule(
                        f"!(self.name in [{_cel(OWN_CONTAINERS)}])",
                        f"containers {', '.join(OWN_CONTAINERS)} are the operator's",
                    )
                ]
            },
        )
    ),
]
Volume = Annotated[
    dict[str, JsonValue],
    WithJsonSchema(
        _named(
            "name",
            **{
                "x-kubernetes-validations": [
                    rule(
                        f"!(self.name in [{_cel(OWN_VOLUMES)}]) && "
                        f"!self.name.startsWith('{DISK_VOLUMES}')",
                        f"volumes {', '.join(OWN_VOLUMES)} and {DISK_VOLUMES}* are the operator's",
                    )
                ]
            },
        )
    ),
]
Mount = Annotated[
    dict[str, JsonValue],
    WithJsonSchema(
        _named(
            "name",
            "mountPath",
            **{
                "x-kubernetes-validations": [
                    rule(
                        f"[{_cel(OWN_PATHS)}].all(p, self.mountPath != p && "
                        "!self.mountPath.startsWith(p + '/'))",
                        f"{', '.join(OWN_PATHS)} are the operator's",
                    )
                ]
            },
        )
    ),
]
Variable = Annotated[
    dict[str, JsonValue],
    WithJsonSchema(
        _named(
            "name",
            **{
                "x-kubernetes-validations": [
                    rule(
                        f"!self.name.startsWith('{OWN_VARIABLES}')",
                        f"{OWN_VARIABLES}* are settings of a bookie, which the spec has",
                    )
                ]
            },
        )
    ),
]
Key = Annotated[str, StringConstraints(max_length=317)]
OwnKeys: Final = {
    "x-kubernetes-validations": [
        rule(f"self.all(k, !k.startsWith('{GROUP}/'))", f"{GROUP}/* are the operator's")
    ]
}
Items = Field(max_length=16)


class PodOverlay(Resource):
    """Fields to add to each pod of one kind. A change for bookies restarts them one after the
    other."""

    labels: Annotated[dict[Key, ShortText], Field(max_length=16, json_schema_extra=OwnKeys)] = (
        Field(default_factory=dict)
    )
    """More labels for the pod, such as `team: storage`. The operator's own labels do not change."""
    annotations: Annotated[dict[Key, LongText], Field(max_length=16, json_schema_extra=OwnKeys)] = (
        Field(default_factory=dict)
    )
    """More annotations for the pod, such as `prometheus.io/scrape: "true"`."""
    env: Annotated[tuple[Variable, ...], Items] = ()
    """More environment variables for the main container, as in a pod: `name` with `value` or
    `valueFrom`. Names that begin with `BOOKIE_` are refused."""
    node_selector: Annotated[dict[Key, ShortText], Field(max_length=16)] = Field(
        default_factory=dict
    )
    """Labels that a node must have, in addition to those in `scheduling`."""
    tolerations: Annotated[tuple[Anything, ...], Items] = ()
    """Taints of nodes that the pod tolerates, in addition to those in `scheduling`, as in a pod."""
    affinity: Anything = Field(default_factory=dict)
    """Affinity, as in a pod. A kind that you give (`nodeAffinity`, `podAffinity`,
    `podAntiAffinity`) replaces the operator's own of that kind, which keeps bookies apart with
    `podAntiAffinity`."""
    topology_spread_constraints: Annotated[tuple[Anything, ...], Items] = ()
    """Topology spread constraints, as in a pod. They replace the operator's own, which spread
    bookies over zones."""
    priority_class_name: ShortText = ""
    """Name of a PriorityClass. Empty: for bookies that of `scheduling`, for other pods none."""
    runtime_class_name: ShortText = ""
    """Name of a RuntimeClass. Empty: the node's default runtime."""
    scheduler_name: ShortText = ""
    """Name of the scheduler that places the pod. Empty: the cluster's default scheduler."""
    service_account_name: ShortText = ""
    """Name of an existing ServiceAccount. Empty: the operator makes one. Repairs with executors
    need the rights that the operator gives to its own."""
    pod_security_context: Anything = Field(default_factory=dict)
    """Security context of the pod, merged into the operator's own, which meets the Pod Security
    Standard "restricted"."""
    security_context: Anything = Field(default_factory=dict)
    """Security context of the main container, merged into the operator's own."""
    platform_assigns_ids: bool = False
    """True: the pod has no uid, gid and fsGroup, so that the platform chooses them, as OpenShift's
    restricted-v2 does. False: they are 10001."""
    sidecars: Annotated[tuple[Container, ...], Items] = ()
    """More containers for the pod, as in a pod. The operator watches only the main container. In
    `jobPod` they become init containers with restartPolicy Always, so that a job ends with its main
    container."""
    init_containers: Annotated[tuple[Container, ...], Items] = ()
    """Init containers for the pod, as in a pod; they end before the others start."""
    volumes: Annotated[tuple[Volume, ...], Items] = ()
    """More volumes for the pod, as in a pod."""
    volume_mounts: Annotated[tuple[Mount, ...], Items] = ()
    """Where these volumes are mounted in the main container, as in a pod."""

    @model_validator(mode="after")
    def _leaves_ours(self) -> Self:
        for field, name in self._taken():
            raise ValueError(f"{field}: found {name}, which is the operator's own")
        return self

    def _taken(self) -> list[tuple[str, str]]:
        """Pairs of a field and a name in it that the operator itself uses, or that is empty."""
        keys = [("labels", k) for k in self.labels] + [("annotations", k) for k in self.annotations]
        found = [(field, key) for field, key in keys if key.startswith(f"{GROUP}/")]
        for field in ("sidecars", "init_containers"):
            names = [str(one.get("name", "")) for one in getattr(self, field)]
            found += [(field, name) for name in names if name in ("", *OWN_CONTAINERS)]
        volumes = [str(one.get("name", "")) for one in self.volumes]
        found += [("volumes", name) for name in volumes if _is_own_volume(name)]
        paths = [str(one.get("mountPath", "")) for one in self.volume_mounts]
        found += [("volumeMounts", path) for path in paths if _is_own_path(path)]
        variables = [str(one.get("name", "")) for one in self.env]
        return found + [
            ("env", name) for name in variables if not name or name.startswith(OWN_VARIABLES)
        ]


def _is_own_volume(name: str) -> bool:
    return name in ("", *OWN_VOLUMES) or name.startswith(DISK_VOLUMES)


def _is_own_path(path: str) -> bool:
    return not path or any(path == own or path.startswith(f"{own}/") for own in OWN_PATHS)
