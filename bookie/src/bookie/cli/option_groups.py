"""Options of commands as typed values: a group is a dataclass, each of its fields an `option`.

A command takes one keyword argument for each of its groups, so that the words of an option, its
type and its meaning stand in one place.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import wraps
from typing import Any, TypeVar

import click

Group = TypeVar("Group")
Command = Callable[..., None]


def option(*words: str, **settings: Any) -> Any:
    """A field of a group, which people write as `click.option(*words, **settings)` says."""
    return field(metadata={"words": words, "settings": settings})


def grouped(**groups: type[Any]) -> Callable[[Command], Command]:
    """Adds the options of these groups to a command, which gets each group by its keyword."""
    options = [one for group in groups.values() for one in fields(group)]
    names = {one.name for one in options}

    def add(command: Command) -> Command:
        @wraps(command)
        def parsed(**values: Any) -> None:
            made = {keyword: taken(group, values) for keyword, group in groups.items()}
            rest = {name: value for name, value in values.items() if name not in names}
            command(**rest, **made)

        for one in reversed(options):
            settings = one.metadata["settings"]
            parsed = click.option(one.name, *one.metadata["words"], **settings)(parsed)
        return parsed

    return add


def taken(group: type[Group], values: Mapping[str, Any]) -> Group:
    """The group with its options as click has parsed them."""
    return group(**{one.name: values[one.name] for one in fields(group)})  # type: ignore[arg-type]
