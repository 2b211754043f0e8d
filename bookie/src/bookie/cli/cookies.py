"""`bookie cookie show|approve|fix`: show a bookie's identity, and change it after a disk change."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from bookie.boot.boot import Boot, Booted, finish_clean_stop
from bookie.boot.cookie_fix import FixPlan, FixPolicy
from bookie.boot.lock import FolderLock
from bookie.boot.takeover import BootSettings
from bookie.boot.verdicts import DiskVerdict
from bookie.cli.common import (
    ask,
    cluster_id,
    fail,
    metadata_option,
    output_option,
    run,
    store_at,
    yes_option,
)
from bookie.cli.control_plane import asked
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import say, show_fields, show_rows
from bookie.cli.same_folder import check_differ
from bookie.errors import BootRefusedError
from bookie.exit_codes import Exit
from bookie.hosts import at_port, loopback
from bookie.metadata.store import MetadataStore
from bookie.server.part_settings import boot_settings
from bookie.server.settings import load_settings
from bookie.storage.disk import RealDisk
from bookie.user import user_name
from bookie.wire.admin.client import Call

COMMANDS: Final = {
    "approve": ("bookie.cli.cookies:approve", "Let a waiting bookie use its replaced disks."),
    "fix": ("bookie.cli.cookies:fix", "Give a stopped bookie its replaced disks by hand."),
    "show": ("bookie.cli.cookies:show", "Show the cookies in the metadata store."),
}
DEADLINE_S: Final = 10.0
TAKING_STEPS: Final = ("fixing the cookie", "stamping")
"""Steps of a boot that record the disks as this bookie's own."""


@click.group("cookie", cls=LazyGroup, lazy=COMMANDS)
def cookie_group() -> None:
    """Cookies: which disks belong to which bookie."""


@click.command("show")
@click.argument("bookie_id", required=False)
@metadata_option
@output_option
def show(metadata: str, output: str, bookie_id: str | None) -> None:
    """Show the cookies in the metadata store, or that of one bookie."""

    async def work() -> list[dict[str, Any]]:
        async with store_at(metadata) as store:
            await cluster_id(store, metadata)
            cookies = await store.cookies()
        return [
            {
                "bookie": name,
                "journal": list(cookie.journal_dirs),
                "ledgers": list(cookie.ledger_dirs),
                "instance_id": cookie.instance_id,
                "layout": cookie.layout_version,
            }
            for name, cookie in sorted(cookies.items())
        ]

    rows = run(work())
    shown = [row for row in rows if bookie_id in (None, row["bookie"])]
    if bookie_id is not None and not shown:
        known = ", ".join(row["bookie"] for row in rows) or "none"
        fail(f"the metadata store has no cookie of {bookie_id}; known are {known}")
    columns = ("bookie", "journal", "ledgers", "instance_id")
    show_rows(shown, columns=columns, output=output, nothing="no cookies")


@click.command("approve")
@click.option("--admin", metavar="HOST:PORT", help="Control plane of the waiting bookie.")
@click.option(
    "--runtime",
    type=click.Path(path_type=Path),
    help="Runtime file of the waiting bookie, if it runs on this machine.",
)
@click.option("--plan", help="Plan to approve. Default: show the waiting plan and ask.")
@click.option("--by", default=user_name, show_default="you", help="Who approves.")
@yes_option
@output_option
def approve(
    output: str, admin: str | None, runtime: Path | None, plan: str | None, by: str, yes: bool
) -> None:
    """Let a waiting bookie use its replaced disks.

    A bookie is not registered while it waits, so name it by the address of its control plane
    (--admin) or by its runtime file (--runtime).
    """
    if (admin is None) == (runtime is None):
        raise click.UsageError("name the bookie by either --admin HOST:PORT or --runtime FILE")
    target = admin or _target_of(runtime)
    health = asked(target, lambda bookie: bookie.health(Call(None, DEADLINE_S)))
    meant, fix = health.answered_by, health.cookie_fix
    chosen = plan or (fix.plan_id if fix is not None else "")
    if not chosen:
        fail(
            f"{meant.bookie} is {health.phase.name} and does not wait for an approval", Exit.REFUSED
        )
    if plan is None and fix is not None:
        ask(f"{meant.bookie}: {fix.description}. Approve?", yes=yes)
    # Name the bookie whose plan was shown: another one may answer at this address by now.
    call = Call(meant, DEADLINE_S)
    taken = asked(target, lambda bookie: bookie.approve_cookie_fix(call, plan_id=chosen, by=by))
    if not taken.accepted:
        fail(BootRefusedError(taken.message))
    approved = {"bookie": meant.bookie, "plan": chosen, "approved_by": by}
    show_fields(approved, output=output)


