"""Registrations in BookKeeper's format."""

import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.service_info import decode_info, encode_info
from bookie.metadata.store import BookieInfo, Endpoint

B0 = BookieId("bookie-0")
INFO = BookieInfo(B0, (Endpoint("bookie-rpc", "h", 3181, "bookie-rpc"),), {"k": "v"})
RAW = (
    b"\x32\x1e"  # field 6, 30 bytes: one endpoint
    b"\x0a\x0abookie-rpc"
    b"\x10\xed\x18"  # port 3181
    b"\x1a\x01h"
    b"\x22\x0abookie-rpc"
    b"\x3a\x06\x0a\x01k\x12\x01v"  # field 7: one property
)


def test_the_bytes_are_the_stock_bookies_bytes() -> None:
    assert encode_info(INFO) == RAW
    assert decode_info(RAW, bookie_id=B0, read_only=False) == INFO


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("auth", [(), ("tls",), ("tls", "sasl")])
def test_what_is_written_is_read_back_whole(auth: tuple[str, ...], read_only: bool) -> None:
    """Else clients would not know that an endpoint has TLS, and would connect without."""
    secure = Endpoint("bookie-run", "fd00::7", 65535, "run", auth)
    info = BookieInfo(B0, (secure, *INFO.endpoints), {"rack": "/r", "empty": ""}, read_only)
    assert decode_info(encode_info(info), bookie_id=B0, read_only=read_only) == info


@pytest.mark.parametrize(
    ("host", "bare"), [("10.0.0.1", "10.0.0.1"), ("fd00::7", "fd00::7"), ("[fd00::7]", "fd00::7")]
)
def test_a_silent_registration_is_read_from_the_id(host: str, bare: str) -> None:
    found = decode_info(b"", bookie_id=BookieId(f"{host}:3181"), read_only=True)
    assert found.endpoints == (Endpoint("bookie-rpc", bare, 3181, "bookie-rpc"),)
    assert found.read_only


@pytest.mark.parametrize("bookie_id", ["bookie-0", "h:", ":1", "h:x", "h:99999"])
def test_a_silent_registration_without_address_has_no_endpoints(bookie_id: str) -> None:
    assert decode_info(b"", bookie_id=BookieId(bookie_id), read_only=False).endpoints == ()


@pytest.mark.parametrize("raw", [b"\xff", RAW[:-1], b"\x32\x00"])
def test_garbage_is_an_error(raw: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="bookie-0"):
        decode_info(raw, bookie_id=B0, read_only=False)
