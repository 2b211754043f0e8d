"""Named tuples made without a call of Python's: for what is made for every message or run.

Below everything that makes some; a NamedTuple's own constructor is a function of Python, and costs
as much as all that is done with the fields.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, TypeVarTuple, cast

Made = TypeVar("Made")
Fields = TypeVarTuple("Fields")


def from_fields(kind: Callable[[*Fields], Made]) -> Callable[[tuple[*Fields]], Made]:
    """What makes a `kind`, a NamedTuple, of a tuple with a value for each of its fields."""
    return cast(Callable[[tuple[*Fields]], Made], partial(tuple.__new__, kind))  # type: ignore[arg-type]
