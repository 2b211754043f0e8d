"""How old a look at every ledger may be."""

from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.naming import list_ledgers
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.testing.metadata import FaultyStore

HERE = BookieId("bookie-0")
LEDGER = LedgerMetadata(LedgerId(7), 1, 1, 1, (Fragment(EntryId(0), (HERE,)),))


async def test_s38_a_look_names_a_ledger_that_a_lagging_follower_does_not_show_yet() -> None:
    store = FaultyStore(MemoryStore(MemoryCluster()))
    await store.freeze_ledgers()
    await store.inner.create_ledger(LEDGER)
    assert (await list_ledgers(store, HERE)).named == [LEDGER.ledger_id]
