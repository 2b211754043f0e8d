"""Frames of stock BookKeeper, by name, as its Java encoder made them; see stock_frames.txt."""

from pathlib import Path
from typing import Final

_LINES: Final = Path(__file__).with_suffix(".txt").read_text(encoding="ascii").splitlines()
FRAMES: Final = {
    name: bytes.fromhex(digits)
    for name, digits in (line.split() for line in _LINES if not line.startswith("#"))
}
"""Also `key`, `entry` and `lac_body`: the parts that the frames have in common."""
