"""The options of a deep look, of every command line that has one."""

from collections.abc import Callable

import click

from bookie.repair.digests import DigestSettings


def digests_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--verify-digests` and `--read-rate`, for `digest_settings`."""
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
