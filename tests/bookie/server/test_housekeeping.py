"""Duties go on over whatever may pass, and the bookie ends with what may not."""

import asyncio
from collections.abc import Iterator

import pytest
from bookie.errors import BookieError, DiskFullError, StorageError
from bookie.protocol.status import Status
from bookie.server import housekeeping
from bookie.server.housekeeping import repeat
from bookie.server.state import ReadOnlyReason
from boot_lab import OTHERS
from server_lab import ServerLab

TURNS = 3


def kinds_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        if narrower.__module__ == BookieError.__module__:
            yield from kinds_of(narrower)


def may_pass(kind: type[Exception]) -> bool:
    return issubclass(kind, DiskFullError) or not issubclass(kind, StorageError)


async def turns_of(kind: type[Exception]) -> tuple[int, list[StorageError]]:
    """How often a duty is begun that raises this, up to TURNS times; what ended the bookie."""
    begun, failures, enough = 0, list[StorageError](), asyncio.Event()

    async def duty() -> None:
        nonlocal begun
        begun += 1
        if begun == TURNS:
            enough.set()
            await asyncio.get_running_loop().create_future()
        raise kind.__new__(kind, "no")

    repeating = asyncio.create_task(repeat(duty, 0.0, failures.append))
    reaching = asyncio.create_task(enough.wait())
    await asyncio.wait({repeating, reaching}, return_when=asyncio.FIRST_COMPLETED)
    for task in (repeating, reaching):
        task.cancel()
    return begun, failures


@pytest.mark.parametrize("kind", [*kinds_of(BookieError), ValueError, KeyError, TimeoutError])
async def test_only_a_disk_that_failed_ends_a_duty_and_the_bookie_and_no_full_one(
    kind: type[Exception],
) -> None:
    begun, failures = await turns_of(kind)
    assert (begun, len(failures)) == ((TURNS, 0) if may_pass(kind) else (1, 1))


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a2_an_epoch_named_while_the_lease_is_confirmed_has_it_confirmed_once_more(
    idle_server: ServerLab, times: int
) -> None:
    idle_server.tree["lease"] = {"seconds": 30_000, "confirmSeconds": 10_000}
    state, epochs = (await idle_server.start()).state, iter(range(8, 8 + times))

    async def named(name: str) -> None:
        if name == "write_boot":
            state.hear_epoch(next(epochs, 0))

    idle_server.metadata.before = named
    state.hear_epoch(7)
    await idle_server.until(lambda: state.is_leased)
    assert state.epoch_heard == 7 + times


async def test_a_bookie_lifts_its_boundary_by_itself_once_nothing_is_left_to_check(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "FINISH_INTERVAL_S", 0.01)
    await idle_server.start()
    elsewhere = await idle_server.ledger(ensemble=OTHERS, closed_at=0)
    await idle_server.kill()
    await idle_server.start()
    await idle_server.until_status(lambda: idle_server.absent(elsewhere, 0), Status.NO_SUCH_LEDGER)


async def test_after_a_kill_the_writer_of_an_idle_ledger_goes_on_where_it_was(
    idle_server: ServerLab,
) -> None:
    idle_server.tree["durability"] |= {"flushIntervalSeconds": 0.01, "noteIdleFlushes": 1}
    started = await idle_server.start()
    ledger, storage = await idle_server.ledger(), started.control.booted.storage
    assert await idle_server.add(ledger, 0) is Status.OK
    await idle_server.until(lambda: not storage.noted_ledgers() and not storage._ledgers.dirty)
    await asyncio.to_thread(storage.maintenance.checkpoint)  # after one that may be under way
    await idle_server.kill()
    await idle_server.start()
    assert await idle_server.add(ledger, 1) is Status.OK
    assert await idle_server.held(ledger, 0, 9) == [0, 1]


async def test_a_bookie_that_nobody_asks_notices_that_its_lease_is_over(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "LEASE_INTERVAL_S", 0.01)
    idle_server.tree["lease"] = {"seconds": 30_000, "confirmSeconds": 10_000}
    state = (await idle_server.start()).state
    assert state.is_writable
    state.lease_until = state.clock()
    await idle_server.until(lambda: ReadOnlyReason.LEASE in state.read_only_reasons)
