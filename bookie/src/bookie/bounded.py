"""Text and bytes that others wrote, to values: whatever is in them, a value or a ValueError.

What Python's own parsers do with hostile input is more than that: nesting ends the stack, a number
of a thousand digits fits into no column, half a surrogate pair cannot be written again, a kilobyte
inflates to a gigabyte.
"""

import json
import math
import zlib
from typing import Any, Final, NoReturn

INT_MAX: Final = 2**63 - 1
"""Columns of databases and fields of messages hold no more."""
INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""A thousand times what a value of the metadata store may have is no honest one."""


def parse_json(raw: bytes | str) -> Any:
    """The value; its numbers are finite, and the whole ones fit into 64 bits."""
    try:
        value = json.loads(
            raw, parse_int=_whole, parse_float=_finite, parse_constant=_refuse_constant
        )
        if ("\\u" if isinstance(raw, str) else b"\\u") in raw:  # type: ignore[operator]
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    return value


def utf8(text: str | bytes) -> str:
    """Of a text field of proto2, which comes as bytes when they are no UTF-8: ValueError then."""
    return text.decode() if isinstance(text, bytes) else text


def _whole(digits: str) -> int:
    if len(digits) > len(str(INT_MAX)) + 1 or not -INT_MAX - 1 <= int(digits) <= INT_MAX:
        raise ValueError(f"found a number of {len(digits)} digits, expected one of 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"found the number {digits[:20]}, expected a smaller one")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a number")


def inflate(raw: bytes, *, bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """What zlib made these bytes of; nothing beyond `bytes_max` is ever in memory."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(raw, bytes_max + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be inflated: {error}") from error
    if len(inflated) > bytes_max:
        raise ValueError(f"it inflates to more than {bytes_max} bytes")
    if not stream.eof:
        raise ValueError("it is cut off")
    return inflated
