"""CustomResourceDefinitions from the models: structural schemas, CEL rules, columns, names.

`bookie-operator crds` writes them; `crds/` is checked in and tested equal. Kubernetes' schemas are
a subset of JSON schema: definitions are inlined, titles dropped, `X | None` becomes an optional X.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import BaseModel

from bookie_operator.model.base import (
    CATEGORY,
    GROUP,
    NAME_LENGTH_MAX,
    NAME_PATTERN,
    VERSION,
    rule,
)
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.task import BookieTask

HEADER: Final = "# Generated from operator/src/bookie_operator/model by `bookie-operator crds`.\n"
_KEPT: Final = frozenset(
    {
        "type",
        "description",
        "enum",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        "default",
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    }
)
NAME_RULES: Final = (
    rule(
        f"size(self.metadata.name) <= {NAME_LENGTH_MAX}",
        f"metadata.name may have {NAME_LENGTH_MAX} characters at most: names and labels made from "
        "it must stay below Kubernetes' limit of 63",
    ),
    rule(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "metadata.name must be a DNS label that starts with a letter: lower case letters, digits "
        "and hyphens, no dots",
    ),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def as_dict(self) -> dict[str, Any]:
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": 1} if self.wide else {})


def _condition(kind: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].status'


CLUSTER_COLUMNS: Final = (
    Column("Phase", ".status.phase"),
    Column("Ready", ".status.readyReplicas", type="integer"),
    Column("Replicas", ".spec.replicas", type="integer"),
    Column("Limbo", ".status.limbo.ledgers", type="integer"),
    Column("Unchecked", ".status.limbo.unchecked", type="integer"),
    Column("Available", _condition("Available")),
    Column("Verified", _condition("DurabilityVerified")),
    Column("Journal", ".spec.journalWriteData", type="boolean", wide=True),
    Column("Ack", ".spec.ack", wide=True),
    Column("Degraded", _condition("Degraded"), wide=True),
    Column("Loss", _condition("PossibleDataLoss"), wide=True),
    Column("Audited", ".status.audit.finishedAt", type="date", wide=True),
    Column("Looked", ".status.lookedAt", type="date", wide=True),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)
TASK_COLUMNS: Final = (
    Column("Type", ".spec.type"),
    Column("Cluster", ".spec.cluster"),
    Column("Bookie", ".spec.bookie"),
    Column("Phase", ".status.phase"),
    Column("Message", ".status.message", wide=True),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)


def definitions() -> dict[str, dict[str, Any]]:
    """File name -> CustomResourceDefinition."""
    cluster = _definition(
        BookieCluster,
        plural="bookieclusters",
        short="bkc",
        columns=CLUSTER_COLUMNS,
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    )
    properties = cluster["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = _as_written(properties["status"])
    task = _definition(
        BookieTask,
        plural="bookietasks",
        short="bkt",
        columns=TASK_COLUMNS,
        subresources={"status": {}},
    )
    return {"bookiecluster.yaml": cluster, "bookietask.yaml": task}


def _as_written(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without defaults: the API server would fill in what the operator has left out."""
    found = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in found:
        parts = found["properties"].items()
        found["properties"] = {name: _as_written(part) for name, part in parts}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), Mapping):
            found[name] = _as_written(found[name])
    return found


def documents() -> dict[str, str]:
    """File name -> YAML text, byte for byte as checked in."""
    return {
        name: HEADER + yaml.safe_dump(definition, sort_keys=False, width=100)
        for name, definition in definitions().items()
    }


def _definition(
    model: type[BaseModel],
    *,
    plural: str,
    short: str,
    columns: Sequence[Column],
    subresources: Mapping[str, Any],
) -> dict[str, Any]:
    kind = model.__name__
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(model)},
        "subresources": dict(subresources),
        "additionalPrinterColumns": [column.as_dict() for column in columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a whole object; its metadata is left to Kubernetes."""
    raw = model.model_json_schema(by_alias=True)
    whole = _structural(raw, raw.get("$defs", {}))
    properties = whole["properties"]
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    whole["x-kubernetes-validations"] = list(NAME_RULES)
    properties["status"].pop("default", None)  # an API server drops a status that is sent with spec
    whole["required"] = ["spec"]
    return whole


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _structural(
            {**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions
        )
    if "anyOf" in node:
        present = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
        assert len(present) == 1, f"only X | None fits a structural schema: {node}"
        rest = {k: v for k, v in node.items() if k not in ("anyOf", "default")}
        return _structural({**present[0], **rest}, definitions)
    kept = {key: node[key] for key in node if key in _KEPT and node[key] is not None}
    least = kept.get("minimum", 0)
    if least % 1:  # an API server compares a whole number with the bound's whole part
        kept["x-kubernetes-validations"] = [rule(f"self >= {least}", f"must be at least {least}")]
    if "default" in kept:
        kept["default"] = _without_nulls(kept["default"])
    if "const" in node:
        kept["enum"] = [node["const"]]
    if "properties" in node:
        kept["properties"] = {
            name: _structural(child, definitions) for name, child in node["properties"].items()
        }
    if isinstance(node.get("items"), Mapping):
        kept["items"] = _structural(node["items"], definitions)
    if isinstance(node.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    if "description" in kept:
        kept["description"] = " ".join(str(kept["description"]).split())
    return kept


def _without_nulls(default: object) -> object:
    """API servers reject null in a default: absent is how absence is spelled."""
    if isinstance(default, Mapping):
        return {key: _without_nulls(value) for key, value in default.items() if value is not None}
    return default
