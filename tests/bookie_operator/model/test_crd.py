"""The CRDs: equal to the models, and nothing in them that an API server would refuse."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.crd import definitions, documents

CRDS = Path(__file__).parents[3] / "crds"
FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "const", "title", "prefixItems"}


def schemas(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all below it."""
    yield node
    children = list(node.get("properties", {}).values())
    children += [node[name] for name in ("items", "additionalProperties") if name in node]
    for child in children:
        yield from schemas(child)


def whole(name: str) -> dict[str, Any]:
    version = definitions()[name]["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("name", sorted(documents()))
def test_checked_in_files_equal_the_models(name: str) -> None:
    told = "run `make crds`: the charts hold them too"
    assert (CRDS / name).read_text(encoding="utf-8") == documents()[name], told


def described(node: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Path and description of every field below a schema."""
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", str(child.get("description", ""))
        yield from described(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from described(node[name], f"{path}[]")


OF_KUBERNETES = {".apiVersion", ".kind", ".metadata"}


@pytest.mark.parametrize("name", sorted(documents()))
def test_every_field_is_explained_by_a_sentence(name: str) -> None:
    texts = {path: text for path, text in described(whole(name), "") if path not in OF_KUBERNETES}
    assert len(texts) > 15
    wrong = [
        path
        for path, text in texts.items()
        if len(text.split()) < 2 or not re.match(r"[A-Z0-9`]", text) or not text.endswith(".")
    ]
    assert not wrong


def test_no_other_file_lies_there() -> None:
    assert {path.name for path in CRDS.glob("*.yaml")} == set(documents())


@pytest.mark.parametrize("name", sorted(documents()))
def test_schemas_are_structural(name: str) -> None:
    for schema in schemas(whole(name)):
        assert not FORBIDDEN & set(schema)
        assert "type" in schema or schema.get("x-kubernetes-int-or-string")
        assert not {"properties", "additionalProperties"} <= set(schema)


@pytest.mark.parametrize("name", sorted(documents()))
def test_lists_and_maps_are_bounded(name: str) -> None:
    for schema in schemas(whole(name)["properties"]["spec"]):
        assert schema.get("type") != "array" or "maxItems" in schema


@pytest.mark.parametrize("name", sorted(documents()))
def test_defaults_hold_no_nulls(name: str) -> None:
    for schema in schemas(whole(name)):
        assert "null" not in yaml.safe_dump(schema.get("default", {}))


def test_map_lists_key_on_required_properties() -> None:
    for schema in schemas(whole("bookiecluster.yaml")):
        if schema.get("x-kubernetes-list-type") == "map":
            assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


def test_names_and_subresources() -> None:
    spec = definitions()["bookiecluster.yaml"]["spec"]
    assert spec["names"]["shortNames"] == ["bkc"]
    assert spec["names"]["categories"] == ["bookkeeper"]
    assert set(spec["versions"][0]["subresources"]) == {"status", "scale"}
    assert definitions()["bookietask.yaml"]["spec"]["names"]["shortNames"] == ["bkt"]


IN_NO_SCHEMA = {".metadata.creationTimestamp": "date"}
COLUMNS = {
    "bookiecluster.yaml": {
        "Phase": ".status.phase",
        "Ready": ".status.readyReplicas",
        "Replicas": ".spec.replicas",
        "Limbo": ".status.limbo.ledgers",
        "Unchecked": ".status.limbo.unchecked",
        "Available": ConditionType.AVAILABLE,
        "Verified": ConditionType.DURABILITY_VERIFIED,
        "Journal": ".spec.journalWriteData",
        "Ack": ".spec.ack",
        "Degraded": ConditionType.DEGRADED,
        "Loss": ConditionType.POSSIBLE_DATA_LOSS,
        "Audited": ".status.audit.finishedAt",
        "Looked": ".status.lookedAt",
        "Age": ".metadata.creationTimestamp",
    },
    "bookietask.yaml": {
        "Type": ".spec.type",
        "Cluster": ".spec.cluster",
        "Bookie": ".spec.bookie",
        "Phase": ".status.phase",
        "Message": ".status.message",
        "Age": ".metadata.creationTimestamp",
    },
}
"""What each column of `kubectl get` shows: a field, or the status of a condition."""


def columns(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = definitions()[name]["spec"]["versions"][0][
        "additionalPrinterColumns"
    ]
    return found


@pytest.mark.parametrize("name", sorted(documents()))
def test_a_column_shows_what_its_name_says(name: str) -> None:
    expected = {
        column: f'.status.conditions[?(@.type=="{shown}")].status'
        if isinstance(shown, ConditionType)
        else shown
        for column, shown in COLUMNS[name].items()
    }
    assert {one["name"]: one["jsonPath"] for one in columns(name)} == expected


@pytest.mark.parametrize("name", sorted(documents()))
def test_a_column_is_of_its_fields_type(name: str) -> None:
    """The API server leaves a column empty whose field has another type, or is none."""
    for one in columns(name):
        node = whole(name)
        for part in one["jsonPath"].partition("[")[0].split(".")[1:]:
            node = node.get("properties", {}).get(part, {})
        kind = "date" if node.get("format") == "date-time" else node.get("type")
        usual = {"array": "string", None: IN_NO_SCHEMA.get(one["jsonPath"])}
        assert one["type"] == usual.get(kind, kind), one


def test_the_scale_subresource_counts_every_bookie_that_is_to_run() -> None:
    """By those that are ready, an autoscaler would take one that boots for one that lacks."""
    scale = definitions()["bookiecluster.yaml"]["spec"]["versions"][0]["subresources"]["scale"]
    assert scale == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    for path in scale.values():
        _, part, field = path.split(".")
        assert field in whole("bookiecluster.yaml")["properties"][part]["properties"]


def test_quorum_rules_are_in_the_schema() -> None:
    spec = whole("bookiecluster.yaml")["properties"]["spec"]
    rules = [rule["rule"] for schema in schemas(spec) for rule in cel(schema)]
    assert any("self.quorum.ack >= 2" in rule for rule in rules)
    assert any("self.replicas >= self.quorum.ensemble" in rule for rule in rules)
    assert any("oldSelf.map" in rule for rule in rules)


@pytest.mark.parametrize("name", sorted(documents()))
def test_d10_bounds_that_are_no_whole_numbers_are_rules_too(name: str) -> None:
    """An API server compares a whole number with the bound's whole part: 0 passed for 0.1."""
    bounded = [schema for schema in schemas(whole(name)) if schema.get("minimum", 0) % 1]
    assert bool(bounded) == (name == "bookiecluster.yaml")
    for schema in bounded:
        assert f"self >= {schema['minimum']}" in [rule["rule"] for rule in cel(schema)]


def test_d10_the_embedded_stores_volume_can_only_grow() -> None:
    spec = whole("bookiecluster.yaml")["properties"]["spec"]
    [rule] = [rule for rule in cel(spec["properties"]["metadata"]) if "size" in rule["rule"]]
    assert "can only grow" in rule["message"] and "quantity(" in rule["rule"]


def test_an_api_server_puts_nothing_into_a_status() -> None:
    status = whole("bookiecluster.yaml")["properties"]["status"]
    assert not [schema for schema in schemas(status) if "default" in schema]


def test_names_are_limited_in_the_schema() -> None:
    for name in documents():
        rules = [rule["rule"] for rule in cel(whole(name))]
        assert "size(self.metadata.name) <= 40" in rules


def cel(schema: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = schema.get("x-kubernetes-validations", [])
    return found
