"""A5: the bookie's own collection, over a real storage and a store that may lie for a while."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from bookie.errors import DiskFullError, MetadataFormatError, StorageError, UnavailableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.pausing import PAUSED_NAME, read_paused, write_paused
from bookie.protocol.collection import CollectionRules
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.server.collect import Collector
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.state import BookieState
from bookie.testing.metadata import FaultyStore
from storage_kit import StorageKit, ids, run

MANY = 40
MOMENTS = ("before the barrier", "behind the barrier", "behind the listing")
"""Of a look, at which somebody else may do something."""


class StaleStore(FaultyStore):
    """A follower that lags: it lists nothing younger than the last barrier that it took part in."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.lags = False
        self.seen: list[LedgerId] | None = None
        """What it lists until a barrier reaches it; None = it is up to date."""
        self.hidden: set[LedgerId] = set()
        """What no listing has, and a read of the ledger does."""
        self.at: dict[str, Callable[[], Awaitable[object]]] = {}
        """What somebody else does at that moment of a look."""

    async def _pass_by(self, moment: str) -> None:
        if moment in self.at:
            await self.at[moment]()

    async def barrier(self) -> None:
        await self._pass_by("before the barrier")
        await super().barrier()
        self.seen = None
        await self._pass_by("behind the barrier")

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        async for ledger_id in self.inner.ledger_ids():
            if (self.seen is None or ledger_id in self.seen) and ledger_id not in self.hidden:
                yield ledger_id
        await self._pass_by("behind the listing")


