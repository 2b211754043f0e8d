"""A JSON schema as tables for people: what may be written where, what is assumed, what it means."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

Schema = Mapping[str, Any]

KIB: Final = 1024
UNITS: Final = ("KiB", "MiB", "GiB")
HEAD: Final = "| field | what may stand there | default | meaning |\n|---|---|---|---|\n"
NAMES: Final = {
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "string": "text",
}


@dataclass
class Tables:
    """A table for each object that a schema has, once; deeper objects follow the one they are in.

    `level`: of the first heading. `nouns`: what the tables of an object were named when they were
    made, by the object's fields, so that the same object is shown once.
    """

    level: int = 2
    nouns: dict[str, str] = field(default_factory=dict)

    def of(self, schema: Schema, path: str) -> Iterator[str]:
        """The table of an object, then those of objects in it."""
        yield f"{'#' * self.level} {path}\n\n"
        if said := schema.get("description"):
            yield f"{said}\n\n"
        yield HEAD
        deeper: list[tuple[str, Schema]] = []
        for name, one in schema["properties"].items():
            inner, suffix = _object_in(one)
            below = f"{path}.{name}{suffix}"
            if inner is not None and (seen := self._seen(inner, below)) == below:
                deeper.append((below, inner))
            see = "" if inner is None else f" Fields: [below](#{anchor(seen)})."
            is_needed = name in schema.get("required", ())
            yield row(name, one, is_needed=is_needed, more=see)
        yield "\n"
        yield from _rules(schema)
        for below, inner in deeper:
            yield from self.of(inner, below)

    def _seen(self, schema: Schema, path: str) -> str:
        return self.nouns.setdefault(repr(schema["properties"]), path)


def row(name: str, schema: Schema, *, is_needed: bool, more: str = "") -> str:
    """One field's line of a table."""
    said = str(schema.get("description", "")) + more
    assumed = "needed" if is_needed else default_of(schema)
    cells = (f"`{name}`", kind_of(schema), assumed, said.strip())
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def kind_of(schema: Schema) -> str:
    """What may stand there: a type and its bounds."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value else "empty" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_many(schema['items'])}{_bounds(schema, 'minItems', 'maxItems')}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"map to {_many(inner)}" if isinstance(inner, Mapping) else "object"
    length = _bounds(schema, "minLength", "maxLength", "characters")
    form = {"path": "path", "date-time": "time"}.get(str(schema.get("format")), "")
    return (form or NAMES[str(kind)]) + _bounds(schema, "minimum", "maximum") + length


def default_of(schema: Schema) -> str:
    """What is assumed where nothing stands; empty: nothing."""
    value = schema.get("default")
    if value is None or isinstance(value, Mapping) or value in ("", [], ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    if is_size(value):
        return f"`{value}` ({size_text(value)})"
    return f"`{value}`"


def is_size(value: object) -> TypeGuard[int]:
    """A number that people read as bytes."""
    return isinstance(value, int) and value >= 64 * KIB and value % (64 * KIB) == 0


def size_text(count: int) -> str:
    unit = -1
    while count >= KIB and unit < len(UNITS) - 1 and count % KIB == 0:
        count, unit = count // KIB, unit + 1
    return f"{count} {UNITS[unit]}" if unit >= 0 else f"{count} bytes"


def _many(schema: Schema) -> str:
    if "enum" in schema:
        return kind_of(schema)
    kind = str(schema.get("type", "object"))
    known = {"string": "texts", "integer": "whole numbers", "object": "objects"}
    return "quantities" if schema.get("x-kubernetes-int-or-string") else known.get(kind, kind)


def _bounds(schema: Schema, low: str, high: str, noun: str = "") -> str:
    least, most = schema.get(low), schema.get(high)
    end = f" {noun}" if noun else ""
    above = schema.get("exclusiveMinimum") if low == "minimum" else None
    if above is not None:
        return f", more than {above:g}"
    if least is not None and most is not None:
        return f", {_number(least)} to {_number(most)}{end}"
    if most is not None:
        return f", at most {_number(most)}{end}"
    return f", at least {_number(least)}{end}" if least else ""


def _number(value: float) -> str:
    if is_size(value):
        return size_text(value)
    return f"{value:g}" if value < 10**6 else str(value)


def _object_in(schema: Schema) -> tuple[Schema | None, str]:
    """The object with fields that a field holds, one or many, and how a path says so."""
    for inner, suffix in (
        (schema, ""),
        (schema.get("items"), "[]"),
        (schema.get("additionalProperties"), ".*"),
    ):
        if isinstance(inner, Mapping) and inner.get("properties"):
            return inner, suffix
    return None, ""


def _rules(schema: Schema) -> Iterator[str]:
    """What must be so beyond single fields, in the API server's words."""
    fields = (one for one in schema["properties"].values() if not one.get("properties"))
    parts = (schema, *fields)
    found = [rule["message"] for one in parts for rule in one.get("x-kubernetes-validations", ())]
    whole = [message for message in found if not message.startswith("must be at ")]
    yield from (f"- {message}\n" for message in dict.fromkeys(whole))
    yield "\n" if whole else ""


def anchor(heading: str) -> str:
    """As a link names the heading."""
    kept = (one for one in heading.lower() if one.isalnum() or one in "_- ")
    return "".join(kept).replace(" ", "-")
