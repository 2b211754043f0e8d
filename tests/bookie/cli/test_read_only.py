"""`bookie read-only` against the control plane of a bookie that serves."""

import asyncio
import itertools
import json

from bookie.cli.main import main
from bookie.metadata.memory import named_cluster
from bookie.protocol.status import Status
from click.testing import CliRunner, Result
from server_lab import ME, ServerLab

NUMBERS = itertools.count()


async def switched(server: ServerLab, *words: str) -> Result:
    """The command finds the bookie by the metadata that the bookie itself registered in."""
    url = f"memory://read-only-{next(NUMBERS)}"
    named_cluster(url.removeprefix("memory://")).__dict__ |= server.cluster.__dict__
    command = ["read-only", *words, "--metadata", url, "--output", "json"]
    return await asyncio.to_thread(CliRunner().invoke, main, command)


async def test_a_bookie_takes_no_new_entries_until_it_is_asked_again(server: ServerLab) -> None:
    ledger = await server.ledger()
    done = await switched(server, ME)
    assert (done.exit_code, json.loads(done.output)["phase"]) == (0, "ReadOnly")
    assert await server.add(ledger, 0) is Status.READ_ONLY
    back = await switched(server, ME, "--off")
    assert json.loads(back.output)["phase"] == "Serving"
    assert await server.add(ledger, 0) is Status.OK


async def test_a_bookie_that_is_not_there_is_named(server: ServerLab) -> None:
    done = await switched(server, "bookie-77")
    assert done.exit_code == 4 and "bookie-77 is not registered" in done.output
