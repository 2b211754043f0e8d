"""Actions on a bookie's control plane go to the process that was seen, as that was started."""

import pytest
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.wire.identity import Identity
from bookie_operator.apply import Applier
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.actions import (
    Action,
    ApproveCollection,
    ApproveCookieFix,
    DrainBookie,
)
from fake_platform import FakeControl, FakePlatform
from operator_scenes import bookie, observed

B0 = BookieId("bookie-0")
told = pytest.mark.parametrize(
    "action",
    [
        DrainBookie(B0),
        DrainBookie(B0, cancel=True),
        ApproveCookieFix(B0, "f00d"),
        ApproveCollection(B0, "f00d", "ann"),
    ],
)


@told
@pytest.mark.parametrize("mode", TlsMode)
async def test_a_bookie_is_told_as_its_process_was_started(action: Action, mode: TlsMode) -> None:
    control = FakeControl()
    one = bookie(B0, epoch=3, process_facts={"tls": mode, "control": "10.0.0.7:3183"})
    seen = observed(one)
    await Applier(FakePlatform(), control).apply(action, observed=seen, store=None)
    [to] = control.told
    assert (to.address, to.has_tls) == ("10.0.0.7:3183", mode is not TlsMode.OFF)
    assert to.meant == Identity(seen.metadata.instance_id or "", B0, 3)


@told
async def test_a_bookie_that_says_nothing_is_told_nothing(action: Action) -> None:
    control = FakeControl()
    seen = observed(bookie(B0, phase=None))
    with pytest.raises(UnavailableError, match="has no control plane to ask"):
        await Applier(FakePlatform(), control).apply(action, observed=seen, store=None)
    assert not control.told