def _target_of(runtime: Path | None) -> str:
    assert runtime is not None
    try:
        port = int(json.loads(runtime.read_text(encoding="utf-8"))["ports"]["admin"])
    except OSError as error:
        fail(f"cannot read the runtime file {runtime}: {error.strerror}", Exit.USAGE)
    except (ValueError, KeyError, TypeError):
        fail(f"{runtime} is no bookie's runtime file: expected JSON with ports.admin", Exit.USAGE)
    return at_port(loopback(), port)


@click.command("fix")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Settings file of the stopped bookie.",
)
@yes_option
@output_option
def fix(output: str, config: Path, yes: bool) -> None:
    """Give a stopped bookie its replaced disks, whatever its cookie fix policy.

    It does what a boot would do: it fences all ledgers, marks those of which entries may be missing
    as limbo, and stamps the disks. The bookie has these marks when it starts next.
    """
    plan = run(_fix(config, consent=None))
    assert isinstance(plan, FixPlan)
    ask(f"{plan.description}. Fence all ledgers, mark limbo and stamp the disks?", yes=yes)
    # The disks may have changed since the plan was shown: then the plan's id differs.
    show_fields(run(_fix(config, consent=plan.plan_id)), output=output)


async def _fix(config: Path, *, consent: str | None) -> FixPlan | dict[str, Any]:
    """Return the plan that needs consent; or, with its id as `consent`, boot and return the
    record."""
    settings = load_settings(config, os.environ)
    chosen = boot_settings(settings)
    check_differ(chosen.directories)
    async with store_at(settings.metadata) as store:
        for directory in chosen.directories:
            RealDisk().make_directory(directory)
        with FolderLock(chosen.directories) as lock:
            try:
                booted = await _boot(chosen, store, consent=consent, holders=lock.holders())
            except _NeedsConsent as needed:
                if consent is None:
                    return needed.plan
                raise BootRefusedError(
                    f"the disks changed meanwhile: {needed.plan.description}; look again"
                ) from None
            await asyncio.to_thread(finish_clean_stop, booted.storage, booted.markers)
    record = booted.record
    return {
        "bookie": chosen.bookie_id,
        "cookie_fixed": record.cookie_fixed,
        "boot_epoch": record.boot_epoch,
        "reason": record.reason,
        "ledgers_fenced": record.ledgers_fenced,
        "ledgers_in_limbo": record.ledgers_in_limbo,
        "ledgers_unchecked": record.ledgers_unchecked,
    }


class _NeedsConsent(Exception):
    """Ends a boot that needs a person's answer: they are asked without the event loop and the
    lock."""

    def __init__(self, plan: FixPlan) -> None:
        super().__init__(plan.description)
        self.plan = plan


async def _boot(
    chosen: BootSettings, store: MetadataStore, *, consent: str | None, holders: Sequence[str]
) -> Booted:
    """Boot under policy Approve; it continues only with the plan id in `consent`."""
    loop = asyncio.get_running_loop()
    approved = False

    def call_soon(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    def on_step(step: str) -> None:
        nonlocal approved
        if consent is not None:
            say(step)
        plan = boot.progress.plan
        if step == "awaiting approval" and plan is not None:
            if plan.plan_id != consent:
                raise _NeedsConsent(plan)
            boot.approve(consent, user_name())
            approved = True
        # A bookie that seems new may turn out to have lost its identity; only then does it ask.
        elif not approved and (step in TAKING_STEPS or not _seems_new(boot)):
            raise BootRefusedError(
                f"the disks of {chosen.bookie_id} are those of its cookie: there is nothing to "
                "fix; start the bookie"
            )

    boot = Boot(
        replace(chosen, policy=FixPolicy.APPROVE),
        store,
        disk=RealDisk(),
        call_soon=call_soon,
        started_at_ms=int(time.time() * 1000),
        on_step=on_step,
        holders=holders,
    )
    return await boot.run()


def _seems_new(boot: Boot) -> bool:
    return DiskVerdict.NEW in boot.progress.verdicts
