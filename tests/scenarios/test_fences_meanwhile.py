"""A fence that comes while maintenance writes its ledger's record: told, so durable (S44)."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from bookie.errors import DiskFullError
from bookie.ids import LedgerId
from bookie.protocol.status import Status
from bookie.storage.directory import LedgerDirectory
from bookie.wire.admin import bookie_admin_pb2 as pb
from server_lab import ServerLab

GATE_S = 20
"""Longer than any test waits."""


async def retract(lab: ServerLab, ledger: LedgerId) -> None:
    await lab.call("RetractLoss", pb.RetractLossRequest(
        ledger_id=ledger, retracted_by="ann", reason="it was found"
    ))  # fmt: skip


async def collect(lab: ServerLab, ledger: LedgerId) -> None:
    assert lab.bookie is not None and lab.bookie.control.booted is not None
    storage = lab.bookie.control.booted.storage
    await asyncio.to_thread(storage.maintenance.delete_ledgers, [ledger])


async def lost_in_recovery(lab: ServerLab) -> LedgerId:
    """A ledger whose recoverer has not reached this bookie, with a loss that a person recorded."""
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 2)
    await lab.restart()
    found = await lab.store.read_ledger(ledger)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)
    loss = pb.RecordLossRequest(ledger_id=ledger, by_person=True, reason="given up")
    loss.ranges.append(pb.EntryRange(first=1, last=1))
    assert (await lab.call("RecordLoss", loss)).recorded
    return ledger


async def is_fenced(lab: ServerLab, ledger: LedgerId) -> bool:
    asked = pb.GetAvailabilityRequest(ledger_ids=[ledger])
    [found] = (await lab.call("GetAvailability", asked)).ledgers
    return bool(found.fenced)


@pytest.mark.parametrize("maintain", [retract, collect])
@pytest.mark.parametrize("how", ["is under way", "finds the disk full"])
async def test_s44_a_fence_that_is_told_while_maintenance_writes_the_ledger_is_durable(
    server: ServerLab,
    monkeypatch: pytest.MonkeyPatch,
    maintain: Callable[[ServerLab, LedgerId], Awaitable[None]],
    how: str,
) -> None:
    ledger = await lost_in_recovery(server)
    reached, gate = threading.Event(), threading.Event()

    def stands(*_asked: object, **_more: object) -> None:
        reached.set()
        if how == "finds the disk full":
            raise DiskFullError("no space left")
        gate.wait(GATE_S)

    with monkeypatch.context() as patched:
        for name in ("write", "forget"):
            patched.setattr(LedgerDirectory, name, stands)
        going = asyncio.ensure_future(maintain(server, ledger))
        await asyncio.to_thread(reached.wait, GATE_S)
        assert await server.fence(ledger) is Status.UNKNOWN
        left = server.disk.kill()
    gate.set()
    await asyncio.gather(going, return_exceptions=True)
    await server.stop()
    server.disk = left
    await server.start()
    assert await is_fenced(server, ledger)
