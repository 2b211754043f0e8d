"""A person takes a loss record back: which bookies did not say whether they have one."""

from dataclasses import replace

import pytest
from bookie.ids import LedgerId
from bookie.metadata.store import Cookie
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding
from bookie.repair.mend.retract_loss import LossRetraction, retract_loss
from bookie.testing.control import FakeControl
from bookie.testing.fake_bookie import FakeBookie
from repair_lab import RepairLab
from storage_kit import ids


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


class WithoutLease(FakeControl):
    """The bookies tell what they have recorded, and vouch for nothing: none is in limbo."""

    def _holding(self, bookie: FakeBookie, ledger_id: LedgerId) -> Holding:
        return replace(super()._holding(bookie, ledger_id), status=Status.UNKNOWN)


async def test_a_bookie_that_vouches_for_nothing_may_have_a_record_beside_that_of_others() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=3, last=2)
    control = WithoutLease(lab.fleet, lab.store)
    control.lost = {(one, ledger.ledger_id): ids((0, 1)) for one in lab.ids}
    done = await retract_loss(
        replace(lab.cluster, control=control), ledger.ledger_id,
        by="ann", reason="a copy is left", entries=ids((2, 2)),
    )  # fmt: skip
    assert set(done.silent) == set(lab.ids) and not done.answers


async def test_a_bookie_in_limbo_says_whether_it_has_a_record() -> None:
    lab = await RepairLab().start()
    ledger = await lab.ledger(entries=3)
    await lab.crash(1)
    assert (await lab.control.list_marks(lab.ids[1])).marks
    assert (await retract(lab, ledger.ledger_id)).silent == ()
