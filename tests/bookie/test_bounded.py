"""JSON, zlib and YAML that others wrote: a value or a ValueError, at a bounded cost."""

import zlib

import pytest
from bookie.bounded import INT_MAX, inflate, parse_json
from bookie.yaml_text import YAML_CHARACTERS_MAX, parse_yaml

LAUGHS = "a: &a [lol, lol]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b"1" + b"0" * 30, b"1" * 5000, b"1e999", b"-Infinity", b"NaN", b'"\\ud800"'],
)
def test_json_that_no_column_or_file_holds_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(raw)


@pytest.mark.parametrize("value", [INT_MAX, -INT_MAX - 1, 0])
def test_json_numbers_of_64_bits_are_taken(value: int) -> None:
    assert parse_json(str(value)) == value


def test_json_pairs_of_surrogates_are_one_character() -> None:
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_a_zlib_bomb_is_cut_off_at_the_bound() -> None:
    with pytest.raises(ValueError, match="inflates to more than 1000 bytes"):
        inflate(zlib.compress(bytes(1001)), bytes_max=1000)
    assert inflate(zlib.compress(bytes(1000)), bytes_max=1000) == bytes(1000)


@pytest.mark.parametrize("raw", [b"", b"x", zlib.compress(b"abc")[:-2]])
def test_what_is_cut_off_or_no_zlib_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        inflate(raw)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "aliases make too much"),
        ("&a [*a]", "an alias stands in what it names"),
        ("[" * 60 + "]" * 60, "nested too deeply"),
        ("1" * 5000, "too many digits"),
        ("!!timestamp x", "does not fit its tag"),
        ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("x" * (YAML_CHARACTERS_MAX + 1), "characters"),
    ],
)
def test_hostile_yaml_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_yaml(text)


def test_ordinary_aliases_and_merges_are_taken() -> None:
    [found] = parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}\n")
    assert found["b"] == {"x": 1, "y": [{"x": 1}, {"x": 1}]}
