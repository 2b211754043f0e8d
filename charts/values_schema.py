"""The schema of bookie-cluster's values, from the CRD: run by `make crds`, tested equal.

The values are the fields of BookieCluster.spec, so that a typo is refused by `helm` already. Rules
over several fields are CEL, which JSON schema cannot say; the API server checks them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

CHARTS: Final = Path(__file__).parent
CRD: Final = CHARTS.parent / "crds" / "bookiecluster.yaml"
TARGET: Final = CHARTS / "bookie-cluster" / "values.schema.json"
KEPT: Final = frozenset(
    {
        *("type", "description", "enum", "pattern", "required"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    }
)
STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
OF_THE_CHART: Final = {
    "labels": STRINGS,
    "annotations": STRINGS,
    "nameOverride": {"type": "string", "pattern": "^([a-z]([-a-z0-9]*[a-z0-9])?)?$"},
    "global": {"type": "object"},
}


def values_schema(crd: Mapping[str, Any]) -> str:
    """The file's text."""
    whole = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema = _closed(whole["properties"]["spec"])
    schema["properties"] |= OF_THE_CHART
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "bookie-cluster"}
    return json.dumps(head | schema, indent=2) + "\n"


def _closed(node: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of Kubernetes as one of JSON that admits no unknown fields."""
    kept = {key: value for key, value in node.items() if key in KEPT}
    if node.get("x-kubernetes-int-or-string"):
        kept["type"] = ["string", "integer"]
    if "properties" in node:
        kept["properties"] = {name: _closed(child) for name, child in node["properties"].items()}
        kept["additionalProperties"] = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), Mapping):
            kept[name] = _closed(node[name])
    return kept


if __name__ == "__main__":
    TARGET.write_text(values_schema(yaml.safe_load(CRD.read_text(encoding="utf-8"))))
