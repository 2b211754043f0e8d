"""Decides in which ledger directory a ledger is: a fixed function of its id and the number of
directories.

The function is part of the on-disk format. With another function or number the bookie would look
for ledgers in the wrong directory and answer "no such ledger" for entries that exist. So both are
in every stamp, and the boot refuses a difference.
"""

from typing import Final

from bookie.ids import LedgerId

ROUTING_VERSION: Final = 1

_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_MASK: Final = 2**64 - 1


def route(ledger_id: LedgerId, count: int) -> int:
    """The index of the ledger's directory, 0 <= index < `count`.

    Version 1: the id times 2^64 / golden ratio, modulo 2^64; its upper 32 bits scaled to `count`.
    The multiplication spreads ids that come in steps (one writer's every n-th ledger) as well as
    consecutive ones.
    """
    assert ledger_id >= 0 and count > 0
    upper = ((ledger_id * _MULTIPLIER) & _MASK) >> 32
    return (upper * count) >> 32
