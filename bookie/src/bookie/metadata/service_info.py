"""Encodes and decodes a bookie's registration: BookKeeper's BookieServiceInfo.

Whether the bookie is read-only is not in the bytes but in the znode's path.
"""

import re
from typing import Final

from google.protobuf.message import DecodeError

from bookie.bounded import utf8
from bookie.errors import MetadataFormatError
from bookie.hosts import bare
from bookie.ids import BookieId
from bookie.metadata.bookkeeper_pb2 import BookieServiceInfoFormat
from bookie.metadata.store import RPC_ENDPOINT, BookieInfo, Endpoint

PORT_MAX: Final = 65535
LEGACY_PORT: Final = re.compile("[0-9]{1,5}")


def encode_info(info: BookieInfo) -> bytes:
    """Encode a registration; endpoints and properties stay in order."""
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
    """Decode a registration. Old bookies write no bytes: then their id is `host:port`."""
    if not raw:
        return BookieInfo(bookie_id, _legacy_endpoints(bookie_id), read_only=read_only)
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(raw)
        endpoints = tuple(map(_endpoint, message.endpoints))
        properties = {utf8(key): utf8(value) for key, value in message.properties.items()}
    except (DecodeError, UnicodeDecodeError) as error:
        raise MetadataFormatError(f"registration of {bookie_id} cannot be read") from error
    if not message.IsInitialized():
        raise MetadataFormatError(f"registration of {bookie_id} lacks a field of an endpoint")
    for endpoint in endpoints:
        if not 0 <= endpoint.port <= PORT_MAX:
            raise MetadataFormatError(
                f"registration of {bookie_id}: found port {endpoint.port}, expected 0 to {PORT_MAX}"
            )
    return BookieInfo(bookie_id, endpoints, properties, read_only=read_only)


def _endpoint(found: BookieServiceInfoFormat.Endpoint) -> Endpoint:
    words = (found.id, found.host, found.protocol, *found.auth)
    endpoint_id, host, protocol, *auth = map(utf8, words)
    return Endpoint(endpoint_id, host, found.port, protocol, tuple(auth))


def _legacy_endpoints(bookie_id: BookieId) -> tuple[Endpoint, ...]:
    # The host is the text before the last colon; Apache's own parser accepts no IPv6 address here.
    host, _, port = bookie_id.rpartition(":")
    if not host or not LEGACY_PORT.fullmatch(port) or int(port) > PORT_MAX:
        return ()
    return (Endpoint(RPC_ENDPOINT, bare(host), int(port), RPC_ENDPOINT),)
