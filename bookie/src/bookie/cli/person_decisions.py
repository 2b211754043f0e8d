"""`bookie decisions`: show what people have decided about bookies, and who decided."""

from typing import Any

import click

from bookie.cli.common import (
    bookies_option,
    cluster_id,
    fail,
    metadata_option,
    output_option,
    run,
    store_at,
)
from bookie.cli.output import show_rows
from bookie.errors import BadRequestError, UnavailableError
from bookie.exit_codes import Exit
from bookie.hosts import at_port
from bookie.ids import BookieId
from bookie.metadata.store import ADMIN_ENDPOINT, BookieInfo
from bookie.times import iso_time
from bookie.wire.admin.client import Call, control_plane
from bookie.wire.identity import Identity

DEADLINE_S = 10.0
COLUMNS = ("bookie", "at", "kind", "by", "about")


@click.command("decisions")
@bookies_option
@metadata_option
@output_option
def decisions(metadata: str, output: str, bookies: tuple[str, ...]) -> None:
    """Show what people have decided about running bookies.

    Decisions are approvals, accepted losses and withdrawn loss records; each bookie keeps its own.
    Exit code 4: a bookie did not answer.
    """

    async def work() -> tuple[list[dict[str, Any]], list[str]]:
        async with store_at(metadata) as store:
            instance_id = await cluster_id(store, metadata)
            found = await store.bookies()
        if unknown := [one for one in bookies if one not in found]:
            raise BadRequestError(
                f"bookie {', '.join(unknown)} is not registered, expected one of "
                f"{', '.join(sorted(found))}"
            )
        rows: list[dict[str, Any]] = []
        silent: list[str] = []
        for bookie_id in sorted(set(map(BookieId, bookies)) or found):
            try:
                rows += await _decisions_of(found[bookie_id], instance_id)
            except UnavailableError as error:
                silent.append(f"{bookie_id}: {error}")
        return rows, silent

    rows, silent = run(work())
    show_rows(rows, columns=COLUMNS, output=output, nothing="no decisions")
    if silent:
        fail(f"no answer, so not everything is known ({'; '.join(silent)})", Exit.UNDECIDED)


async def _decisions_of(info: BookieInfo, instance_id: str) -> list[dict[str, Any]]:
    endpoint = info.endpoint(ADMIN_ENDPOINT)
    if endpoint is None:
        raise UnavailableError("it is registered without a control plane")
    meant = Identity(instance_id, info.bookie_id, info.boot_epoch)
    where, has_tls = at_port(endpoint.host, endpoint.port), endpoint.has_tls
    async with control_plane(where, info.bookie_id, has_tls=has_tls) as plane:
        health = await plane.health(Call(meant, DEADLINE_S))
    return [
        {
            "bookie": info.bookie_id,
            "at": iso_time(one.at_ms),
            "kind": one.kind,
            "by": one.by,
            "about": one.about,
        }
        for one in health.decisions
    ]
