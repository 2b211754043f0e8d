"""What the control plane takes of a request: how much of it, and what in it makes sense. Pure.

A reply may be long, as one about many ledgers is; what honest callers ask is short.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bookie.errors import BadRequestError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.settings import Limits

LEDGERS_MAX: Final = 10_000
"""Ledgers one request may name."""
RANGES_MAX: Final = 100_000
"""Ranges of entries one request may name."""
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
METADATA_BYTES_MAX: Final = 16 * 1024
HANDSHAKE_MS: Final = 10_000
CONNECTION_AGE_MS: Final = 10 * 60 * 1000
"""Then a caller makes another connection, by the authorities that are trusted by then; calls under
way go on."""
SHOWN: Final = 5
"""Of a long list that makes no sense, so much is in the answer: it goes into a header."""


def options(limits: Limits) -> list[tuple[str, int]]:
    """Of a gRPC server."""
    return [
        ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
        ("grpc.max_send_message_length", REPLY_BYTES_MAX),
        ("grpc.max_concurrent_streams", limits.control_calls),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.max_allowed_incoming_connections", limits.control_connections),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_connection_age_ms", CONNECTION_AGE_MS),
        ("grpc.so_reuseport", 0),
    ]


def parsed(parse: Callable[[bytes], Any], raw: object) -> tuple[list[Any], str]:
    """The one message in these bytes, or none and why. Other than bytes: the caller sent none."""
    if not isinstance(raw, bytes):
        return [], "found a call without a message, expected one"
    try:
        return [parse(raw)], ""
    except Exception:  # protobuf's own, which no interface of it names
        return [], f"{len(raw)} bytes are no message of this call"


def ledger_id(found: int) -> LedgerId:
    if found < 0:
        raise BadRequestError(f"ledger ids begin at 0, found {found}")
    return LedgerId(found)


def ledger_ids(ids: Sequence[int]) -> list[LedgerId]:
    if len(ids) > LEDGERS_MAX:
        raise BadRequestError(f"{len(ids)} ledgers in one request, at most {LEDGERS_MAX} allowed")
    return [ledger_id(one) for one in ids]


def entries(items: Sequence[Any]) -> EntrySet:
    if len(items) > RANGES_MAX:
        raise BadRequestError(f"{len(items)} ranges in one request, at most {RANGES_MAX} allowed")
    ranges = [(EntryId(item.first), EntryId(item.last)) for item in items]
    wrong = [(first, last) for first, last in ranges if not 0 <= first <= last]
    if wrong or not ranges:
        found = wrong[:SHOWN] or "none"
        raise BadRequestError(f"ranges with 0 <= first <= last are needed, found {found}")
    return EntrySet.from_ranges(ranges)
