"""What people add to the pods that the operator makes: labels, sidecars, places, security.

Every part is merged by one rule: what the operator needs stays as it made it, and what is added
stands beside it. Names that are the operator's own are refused here and by CEL rules, since a pod
template with two volumes of one name would be refused only when the pod is made. What is inside of
an affinity or a sidecar is Kubernetes's, and its API server judges it.
"""

from typing import Annotated, Any, Final, Self

from pydantic import Field, JsonValue, StringConstraints, WithJsonSchema, model_validator

from bookie_operator.model.base import GROUP, OPEN_OBJECT, LongText, Resource, ShortText, rule

OWN_CONTAINERS: Final = ("bookie", "zookeeper", "repair", "executor")
OWN_VOLUMES: Final = ("settings", "tmp", "node", "data")
DISK_VOLUMES: Final = "disk-"
OWN_PATHS: Final = ("/data", "/etc/bookie", "/etc/bookie-node", "/tmp")
OWN_VARIABLES: Final = "BOOKIE_"
"""They are settings of a bookie: one of them would change what its revision says."""
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 253}
_MEANINGS: Final = {
    "name": "Its name, which no other one in the pod has.",
    "mountPath": "Where the container has it; not under the operator's own paths.",
}


def _named(*needed: str, **rules: JsonValue) -> dict[str, Any]:
    """Schema of an object that has these names, and whatever else Kubernetes knows."""
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
    """What is added to each pod of one kind. Changed for bookies, it restarts them one by one."""

    labels: Annotated[dict[Key, ShortText], Field(max_length=16, json_schema_extra=OwnKeys)] = (
        Field(default_factory=dict)
    )
    """More labels of the pod, such as `team: storage`. The operator's own stay as they are."""
    annotations: Annotated[dict[Key, LongText], Field(max_length=16, json_schema_extra=OwnKeys)] = (
        Field(default_factory=dict)
    )
    """More annotations of the pod, such as `prometheus.io/scrape: "true"`."""
    env: Annotated[tuple[Variable, ...], Items] = ()
    """More environment variables of the operator's container, as in a pod: `name` and `value` or
    `valueFrom`. Names that begin with `BOOKIE_` are refused."""
    node_selector: Annotated[dict[Key, ShortText], Field(max_length=16)] = Field(
        default_factory=dict
    )
    """Labels that a node must have, beside those of `scheduling`."""
    tolerations: Annotated[tuple[Anything, ...], Items] = ()
    """Taints of nodes that the pod bears, beside those of `scheduling`, as in a pod."""
    affinity: Anything = Field(default_factory=dict)
    """As in a pod. A kind that is given (`nodeAffinity`, `podAffinity`, `podAntiAffinity`) replaces
    the operator's of that kind: bookies keep apart from each other by `podAntiAffinity`."""
    topology_spread_constraints: Annotated[tuple[Anything, ...], Items] = ()
    """As in a pod; given, they replace the operator's, which spread bookies over zones."""
    priority_class_name: ShortText = ""
    """Name of a PriorityClass; empty: that of `scheduling` for bookies, none for others."""
    runtime_class_name: ShortText = ""
    """Name of a RuntimeClass; empty: the node's default runtime."""
    scheduler_name: ShortText = ""
    """Which scheduler places the pod; empty: the cluster's own."""
    service_account_name: ShortText = ""
    """An account of yours; empty: the operator makes one. Repairs with executors need the rights of
    the operator's own."""
    pod_security_context: Anything = Field(default_factory=dict)
    """Merged over the operator's, which meets the restricted standard, as in a pod."""
    security_context: Anything = Field(default_factory=dict)
    """Merged over that of the operator's container."""
    platform_assigns_ids: bool = False
    """True: uid, gid and fsGroup are left out of the pod, so that the platform gives them, as
    OpenShift's restricted-v2 does. False: they are 10001."""
    sidecars: Annotated[tuple[Container, ...], Items] = ()
    """More containers of the pod, as in a pod. The operator looks at its own container only."""
    init_containers: Annotated[tuple[Container, ...], Items] = ()
    """Containers that end before the others start, as in a pod."""
    volumes: Annotated[tuple[Volume, ...], Items] = ()
    """More volumes of the pod, as in a pod."""
    volume_mounts: Annotated[tuple[Mount, ...], Items] = ()
    """Where the operator's container has volumes of those above, as in a pod."""

    @model_validator(mode="after")
    def _leaves_ours(self) -> Self:
        for field, name in self._taken():
            raise ValueError(f"{field}: found {name}, which is the operator's own")
        return self

    def _taken(self) -> list[tuple[str, str]]:
        """Fields and names in them that the operator needs for itself, or that lack a name."""
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
