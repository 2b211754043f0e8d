"""`bookie serve`: one bookie process, until SIGTERM or SIGINT."""

import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from bookie.cli.same_folder import check_differ
from bookie.errors import SettingsError
from bookie.server.lifecycle import Bookie, ExitCode
from bookie.server.log_rate import LogRate
from bookie.server.settings import BookieSettings, load_settings

GC_THRESHOLD = 50_000
"""Objects allocated between two garbage collections: adds make few reference cycles, and rare
collections mean rare pauses."""


@click.command("serve")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Settings file (YAML). Environment variables BOOKIE_<SECTION>__<KEY> override its values.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def serve(config: Path, log_level: str) -> None:
    """Run one bookie until SIGTERM or SIGINT.

    Exit codes: 0 clean stop, 1 error, 2 wrong settings, 3 boot refused, 4 a disk failed.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LogRate())
    logging.basicConfig(
        level=log_level.upper(),
        handlers=[handler],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        settings = load_settings(config, os.environ)
        check_differ([settings.journal.directory, *(disk.directory for disk in settings.ledgers)])
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(_run(settings))
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        raise click.exceptions.Exit(ExitCode.SETTINGS) from error
    raise click.exceptions.Exit(code)


async def _run(settings: BookieSettings) -> ExitCode:
    bookie = Bookie(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, bookie.stop)
    return await bookie.run()


def _loop_factory() -> Any:
    """Make uvloop's event loop where uvloop is installed, otherwise asyncio's."""
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.new_event_loop
