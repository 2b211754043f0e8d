"""ZooKeeper's whoAmI: asks for the names by which a server knows this connection, since 3.7.

The answer, big-endian: the number of names, then for each its scheme and its id, as strings with
their lengths before them.
"""

import struct
from typing import ClassVar, Final

from kazoo.security import Id

WHOAMI: Final = 107
SUPER: Final = "super"
"""The scheme of a super user, who may do everything."""
_INT: Final = struct.Struct(">i")


class Whoami:
    """A request in the form that kazoo sends."""

    type: ClassVar = WHOAMI

    def serialize(self) -> bytes:
        return b""

    def deserialize(self, answer: bytes, offset: int) -> list[Id]:
        (count,) = _INT.unpack_from(answer, offset)
        offset += _INT.size
        names = []
        for _ in range(count):
            scheme, offset = _text(answer, offset)
            name, offset = _text(answer, offset)
            names.append(Id(scheme, name))
        return names


def _text(answer: bytes, offset: int) -> tuple[str, int]:
    (length,) = _INT.unpack_from(answer, offset)
    offset += _INT.size
    end = offset + max(length, 0)
    return bytes(answer[offset:end]).decode(), end
