"""Quantities of Kubernetes: sizes of volumes, and what a pod requests."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

_UNITS: Final = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
Size = Annotated[
    str, StringConstraints(pattern=r"^[1-9][0-9]{0,15}(Ki|Mi|Gi|Ti|Pi)?$", max_length=20)
]


def size_bytes(size: str) -> int:
    """Bytes of a quantity such as `5Gi`."""
    digits = size.rstrip("KMGTPi")
    return int(digits) * _UNITS[size[len(digits) :]]


def is_smaller(size: str, wanted: str) -> bool:
    """Whether `size` is less than `wanted`; False for a size in a format that we do not write."""
    try:
        return size_bytes(size) < size_bytes(wanted)
    except (KeyError, ValueError):
        return False


_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"


def _whole_number_as_text(value: object) -> object:
    return str(value) if type(value) is int else value


Quantity = Annotated[
    str,
    BeforeValidator(_whole_number_as_text),
    StringConstraints(pattern=_QUANTITY, max_length=32),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _QUANTITY, "maxLength": 32}),
]
"""A quantity such as `50m`, `1` (also as a number) or `256Mi`. A wrong one is refused here; in a
pod template it would only be found when the pod cannot be created."""
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