class CollectLab:
    """A storage with ledgers, and a collector whose clock is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.kit = StorageKit(folder)
        self.store = MemoryStore(MemoryCluster())
        self.metadata = StaleStore(self.store)
        self.state = BookieState("bookie-0", boot_epoch=3)
        self.now = 0.0
        self.collector = Collector(
            self.metadata, self.kit.storage, state=self.state, rules=CollectionRules(),
            clock=lambda: self.now, first_fences=FirstFences(in_store(self.metadata)),
        )  # fmt: skip

    async def hold(self, count: int) -> list[LedgerId]:
        """Ledgers that exist, with an entry of each here."""
        made = []
        for _ in range(count):
            ledger_id = await self.store.new_ledger_id()
            ensemble = (BookieId("bookie-0"),)
            await self.store.create_ledger(
                LedgerMetadata(ledger_id, 1, 1, 1, (Fragment(EntryId(0), ensemble),))
            )
            self.kit.add(run(ledger_id, 0, 1))
            made.append(ledger_id)
        return made

    async def passes(self, count: int = 2) -> int:
        """So many looks, each a grace after the one before; how many ledgers went."""
        gone = 0
        for _ in range(count):
            gone += await self.collector.run_pass()
            self.now += 1000
        return gone

    def is_tombstone(self, ledger_id: LedgerId) -> bool:
        record = self.kit.storage.record(ledger_id)
        return record is not None and record.deleted


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[CollectLab]:
    lab = CollectLab(tmp_path / "bookie")
    await lab.store.initialise()
    yield lab
    lab.kit.storage.close()


async def fence_unseen(lab: CollectLab, ledger_id: int) -> str:
    """What becomes of a first fence while the store cannot be asked."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    lab.metadata.is_out = True
    lab.collector.first_fences.ask(
        LedgerId(ledger_id),
        lambda: answer.set_result("fenced"),
        lambda _status: answer.set_result("refused"),
    )
    found = await answer
    lab.metadata.is_out = False
    return found


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a9_a_look_at_the_store_lets_as_many_be_fenced_unseen_as_ever(
    lab: CollectLab, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    monkeypatch.setattr("bookie.protocol.admission.UNCONFIRMED_FENCES_MAX", 3)
    await write_paused(lab.store, is_paused)
    for _ in range(3):
        told = [await fence_unseen(lab, ledger_id) for ledger_id in range(4)]
        assert told == ["fenced"] * 3 + ["refused"]
        await lab.passes(1)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a9_a_look_that_the_store_cuts_off_lets_no_more_be_fenced_unseen(
    lab: CollectLab, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr("bookie.protocol.admission.UNCONFIRMED_FENCES_MAX", 1)

    async def cut_off() -> None:
        raise UnavailableError("away")

    assert await fence_unseen(lab, 1) == "fenced"
    lab.metadata.at[moment] = cut_off
    with pytest.raises(UnavailableError):
        await lab.collector.run_pass()
    assert await fence_unseen(lab, 2) == "refused"


async def test_a5_a_deleted_ledger_goes_after_two_looks_and_leaves_a_tombstone(
    lab: CollectLab,
) -> None:
    kept, gone = await lab.hold(2)
    await lab.store.delete_ledger(gone)
    assert await lab.passes(1) == 0 and lab.state.ledgers_missing == 1
    assert await lab.passes(1) == 1 and lab.is_tombstone(gone)
    assert await lab.passes(1) == 0 and lab.state.tombstones == 1
    assert lab.kit.held(kept) and not lab.kit.held(gone)


async def test_a5_a_look_begins_with_a_write_barrier(lab: CollectLab) -> None:
    lab.metadata.seen = []
    await lab.hold(3)
    assert await lab.passes() == 0 and lab.state.ledgers_missing == 0
    lab.metadata.is_out = True
    with pytest.raises(UnavailableError):
        await lab.collector.run_pass()


async def test_a5_a_store_that_lost_many_ledgers_is_not_believed_without_a_person(
    lab: CollectLab,
) -> None:
    held = await lab.hold(MANY)
    lost = held[MANY // 2 :]
    for ledger_id in lost:
        await lab.store.delete_ledger(ledger_id)
    assert await lab.passes(3) == 0
    assert "20 of 40 ledgers here are gone from the metadata store" in lab.state.collection_held
    plan_id = lab.state.collection_plan
    assert plan_id in lab.state.collection_held
    assert "look again" in await lab.collector.approve("another")
    assert not await lab.collector.approve(plan_id, "ada") and not lab.state.collection_held
    [decision] = lab.collector.storage.decisions
    assert (decision.kind, decision.by) == (
        "CollectionApproved",
        "ada",
    ) and plan_id in decision.about
    assert await lab.passes(1) == 20 and all(map(lab.is_tombstone, lost))


async def test_a5_nothing_is_collected_while_the_store_looks_rolled_back(lab: CollectLab) -> None:
    (ledger,) = await lab.hold(1)
    await lab.store.delete_ledger(ledger)
    await lab.passes(1)
    lab.state.metadata_rolled_back = "boot 7 of bookie-0 is not known there"
    assert await lab.passes(3) == 0
    lab.state.metadata_rolled_back = ""
    assert await lab.passes(1) == 0, "what was seen before counts no more"
    assert await lab.passes(1) == 1


async def test_a5_a_rollback_that_comes_to_light_between_look_and_drop_is_in_time(
    lab: CollectLab,
) -> None:
    (ledger,) = await lab.hold(1)
    await lab.store.delete_ledger(ledger)
    await lab.passes(1)

    async def noticed(ledger_ids: object) -> dict[LedgerId, object]:
        lab.state.metadata_rolled_back = "noticed now"
        return {}

    lab.metadata.read_ledgers = noticed  # type: ignore[method-assign, assignment]
    assert await lab.passes(1) == 0


@pytest.mark.parametrize("said", [b"paused", b"what?"])
async def test_a5_nothing_is_collected_while_the_cluster_is_paused(
    lab: CollectLab, said: bytes
) -> None:
    (ledger,) = await lab.hold(1)
    await lab.store.delete_ledger(ledger)
    await lab.passes(1)
    await lab.store.write_value(PAUSED_NAME, said, version=None)
    assert await lab.passes(3) == 0
    await write_paused(lab.store, False)
    assert not await read_paused(lab.store) and await lab.passes(2) == 1


async def test_a_cluster_that_was_never_paused_says_nothing_and_a_paused_one_says_it_once() -> None:
    store = MemoryStore(MemoryCluster())
    await store.initialise()
    await write_paused(store, False)
    assert await store.read_value(PAUSED_NAME) is None and not await read_paused(store)
    for _ in range(2):
        await write_paused(store, True)
    found = await store.read_value(PAUSED_NAME)
    assert await read_paused(store) and found is not None and found.version == 0


async def test_a5_a_tombstone_gives_way_when_the_metadata_store_names_the_ledger_again(
    lab: CollectLab,
) -> None:
    (ledger,) = await lab.hold(1)
    before = (await lab.store.read_ledger(ledger)).value
    await lab.store.delete_ledger(ledger)
    assert await lab.passes(2) == 1
    await lab.store.create_ledger(before)
    await lab.passes(1)
    record = lab.kit.storage.record(ledger)
    assert record is not None and record.limbo and not record.deleted
    assert record.mark_epoch == 3 and lab.state.tombstones == 1
    assert await lab.passes(1) == 0 and lab.state.tombstones == 0


# ---- beside adds, and beside a person -----------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_ledger_that_is_made_and_added_to_during_a_look_is_never_missing(
    lab: CollectLab, moment: str
) -> None:
    """Whenever that is: two looks would forgive one that takes it for deleted, and only they."""
    made = await lab.hold(1)

    async def make() -> None:
        made.extend(await lab.hold(1))

    lab.metadata.at[moment] = make
    for _ in range(3):
        assert await lab.passes(1) == 0 and lab.state.ledgers_missing == 0
    assert len(made) == 4 and all(lab.kit.held(ledger_id) for ledger_id in made)


async def test_what_no_listing_shows_is_read_by_itself_before_it_goes(lab: CollectLab) -> None:
    kept, gone = await lab.hold(2)
    lab.metadata.hidden = {kept, gone}
    await lab.store.delete_ledger(gone)
    assert await lab.passes(3) == 1
    assert lab.kit.held(kept) and not lab.kit.held(gone)


async def test_an_approval_that_cannot_be_kept_lets_nothing_go(
    lab: CollectLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await lab.hold(MANY)
    for ledger_id in held[MANY // 2 :]:
        await lab.store.delete_ledger(ledger_id)
    assert await lab.passes(3) == 0

    def refuse(_decision: object) -> None:
        raise StorageError("no disk")

    monkeypatch.setattr(lab.kit.storage.maintenance, "note_decision", refuse)
    with pytest.raises(StorageError):
        await lab.collector.approve(lab.state.collection_plan, "somebody")
    assert await lab.passes(2) == 0 and lab.state.collection_plan


async def test_a_collection_that_finds_no_space_is_made_up_for_by_the_next(lab: CollectLab) -> None:
    (ledger,) = await lab.hold(1)
    lab.kit.storage.maintenance.checkpoint()
    await lab.store.delete_ledger(ledger)
    lab.kit.sim.fail("commit", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        await lab.passes(2)
    assert await lab.passes(3) == 1 and not lab.kit.held(ledger)


@pytest.mark.parametrize("full", [0, 1])
async def test_loss_records_that_a_full_disk_kept_go_with_the_next_collection(
    lab: CollectLab, full: int
) -> None:
    """Every disk has the records of all ledgers, so one may keep those of a ledger of which
    nothing else is left."""
    held, storage = await lab.hold(4), lab.kit.storage
    for ledger_id in held:
        storage.maintenance.record_loss(ledger_id, ids((5, 7)), reason="nobody has them")
        await lab.store.delete_ledger(ledger_id)
    lab.kit.sim.watch(full_at_every_commit(f"ledger-{full}"))
    with pytest.raises(DiskFullError):
        await lab.passes(2)
    lab.kit.sim.watch(None)
    assert await lab.passes(3) == 4 and not storage.lossy_ledgers()
    assert not any(directory.index.losses() for directory in storage._directories)


def full_at_every_commit(directory: str) -> Callable[[str, Path], None]:
    def observe(operation: str, path: Path) -> None:
        if operation == "commit" and path.parent.name == directory:
            raise OSError(errno.ENOSPC, "no space is left")

    return observe


async def test_what_no_listing_shows_and_nobody_can_read_does_not_go(lab: CollectLab) -> None:
    kept, gone = await lab.hold(2)
    lab.metadata.hidden = {kept, gone}
    lab.store.cluster.garbled.add(kept)
    await lab.store.delete_ledger(gone)
    assert await lab.passes(1) == 0
    with pytest.raises(MetadataFormatError):
        await lab.passes(1)
    assert lab.kit.held(kept) and lab.kit.held(gone), "it ends without any conclusion"
