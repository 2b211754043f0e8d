"""A bookie's look at its own copies: wrong ones are let go of, for recovery's adds to replace."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from bookie.errors import BadRequestError, UnavailableError
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import FLAG_RECOVERY, RunFrame, parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EMPTY
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.server.marks import Marks
from bookie.server.recheck import ENTRIES_MAX, recheck, wrong_of
from bookie.server.state import BookieState
from bookie.storage.modes import DurabilityMode
from bookie.testing.metadata import FaultyStore
from storage_kit import StorageKit, ids

PASSWORD = b"secret"
LEDGER = LedgerId(0)
CODEC = EntryCodec(LEDGER, DigestType.CRC32C, PASSWORD)


def frame(first: int, count: int, *, wrong: int = -1, recovery: bool = False) -> RunFrame:
    """Entries with right digests, but for one."""
    bodies = []
    for entry_id in range(first, first + count):
        body = CODEC.encode(EntryId(entry_id), b"x" * 20, lac=EntryId(-1), length=20)
        bodies.append(body[:-1] + b"!" if entry_id == wrong else body)
    flags = FLAG_RECOVERY if recovery else 0
    return parse_run(build_run(LEDGER, EntryId(first), bodies, lac=EntryId(-1), flags=flags))


@pytest.fixture
async def store() -> FaultyStore:
    """A ledger of ten entries on three bookies."""
    store = FaultyStore(MemoryStore())
    await store.initialise()
    members = tuple(BookieId(f"bookie-{number}") for number in range(3))
    await store.create_ledger(
        LedgerMetadata(
            await store.new_ledger_id(), 3, 3, 2,
            fragments=(Fragment(EntryId(0), members),),
            password=PASSWORD,
            state=LedgerState.CLOSED,
            last_entry_id=EntryId(9),
        )
    )  # fmt: skip
    return store


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[StorageKit]:
    made = StorageKit(tmp_path / "bookie")
    yield made
    made.end()


@pytest.fixture
async def rejected(kit: StorageKit, store: FaultyStore) -> StorageKit:
    """Of ten copies the fifth was wrong, and is rejected."""
    kit.add(frame(0, 10, wrong=4))
    await recheck(kit.storage, store, LEDGER, ids((4, 4)))
    return kit


async def test_a_wrong_copy_is_unreadable_then_and_never_denied(
    kit: StorageKit, store: FaultyStore
) -> None:
    kit.add(frame(0, 10, wrong=4))
    found = await recheck(kit.storage, store, LEDGER, ids((0, 9)))
    assert found.rejected == ids((4, 4))
    assert kit.read(LEDGER, 0, 9) == (ids((0, 3), (5, 9)), ids((4, 4)), 9)
    assert kit.held(LEDGER) == ids((0, 3), (5, 9)), "an audit by the index finds it, too"
    kit.storage.close()


@pytest.mark.parametrize("copies", [*product((-1, 4), repeat=3)])
@pytest.mark.parametrize("synced", range(4))
async def test_of_several_copies_the_first_is_judged_wherever_they_lie(
    kit: StorageKit, store: FaultyStore, copies: tuple[int, ...], synced: int
) -> None:
    """The first `synced` of them in the index, the others in memory."""
    for number, wrong in enumerate(copies):
        kit.add(frame(3, 3, wrong=wrong))
        if number + 1 == synced:
            kit.storage.maintenance.checkpoint()
    found = await recheck(kit.storage, store, LEDGER, ids((0, 9)))
    assert found.rejected == (ids((4, 4)) if copies[0] == 4 else EMPTY)
    kit.storage.close()


async def test_a_recovery_add_takes_its_place_and_stays_after_a_restart(
    rejected: StorageKit, store: FaultyStore
) -> None:
    rejected.add(frame(4, 1, recovery=True))
    assert rejected.read(LEDGER, 0, 9) == (ids((0, 9)), EMPTY, 9)
    rejected = rejected.reopened()
    assert rejected.read(LEDGER, 0, 9) == (ids((0, 9)), EMPTY, 9)
    assert rejected.held(LEDGER) == ids((0, 9))
    assert (await recheck(rejected.storage, store, LEDGER, ids((0, 9)))).rejected == EMPTY
    rejected.storage.close()


async def test_a_writers_add_does_not_take_its_place(rejected: StorageKit) -> None:
    rejected.add(frame(4, 1))
    rejected.storage.maintenance.checkpoint()
    assert rejected.held(LEDGER) == ids((0, 3), (5, 9))
    rejected.storage.close()


async def test_a_writers_copy_beside_it_does_not_keep_recoverys_copy_out(
    rejected: StorageKit,
) -> None:
    rejected = rejected.reopened()
    rejected.add(frame(4, 1), frame(4, 1, recovery=True))
    rejected.storage.maintenance.checkpoint()
    assert rejected.held(LEDGER) == ids((0, 9)) == rejected.read(LEDGER, 0, 9)[0]


async def test_a_writers_copy_beside_one_that_cannot_be_read_does_not_keep_recoverys_out(
    kit: StorageKit,
) -> None:
    kit.add(frame(0, 1))
    kit = kit.reopened()
    kit.sim.damage(kit.root / f"ledger-{LEDGER % 2}/log/0000000001.log", 4096 + 60, b"!")
    kit.add(frame(0, 1), frame(0, 1, recovery=True))
    kit.storage.maintenance.checkpoint()
    assert kit.read(LEDGER, 0, 0) == (ids((0, 0)), EMPTY, 0)
    kit.end()


async def test_a_good_copy_that_came_meanwhile_is_not_rejected(rejected: StorageKit) -> None:
    rejected.add(frame(4, 1, recovery=True))
    maintenance = rejected.storage.maintenance
    late = maintenance.reject(LEDGER, ids((4, 4)), partial(wrong_of, CODEC))
    assert late == EMPTY and rejected.held(LEDGER) == ids((0, 9))


async def test_a_writers_copy_of_it_is_not_held_before_the_checkpoint_that_drops_it(
    rejected: StorageKit,
) -> None:
    rejected.add(frame(4, 1))
    assert rejected.held(LEDGER) == ids((0, 3), (5, 9))


@pytest.mark.parametrize("mode", DurabilityMode)
async def test_a_wrong_copy_that_recovery_brought_is_not_brought_back_by_the_journal(
    tmp_path: Path, store: FaultyStore, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(frame(0, 10, wrong=4, recovery=True))
    await recheck(kit.storage, store, LEDGER, ids((4, 4)))
    kit = kit.after_power_cut()
    assert kit.held(LEDGER) == ids((0, 3), (5, 9))
    kit.end()


async def test_what_was_rejected_stays_rejected_after_a_kill(rejected: StorageKit) -> None:
    rejected = rejected.after_kill()
    assert rejected.read(LEDGER, 0, 9) == (ids((0, 3), (5, 9)), ids((4, 4)), 9)
    rejected.storage.close()


async def test_compaction_keeps_what_is_left_of_the_frame(rejected: StorageKit) -> None:
    rejected = rejected.reopened()
    while rejected.storage.maintenance.compact_some() is not None:
        pass
    assert rejected.read(LEDGER, 0, 9) == (ids((0, 3), (5, 9)), ids((4, 4)), 9)
    rejected.storage.close()


async def test_good_copies_and_others_words_change_nothing(
    kit: StorageKit, store: FaultyStore
) -> None:
    kit.add(frame(0, 10, wrong=4))
    found = await recheck(kit.storage, store, LEDGER, ids((0, 3), (5, 9)))
    assert found.rejected == EMPTY
    assert kit.read(LEDGER, 0, 9)[0] == ids((0, 9)), "nobody asked about the wrong one"
    kit.storage.close()


async def test_without_metadata_nothing_is_judged(kit: StorageKit, store: FaultyStore) -> None:
    kit.add(frame(0, 10, wrong=4))
    assert (await recheck(kit.storage, store, LedgerId(9), ids((0, 9)))).message
    store.is_out = True
    with pytest.raises(UnavailableError):
        await recheck(kit.storage, store, LEDGER, ids((0, 9)))
    assert kit.held(LEDGER) == ids((0, 9))
    kit.storage.close()


async def test_of_a_ledger_whose_metadata_cannot_be_read_no_copy_is_judged_and_it_is_said(
    kit: StorageKit, store: FaultyStore
) -> None:
    assert isinstance(store.inner, MemoryStore)
    store.inner.cluster.garbled.add(LEDGER)
    kit.add(frame(0, 10, wrong=4))
    found = await recheck(kit.storage, store, LEDGER, ids((0, 9)))
    assert found.rejected == EMPTY and f"ledger {LEDGER}" in found.message
    assert kit.held(LEDGER) == ids((0, 9))
    kit.storage.close()


async def test_where_no_digest_type_is_stored_no_copy_is_wrong(
    kit: StorageKit, store: FaultyStore
) -> None:
    found = await store.read_ledger(LEDGER)
    old = replace(found.value, password=b"", digest_type=DigestType.CRC32, password_is_stored=False)
    await store.write_ledger(old, version=found.version)
    kit.add(frame(0, 10))
    done = await recheck(kit.storage, store, LEDGER, ids((0, 9)))
    assert not done.rejected and "digest type" in done.message
    assert kit.read(LEDGER, 0, 9) == (ids((0, 9)), EMPTY, 9)
    kit.storage.close()


async def test_a_request_is_bounded(kit: StorageKit, store: FaultyStore) -> None:
    with pytest.raises(BadRequestError):
        await recheck(kit.storage, store, LEDGER, ids((0, ENTRIES_MAX)))
    kit.storage.close()


class SlowStore(MemoryStore):
    """Reads of metadata wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.opened = asyncio.Event()

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        self.reads += 1
        await self.opened.wait()
        return await super().read_ledger(ledger_id)


async def test_one_look_is_over_before_the_next_begins(kit: StorageKit) -> None:
    """Else the second could reject the good copy that took the place of one the first rejected."""
    store, me = SlowStore(), BookieId("bookie-0")
    await store.initialise()
    marks = Marks(kit.storage, store, bookie_id=me, state=BookieState(me), unchecked=set())
    async with asyncio.TaskGroup() as looks:
        for _ in range(2):
            looks.create_task(marks.recheck(LEDGER, ids((0, 9))))
        await asyncio.sleep(0)
        assert store.reads == 1
        store.opened.set()
    assert store.reads == 2
