"""Parse text and bytes that others wrote: the result is a value or a ValueError, nothing else.

Python's own parsers do not promise that for hostile input: deep nesting exhausts the stack, a
number of a thousand digits fits no database column, half a surrogate pair cannot be encoded again,
and a kilobyte can inflate to a gigabyte.
"""

import json
import math
import zlib
from typing import Any, Final, NoReturn

INT_MAX: Final = 2**63 - 1
"""The largest number that database columns and message fields can hold."""
INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit for inflated data; no honest value is a thousand times larger than a metadata store
allows."""


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON whose numbers are finite and whose integers fit into 64 bits; else ValueError."""
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
    """Return a text field of proto2 as str. Protobuf gives bytes when they are not UTF-8; then this
    raises ValueError.
    """
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
    """Decompress zlib data; never hold more than `bytes_max` and one byte in memory."""
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
