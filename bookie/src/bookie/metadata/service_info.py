"""A bookie's registration to bytes and back: BookKeeper's BookieServiceInfo.

Whether the bookie is read-only is not in the bytes but in the place they lie at.
"""

from typing import Final

from google.protobuf.message import DecodeError

from bookie.errors import MetadataFormatError
from bookie.hosts import bare
from bookie.ids import BookieId
from bookie.metadata.bookkeeper_pb2 import BookieServiceInfoFormat
from bookie.metadata.store import RPC_ENDPOINT, BookieInfo, Endpoint

PORT_MAX: Final = 65535


def encode_info(info: BookieInfo) -> bytes:
    """The bytes of a registration; endpoints and properties in the order given."""
    message = BookieServiceInfoFormat()
    for endpoint in info.endpoints:
        message.endpoints.add(
            id=endpoint.endpoint_id,
            host=endpoint.host,
            port=endpoint.port,
            protocol=endpoint.protocol,
            auth=endpoint.auth,
        )
    for key, value in info.properties.items():
        message.properties[key] = value
    return message.SerializeToString(deterministic=True)


def decode_info(raw: bytes, *, bookie_id: BookieId, read_only: bool) -> BookieInfo:
    """What a registration says. Old bookies say nothing: then the id itself is `host:port`."""
    if not raw:
        return BookieInfo(bookie_id, _legacy_endpoints(bookie_id), read_only=read_only)
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise MetadataFormatError(f"registration of {bookie_id} cannot be read") from error
    if not message.IsInitialized():
        raise MetadataFormatError(f"registration of {bookie_id} lacks a field of an endpoint")
    return BookieInfo(
        bookie_id=bookie_id,
        endpoints=tuple(
            Endpoint(e.id, e.host, e.port, e.protocol, tuple(e.auth)) for e in message.endpoints
        ),
        properties=dict(message.properties),
        read_only=read_only,
    )


def _legacy_endpoints(bookie_id: BookieId) -> tuple[Endpoint, ...]:
    # As it stands before the last colon: Apache's own parser takes no IPv6 address here at all.
    host, _, port = bookie_id.rpartition(":")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        return ()
    return (Endpoint(RPC_ENDPOINT, bare(host), int(port), RPC_ENDPOINT),)
