"""Options of repairs and of deep looks, of every command line that has them."""

from collections.abc import Callable
from typing import Final

import click

from bookie.ids import BookieId
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.digests import DigestSettings
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings

rate_option = click.option(
    "--bytes-per-second-per-bookie",
    "rate",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Copy at most so many bytes a second from and to each bookie.",
)
_DIGESTS: Final = (
    click.option(
        "--verify-digests", is_flag=True, help="Read every copy and verify its digest: bit rot."
    ),
    click.option(
        "--read-rate",
        type=click.IntRange(1),
        metavar="BYTES",
        help="With --verify-digests: read at most so many bytes a second from each bookie.",
    ),
)
_REPAIR: Final = (
    click.option(
        "--bookie",
        "bookies",
        multiple=True,
        metavar="ID",
        help="Only the marks of this bookie; may be given again. "
        "Without it: all bookies and ledgers.",
    ),
    click.option("--every-ledger", is_flag=True, help="Look after ledgers without marks as well."),
    rate_option,
    click.option(
        "--checkpoint",
        metavar="metadata",
        help="Remember in the metadata store what was done: a repair that was cut off goes on from "
        "there. The name of a folder does the same; nothing is kept in it any more.",
    ),
    *_DIGESTS,
)

Command = Callable[..., None]


def digests_options(command: Command) -> Command:
    """`--verify-digests` and `--read-rate`, for `digest_settings`."""
    for option in reversed(_DIGESTS):
        command = option(command)
    return command


def digest_settings(*, verify_digests: bool, read_rate: int | None) -> DigestSettings | None:
    """None: trust the indexes."""
    if read_rate is not None and not verify_digests:
        raise click.UsageError("--read-rate needs --verify-digests")
    return DigestSettings(bytes_per_second=read_rate) if verify_digests else None


def repair_options(command: Command) -> Command:
    """What is to be repaired, how gently, and how deep a look; for `repair_request`."""
    for option in reversed(_REPAIR):
        command = option(command)
    return command


def repair_request(
    engine: str,
    *,
    bookies: tuple[str, ...],
    every_ledger: bool,
    rate: int | None,
    checkpoint: str | None,
    verify_digests: bool,
    read_rate: int | None,
) -> RepairRequest:
    """What these options ask for."""
    digests = digest_settings(verify_digests=verify_digests, read_rate=read_rate)
    return RepairRequest(
        tuple(map(BookieId, bookies)),
        engine,
        every_ledger=every_ledger,
        settings=RepairSettings(copy=CopySettings(bytes_per_second=rate), digests=digests),
        checkpoint=checkpoint is not None,
    )
