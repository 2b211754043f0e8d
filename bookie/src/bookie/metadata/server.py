"""`python -m bookie.metadata.server`: runs the embedded ZooKeeper as the only program of a
container.

`embedded` starts the server as a child; this program becomes the server: its output is the
container's log, a signal reaches it directly, and no Python stays in memory. It is for clusters
without their own ensemble: one server, as available as its node and as durable as its volume.

With `--tls` (BOOKIE_TLS__DIRECTORY: a mounted secret with tls.crt, tls.key, ca.crt) its one port
takes only TLS, and every client must show a certificate; `--tls-mode Accepted` (BOOKIE_TLS__MODE)
is for the time in which a fleet moves to TLS. A small process beside the server gives it renewed
files within seconds.
"""

import os
import sys
from pathlib import Path

import click

from bookie.errors import BookieError, SettingsError
from bookie.metadata import renewal
from bookie.metadata.embedded import find_jars, lock_folder
from bookie.metadata.embedded_settings import (
    EmbeddedSettings,
    prepare_stores,
    server_command,
    server_environment,
    stores_of,
    write_configuration,
)
from bookie.metadata.java import find_java
from bookie.tls.environment import ACCEPTED, DIRECTORY_VARIABLE, MODE_VARIABLE, REQUIRED

EXIT_ERROR, EXIT_USAGE = 1, 2
MODES = (REQUIRED, ACCEPTED)


@click.command(help="Runs one ZooKeeper server in the foreground, until it is stopped.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder of its data; it is created if it does not exist.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=2181, show_default=True)
@click.option(
    "--bind",
    show_default="the loopback",
    help="The address to listen on; 0.0.0.0 or :: is all addresses, IPv4 and IPv6.",
)
@click.option(
    "--heap-mb",
    type=click.IntRange(min=32),
    default=EmbeddedSettings().heap_mb,
    show_default=True,
    help="Java heap in MiB; the whole process needs about 100 MiB more.",
)
@click.option(
    "--tick-ms",
    type=click.IntRange(min=100),
    default=EmbeddedSettings().tick_ms,
    show_default=True,
    help="ZooKeeper's tick in milliseconds; sessions may last between 2 and 60 ticks.",
)
@click.option(
    "--tls",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=DIRECTORY_VARIABLE,
    show_envvar=True,
    help="Use TLS, with the credentials in this folder: tls.crt, tls.key, ca.crt.",
)
@click.option(
    "--tls-mode",
    type=click.Choice(MODES),
    envvar=MODE_VARIABLE,
    show_envvar=True,
    default=REQUIRED,
    show_default=True,
    help="Accepted: also take connections without TLS, on the same port.",
)
def main(
    directory: Path,
    port: int,
    bind: str | None,
    heap_mb: int,
    tick_ms: int,
    tls: Path | None,
    tls_mode: str,
) -> None:
    settings = EmbeddedSettings(
        bind=bind, heap_mb=heap_mb, tick_ms=tick_ms, tls=tls, plain=tls_mode == ACCEPTED
    )
    try:
        become_server(directory, port=port, settings=settings)
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except (BookieError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_ERROR)


def become_server(directory: Path, *, port: int, settings: EmbeddedSettings) -> None:
    """Replace this process by the server; returns only with an error.

    Raises SettingsError without a Java >= 17 or pyspark's jars, UnavailableError when a server runs
    on the folder already, OSError when the folder cannot be written.
    """
    java, jars = find_java(), find_jars()
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    command = server_command(java, jars, directory=directory, settings=settings)
    with (directory / "lock").open("wb") as lock:
        lock_folder(lock, directory)  # before a file is written that a running server may read
        prepare_stores(directory, settings)
        write_configuration(directory, port=port, settings=settings)
        os.set_inheritable(lock.fileno(), True)
        if settings.tls is not None:
            renewal.start(settings.tls.absolute(), stores_of(directory), of=os.getpid())
        os.chdir(directory)
        os.execve(command[0], command, server_environment())


if __name__ == "__main__":
    main(prog_name="python -m bookie.metadata.server")
