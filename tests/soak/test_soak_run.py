"""A tiny soak, whole: a bookie killed twice, one of its disks wiped, and everything read back."""

from pathlib import Path

import pytest
from fault_plan import Kind
from soak_run import Options, Soak

SEED = 76638
"""Its first loss comes soon, is struck again, and meets a bookie that acknowledges from memory."""


@pytest.mark.process
async def test_a_tiny_soak_loses_nothing(tmp_path: Path) -> None:
    only = frozenset({Kind.WIPE_LEDGER})
    options = Options(1, SEED, tmp_path, False, only=only, losses_max=1, busy=1, quiet=2)
    soak = Soak(options)
    await soak.run()
    assert soak.findings.words == []
    assert soak.tally.faults[Kind.WIPE_LEDGER] == soak.tally.unclean_boots == 1
    assert soak.tally.struck_again == 1 and soak.tally.marks > 0
    assert soak.load.acked > 0 and soak.tally.is_audit_clean
