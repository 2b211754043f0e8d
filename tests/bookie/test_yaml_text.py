"""Text that people wrote: what it seems to say is what is read, or it is an error."""

import pytest
from bookie.yaml_text import YAML_DEPTH_MAX, parse_yaml


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "x: {b: 1, b: 1}", "- c: [1]\n  d: 2\n  c: []", "1: a\n1: b"]
)
def test_a_key_that_stands_there_twice_is_a_mistake(text: str) -> None:
    with pytest.raises(ValueError, match="stands there twice"):
        parse_yaml(text)


def test_a_key_may_replace_one_that_is_merged() -> None:
    assert parse_yaml("a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}")[0]["d"] == {"b": 3, "c": 2}


def test_values_may_be_nested_so_deep_and_no_deeper() -> None:
    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    assert parse_yaml(nested(YAML_DEPTH_MAX))
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_yaml(nested(YAML_DEPTH_MAX + 1))
