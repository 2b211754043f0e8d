"""Definite losses: recorded only when two looks agree on them."""

from bookie.protocol.availability import EntrySet
from bookie.repair.look.audit import Auditor
from bookie.repair.mend.losses import record_losses
from repair_lab import AUDIT, RepairLab


async def test_an_entry_that_went_since_the_audit_is_not_lost_by_one_look() -> None:
    lab = await RepairLab().start()
    ledger = (await lab.ledger(entries=5, last=4)).ledger_id
    looking = Auditor(lab.store, lab.control, AUDIT)
    for number in range(3):
        lab.fleet[number].lose(ledger, [2])
    found = await looking.audit([ledger])
    for number in range(3):
        lab.fleet[number].lose(ledger, [3])
    [loss] = await record_losses(looking, lab.control, found.findings)
    assert loss.entries == EntrySet.from_ranges([(2, 2)])
