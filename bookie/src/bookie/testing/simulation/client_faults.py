"""Clients that are wrong: they call lost what is not, and name keys that nobody gave them.

A bookie refuses the one, and the other one blocks nobody.
"""

from bookie.client.pool import BookiePool
from bookie.errors import BookieError
from bookie.frames.entry import master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.assignment import assigned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.testing.simulation.clients import PASSWORD, SETTINGS, Shared, client_of, cluster_of
from bookie.wire.native import LacRequest

TRIES = 6
BEYOND = 8
"""How far beyond the last entry of a ledger that is written somebody calls one lost."""


async def claim_loss(shared: Shared, store: MetadataStore, name: str) -> None:
    """Tells bookies of losses that are none, as a person and as a repair would."""
    async with cluster_of(shared, store) as cluster:
        try:
            bookies = await cluster.all_bookies()
        except BookieError:
            return
        for _ in range(TRIES):
            ledger_id = shared.rng.choice(shared.begun[-6:] or [LedgerId(0)])
            bookie_id = shared.rng.choice(bookies)
            metadata = shared.history.ledger(ledger_id).metadata
            claimed = _claimable(shared, metadata, bookie_id)
            if metadata is None or claimed is None:
                continue
            answer = await cluster.control.record_loss(
                bookie_id,
                ledger_id,
                EntrySet.from_ranges([(claimed, claimed)]),
                reason="a mistake",
                by_person=not metadata.is_closed,
                answered_by=bookies,
            )
            after = shared.history.ledger(ledger_id).metadata
            if answer.accepted and after is not None and after.state is metadata.state:
                shared.history.violate(
                    f"{bookie_id} recorded a loss of {claimed} of ledger {ledger_id}, which is "
                    f"{after.state.value} and owes that bookie no such entry"
                )


def _claimable(
    shared: Shared, metadata: LedgerMetadata | None, bookie_id: BookieId
) -> EntryId | None:
    """Of an OPEN ledger one that was not written yet, of a CLOSED one an entry of others."""
    if metadata is None or metadata.state is LedgerState.IN_RECOVERY:
        return None
    if metadata.state is LedgerState.OPEN:
        first = len(shared.history.ledger(metadata.ledger_id).sent) + BEYOND
        share = assigned(metadata, bookie_id, through=EntryId(first + metadata.ensemble_size))
        return next((EntryId(i) for i in range(first, first + 3) if i in share), None)
    share = assigned(metadata, bookie_id, through=metadata.last_entry_id)
    others = [i for i in range(metadata.last_entry_id + 1) if EntryId(i) not in share]
    return EntryId(shared.rng.choice(others)) if others else None


async def teach_wrong_key(shared: Shared, store: MetadataStore, name: str) -> None:
    """A ledger is made; one of its members first hears of it from somebody with a wrong password;
    who made it goes away.
    """
    scale = shared.scale
    pool = BookiePool(store, settings=SETTINGS.pool)
    try:
        async with client_of(shared, store) as client:
            writer = await client.create_ledger(
                ensemble_size=scale.ensemble,
                write_quorum=scale.write_quorum,
                ack_quorum=scale.ack_quorum,
                password=PASSWORD,
            )
            metadata = shared.history.ledger(writer.ledger_id).metadata
            assert metadata is not None
            bookie_id = shared.rng.choice(metadata.last_fragment.ensemble)
            request = LacRequest(writer.ledger_id, master_key(b"wrong"))
            status, _reply = await pool.read_lac(bookie_id, request, fence=True)
            shared.history.note(f"{name} at {bookie_id} on {writer.ledger_id}: {status.name}")
            writer.abandon()
    except BookieError as error:
        shared.history.note(f"{name}: {type(error).__name__}")
    finally:
        await pool.close()
