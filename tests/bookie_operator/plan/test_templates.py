"""What a running bookie must be restarted for, and what not."""

from dataclasses import replace

import pytest
from bookie.protocol.ids import BookieId
from bookie_operator.model.cluster import AckMode, DiskRole
from bookie_operator.plan.actions import BookieTemplate, DiskTemplate

TEMPLATE = BookieTemplate(
    bookie_id=BookieId("bookie-0"),
    image="bookie:1",
    disks=(
        DiskTemplate("journal", DiskRole.JOURNAL, "1Gi"),
        DiskTemplate("ledger-0", DiskRole.LEDGER, "1Gi"),
    ),
    journal_write_data=False,
    ack=AckMode.MEMORY,
    flush_interval_seconds=10.0,
    asks_before_cookie_fix=True,
)
OPTIONS = {
    "compaction_bytes_per_second_busy": 2**20,
    "recovery_bytes_per_second_busy": 2**20,
    "collect_grace_seconds": 60.0,
    "collect_share_max": 0.5,
}


def test_a_new_version_of_the_operator_restarts_no_bookie() -> None:
    assert TEMPLATE.revision == "013a1fe094e4", "as it was before there were rates"
    assert TEMPLATE.options == {}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_is_set_restarts_it(name: str) -> None:
    assert replace(TEMPLATE, **{name: OPTIONS[name]}).revision != TEMPLATE.revision


def test_a_volume_that_grows_does_not() -> None:
    grown = tuple(replace(disk, size="2Gi") for disk in TEMPLATE.disks)
    assert replace(TEMPLATE, disks=grown).revision == TEMPLATE.revision
