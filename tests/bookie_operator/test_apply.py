"""Actions on a bookie's control plane go to the process that was seen, as that was started."""

from dataclasses import replace
from datetime import timedelta

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
    InitialiseMetadata,
    MakeAuthority,
    PauseCollection,
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


@told
@pytest.mark.parametrize("process", [None, {"control": None}], ids=["none", "without a port"])
async def test_a_bookie_without_an_address_is_told_nothing(
    action: Action, process: dict[str, None] | None
) -> None:
    """Its last answer is remembered for a moment."""
    control, one = FakeControl(), bookie(B0, process_facts=process or {})
    seen = observed(one if process else replace(one, process=None))
    with pytest.raises(UnavailableError, match="has no control plane to ask"):
        await Applier(FakePlatform(), control).apply(action, observed=seen, store=None)
    assert not control.told


@pytest.mark.parametrize("action", [InitialiseMetadata(), *map(PauseCollection, (True, False))])
async def test_nothing_is_written_into_a_store_that_is_not_open(action: Action) -> None:
    with pytest.raises(UnavailableError, match="the metadata store is not open"):
        await Applier(FakePlatform(), FakeControl()).apply(action, observed=observed(), store=None)


async def test_an_event_says_whether_a_new_authority_signs() -> None:
    platform, said = FakePlatform(), []
    applier = Applier(platform, FakeControl())
    for signs in (True, False):
        kept = (await platform.certifier.authorities()).trusted
        action = MakeAuthority(timedelta(days=1), frozenset(kept), signs)
        event = await applier.apply(action, observed=observed(), store=None)
        said += [event.message if event is not None else ""]
    made = "an authority was made: "
    assert said == [f"{made}it signs", f"{made}trusted beside 1, before it signs"]
