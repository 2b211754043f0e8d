"""Options of work that reads and writes entries, by either door: `bookie` and `bookie.repair`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from bookie.repair.digests import DigestSettings

Command = Callable[..., None]

rate_option: Final = click.option(
    "--bytes-per-second-per-bookie",
    "rate",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Copy at most so many bytes a second from and to each bookie.",
)


def bounds_options(command: Command) -> Command:
    """`rate`, `checkpoint`: of a repair that is to be gentle, or may be cut off."""
    checkpoint = click.option(
        "--checkpoint",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Remember here what was done: a repair that was cut off goes on from there.",
    )
    return rate_option(checkpoint(command))


def digests_options(command: Command) -> Command:
    """`verify_digests`, `read_rate`: of a deep look; for `digest_settings`."""
    verify = click.option(
        "--verify-digests", is_flag=True, help="Read every copy and verify its digest: bit rot."
    )
    rate = click.option(
        "--read-rate",
        type=click.IntRange(1),
        metavar="BYTES",
        help="With --verify-digests: read at most so many bytes a second from each bookie.",
    )
    return verify(rate(command))


def digest_settings(*, verify_digests: bool, read_rate: int | None) -> DigestSettings | None:
    """None: trust the indexes."""
    if read_rate is not None and not verify_digests:
        raise click.UsageError("--read-rate needs --verify-digests")
    return DigestSettings(bytes_per_second=read_rate) if verify_digests else None
