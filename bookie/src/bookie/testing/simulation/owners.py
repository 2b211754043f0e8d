"""Clients of a log of ledgers beside its owners: who takes it over just now, and who reads it.

What a reader learns while owners compete is judged here; the whole log is judged at the end.
"""

import asyncio

from bookie.client.log_reading import LogPosition, read_log
from bookie.errors import BookieError, DataLossError, NoSuchLedgerError
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore
from bookie.testing.simulation.clients import (
    LOG_NAME,
    PASSWORD,
    Shared,
    append_to_log,
    client_of,
    log_settings,
    open_log,
)

APPENDS = 3
"""Of one that takes the log over and goes away again."""


async def usurp_log(shared: Shared, store: MetadataStore, name: str) -> None:
    """Takes the log over, with a session that has seen nothing yet; leaves it as a crash does."""
    if not shared.scale.logs:
        return
    async with client_of(shared, store) as client:
        try:
            log = await open_log(shared, client, store, log_settings(shared.scale))
            shared.history.note(f"{name} owns the log with {log.ledger_ids}")
            for _ in range(APPENDS):
                await append_to_log(shared, log, name)
        except BookieError as error:
            shared.history.note(f"{name} lost the log: {type(error).__name__}")


async def follow_log(shared: Shared, store: MetadataStore, name: str) -> None:
    """Reads the log again and again, each time from its beginning."""
    async with client_of(shared, store) as client:
        while True:
            await asyncio.sleep(shared.rng.random())
            missing: list[LedgerId] = []
            deleted = frozenset(shared.deleted)
            before: LogPosition | None = None
            try:
                async for entry in read_log(
                    LOG_NAME,
                    ledgers=client,
                    store=store,
                    password=PASSWORD,
                    on_missing=missing.append,
                ):
                    at = entry.position
                    if before is not None and at <= before:
                        shared.history.violate(f"{name} was given {at} of the log after {before}")
                    before = at
                    shared.history.read(at.ledger_id, at.entry_id, entry.payload)
            except NoSuchLedgerError as error:
                # One that is deleted while it is read may end that read; the next one passes it.
                say = shared.history.violate if error.ledger_id in deleted else shared.history.note
                say(f"{name} cannot read the log past a missing ledger: {error}")
            except DataLossError as error:
                expected = shared.losses_expected or error.ledger_id in shared.lossy
                shared.history.lost(error.ledger_id, error.entry_id, expected=expected)
            except BookieError as error:
                shared.history.note(f"{name} reads the log: {type(error).__name__}")
            _check_missing(shared, name, missing)


def _check_missing(shared: Shared, name: str, missing: list[LedgerId]) -> None:
    for ledger_id in missing:
        if shared.history.ledger(ledger_id).metadata is not None:
            shared.history.violate(
                f"{name} was told that listed ledger {ledger_id} does not exist, and it does"
            )
