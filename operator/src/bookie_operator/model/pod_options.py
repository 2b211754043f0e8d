"""What people choose for pods: CPU and memory, nodes, when an image is pulled."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from bookie_operator.model.base import Resource, ShortText
from bookie_operator.model.quantity import Quantities


class PullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


Labels = Annotated[dict[str, ShortText], Field(max_length=32)]


class PodResources(Resource):
    """CPU and memory that a pod requests, and its limits; without limits it has none."""

    requests: Quantities = Field(default_factory=dict)
    """How much the scheduler reserves for the pod, by resource, such as `cpu: 50m` or `memory:
    256Mi`."""
    limits: Quantities = Field(default_factory=dict)
    """How much the pod may use at most, by resource. A bookie that exceeds its memory limit is
    killed, which is an unclean stop."""


class Toleration(Resource):
    """A taint of nodes that the pods tolerate, with the fields of a pod's toleration."""

    key: ShortText = ""
    """Key of the taint. Empty, with operator Exists: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """`Equal`: the taint's value must be `value`; `Exists`: any value."""
    value: ShortText = ""
    """Value of the taint, with operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taint that is tolerated: NoSchedule, PreferNoSchedule or NoExecute. Empty:
    every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """With effect NoExecute: how long the pod may stay on such a node, in seconds. Absent: without
    limit."""


class Scheduling(Resource):
    """On which nodes bookies may run; `topologyKey` keeps them apart from each other."""

    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have, such as `disktype: ssd`. Empty: bookies may run on every
    node."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that bookies tolerate, and jobs that need bookies' volumes."""
    topology_key: ShortText = "kubernetes.io/hostname"
    """Label of nodes that keeps bookies apart: two bookies should not run on nodes with the same
    value. By default they should not run on the same node."""
    required: bool = False
    """True: two bookies never run on nodes with the same value of `topologyKey`, even if one must
    wait. False: this is only preferred."""
    priority_class_name: ShortText = ""
    """Name of a PriorityClass for bookies. Empty: the default priority of the Kubernetes
    cluster."""
