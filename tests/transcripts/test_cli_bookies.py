"""What commands about one bookie say: its control plane, its folders, its identity."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from answer_tap import AnswerTap
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.store import StoredBoot
from bookie.storage.disk import RealDisk
from server_lab import ME, ServerLab
from shell_record import ShellRecord, as_ann
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME = "transcripts"


@pytest.fixture
async def lab(tmp_path: Path, answers: AnswerTap) -> AsyncIterator[ServerLab]:
    """A bookie whose metadata commands find, too."""
    made = ServerLab(tmp_path, answers)
    cluster = named_cluster(NAME)
    cluster.__dict__.clear()
    cluster.__dict__ |= made.cluster.__dict__
    made.cluster.__dict__ = cluster.__dict__
    yield made
    await made.end()


@pytest.fixture
def shell(snapshot: SnapshotAssertion) -> Iterator[ShellRecord]:
    """A record of `bookie` on the cluster of that name."""
    record = ShellRecord("bookie", partial(as_ann, f"memory://{NAME}"))
    yield record
    assert snapshot(extension_class=Words) == record.text


async def told(story: Callable[[], None]) -> None:
    """Commands have event loops of their own."""
    await asyncio.to_thread(story)


async def test_a_bookie_that_serves(lab: ServerLab, shell: ShellRecord) -> None:
    await lab.start()
    admin = f"127.0.0.1:{lab.bookie.ports['admin']}"
    await lab.add(await lab.ledger(), 0, 3)

    def story() -> None:
        shell("read-only", ME)
        shell("read-only", ME, "--off", "--output", "json")
        shell("read-only", "bookie-7")
        shell("flush", "--admin", admin)
        shell("flush", "--admin", admin, "--output", "json", "--timeout", 5)
        shell("flush", "--admin", admin, "--timeout", 0)
        shell.both("decisions")
        shell("decisions", "--bookie", "bookie-7")
        shell("collect", "approve", ME, "--yes")
        shell("collect", "approve", "bookie-7", "--yes")
        shell("cookie", "approve", "--admin", admin)
        shell("cookie", "approve", "--admin", admin, "--plan", "other", "--yes")
        shell("cookie", "approve")
        shell("cookie", "approve", "--runtime", "/nowhere")
        shell("cookie", "approve", "--runtime", "/dev/null")
        shell.both("cookie", "show")
        shell("cookie", "show", ME)
        shell.both("cookie", "show", "bookie-7")
        shell("limbo")

    await told(story)


async def test_a_collection_that_waits(lab: ServerLab, shell: ShellRecord) -> None:
    await lab.hold_collection()

    def story() -> None:
        shell("collect", "approve", ME)
        shell("collect", "approve", ME, typed="n\n")
        shell("collect", "approve", ME, "--plan", "other", "--by", "eve")
        shell("collect", "approve", ME, "--by", "ann", "--output", "json", typed="y\n")
        shell.both("decisions")

    await told(story)


async def test_a_bookie_that_waits_for_its_cookie(lab: ServerLab, shell: ShellRecord) -> None:
    lab.tree["cookieFix"] = {"policy": "Approve"}
    await lab.start()
    await lab.add(await lab.ledger(), 0, 3)
    await lab.flush()
    await lab.stop()
    lab.wipe(1)
    lab.begin()
    await lab.until(lambda: lab.bookie.state.phase.name == "AWAITING_APPROVAL")
    admin = f"127.0.0.1:{lab.bookie.ports['admin']}"

    def story() -> None:
        shell("cookie", "approve", "--admin", admin)
        shell("cookie", "approve", "--admin", admin, typed="n\n")
        shell("cookie", "approve", "--admin", admin, "--plan", "other")
        shell("cookie", "approve", "--admin", admin, "--by", "ann", typed="y\n")

    await told(story)


async def test_a_store_that_was_rolled_back(shell: ShellRecord) -> None:
    store = MemoryStore(named_cluster(NAME))
    named_cluster(NAME).__dict__ |= type(named_cluster(NAME))().__dict__
    await store.initialise()
    seen = StoredBoot(5, "mine", generation=7, served=5, rolled_back="it says generation 3")
    await store.write_boot(ME, seen, version=None)
    await store.write_boot(BookieId("bookie-1"), replace(seen, rolled_back=""), version=None)

    def story() -> None:
        words = ("metadata", "accept-rollback")
        shell(*words, "bookie-1", "--yes")
        shell(*words, "bookie-7", "--yes")
        shell(*words, ME)
        shell(*words, ME, typed="n\n")
        shell(*words, ME, "--by", "ann", "--output", "json", typed="y\n")
        shell(*words, ME, "--yes")
        shell("metadata", "acls")

    await told(story)


@pytest.fixture
async def stopped(lab: ServerLab, tmp_path: Path) -> Path:
    """The settings file of a bookie that was stopped cleanly; its disks are real folders."""
    lab.disk = RealDisk()
    await lab.start()
    ledger = await lab.ledger()
    await lab.add(ledger, 0, 3)
    await lab.add(await lab.ledger(), 0, 1)
    await lab.fence(ledger)
    await lab.stop()
    settings = tmp_path / "bookie.yaml"
    settings.write_text(yaml.safe_dump(lab.tree | {"metadata": f"memory://{NAME}"}))
    return settings


async def test_folders_of_a_stopped_bookie(
    lab: ServerLab, stopped: Path, shell: ShellRecord
) -> None:
    journal, *ledgers = lab.directories

    def story() -> None:
        config = ("--config", stopped)
        shell.both("inspect", *config)
        shell("inspect", lab.root, "--output", "json")
        shell("inspect")
        shell("inspect", journal, *config)
        shell("inspect", journal, journal)
        shell("inspect", "--config", "/nowhere")
        shell("cookie", "fix", *config)
        shell("cookie", "fix", *config, "--yes")
        shell("index", "rebuild", *config)
        shell("index", "rebuild", *config, typed="n\n")
        shell("index", "rebuild", journal, "--yes")
        shell("index", "rebuild", ledgers[0], "--yes", "--output", "json")
        shell("index", "rebuild", *config, typed="y\n")
        shell("inspect", *config)
        shutil.rmtree(ledgers[1])
        shell("inspect", *config)
        ledgers[1].mkdir()
        shell("inspect", *config)
        shell("cookie", "fix", *config, typed="n\n")
        shell("cookie", "fix", *config, typed="y\n")
        shell("cookie", "fix", *config, "--yes")
        shell("inspect", *config)

    await told(story)


WORDS = {
    "ledger list": (),
    "ledger info": (0,),
    "ledger create": (),
    "ledger write": ("/dev/null",),
    "ledger read": (0,),
    "ledger tail": (0,),
    "ledger recover": (0,),
    "ledger delete": (0, "--yes"),
    "ledger accept-loss": (0, "--reason", "x", "--yes"),
    "ledger retract-loss": (0, "--reason", "x", "--yes"),
    "limbo": (),
    "audit": (),
    "repair": (),
    "drain": (ME,),
    "rereplicate": (ME, "--yes"),
    "cookie show": (),
    "decisions": (),
    "read-only": (ME,),
    "collect approve": (ME, "--yes"),
    "metadata accept-rollback": (ME, "--yes"),
    "metadata acls": (),
}
"""Every command that goes to the metadata store."""


@pytest.mark.parametrize("url", ["memory://nobody", "nowhere"], ids=["empty", "wrong"])
def test_where_no_cluster_is(url: str, shell: ShellRecord) -> None:
    for command, words in WORDS.items():
        shell(*command.split(), *words, "--metadata", url)
