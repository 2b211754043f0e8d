"""`bookie flush` against a real control plane in this process, over a bookie that is none."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from bookie.cli.main import main
from bookie.errors import BookieError, NotReadyError, StorageError
from bookie.server.admin import AdminServer
from bookie.server.control import Control, Health
from bookie.server.state import BookieState, Phase
from bookie.wire.admin.client import Call
from bookie.wire.identity import Identity
from click.testing import CliRunner, Result

LOG_BYTES = 12345


class Flushable:
    """A bookie as far as flushing goes."""

    def __init__(self, error: BookieError | None = None, *, hangs: bool = False) -> None:
        self.error = error
        self.hangs = hangs

    def identity(self) -> Identity:
        return Identity("cluster", "bookie-0", 1)

    def hear_epoch(self, epoch: int) -> None:
        raise AssertionError(epoch)

    async def health(self) -> Health:
        return Health(BookieState("bookie-0", phase=Phase.SERVING), version="test")

    @property
    def serving(self) -> SimpleNamespace:
        return SimpleNamespace(marks=self)

    async def flush(self) -> int:
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return LOG_BYTES


@asynccontextmanager
async def served(bookie: Flushable) -> AsyncIterator[str]:
    server = AdminServer(cast(Control, bookie))
    port = await server.start("127.0.0.1", 0)
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def flush(bookie: Flushable, *words: str) -> Result:
    async with served(bookie) as address:
        return await asyncio.to_thread(command, "--admin", address, *words)


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["flush", *words])


async def test_a_flush_tells_what_is_on_disk() -> None:
    told = await flush(Flushable(), "--output", "json")
    assert (told.exit_code, f'"log_bytes": {LOG_BYTES}' in told.stdout) == (0, True)


@pytest.mark.parametrize("error", [NotReadyError("bookie-0 is BOOTING"), StorageError("disk gone")])
async def test_a_bookie_that_cannot_flush_says_why(error: BookieError) -> None:
    told = await flush(Flushable(error))
    assert (told.exit_code, told.stdout, told.stderr) == (1, "", f"error: not flushed: {error}\n")


async def test_a_flush_is_not_waited_for_longer_than_asked() -> None:
    told = await flush(Flushable(hangs=True), "--timeout", "0.05")
    assert (told.exit_code, "did not end within 0.05 s" in told.stderr) == (1, True)


@pytest.mark.parametrize(("words", "waits_s"), [([], 120.0), (["--timeout", "1234"], 1234.0)])
async def test_a_flush_may_take_as_long_as_asked(
    monkeypatch: pytest.MonkeyPatch, words: list[str], waits_s: float
) -> None:
    calls = list[Call]()

    def noted(meant: Identity | None, timeout_s: float) -> Call:
        calls.append(Call(meant, timeout_s))
        return calls[-1]

    monkeypatch.setattr("bookie.cli.flush.Call", noted)
    assert (await flush(Flushable(), *words)).exit_code == 0
    assert calls[-1] == Call(Identity("cluster", "bookie-0", 1), waits_s)


async def test_a_bookie_that_is_not_there_is_told() -> None:
    async with served(Flushable()) as address:
        pass
    told = await asyncio.to_thread(command, "--admin", address)
    assert (told.exit_code, f"no bookie answers at {address}" in told.stderr) == (1, True)


async def test_a_port_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections are never accepted
        port = silent.getsockname()[1]
        told = await asyncio.to_thread(command, "--admin", f"127.0.0.1:{port}")
    assert (told.exit_code, f"no bookie answers at 127.0.0.1:{port}" in told.stderr) == (1, True)
