"""`bookie collect approve`: let a bookie collect so many deleted ledgers that it asks first."""

from typing import Final

import click

from bookie.cli.common import (
    ask,
    fail,
    metadata_option,
    output_option,
    person,
    run,
    store_at,
    yes_option,
)
from bookie.cli.exit_codes import Exit
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import show_fields
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.store import ADMIN_ENDPOINT
from bookie.wire.admin.client import Call, control_plane
from bookie.wire.admin.health import Health
from bookie.wire.identity import Identity

COMMANDS: Final = {
    "approve": ("bookie.cli.collect:approve", "Let a bookie drop what so many ledgers left."),
}
DEADLINE_S: Final = 10.0


@click.group("collect", cls=LazyGroup, lazy=COMMANDS)
def collect_group() -> None:
    """Collection: entries of deleted ledgers go from the bookies' disks."""


@click.command("approve")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--plan", help="The plan to approve; without it the waiting one is shown and asked.")
@click.option("--by", default=person, show_default="you", help="Who approves.")
@yes_option
@metadata_option
@output_option
def approve(metadata: str, output: str, bookie: str, plan: str | None, by: str, yes: bool) -> None:
    """Let a bookie collect the ledgers that its brake holds back.

    More of its ledgers than it drops by itself are gone from the metadata store. Only if they were
    deleted on purpose: what is collected cannot be brought back.
    """
    bookie_id = BookieId(bookie)
    target, meant = run(_found(metadata, bookie_id))
    health = run(_health(target, meant))
    chosen = plan or health.collection_plan_id
    if not chosen:
        fail(f"{bookie} waits for no approval of a collection", Exit.REFUSED)
    if plan is None:
        ask(f"{bookie}: {health.collection_held}. Approve?", yes=yes)
    refusal = run(_approve(target, meant, plan_id=chosen, by=by))
    if refusal:
        fail(refusal, Exit.REFUSED)
    show_fields({"bookie": bookie, "plan": chosen, "approved_by": by}, output=output)


async def _found(metadata: str, bookie_id: BookieId) -> tuple[str, Identity]:
    """Where its control plane is, and who it is."""
    async with store_at(metadata) as store:
        instance_id = await store.instance_id() or ""
        found = (await store.bookies()).get(bookie_id)
    endpoint = found.endpoint(ADMIN_ENDPOINT) if found is not None else None
    if found is None or endpoint is None:
        raise UnavailableError(
            f"{bookie_id} is not registered with a control plane: a bookie must serve to collect"
        )
    return f"{endpoint.host}:{endpoint.port}", Identity(instance_id, bookie_id, found.boot_epoch)


async def _health(target: str, meant: Identity) -> Health:
    async with control_plane(target) as bookie:
        return await bookie.health(Call(meant, DEADLINE_S))


async def _approve(target: str, meant: Identity, *, plan_id: str, by: str) -> str:
    """Why it was not taken; empty = it was."""
    async with control_plane(target) as bookie:
        taken = await bookie.approve_collection(Call(meant, DEADLINE_S), plan_id=plan_id, by=by)
    return "" if taken.accepted else taken.message
