"""File headers and settings of log and journal."""

from pathlib import Path

import pytest
from bookie.errors import CorruptError, SettingsError
from bookie.storage.log_files import (
    HEADER_BYTES,
    JOURNAL_FILES,
    LOG_FILES,
    FileHeader,
    LogSettings,
    decode_header,
)

PATH = Path("log/0000000002.log")
HEADER = FileHeader(2, 1, 5000, nonce=2**64 - 1, first_sequence=9, first_needed=1)


def test_a_header_is_one_block_and_comes_back() -> None:
    block = HEADER.encode(LOG_FILES)
    assert len(block) == HEADER_BYTES
    assert decode_header(block, kind=LOG_FILES, path=PATH, file_id=2) == HEADER


@pytest.mark.parametrize("bit", range(0, 64 * 8, 7))
def test_a_flipped_bit_in_the_header_is_noticed(bit: int) -> None:
    block = bytearray(HEADER.encode(LOG_FILES))
    block[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptError, match="header"):
        decode_header(bytes(block), kind=LOG_FILES, path=PATH, file_id=2)


def test_the_header_of_another_file_or_family_is_refused() -> None:
    block = HEADER.encode(LOG_FILES)
    with pytest.raises(CorruptError, match="header is that of file 2, expected 3"):
        decode_header(block, kind=LOG_FILES, path=PATH, file_id=3)
    with pytest.raises(CorruptError, match="magic"):
        decode_header(block, kind=JOURNAL_FILES, path=PATH, file_id=2)


def test_a_cut_off_header_is_refused() -> None:
    with pytest.raises(CorruptError, match="header has 100 bytes"):
        decode_header(HEADER.encode(LOG_FILES)[:100], kind=LOG_FILES, path=PATH, file_id=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ring_bytes": 4096},
        {"ring_bytes": 100_000},
        {"file_bytes": 0},
        {"direct_io": "maybe"},
        {"reserve_bytes": -1},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        LogSettings(**wrong)  # type: ignore[arg-type]
