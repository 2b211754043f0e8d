"""A fleet written by revision 6162029 boots on today's code: no person, no lost entry.

The fixtures are real folders and a real ZooKeeper of that revision; `make.py` made them.
"""

import asyncio
from concurrent.futures import Future

import pytest
from bookie.protocol.status import Status
from bookie.server.settings import Lease
from upgraded_fleet import FORGETFUL, NAMES, NEW_PAYLOADS, VICTIM, WAIT_S, Seen, upgrade

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
CLEAN = ("clean-memory",)
IN_LIMBO = ("unclean-memory",)
REPLAYED = ("unclean-sync", "unclean-journal")
EVERY = (*CLEAN, *IN_LIMBO, *REPLAYED)


@pytest.fixture(scope="module")
def stories() -> dict[str, "Future[Seen]"]:
    return {}


@pytest.fixture
def seen(
    request: pytest.FixtureRequest,
    stories: dict[str, "Future[Seen]"],
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """What was seen of this variant's upgrade, which happens once, or fails once."""
    variant = request.param
    if variant not in stories:
        stories[variant] = Future()
        try:
            story = asyncio.run(upgrade(variant, tmp_path_factory.mktemp(variant)))
        except Exception as error:
            stories[variant].set_exception(error)
        else:
            stories[variant].set_result(story)
    return stories[variant].result(0)


def of(*variants: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seen", variants, indirect=True)


@of(*EVERY)
def test_every_bookie_serves_without_a_person_and_sooner_than_a_lease_ends(seen: Seen) -> None:
    assert Lease().wait_s > WAIT_S, "the story waits no longer for them"
    assert not any(boot.cookie_fixed for boot in seen.first.boots.values())
    for name, boot in seen.first.boots.items():
        assert boot.epoch == seen.told.epochs[name] + 1


@of(*EVERY)
def test_a_clean_stop_of_before_is_believed(seen: Seen) -> None:
    for name in set(NAMES) - {seen.told.killed}:
        assert seen.first.boots[name].reason == "CleanStop"
        assert seen.first.limbo[name] == seen.told.limbo[name]


@of(*CLEAN, *IN_LIMBO)
def test_what_was_in_limbo_before_is_in_limbo_still(seen: Seen) -> None:
    assert seen.told.limbo[FORGETFUL] == {seen.told.of_kind("forgotten")}
    assert seen.first.limbo[FORGETFUL] == seen.told.limbo[FORGETFUL]


@of(*IN_LIMBO, *REPLAYED)
def test_a_kill_of_before_is_noticed(seen: Seen) -> None:
    boot = seen.first.boots[VICTIM]
    assert (boot.clean, boot.reason) == (False, "UncleanShutdown")
    assert boot.previous_mode == seen.told.mode


@of(*IN_LIMBO)
def test_what_a_killed_bookie_may_have_forgotten_is_in_limbo(seen: Seen) -> None:
    assert seen.undecided and seen.first.limbo[VICTIM] == seen.undecided
    assert seen.audit_before["unknown"] > 0


@of(*REPLAYED)
def test_a_killed_bookie_that_was_durable_has_every_copy_and_no_limbo(seen: Seen) -> None:
    assert not seen.first.limbo[VICTIM]
    assert seen.audit_before["unknown"] == 0


@of(*EVERY)
def test_the_lac_that_idle_writers_told_is_known(seen: Seen) -> None:
    assert seen.lac == len(seen.told.payloads[seen.told.of_kind("lac")]) - 1


@of(*EVERY)
def test_a_writer_that_was_fenced_stays_fenced(seen: Seen) -> None:
    assert seen.late == {Status.FENCED}


@of(*EVERY)
def test_no_copy_is_missed_that_may_only_be_unknown(seen: Seen) -> None:
    assert seen.audit_before["missing"] == 0


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
def test_clean_stops_of_the_new_fleet_are_believed(seen: Seen) -> None:
    assert not any(seen.second.limbo.values())
    for name, boot in seen.second.boots.items():
        assert (boot.clean, boot.reason) == (True, "CleanStop")
        assert boot.epoch == seen.told.epochs[name] + 2


@of(*EVERY)
def test_a_kill_of_the_new_fleet_is_noticed(seen: Seen) -> None:
    boot, forgets = seen.third.boots[VICTIM], seen.told.mode == "memory"
    assert (boot.clean, boot.reason) == (False, "UncleanShutdown")
    assert boot.epoch == seen.told.epochs[VICTIM] + 3
    assert seen.third.limbo[VICTIM] == ({seen.new_ledger} if forgets else set())


@of(*EVERY)
def test_after_that_kill_every_acknowledged_entry_is_read_back(seen: Seen) -> None:
    new = [payload.decode() for payload in NEW_PAYLOADS]
    assert seen.read_again == seen.told.payloads | {seen.new_ledger: new}
