"""What every entry holds, computed from its ledger and id: a check needs no copy of what was sent.

Sizes vary, from a few bytes to several kilobytes, so that runs, pieces and files end anywhere.
"""

import random
import struct
import zlib
from typing import Final

HEAD: Final = struct.Struct(">qqq")
NOISE_BYTES: Final = 1 << 16
SMALL_BYTES: Final = 256
LARGE_BYTES: Final = 16 * 1024
LARGE_EVERY: Final = 97


class PayloadRule:
    """The payloads of one soak; another seed has others."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._noise = random.Random(f"noise {seed}").randbytes(NOISE_BYTES + LARGE_BYTES)

    def payload(self, ledger_id: int, entry_id: int) -> bytes:
        head = HEAD.pack(self._seed, ledger_id, entry_id)
        drawn = zlib.crc32(head)
        size = LARGE_BYTES if drawn % LARGE_EVERY == 0 else SMALL_BYTES
        start = drawn % NOISE_BYTES
        return head + self._noise[start : start + (drawn >> 16) % size]
