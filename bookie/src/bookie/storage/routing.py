"""Which ledger directory a ledger lives on: a fixed function of its id and the directory count.

The function is part of the on-disk format. Another one, or another count, would look for ledgers
where they are not and answer "no such ledger" for entries that exist; so both are in every stamp
and a difference refuses to boot.
"""

from typing import Final

from bookie.ids import LedgerId

ROUTING_VERSION: Final = 1

_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_MASK: Final = 2**64 - 1


def route(ledger_id: LedgerId, count: int) -> int:
    """Index of the directory, 0 <= index < `count`.

    Version 1: the id times 2^64 / golden ratio, modulo 2^64; its upper 32 bits scaled to `count`.
    The multiplication spreads ids that come in steps (one writer's every n-th ledger) as well as
    consecutive ones.
    """
    assert ledger_id >= 0 and count > 0
    upper = ((ledger_id * _MULTIPLIER) & _MASK) >> 32
    return (upper * count) >> 32
