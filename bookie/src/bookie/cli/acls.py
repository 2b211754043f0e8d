"""`bookie metadata acls`: check the access list of every znode, and set those that are wrong."""

from dataclasses import asdict
from typing import Any, Final

import click

from bookie.cli.common import fail, metadata_option, output_option, run, store_at
from bookie.cli.output import show_rows
from bookie.errors import SettingsError
from bookie.exit_codes import Exit
from bookie.metadata.access import OPEN, Access
from bookie.metadata.access_lists import Count
from bookie.metadata.zookeeper import ZooKeeperStore

COLUMNS: Final = ("kind", "checked", "different", "changed", "refused", "first")


@click.command("acls")
@click.option("--apply", is_flag=True, help="Correct the access lists that differ.")
@click.option(
    "--open",
    "opened",
    is_flag=True,
    help="Compare with open access: everybody may change everything, as without credentials.",
)
@metadata_option
@output_option
def acls(metadata: str, output: str, apply: bool, opened: bool) -> None:
    """Compare the access list of each znode with what it should be.

    The credentials of this command must be those of the fleet: it may change everything, and
    clients may create, write and delete ledgers. The command only shows what differs, unless
    --apply is given. Use --open --apply before a fleet gives up its credentials.
    """
    counts = run(_checked(metadata, apply=apply, opened=opened))
    rows: list[dict[str, Any]] = [asdict(count) for count in counts]
    show_rows(rows, columns=COLUMNS, output=output, nothing="no znodes")
    if refused := [count for count in counts if count.refused]:
        click.echo(
            f"error: ZooKeeper refuses {sum(count.refused for count in refused)} of the znodes to "
            f"these credentials, the first is {refused[0].first_refused}: run the command again "
            "with the credentials in its access list",
            err=True,
        )
    if refused or any(count.different > count.changed for count in counts):
        raise click.exceptions.Exit(Exit.FINDINGS)


async def _checked(metadata: str, *, apply: bool, opened: bool) -> list[Count]:
    async with store_at(metadata) as store:
        if not isinstance(store, ZooKeeperStore):
            raise SettingsError(f"found {metadata}, which has no access lists, expected zk or zks")
        session = store.session
        if apply and not opened and session.settings.open_access:
            fail(
                "found BOOKIE_TLS__MODE=Accepted, which lets parts of a fleet show no "
                "certificate: they would lose access; set Required everywhere first",
                Exit.REFUSED,
            )
        wanted = OPEN if opened else _of_fleet(session.closed_access)
        return await (await store.access_lists()).check(wanted, apply=apply)


def _of_fleet(access: Access) -> Access:
    if not access.fleet:
        raise SettingsError(
            "found no credentials by which ZooKeeper recognises the fleet, expected zks:// with "
            "the fleet's (BOOKIE_TLS__DIRECTORY), or a login (BOOKIE_ZOOKEEPER__CREDENTIALS_FILE)"
        )
    return access
