"""The bytes of what the store knows of a bookie's last boot."""

import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.boots import decode_boot, encode_boot
from bookie.metadata.store import StoredBoot

ME = BookieId("b0")


def test_a_boot_is_json_with_sorted_keys() -> None:
    raw = (
        b'{"epoch": 7, "generation": 12, "lease": 75.0, "nonce": "5f", "rolledBack": "",'
        b' "served": 6}'
    )
    assert encode_boot(StoredBoot(7, "5f", 12, 6, lease_s=75.0)) == raw
    assert decode_boot(raw, bookie_id=ME) == StoredBoot(7, "5f", 12, 6, lease_s=75.0)


def test_a_boot_that_tells_no_lease_is_one() -> None:
    raw = b'{"epoch": 7, "generation": 12, "nonce": "5f", "rolledBack": "", "served": 6}'
    assert decode_boot(raw, bookie_id=ME).lease_s == 0.0


def test_an_epoch_of_a_version_before_is_known_as_such() -> None:
    assert decode_boot(b"7", bookie_id=ME) == StoredBoot(7, served=7, is_bare=True)


@pytest.mark.parametrize(
    "raw",
    [b"", b"-1", b"[]", b"{}", b'{"epoch": -1, "generation": 0, "nonce": ""}', b"\xff",
     b'{"epoch": 7, "generation": 0, "lease": NaN, "nonce": "", "rolledBack": "", "served": 0}',
     b'{"epoch": "7", "generation": 0, "nonce": ""}', b'{"epoch": 7, "generation": 0, "nonce": 1}'],
)  # fmt: skip
def test_anything_else_is_no_boot_and_named(raw: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="boot of b0 is"):
        decode_boot(raw, bookie_id=ME)
