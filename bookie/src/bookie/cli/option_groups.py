"""Options of commands as typed values: a group is a dataclass, and each of its fields an `option`.

A command takes one keyword argument for each of its groups. So the name of an option, its type and
its help text stand in one place.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import wraps
from typing import Any, TypeVar

import click

Group = TypeVar("Group")
Command = Callable[..., None]


def option(*words: str, **settings: Any) -> Any:
    """A field of a group; `words` and `settings` are the arguments of `click.option`."""
    return field(metadata={"words": words, "settings": settings})


def grouped(**groups: type[Any]) -> Callable[[Command], Command]:
    """Add the options of these groups to a command; it gets each group as a keyword argument."""
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
    """A group, made from the option values that click has parsed."""
    return group(**{one.name: values[one.name] for one in fields(group)})  # type: ignore[arg-type]
