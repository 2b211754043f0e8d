"""Formats as tables: a path for each field, command or record, and facts about it. Pure.

One shape for all of them, so that one comparison does (`format_changes`). What only people read,
such as descriptions, is left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

Table = dict[str, dict[str, Any]]

CHECKED: Final = (
    "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "minItems", "maxItems", "maxProperties", "default", "nullable",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip
_LABELS: Final = {
    FieldDescriptor.LABEL_OPTIONAL: "optional",
    FieldDescriptor.LABEL_REQUIRED: "required",
    FieldDescriptor.LABEL_REPEATED: "repeated",
}
_TYPES: Final = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


# Protobuf
def of_proto(file: FileDescriptor) -> Table:
    """Messages, enums and services of one file, by their full names."""
    table: Table = {}
    for message in file.message_types_by_name.values():
        table |= _of_message(message)
    for enum in file.enum_types_by_name.values():
        table |= _of_enum(enum)
    for service in file.services_by_name.values():
        for method in service.methods:
            table[f"{service.full_name}.{method.name}"] = {
                "asks": method.input_type.full_name,
                "answers": method.output_type.full_name,
            }
    return table


def _of_message(message: Descriptor) -> Table:
    table: Table = {message.full_name: {}}
    for field in message.fields:
        label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
        held = field.message_type or field.enum_type
        table[field.full_name] = {
            "number": field.number,
            "type": held.full_name if held is not None else _TYPES[field.type],
            "label": label,
            "required": field.is_required,
        }
    for nested in message.nested_types:
        table |= _of_message(nested)
    for enum in message.enum_types:
        table |= _of_enum(enum)
    return table


def _of_enum(enum: EnumDescriptor) -> Table:
    values = {f"{enum.full_name}.{one.name}": {"number": one.number} for one in enum.values}
    return {enum.full_name: {}, **values}


# JSON schemas: of custom resources, and of what pydantic models take
def of_schema(path: str, schema: Mapping[str, Any]) -> Table:
    """Each field below `path`: `.name`, `[]` of a list, `{}` of a mapping."""
    return _of_node(path, schema, schema.get("$defs", {}), required=False)


def _of_node(
    path: str, given: Mapping[str, Any], definitions: Mapping[str, Any], *, required: bool
) -> Table:
    node = _resolved(given, definitions)
    facts = {name: node[name] for name in CHECKED if name in node}
    facts |= {"type": node.get("type", "any"), "required": required}
    if "enum" in node or "const" in node:
        facts["choices"] = sorted(map(str, node.get("enum", [node.get("const")])))
    if rules := [str(one["rule"]) for one in node.get("x-kubernetes-validations", ())]:
        facts["rules"] = rules
    table: Table = {path: facts}
    needed = node.get("required", ())
    for name, part in node.get("properties", {}).items():
        table |= _of_node(f"{path}.{name}", part, definitions, required=name in needed)
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(key), Mapping):
            table |= _of_node(path + sign, node[key], definitions, required=False)
    return table


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Without references; of `X | None` the X, as nullable."""
    found = dict(node)
    if "$ref" in found:
        name = str(found.pop("$ref")).rpartition("/")[2]
        found = {**_resolved(definitions[name], definitions), **found}
    choices = [one for one in found.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:
        is_nullable = len(found.pop("anyOf")) > 1
        found = {**_resolved(choices[0], definitions), **found}
        found |= {"nullable": True} if is_nullable else {}
    return found


# Commands
def of_command(path: str, command: click.Command) -> Table:
    """The command, what it takes, and those below it."""
    table: Table = {path: {}}
    place = 0
    for one in command.params:
        is_option = isinstance(one, click.Option)
        longest = max(one.opts, key=len)
        name = longest if is_option else f"<{place}>"
        place += not is_option
        table[f"{path} {name}"] = {
            "words": sorted([*one.opts, *one.secondary_opts]) if is_option else [],
            "takes": "nothing" if getattr(one, "is_flag", False) else _values(one.nargs),
            "repeats": one.multiple if isinstance(one, click.Option) else one.nargs == -1,
            "required": one.required,
        } | _choices(one.type)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            table |= of_command(f"{path} {name}", below)
    return table


def _values(count: int) -> str:
    return "a value" if count in (1, -1) else f"{count} values"


def _choices(kind: click.ParamType) -> dict[str, Any]:
    return {"choices": sorted(map(str, kind.choices))} if isinstance(kind, click.Choice) else {}


# What is written
def of_values(path: str, tree: Any) -> Table:
    """JSON with its values: what a reader finds under each name."""
    if isinstance(tree, Mapping):
        table: Table = {path: {"type": "object"}}
        for name, part in tree.items():
            table |= of_values(f"{path}.{name}", part)
        return table
    return {path: {"value": tree}}


def of_shape(path: str, tree: Any) -> Table:
    """JSON without its values: which types stand under each name; `null` may stand anywhere."""
    if isinstance(tree, Mapping):
        return _merged({path: {"types": ["object"]}}, *_parts(path, tree))
    if isinstance(tree, list):
        items = [of_shape(f"{path}[]", part) for part in tree]
        return _merged({path: {"types": ["list"]}}, *items)
    return {path: {"types": [] if tree is None else [_type(tree)]}}


def _parts(path: str, tree: Mapping[str, Any]) -> Iterable[Table]:
    return (of_shape(f"{path}.{name}", part) for name, part in tree.items())


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text"


def _merged(*tables: Table) -> Table:
    merged: Table = {}
    for table in tables:
        for path, facts in table.items():
            known = merged.setdefault(path, {"types": []})["types"]
            known += [one for one in facts["types"] if one not in known]
    return merged
