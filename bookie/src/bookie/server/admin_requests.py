"""Limits and checks for requests to the control plane. Pure.

A reply may be long, for instance about many ledgers; requests of honest callers are short.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bookie.errors import BadRequestError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.settings import Limits

LEDGERS_MAX: Final = 10_000
"""How many ledgers one request may name."""
RANGES_MAX: Final = 100_000
"""How many ranges of entries one request may name."""
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
METADATA_BYTES_MAX: Final = 16 * 1024
HANDSHAKE_MS: Final = 10_000
CONNECTION_AGE_MS: Final = 10 * 60 * 1000
"""After this time a connection is closed, once its calls have ended, and the caller connects again:
so newly trusted authorities take effect."""
SHOWN: Final = 5
"""How many wrong items an error names: it is sent in a header."""


def options(limits: Limits) -> list[tuple[str, int]]:
    """The options of the gRPC server."""
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
    """Parse the one message of a call: a list with it and an empty text, or an empty list and the
    reason. `raw` is not bytes when the caller sent no message.
    """
    if not isinstance(raw, bytes):
        return [], "found a call without a message, expected one"
    try:
        return [parse(raw)], ""
    except Exception:  # protobuf documents no error class
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
