"""Which changes are refused: one of each kind, in small tables and in those of this tree."""

import copy
import random
from typing import Any

import pytest
import todays_formats
from bookie_operator.model.crd import documents
from format_changes import refused
from format_tables import Table, of_schema, of_shape, of_values


def change(was: dict[str, Any], now: dict[str, Any], path: str = "k.f") -> list[str]:
    return refused({"k": {}, path: was}, {"k": {}, path: now})


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"number": 4}, {"number": 5}),
        ({"type": "int32"}, {"type": "string"}),
        ({"label": "optional"}, {"label": "repeated"}),
        ({"default": 3}, {"default": 4}),
        ({"maximum": 9}, {"maximum": 8}),
        ({}, {"maxLength": 8}),
        ({"minimum": 1}, {"minimum": 2}),
        ({}, {"pattern": "^a$"}),
        ({"choices": ["a", "b"]}, {"choices": ["a"]}),
        ({}, {"choices": ["a"]}),
        ({"required": False}, {"required": True}),
        ({"rules": []}, {"rules": ["self.f > 1"]}),
        ({"types": ["number"]}, {"types": ["number", "text"]}),
        ({"words": ["--all", "-a"]}, {"words": ["--all"]}),
        ({"takes": "a value"}, {"takes": "nothing"}),
        ({"bytes": "00"}, {"bytes": "01"}),
        ({"default": {"a": 1}}, {"default": {"a": 2}}),
        ({"default": "bookie-operator/bookie:0.1.0"}, {"default": "bookie:0.2.0"}),
    ],
)
def test_what_narrows_or_changes_a_meaning_is_refused(
    was: dict[str, Any], now: dict[str, Any]
) -> None:
    [sentence] = change(was, now)
    assert sentence.startswith("k.f: ") and " was " in sentence and ", is " in sentence


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"maximum": 9}, {"maximum": 10}),
        ({"maximum": 9}, {}),
        ({"minimum": 1}, {"minimum": 0}),
        ({"minItems": 1}, {}),
        ({"choices": ["a"]}, {"choices": ["a", "b"]}),
        ({"choices": ["a"]}, {}),
        ({"words": ["--all"]}, {"words": ["--all", "-a"]}),
        ({"required": True}, {"required": False}),
        ({"rules": ["self.f > 1"]}, {"rules": []}),
        ({"types": []}, {"types": ["text"]}),
        ({"types": ["number"]}, {"types": []}),
        ({"default": {"a": 1}}, {"default": {"a": 1, "b": 2}}),
        ({"default": "bookie-operator/bookie:0.1.0"}, {"default": "bookie-operator/bookie:0.2.0"}),
    ],
)
def test_what_widens_is_not(was: dict[str, Any], now: dict[str, Any]) -> None:
    assert change(was, now) == []


def test_what_is_gone_is_named() -> None:
    assert refused({"k": {}, "k.f": {}}, {"k": {}}) == ["k.f was taken away"]


def test_a_new_field_must_not_be_required() -> None:
    older: Table = {"k": {}}
    assert refused(older, {"k": {}, "k.f": {"required": False}}) == []
    assert refused(older, {"k": {}, "k.f": {"required": True}}) == ["k.f is new and required"]


def test_a_field_may_be_required_of_what_is_new_as_a_whole() -> None:
    newer: Table = {"k": {}, "k.f": {"required": False}, "k.f.g": {"required": True}}
    assert refused({"k": {}}, newer) == []


@pytest.mark.parametrize("name", ["k --new", "k <1>"])
def test_a_command_asks_for_nothing_new(name: str) -> None:
    assert refused({"k": {}}, {"k": {}, name: {"required": True}}) == [
        f"{name} is new and required"
    ]


def test_a_number_that_was_free_is_taken_once() -> None:
    older: Table = {"k": {}, "k.f": {"number": 1}}
    assert "k.g has the number 1 that k.f had" in refused(older, {"k": {}, "k.g": {"number": 1}})


def test_a_new_rule_may_be_about_a_new_field_alone() -> None:
    older: Table = {"k": {}, "k.f": {}}
    rule = {"rules": ["!has(self.g) || self.f > 1"]}
    assert refused(older, {"k": rule, "k.f": {}, "k.g": {}}) == []
    assert refused(older, {"k": rule, "k.f": {}, "k.gh": {}}) != []


def test_a_field_that_may_be_null_is_the_same_field() -> None:
    schema = {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}}
    table = of_schema("k", {**schema, "$defs": {"A": {"type": "string", "maxLength": 3}}})
    assert table["k.a"] == {"type": "string", "maxLength": 3, "nullable": True, "required": False}


def test_shapes_have_the_types_of_all_rows() -> None:
    table = of_shape("k", {"rows": [{"a": 1, "b": None}, {"a": 2.5, "b": "x"}], "is": True})
    assert table["k.rows[].a"] == {"types": ["number"]} and table["k.is"] == {"types": ["bool"]}
    assert table["k.rows[].b"] == {"types": ["text"]}


def test_values_are_seen_name_by_name() -> None:
    assert of_values("k", {"a": [1], "b": {"c": 2}})["k.b.c"] == {"value": 2}


# Of this tree
TABLES = todays_formats.todays()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_nothing_of_this_tree_can_be_taken_away_unseen(name: str) -> None:
    table = TABLES[name]
    for path in random.Random(1).sample(sorted(table), min(30, len(table))):
        newer = copy.deepcopy(table)
        del newer[path]
        assert f"{path} was taken away" in refused(table, newer)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_formats_of_this_tree_are_what_they_are_when_looked_at_again(name: str) -> None:
    assert refused(TABLES[name], AGAIN[name]) == refused(AGAIN[name], TABLES[name]) == []


AGAIN = todays_formats.todays()


def test_every_field_of_the_kinds_is_in_the_table() -> None:
    fields = [
        path for path in TABLES["resources"] if path.startswith("BookieCluster v1alpha1.spec.")
    ]
    assert len(fields) > 150 and len(documents()) == 2
