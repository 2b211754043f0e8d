"""`bookie metadata accept-rollback`: a person accepts a metadata store that was rolled back."""

from dataclasses import replace
from typing import Final

import click

from bookie.cli.common import (
    ask,
    fail,
    metadata_option,
    output_option,
    run,
    store_at,
    yes_option,
)
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import show_fields
from bookie.errors import MetadataConflictError, UnavailableError
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore, StoredBoot, Versioned
from bookie.user import user_name

COMMANDS: Final = {
    "acls": (
        "bookie.cli.acls:acls",
        "Compare the access list of each znode with what it should be.",
    ),
    "accept-rollback": (
        "bookie.cli.rollbacks:accept_rollback",
        "Let a bookie continue with a metadata store that was rolled back.",
    ),
}
WRITES_MAX: Final = 5
"""Attempts to write: a serving bookie changes the same value every few seconds."""


@click.group("metadata", cls=LazyGroup, lazy=COMMANDS)
def metadata_group() -> None:
    """The metadata store: who may change it, and what to do after a rollback."""


@click.command("accept-rollback")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--by", default=user_name, show_default="you", help="Who accepts.")
@yes_option
@metadata_option
@output_option
def accept_rollback(metadata: str, output: str, bookie: str, by: str, yes: bool) -> None:
    """Let BOOKIE remove deleted ledgers again, though the metadata store was rolled back.

    Do this only when no newer state of the store exists anywhere. The store no longer knows ledgers
    that were created after that state: they are lost, and after the grace period of the collection
    the bookie removes their entries.
    """
    bookie_id = BookieId(bookie)
    found = run(_rollback(metadata, bookie_id))
    if not found:
        fail(
            f"{bookie} saw no rollback of the metadata store: there is nothing to accept",
            Exit.REFUSED,
        )
    ask(f"{bookie} saw an older metadata store: {found}. Accept it as it is?", yes=yes)
    now = run(_accept(metadata, bookie_id, shown=found))
    if now != found:
        fail(
            f"nothing was accepted: expected what was shown, and {bookie} now says: "
            f"{now or 'it saw no rollback'}. Run the command again to decide about that",
            Exit.REFUSED,
        )
    show_fields({"bookie": bookie, "accepted": found, "accepted_by": by}, output=output)


async def _rollback(metadata: str, bookie_id: BookieId) -> str:
    async with store_at(metadata) as store:
        return (await _boot(store, bookie_id)).value.rolled_back


async def _boot(store: MetadataStore, bookie_id: BookieId) -> Versioned[StoredBoot]:
    found = await store.read_boot(bookie_id)
    if found is None:
        raise UnavailableError(
            f"the metadata store has no boot of {bookie_id}: the bookie writes one when it starts"
        )
    return found


async def _accept(metadata: str, bookie_id: BookieId, *, shown: str) -> str:
    """What the bookie saw, by its record of now; accepted only if that is what was shown."""
    async with store_at(metadata) as store:
        for _ in range(WRITES_MAX):
            found = await _boot(store, bookie_id)
            if found.value.rolled_back != shown:
                return found.value.rolled_back
            try:
                accepted = replace(found.value, rolled_back="")
                await store.write_boot(bookie_id, accepted, version=found.version)
                return shown
            except MetadataConflictError:
                continue
        raise UnavailableError(f"the boot record of {bookie_id} keeps changing: try again")
