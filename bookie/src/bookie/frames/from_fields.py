"""Makes named tuples without calling a Python function, for objects made per message or run.

A NamedTuple's own constructor is a Python function, and costs as much as all other work with the
fields. This module stands below all modules that use it.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, TypeVarTuple, cast

Made = TypeVar("Made")
Fields = TypeVarTuple("Fields")


def from_fields(kind: Callable[[*Fields], Made]) -> Callable[[tuple[*Fields]], Made]:
    """A function that makes a `kind`, a NamedTuple, from a tuple with a value for each of its
    fields.
    """
    return cast(Callable[[tuple[*Fields]], Made], partial(tuple.__new__, kind))  # type: ignore[arg-type]
