"""Options of an audit by either door, `bookie audit` and `python -m bookie.repair audit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from bookie.protocol.placement import MIN_RACKS
from bookie.repair.jobs.audit_job import Checks
from bookie.repair.judge.adherence import read_racks
from bookie.repair.look.audit import AuditSettings
from bookie.repair.reports.history import METADATA

_OPTIONS: Final = (
    click.option(
        "--recheck-delay",
        type=click.FloatRange(0),
        default=AuditSettings().recheck_s,
        show_default=True,
        metavar="SECONDS",
        help="Before bookies that gave no answer are asked once more.",
    ),
    click.option(
        "--underreplicated-grace",
        "grace_s",
        type=click.FloatRange(0),
        default=0,
        show_default=True,
        metavar="SECONDS",
        help="Say nothing of a ledger until BookKeeper's mark on it is so old.",
    ),
    click.option(
        "--racks",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="YAML mapping from bookie to rack, before what the bookies say themselves.",
    ),
    click.option(
        "--min-racks",
        type=click.IntRange(1),
        default=MIN_RACKS,
        show_default=True,
        help="Racks a write set has to span (minNumRacksPerWriteQuorum).",
    ),
    click.option(
        "--ack-quorum",
        type=click.IntRange(1),
        metavar="N",
        help="Ledgers with a lower ack quorum are findings; 2 where acks come from memory.",
    ),
    click.option(
        "--history",
        metavar=f"FILE|{METADATA}",
        help=f"Remember findings here, or in the metadata store ({METADATA}).",
    ),
)


def audit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds them to a command, which hands them to `audit_arguments`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def audit_arguments(
    *,
    recheck_delay: float,
    grace_s: float,
    racks: Path | None,
    min_racks: int,
    ack_quorum: int | None,
    history: str | None,
) -> dict[str, Any]:
    """What `runs.audit_cluster` takes of them. SettingsError for racks that cannot be read."""
    return {
        "settings": AuditSettings(recheck_s=recheck_delay),
        "checks": Checks(
            grace_s, read_racks(racks) if racks is not None else {}, min_racks, ack_quorum
        ),
        "history": history,
    }
