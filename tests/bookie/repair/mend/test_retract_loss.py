"""A person takes a loss record back: which bookies did not say whether they have one."""

import pytest
from bookie.ids import LedgerId
from bookie.metadata.store import Cookie
from bookie.protocol.status import Status
from bookie.repair.mend.retract_loss import LossRetraction, retract_loss
from repair_lab import RepairLab


async def retract(lab: RepairLab, ledger_id: LedgerId) -> LossRetraction:
    return await retract_loss(lab.cluster, ledger_id, by="ann", reason="a copy is left")


@pytest.mark.parametrize(
    "status", [Status.UNREACHABLE, Status.IO_ERROR, Status.OVERLOADED, Status.UNKNOWN]
)
async def test_a_bookie_that_does_not_say_what_it_holds_may_have_a_record(status: Status) -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=3, last=2)
    lab.control.unable[lab.ids[1]] = status
    assert (await retract(lab, ledger.ledger_id)).silent == (lab.ids[1],)


async def test_a_bookie_that_is_down_and_not_registered_may_have_a_record() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=3, last=2)
    await lab.store.create_cookie(Cookie(lab.ids[1], ("/journal",), ("/ledgers",), ""))
    await lab.store.unregister(lab.ids[1])
    lab.fleet[1].down = True
    assert (await retract(lab, ledger.ledger_id)).silent == (lab.ids[1],)


async def test_a_bookie_in_limbo_says_whether_it_has_a_record() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=3)
    await lab.crash(1)
    assert (await lab.control.list_marks(lab.ids[1])).marks
    assert (await retract(lab, ledger.ledger_id)).silent == ()
