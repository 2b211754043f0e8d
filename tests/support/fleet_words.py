"""How values of ours are shown in stories: on one line each, the same in every run.

Random ids are numbered in the order in which they come, and times of day are those since the
beginning.
"""

import re
import zlib
from collections.abc import (
    Collection,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, Final

from bookie.metadata.store import BookieInfo, Versioned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.storage.durations import Durations
from bookie.testing.simulation.surroundings import EPOCH_S

BYTES_MAX: Final = 16
"""More bytes than this are shown by their number and checksum."""
_IN_FRONT: Final = ("ledger_id", "ensemble_size", "write_quorum", "ack_quorum")


def shown(value: Any) -> str:
    """Any value of ours, on one line; fields that have their default are left out."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray | memoryview):
        return digest(value) if len(value) > BYTES_MAX else repr(bytes(value))
    if isinstance(value, EntrySet):
        return "{" + " ".join(f"{a}..{b}" if b > a else f"{a}" for a, b in value.ranges()) + "}"
    if isinstance(value, Versioned):
        return f"v{value.version} {shown(value.value)}"
    if isinstance(value, Fragment):
        return f"{value.first_entry_id}: {' '.join(value.ensemble)}"
    if isinstance(value, BookieInfo):
        ports = " ".join(f"{one.endpoint_id}={one.host}:{one.port}" for one in value.endpoints)
        return f"({ports} {shown(value.properties)}{' read-only' * value.read_only})"
    if isinstance(value, Durations):
        return "…"  # they are of the machine's own clock
    if isinstance(value, LedgerMetadata):
        quorums = f"{value.ensemble_size}/{value.write_quorum}/{value.ack_quorum}"
        return f"ledger {value.ledger_id} {quorums} {_of_fields(value, but=_IN_FRONT)}"
    if is_dataclass(value) and not isinstance(value, type):
        return _of_fields(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, str | int | float | None):
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(shown, value)) + "]"
    return type(value).__name__


def lines_of(document: Mapping[str, Any]) -> Iterator[str]:
    """A result: a line to each field, and to each row of a list. Equal parts of a field stand there
    once.
    """
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{name}:"
            yield from (f"  - {_plain(row)}" for row in value)
        elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            groups: dict[str, list[str]] = {}
            for part, inner in value.items():
                groups.setdefault(_plain(inner), []).append(str(part))
            yield f"{name}:"
            yield from (f"  {' '.join(parts)}: {inner}" for inner, parts in groups.items())
        else:
            yield f"{name}: {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={_plain(v)}" for k, v in value.items()) or "{}"
    if isinstance(value, list | tuple):
        return (
            f"[{', '.join(f'({_plain(v)})' if isinstance(v, dict) else _plain(v) for v in value)}]"
        )
    return shown(value)


def _of_fields(value: Any, *, but: Collection[str] = ()) -> str:
    parts = []
    for field in fields(value):
        if field.name in but:
            continue
        one = getattr(value, field.name)
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        if default is MISSING or one != default:
            parts.append(f"{field.name}={shown(one)}")
    name = "" if but else type(value).__name__
    return f"{name}({', '.join(parts)})"


_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{12}\b"
    r"|(?<=creation_token=)\d+"
)


def numbered(text: str) -> str:
    names: dict[str, str] = {}
    return _RANDOM.sub(lambda found: names.setdefault(found[0], f"<id {len(names) + 1}>"), text)


def from_the_beginning(text: str) -> str:
    """Milliseconds since 1970, as tenths of a second of the simulation."""
    begin = str(int(EPOCH_S))[:6]
    return re.sub(
        rf"\b{begin}\d{{7}}\b", lambda found: f"<{int(found[0]) / 1000 - EPOCH_S:.1f} s>", text
    )


def digest(data: bytes | bytearray | memoryview) -> str:
    return f"{len(data)} B #{zlib.crc32(data):08x}"
