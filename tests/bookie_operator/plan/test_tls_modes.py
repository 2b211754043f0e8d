"""From plain to TLS and back: who takes what, step by step, whatever is seen."""

from itertools import product

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.plan.tls_modes import (
    clients_now,
    farthest,
    mode_now,
    spec_in_force,
    store_has_tls,
    taken_modes,
)
from operator_scenes import bookie, cluster, observed

OFF, ACCEPTED, REQUIRED = TlsMode
B0 = BookieId("bookie-0")
PLAIN = cluster(tls={"mode": "Off"})


@pytest.mark.parametrize(
    ("wanted", "taken", "now"),
    [
        (REQUIRED, {OFF}, ACCEPTED),
        (REQUIRED, {OFF, ACCEPTED}, ACCEPTED),
        (REQUIRED, {ACCEPTED}, REQUIRED),
        (REQUIRED, {ACCEPTED, REQUIRED}, REQUIRED),
        (REQUIRED, {OFF, REQUIRED}, ACCEPTED),
        (OFF, {REQUIRED}, ACCEPTED),
        (OFF, {ACCEPTED, REQUIRED}, ACCEPTED),
        (OFF, {ACCEPTED}, OFF),
        (OFF, {OFF, ACCEPTED}, OFF),
        (ACCEPTED, {OFF, REQUIRED}, ACCEPTED),
    ],
)
def test_a_step_waits_for_everybody_to_have_made_the_one_before(
    wanted: TlsMode, taken: set[TlsMode], now: TlsMode
) -> None:
    assert mode_now(wanted, taken) is now


@pytest.mark.parametrize("wanted", TlsMode)
def test_a_fleet_that_is_yet_to_be_has_no_steps_to_make(wanted: TlsMode) -> None:
    assert mode_now(wanted, ()) is wanted


@pytest.mark.parametrize(("wanted", "first", "second"), [*product(TlsMode, repeat=3)])
def test_nobody_who_takes_tls_alone_meets_one_who_takes_none(
    wanted: TlsMode, first: TlsMode, second: TlsMode
) -> None:
    fleet = [first, second]
    for _ in range(2 * len(fleet)):  # one bookie after the other, and then the next step
        assert {OFF, REQUIRED} != set(fleet) or {OFF, REQUIRED} == {first, second}
        now = mode_now(wanted, fleet)
        stale = next((n for n, mode in enumerate(fleet) if mode is not now), None)
        fleet = [now if n == stale else mode for n, mode in enumerate(fleet)]
    assert set(fleet) == {wanted}


@pytest.mark.parametrize(
    ("mode", "taken", "clients"),
    [
        (OFF, {OFF}, OFF),
        (OFF, {OFF, ACCEPTED}, ACCEPTED),
        (ACCEPTED, {OFF}, ACCEPTED),
        (REQUIRED, {ACCEPTED}, REQUIRED),
        (OFF, (), OFF),
    ],
)
def test_clients_talk_to_everybody(mode: TlsMode, taken: set[TlsMode], clients: TlsMode) -> None:
    assert clients_now(mode, taken) is clients


def test_one_that_is_away_takes_what_it_took() -> None:
    away = bookie(B0, running=False)
    away = away.__class__(id=B0, volumes=away.volumes)
    known = BookieStatus(id=B0, state=BookieState.DOWN, boot_epoch=1, tls="Required")
    taken = taken_modes(observed(away, of=PLAIN), ClusterStatus(bookies=(known,)))
    assert (taken[B0], taken[BookieId("bookie-1")]) == ({REQUIRED}, {OFF})


@pytest.mark.parametrize(
    ("phase", "taken"), [(Phase.BOOTING, {OFF, ACCEPTED}), (Phase.SERVING, {ACCEPTED})]
)
def test_a_step_counts_once_the_bookie_has_booted_with_it(
    phase: Phase, taken: set[TlsMode]
) -> None:
    fresh = bookie(B0, phase=phase, process_facts={"tls": ACCEPTED})
    known = BookieStatus(id=B0, state=BookieState.SERVING, boot_epoch=1)
    assert taken_modes(observed(fresh), ClusterStatus(bookies=(known,)))[B0] == taken


def test_a_running_plain_fleet_is_to_take_both_first() -> None:
    wanted = cluster(tls={"mode": "Required"})
    assert spec_in_force(wanted, observed(of=PLAIN), ClusterStatus()).tls.mode is ACCEPTED
    assert spec_in_force(PLAIN, observed(of=PLAIN), ClusterStatus()) is PLAIN.spec


def status_at(url: str) -> ClusterStatus:
    return ClusterStatus.model_validate({"metadata": {"url": url}})


@pytest.mark.parametrize(
    ("mode", "url", "has_tls"),
    [
        (REQUIRED, "", True),
        (ACCEPTED, "", False),
        (OFF, "", False),
        (REQUIRED, "zk://z:1/l", False),
        (OFF, "zks://z:1/l", True),
    ],
)
def test_a_zookeeper_stays_as_it_was_first_made(mode: TlsMode, url: str, has_tls: bool) -> None:
    spec = cluster(tls={"mode": mode.value}, metadata={"embedded": {}}).spec
    assert store_has_tls(spec, status_at(url)) is has_tls


def test_without_credentials_nobody_would_reach_a_zookeeper_under_tls() -> None:
    spec = cluster(metadata={"embedded": {}}, tls={"mode": "Off"}).spec
    assert farthest(spec, status_at("zks://z:1/l")) is ACCEPTED
    assert farthest(spec, status_at("zk://z:1/l")) is OFF
    elsewhere = cluster(metadata={"connect": "zk://z:1/l"}, tls={"mode": "Off"}).spec
    assert farthest(elsewhere, status_at("zk://z:1/l")) is OFF
