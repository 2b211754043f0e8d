"""`bookie cookie show|approve|fix`: a bookie's identity, and the mending of it by a person."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import grpc

from bookie.cli.common import metadata_option, output_option, run, store_at
from bookie.cli.exit_codes import Exit
from bookie.cli.output import show_fields, show_rows
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import BadRequestError, BootRefusedError, UnavailableError
from bookie.server.lifecycle import boot_settings
from bookie.server.settings import load_settings
from bookie.storage.boot import Boot, Booted, BootSettings, FixPolicy, finish_clean_stop
from bookie.storage.disk import RealDisk
from bookie.storage.lock import FolderLock
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub

DEADLINE_S = 10.0


@click.group("cookie")
def cookie_group() -> None:
    """Cookies: which disks belong to which bookie."""


@cookie_group.command("show")
@click.argument("bookie_id", required=False)
@metadata_option
@output_option
def show(metadata: str, output: str, bookie_id: str | None) -> None:
    """The cookies in the metadata store, or that of one bookie."""

    async def work() -> list[dict[str, Any]]:
        async with store_at(metadata) as store:
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
            if bookie_id in (None, name)
        ]

    rows = run(work())
    show_rows(rows, columns=("bookie", "journal", "ledgers", "instance_id"), output=output)
    if bookie_id is not None and not rows:
        click.echo(f"error: the metadata store has no cookie of {bookie_id}", err=True)
        raise click.exceptions.Exit(Exit.ERROR)


@cookie_group.command("approve")
@click.option("--admin", metavar="HOST:PORT", help="Control plane of the waiting bookie.")
@click.option("--runtime", type=click.Path(path_type=Path), help="Its runtime file, instead.")
@click.option("--plan", help="The plan to approve; without it the waiting one is shown and asked.")
@click.option("--by", default=lambda: os.environ.get("USER", "unknown"), help="Who approves.")
@output_option
def approve(
    output: str, admin: str | None, runtime: Path | None, plan: str | None, by: str
) -> None:
    """Let a bookie that waits take its replaced disks as its own."""
    target = admin or _target_of(runtime)

    async def work() -> dict[str, Any]:
        async with grpc.aio.insecure_channel(target) as channel:
            stub: Any = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            try:
                chosen = plan or _asked(
                    await stub.GetHealth(pb.GetHealthRequest(), timeout=DEADLINE_S)
                )
                request = pb.ApproveCookieFixRequest(plan_id=chosen, approved_by=by)
                reply = await stub.ApproveCookieFix(request, timeout=DEADLINE_S)
            except grpc.aio.AioRpcError as error:
                raise UnavailableError(f"{target}: {error.details()}") from error
        if not reply.accepted:
            raise BootRefusedError(reply.message)
        return {"plan": chosen, "approved_by": by}

    show_fields(run(work()), output=output)


def _target_of(runtime: Path | None) -> str:
    if runtime is None:
        raise click.UsageError("name the bookie by --admin HOST:PORT or --runtime FILE")
    ports = json.loads(runtime.read_text(encoding="utf-8"))["ports"]
    return f"127.0.0.1:{ports['admin']}"


def _asked(health: pb.Health) -> str:
    fix = health.cookie_fix
    if not fix.plan_id:
        raise BadRequestError(
            f"{health.bookie_id} is {pb.Phase.Name(health.phase)} and waits for no approval"
        )
    click.confirm(f"{health.bookie_id}: {fix.description}. Approve?", abort=True, err=True)
    return str(fix.plan_id)


@cookie_group.command("fix")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="Settings file of the stopped bookie.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def fix(output: str, config: Path, yes: bool) -> None:
    """Fence, mark and stamp replaced disks of a stopped bookie, under any policy.

    The same sequence as at a boot; the bookie comes up with its limbo marks at its next start.
    """

    async def work() -> dict[str, Any]:
        settings = load_settings(config, os.environ)
        chosen = boot_settings(settings)
        store = await open_store(settings.metadata)
        try:
            for directory in chosen.directories:
                RealDisk().make_directory(directory)
            with FolderLock(chosen.directories):
                booted = await _boot_asking(chosen, store, yes=yes)
                finish_clean_stop(booted.storage, RealDisk(), chosen.directories)
        finally:
            await store.close()
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

    show_fields(run(work()), output=output)


async def _boot_asking(chosen: BootSettings, store: MetadataStore, *, yes: bool) -> Booted:
    """A boot under policy Approve whose consent is this terminal's."""
    loop = asyncio.get_running_loop()

    def call_soon(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    def on_step(step: str) -> None:
        plan = boot.progress.plan
        if step == "awaiting approval" and plan is not None:
            if not yes:
                click.confirm(f"{plan.description}. Fence, mark and stamp?", abort=True, err=True)
            boot.approve(plan.plan_id)

    boot = Boot(
        replace(chosen, policy=FixPolicy.APPROVE),
        store,
        disk=RealDisk(),
        call_soon=call_soon,
        started_at_ms=int(time.time() * 1000),
        on_step=on_step,
    )
    return await boot.run()
