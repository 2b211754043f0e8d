"""`bookie collect approve` against a real control plane, over a bookie that is none."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from bookie.cli.main import main
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.store import ADMIN_ENDPOINT, BOOT_EPOCH_PROPERTY, BookieInfo, Endpoint
from bookie.server.admin import AdminServer
from bookie.server.control import Control, Health
from bookie.server.state import BookieState
from bookie.storage.decisions import DecisionKind, PersonDecision
from bookie.wire.identity import Identity
from click.testing import CliRunner, Result
from consents import consents

WHY = "90 of 100 ledgers here are gone from the metadata store"
ME = BookieId("bookie-0")

NUMBERS = itertools.count()
"""Of clusters: an address of an object may be that of one that is gone."""


class Collecting:
    """A bookie as far as a collection that waits goes."""

    def __init__(self, plan_id: str, *, name: BookieId = ME, epoch: int = 5) -> None:
        self.plan_id = plan_id
        self.name, self.epoch = name, epoch
        """Who answers; registered is ME with epoch 5."""
        self.approved = ""
        self.instance_id = ""
        self.tls = None

    def identity(self) -> Identity:
        return Identity(self.instance_id, self.name, self.epoch)

    def hear_epoch(self, epoch: int) -> None:
        """Nobody names another one here."""

    async def health(self) -> Health:
        why = WHY if self.plan_id else ""
        state = BookieState(ME, collection_held=why, collection_plan=self.plan_id)
        decided = PersonDecision(0, DecisionKind.COLLECTION, "ann", "plan-0") if why else None
        return Health(state, version="test", decisions=(decided,) if decided else ())

    async def approve_collection(self, plan_id: str, approved_by: str) -> str:
        if plan_id != self.plan_id:
            return f"the collection that waits is {self.plan_id or 'none'}"
        self.approved = approved_by
        return ""


@asynccontextmanager
async def served(bookie: Collecting, url: str) -> AsyncIterator[None]:
    store = MemoryStore(named_cluster(url.removeprefix("memory://")))
    bookie.instance_id = await store.initialise()
    server = AdminServer(cast(Control, bookie))
    port = await server.start("127.0.0.1", 0)
    try:
        endpoints = (Endpoint(ADMIN_ENDPOINT, "127.0.0.1", port, "grpc"),)
        await store.register(BookieInfo(ME, endpoints, {BOOT_EPOCH_PROPERTY: "5"}))
        yield
    finally:
        await server.stop(None)


async def approve(bookie: Collecting, *words: str, typed: str = "") -> Result:
    return await asked(bookie, "collect", "approve", *words, typed=typed)


async def asked(bookie: Collecting, *words: str, typed: str = "") -> Result:
    url = f"memory://collect-{next(NUMBERS)}"
    async with served(bookie, url):
        command = [*words, "--metadata", url]
        return await asyncio.to_thread(CliRunner().invoke, main, command, input=typed)


@pytest.mark.parametrize(
    ("waits_for", "words", "typed", "code", "told"),
    [
        *consents(WHY),
        ("plan-1", ("--plan", "plan-2", "--yes"), "", 5, "the collection that waits is plan-1"),
        ("", ("--plan", "plan-1"), "", 5, "the collection that waits is none"),
        ("", (), "y\n", 5, "bookie-0 does not wait for an approval of a collection"),
        ("", ("--yes",), "", 5, "does not wait for"),
    ],
)
async def test_a5_nothing_is_approved_but_the_plan_that_waits_by_who_consents(
    waits_for: str, words: tuple[str, ...], typed: str, code: int, told: str
) -> None:
    bookie = Collecting(waits_for)
    shown = await approve(bookie, ME, "--by", "ann", "--output", "json", *words, typed=typed)
    assert shown.exit_code == code and told in shown.stderr
    assert bookie.approved == ("ann" if code == 0 else "")
    approved = {"bookie": ME, "plan": "plan-1", "approved_by": "ann"}
    assert (json.loads(shown.stdout) == approved) if code == 0 else (shown.stdout == "")


async def test_a5_a_bookie_that_is_not_there_is_named() -> None:
    told = await approve(Collecting("plan-1"), "bookie-7", "--yes")
    assert told.exit_code == 4 and "bookie-7 is not registered" in told.stderr


@pytest.mark.parametrize(("name", "epoch"), [("bookie-1", 5), (ME, 4)])
@pytest.mark.parametrize("words", [(), ("--plan", "plan-1")])
async def test_a5_another_process_than_the_one_that_is_registered_approves_nothing(
    name: str, epoch: int, words: tuple[str, ...]
) -> None:
    bookie = Collecting("plan-1", name=BookieId(name), epoch=epoch)
    told = await approve(bookie, ME, "--yes", *words)
    assert (told.exit_code, told.stdout, bookie.approved) == (4, "", "")


async def test_who_decided_is_shown() -> None:
    told = await asked(Collecting("plan-1"), "decisions", "--output", "json")
    [row] = json.loads(told.stdout)
    assert (row["bookie"], row["kind"], row["by"]) == (ME, "CollectionApproved", "ann")
    assert (row["at"], row["about"]) == ("1970-01-01T00:00:00+00:00", "plan-0")
    told = await asked(Collecting("plan-1"), "decisions", "--bookie", ME, "--bookie", ME)
    assert told.stdout.count("CollectionApproved") == 1, "who is named twice is asked once"
    told = await asked(Collecting(""), "decisions", "--bookie", ME)
    assert told.output == "no decisions\n"
    told = await asked(Collecting(""), "decisions", "--bookie", "bookie-7")
    assert told.exit_code == 2 and "expected one of bookie-0" in told.output


@pytest.mark.parametrize("plan_id", ["", "plan-1"])
async def test_decisions_are_not_all_known_while_a_bookie_is_silent(plan_id: str) -> None:
    """Whether or not another one has any."""
    url = f"memory://collect-{next(NUMBERS)}"
    async with served(Collecting(plan_id), url):
        store = MemoryStore(named_cluster(url.removeprefix("memory://")))
        await store.register(BookieInfo(BookieId("bookie-1"), ()))
        command = ["decisions", "--metadata", url]
        told = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert told.exit_code == 4 and "not everything is known (bookie-1: " in told.stderr
    assert ("ann" in told.stdout) is bool(plan_id)
