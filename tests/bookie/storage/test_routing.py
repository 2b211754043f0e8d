"""The routing function is on-disk format: its values never change."""

from collections import Counter

import pytest
from bookie.ids import LEDGER_ID_MAX, LedgerId
from bookie.storage.routing import ROUTING_VERSION, route


def test_version_1_routes_these_ledgers_for_ever() -> None:
    assert ROUTING_VERSION == 1
    found = [[route(LedgerId(i), count) for i in range(8)] for count in (2, 3, 5)]
    assert found == [
        [0, 1, 0, 1, 0, 0, 1, 0],
        [0, 1, 0, 2, 1, 0, 2, 0],
        [0, 3, 1, 4, 2, 0, 3, 1],
    ]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 8, 64, 1000])
def test_ledgers_spread_evenly_whatever_step_their_ids_come_in(step: int) -> None:
    found = Counter(route(LedgerId(i * step), 4) for i in range(4000))
    assert all(900 < found[index] < 1100 for index in range(4))


def test_every_ledger_has_a_directory() -> None:
    assert all(0 <= route(LedgerId(LEDGER_ID_MAX - i), 7) < 7 for i in range(100))
