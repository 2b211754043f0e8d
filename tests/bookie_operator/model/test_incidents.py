"""What a boot did to the ledgers of its bookie, as the event and the tree say it."""

from datetime import UTC, datetime

import pytest
from bookie_operator.model.incidents import Incident


@pytest.mark.parametrize(
    ("fenced", "limbo", "unchecked", "text"),
    [
        (7, 2, 5, "7 ledgers fenced, 2 in limbo, 5 unchecked"),
        (1, 0, 1, "1 ledger fenced, 0 in limbo, 1 unchecked"),
        (0, 2, 0, "2 ledgers in limbo, 0 unchecked"),
        (0, 1, 3, "1 ledger in limbo, 3 unchecked"),
    ],
)
def test_fenced_ledgers_are_named_only_where_there_are_some(
    fenced: int, limbo: int, unchecked: int, text: str
) -> None:
    incident = Incident(
        kind="UncleanShutdown",
        bookie="bookie-0",
        detected_at=datetime(2026, 11, 29, tzinfo=UTC),
        ledgers_fenced=fenced,
        ledgers_in_limbo=limbo,
        ledgers_unchecked=unchecked,
    )
    assert incident.marks == text
