"""The `bookie` command in this process against a fleet that is served from another thread.

Each command runs an event loop of its own, as in a process of its own; metadata is shared in memory
(`memory://name`), runs and control planes go over real sockets.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import click
import pytest
from bookie.cli.main import main
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.testing.run_service import served_fleet
from click.testing import CliRunner, Result
from repair_lab import RepairLab

Answer = TypeVar("Answer")

WAIT_S: Final = 20.0


def command_paths(
    group: click.Group, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand by its words."""
    found: list[tuple[tuple[str, ...], click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += command_paths(command, (*path, name))
    return found


class CliLab:
    """`bookie(...)` runs a command; `lab` is what it works on, touched by `do` only."""

    def __init__(self, name: str, *, bookies: int = 3) -> None:
        self.url = f"memory://{name}"
        self.lab = RepairLab(bookies, store=MemoryStore(named_cluster(name)))
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._up: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, name="fleet")

    def start(self) -> None:
        self._thread.start()
        self._up.result(WAIT_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        try:
            await self.lab.start()
            async with served_fleet(self.lab.control):
                self._up.set_result(None)
                await self._over.wait()
        except BaseException as error:
            if not self._up.done():
                self._up.set_exception(error)
            raise

    def do(self, work: Callable[[RepairLab], Coroutine[Any, Any, Answer]]) -> Answer:
        """Something to the fleet, in its own thread."""
        return asyncio.run_coroutine_threadsafe(work(self.lab), self._loop).result(WAIT_S)

    def bookie(self, *words: object, typed: str | bytes | None = None) -> Result:
        """One command; its answer, complaints and exit code."""
        environment = {"BOOKIE_METADATA": self.url, "COLUMNS": "80"}
        result = CliRunner(env=environment).invoke(
            main, list(map(str, words)), input=typed, prog_name="bookie"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: object, typed: str | bytes | None = None) -> Any:
        """The one JSON document of a command that must succeed."""
        result = self.bookie(*words, "--output", "json", typed=typed)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CliLab]:
    """Three bookies and the command."""
    made = CliLab(request.node.nodeid)
    made.start()
    yield made
    made.stop()
