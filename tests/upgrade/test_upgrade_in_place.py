"""A fleet written by revision 6162029 boots on today's code: no person, no lost entry.

The fixtures are real folders and a real ZooKeeper of that revision; `make.py` made them.
"""

import asyncio

import pytest
from bookie.protocol.status import Status
from bookie.server.settings import Lease
from upgraded_fleet import NAMES, NEW_PAYLOADS, VICTIM, WAIT_S, Seen, upgrade

pytestmark = pytest.mark.process
CLEAN = ("clean-memory",)
IN_LIMBO = ("unclean-memory",)
REPLAYED = ("unclean-sync", "unclean-journal")
EVERY = (*CLEAN, *IN_LIMBO, *REPLAYED)
FORMER_EPOCH = 2


@pytest.fixture(scope="module")
def stories() -> dict[str, Seen]:
    return {}


@pytest.fixture
def seen(
    request: pytest.FixtureRequest,
    stories: dict[str, Seen],
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """What was seen of this variant's upgrade, which happens once."""
    variant = request.param
    if variant not in stories:
        stories[variant] = asyncio.run(upgrade(variant, tmp_path_factory.mktemp(variant)))
    return stories[variant]


def of(*variants: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seen", variants, indirect=True, scope="module")


@of(*EVERY)
def test_every_bookie_serves_without_a_person_and_sooner_than_a_lease_ends(seen: Seen) -> None:
    assert Lease().wait_s > WAIT_S, "the story waits no longer for them"
    assert {boot.boot_epoch for boot in seen.first.boots.values()} == {FORMER_EPOCH + 1}
    assert not any(boot.cookie_fixed for boot in seen.first.boots.values())


@of(*EVERY)
def test_a_clean_stop_of_before_is_believed(seen: Seen) -> None:
    stopped = [name for name in NAMES if name != seen.told.killed]
    assert {seen.first.boots[name].reason for name in stopped} == {"CleanStop"}
    assert not any(seen.first.limbo[name] for name in stopped)


@of(*CLEAN)
def test_after_clean_stops_every_copy_is_known_to_be_there(seen: Seen) -> None:
    assert seen.first.is_calm
    assert (seen.audit_before["missing"], seen.audit_before["unknown"]) == (0, 0)


@of(*IN_LIMBO, *REPLAYED)
def test_a_kill_of_before_is_noticed(seen: Seen) -> None:
    boot = seen.first.boots[VICTIM]
    assert (boot.clean, boot.reason) == (False, "UncleanShutdown")
    assert boot.previous_mode == seen.told.mode


@of(*IN_LIMBO)
def test_what_a_killed_bookie_may_have_forgotten_is_in_limbo(seen: Seen) -> None:
    assert seen.undecided and seen.first.limbo[VICTIM] == seen.undecided
    assert seen.audit_before["unknown"] > 0 and seen.audit_before["missing"] == 0


@of(*REPLAYED)
def test_a_killed_bookie_that_was_durable_has_every_copy_and_no_limbo(seen: Seen) -> None:
    assert not seen.first.limbo[VICTIM]
    assert (seen.audit_before["missing"], seen.audit_before["unknown"]) == (0, 0)


@of(*EVERY)
def test_the_lac_that_idle_writers_told_is_known(seen: Seen) -> None:
    assert seen.lac == len(seen.told.payloads[seen.told.of_kind("lac")]) - 1


@of(*EVERY)
def test_a_writer_that_was_fenced_stays_fenced(seen: Seen) -> None:
    assert seen.after_fence == {Status.FENCED}


@of(*EVERY)
def test_after_a_repair_nothing_is_in_limbo_and_nothing_is_lost(seen: Seen) -> None:
    assert not seen.limbo_left
    assert seen.repaired["exit_code"] == seen.audit_after["exit_code"] == 0


@of(*EVERY)
def test_every_acknowledged_entry_is_read_back(seen: Seen) -> None:
    assert seen.told.payloads and seen.read == seen.told.payloads


@of(*EVERY)
def test_the_log_is_taken_over_whole(seen: Seen) -> None:
    assert seen.told.log and seen.log == seen.told.log


@of(*EVERY)
def test_deleted_ledgers_stay_deleted(seen: Seen) -> None:
    assert len(seen.told.deleted) == 2 and not seen.deleted_found
    assert seen.deleted_held == 0


@of(*EVERY)
def test_a_clean_stop_of_the_new_fleet_is_believed(seen: Seen) -> None:
    assert seen.second.is_calm
    assert {boot.boot_epoch for boot in seen.second.boots.values()} == {FORMER_EPOCH + 2}


@of(*EVERY)
def test_a_kill_of_the_new_fleet_is_noticed(seen: Seen) -> None:
    boot = seen.third.boots[VICTIM]
    assert (boot.boot_epoch, boot.clean, boot.reason) == (5, False, "UncleanShutdown")
    forgets = seen.told.mode == "memory"
    assert seen.third.limbo[VICTIM] == ({seen.new_ledger} if forgets else set())


@of(*EVERY)
def test_after_that_kill_every_acknowledged_entry_is_read_back(seen: Seen) -> None:
    new = [payload.decode() for payload in NEW_PAYLOADS]
    assert seen.read_again == seen.told.payloads | {seen.new_ledger: new}
