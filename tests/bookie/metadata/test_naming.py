"""In which lists a look at every ledger puts one, and how old it may be."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.naming import list_ledgers
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.testing.metadata import FaultyStore

HERE, THERE = BookieId("bookie-0"), BookieId("bookie-1")
LEDGER = LedgerMetadata(LedgerId(7), 1, 1, 1, (Fragment(EntryId(0), (HERE,)),))


async def test_s38_a_look_names_a_ledger_that_a_lagging_follower_does_not_show_yet() -> None:
    store = FaultyStore(MemoryStore(MemoryCluster()))
    await store.freeze_ledgers()
    await store.inner.create_ledger(LEDGER)
    assert (await list_ledgers(store, HERE)).named == [LEDGER.ledger_id]


async def test_a_part_of_a_look_tells_of_no_unreadable_ledger_of_the_rest() -> None:
    store = MemoryStore(MemoryCluster())
    for number in (7, 8):
        await store.create_ledger(replace(LEDGER, ledger_id=LedgerId(number)))
        store.cluster.garbled.add(LedgerId(number))
    found = await list_ledgers(store, HERE)
    part = found.only({LedgerId(7)})
    assert set(found.unreadable) == {7, 8} and set(part.unreadable) == {7}
    assert part.existing == part.named == part.undecided == part.recovering == [7]


def ledger_in(state: LedgerState, first: BookieId, last: BookieId) -> LedgerMetadata:
    parts = (Fragment(EntryId(0), (first,)), Fragment(EntryId(5), (last,)))
    written = LEDGER.with_fragments(parts)
    if state is LedgerState.OPEN:
        return written
    recovered = written.in_recovery()
    return recovered.closed(EntryId(7), length=8) if state is LedgerState.CLOSED else recovered


@pytest.mark.parametrize("state", LedgerState, ids=lambda state: state.name)
@pytest.mark.parametrize(
    ("first", "last"), [(THERE, HERE), (HERE, THERE), (THERE, THERE)], ids=["last", "first", "no"]
)
async def test_a_ledger_is_in_the_lists_of_its_state_and_of_the_bookies_that_it_names(
    state: LedgerState, first: BookieId, last: BookieId
) -> None:
    store = MemoryStore(MemoryCluster())
    await store.create_ledger(ledger_in(state, first, last))
    found = await list_ledgers(store, HERE)
    assert bool(found.named) is (HERE in (first, last))
    assert bool(found.undecided) is (last == HERE and state is not LedgerState.CLOSED)
    assert bool(found.recovering) is (state is LedgerState.IN_RECOVERY)
