"""Whose the boot in the metadata store is: one's own late writes, rivals, a store put back."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from bookie.boot.claim import (
    OWN_WRITES_MAX,
    Claim,
    ClaimState,
    SupersededError,
    judge,
    outlasts_s,
)
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import StoredBoot, Versioned
from bookie.testing.metadata import FaultyStore

ME = BookieId("bookie-0")
MINE = StoredBoot(5, "mine", generation=7, served=5)
OWN, RIVAL, ROLLED_BACK = ClaimState.OWN, ClaimState.RIVAL, ClaimState.ROLLED_BACK


@pytest.mark.parametrize(
    ("found", "known", "standing"),
    [
        (None, None, OWN),
        (None, Versioned(MINE, 3), ROLLED_BACK),
        (Versioned(MINE, 4), Versioned(MINE, 3), OWN),
        (Versioned(MINE, 4), Versioned(StoredBoot(4, "other"), 3), OWN),
        (Versioned(MINE, 0), None, OWN),
        (Versioned(MINE, 2), Versioned(MINE, 3), ROLLED_BACK),
        (Versioned(replace(MINE, nonce="other"), 4), Versioned(MINE, 3), RIVAL),
        (Versioned(StoredBoot(6, "other"), 4), Versioned(MINE, 3), RIVAL),
        (Versioned(StoredBoot(4, "other"), 4), Versioned(MINE, 3), ROLLED_BACK),
        (Versioned(StoredBoot(4, "other"), 4), Versioned(StoredBoot(4, "another"), 3), RIVAL),
        (Versioned(StoredBoot(4, is_bare=True), 1), Versioned(MINE, 3), ROLLED_BACK),
        (Versioned(StoredBoot(4, "it"), 4), Versioned(StoredBoot(4, "it"), 3), ClaimState.FORMER),
        (Versioned(StoredBoot(5, "it"), 4), Versioned(StoredBoot(4, "it"), 3), RIVAL),
    ],
)
def test_what_stands_in_place_of_what_was_known(
    found: Versioned[StoredBoot] | None, known: Versioned[StoredBoot] | None, standing: ClaimState
) -> None:
    assert judge(found, known=known, wanted=MINE) is standing


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


async def served(store: FaultyStore, boots: Sequence[StoredBoot] = (MINE,)) -> Claim:
    claim = Claim(store, ME, seen=None)
    for boot in boots:
        await claim.write(boot)
    return claim


async def test_a_claim_is_written_over_what_was_seen(store: FaultyStore) -> None:
    first = await served(store)
    await first.write(replace(MINE, generation=8))
    assert first.stored == replace(MINE, generation=8)


async def test_a8_an_own_write_that_landed_unseen_does_not_stand_in_the_way(
    store: FaultyStore,
) -> None:
    claim = await served(store)
    store.lost_replies = 1
    with pytest.raises(UnavailableError):
        await claim.write(MINE)
    await claim.write(replace(MINE, generation=8))
    assert claim.stored.generation == 8 and not claim.stored.rolled_back


async def test_a2_a_rival_s_boot_ends_the_claim(store: FaultyStore) -> None:
    claim = await served(store)
    found = await store.read_boot(ME)
    assert found is not None
    await store.write_boot(ME, StoredBoot(6, "rival"), version=found.version)
    with pytest.raises(SupersededError, match="another process booted as bookie-0 with epoch 6"):
        await claim.write(MINE)
    assert await store.read_boot(ME) == Versioned(StoredBoot(6, "rival"), found.version + 1)


async def put_back(store: FaultyStore, found: Versioned[StoredBoot] | None) -> None:
    assert isinstance(store.inner, MemoryStore)
    boots = store.inner.cluster.boots
    if found is None:
        del boots[ME]
    else:
        boots[ME] = found


@pytest.mark.parametrize(
    "older",
    [
        None,
        Versioned(replace(MINE, generation=6), 0),
        Versioned(StoredBoot(4, "the process before"), 9),
        Versioned(StoredBoot(4, served=4, is_bare=True), 9),
    ],
)
async def test_a5_a_store_that_was_put_back_is_noticed_and_written_again(
    store: FaultyStore, older: Versioned[StoredBoot] | None
) -> None:
    claim = await served(store, [MINE, MINE, MINE])
    await put_back(store, older)
    await claim.write(MINE)
    found = await store.read_boot(ME)
    assert found is not None and found.value.epoch == 5
    assert "had said epoch 5, generation 7" in found.value.rolled_back


async def test_what_was_noticed_stays_until_a_person_accepts_it(store: FaultyStore) -> None:
    claim = await served(store)
    await put_back(store, None)
    await claim.write(MINE)
    await claim.write(replace(claim.stored, generation=8))
    found = await store.read_boot(ME)
    assert found is not None and found.value.rolled_back
    accepted = replace(found.value, rolled_back="")
    await store.write_boot(ME, accepted, version=found.version)
    await claim.write(claim.stored)
    assert claim.stored == accepted


@pytest.mark.parametrize("generation", [3, 4])
async def test_a8_the_former_process_s_last_word_refuses_no_boot(
    store: FaultyStore, generation: int
) -> None:
    former = StoredBoot(4, "former", generation=3, served=4)
    seen = await store.write_boot(ME, former, version=None)
    await store.write_boot(ME, replace(former, generation=generation), version=seen.version)
    claim = Claim(store, ME, seen=seen)
    if generation == former.generation:
        await claim.write(MINE)
        assert claim.stored == MINE
    else:  # its disks may be newer than ours: everything is looked at again
        with pytest.raises(UnavailableError, match="looks again"):
            await claim.write(MINE)


async def test_what_the_former_process_noticed_of_a_rollback_meanwhile_stays(
    store: FaultyStore,
) -> None:
    former = StoredBoot(4, "former", generation=3, served=4)
    seen = await store.write_boot(ME, former, version=None)
    await store.write_boot(ME, replace(former, rolled_back="it says less"), version=seen.version)
    claim = Claim(store, ME, seen=seen)
    await claim.write(MINE)
    assert claim.stored == replace(MINE, rolled_back="it says less")


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lease_s", "wait_s"), [(0.0, 0.0), (1.0, 3.01), (100.0, 103.0)])
def test_a_lease_is_outlasted_by_a_clock_that_runs_fast_and_a_margin(
    lease_s: float, wait_s: float
) -> None:
    assert outlasts_s(lease_s) == pytest.approx(wait_s)


def interrupted_by_own(store: FaultyStore, times: int) -> list[str]:
    """So many late writes of this process land right before its next ones; what it tries."""
    tried: list[str] = []

    async def land(name: str) -> None:
        if name == "write_boot":
            tried.append(name)
            if len(tried) <= times:
                found = await store.inner.read_boot(ME)
                assert found is not None
                await store.inner.write_boot(ME, MINE, version=found.version)

    store.before = land
    return tried


async def test_a_claim_is_written_through_late_writes_of_its_own(store: FaultyStore) -> None:
    claim = await served(store)
    tried = interrupted_by_own(store, OWN_WRITES_MAX - 1)
    await claim.write(replace(MINE, generation=8))
    assert claim.stored.generation == 8 and len(tried) == OWN_WRITES_MAX


async def test_a_claim_that_late_writes_meet_for_ever_is_given_up_for_now(
    store: FaultyStore,
) -> None:
    claim = await served(store)
    tried = interrupted_by_own(store, 1000)
    with pytest.raises(UnavailableError, match="changed 8 times"):
        await claim.write(MINE)
    assert len(tried) == OWN_WRITES_MAX
