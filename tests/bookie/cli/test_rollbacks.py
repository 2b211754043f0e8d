"""`bookie metadata accept-rollback`: what it shows, asks and writes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from bookie.cli.main import main
from bookie.cli.rollbacks import WRITES_MAX
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.store import StoredBoot
from click.testing import CliRunner, Result

ME = BookieId("bookie-0")
SEEN = StoredBoot(5, "mine", generation=7, served=5, rolled_back="it says generation 3")


async def stored(name: str, boot: StoredBoot) -> MemoryStore:
    store = MemoryStore(named_cluster(name))
    await store.initialise()
    await store.write_boot(ME, boot, version=None)
    return store


def accept(name: str, *words: str, typed: str = "") -> Result:
    command = ["metadata", "accept-rollback", ME, "--metadata", f"memory://{name}", *words]
    return CliRunner().invoke(main, command, input=typed)


async def test_a5_a_person_sees_what_the_bookie_saw_and_accepts_it() -> None:
    store = await stored("rollback-accepted", SEEN)
    told = await asyncio.to_thread(accept, "rollback-accepted", typed="y\n")
    found = await store.read_boot(ME)
    assert told.exit_code == 0 and "it says generation 3" in told.output
    assert found is not None and found.value == replace(SEEN, rolled_back="")


async def test_a5_who_says_no_changes_nothing() -> None:
    store = await stored("rollback-refused", SEEN)
    told = await asyncio.to_thread(accept, "rollback-refused", typed="n\n")
    found = await store.read_boot(ME)
    assert told.exit_code != 0 and found is not None and found.value == SEEN


@pytest.mark.parametrize("others", range(WRITES_MAX + 1))
async def test_a5_it_is_accepted_once_that_is_written_whoever_writes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """The bookie confirms itself so often between our look and our write."""
    name, write, left = f"rollback-raced-{others}", MemoryStore.write_boot, [others]
    store = await stored(name, SEEN)

    async def raced(one: Any, bookie_id: BookieId, boot: StoredBoot, *, version: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            confirmed = replace(SEEN, served=SEEN.served + others - left[0])
            await write(one, bookie_id, confirmed, version=version)
        return await write(one, bookie_id, boot, version=version)

    monkeypatch.setattr(MemoryStore, "write_boot", raced)
    told = await asyncio.to_thread(accept, name, "--yes")
    found = await store.read_boot(ME)
    assert found is not None and (told.exit_code == 0) is (found.value.rolled_back == "")
    assert (told.exit_code == 0) is (others < WRITES_MAX) and found.value.served == 5 + others


@pytest.mark.parametrize("later", ["it says generation 1", ""])
async def test_a5_another_rollback_than_the_one_that_was_shown_is_not_accepted(
    monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    """The store goes back once more, or somebody else accepts, while the person thinks."""
    name, read, reads = f"rollback-other-{later}", MemoryStore.read_boot, []
    store = await stored(name, SEEN)

    async def changed_after(one: MemoryStore, bookie_id: BookieId) -> Any:
        found = await read(one, bookie_id)
        if found is not None and not reads:
            reads.append(found)
            seen = replace(SEEN, rolled_back=later)
            await one.write_boot(bookie_id, seen, version=found.version)
        return found

    monkeypatch.setattr(MemoryStore, "read_boot", changed_after)
    told = await asyncio.to_thread(accept, name, "--yes")
    found = await store.read_boot(ME)
    assert told.exit_code == 5 and "nothing was accepted" in told.output
    assert found is not None and found.value.rolled_back == later


async def test_a_boot_record_that_goes_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = await stored("rollback-gone", SEEN), MemoryStore.read_boot

    async def once(one: MemoryStore, bookie_id: BookieId) -> Any:
        found = await read(one, bookie_id)
        named_cluster("rollback-gone").boots.clear()
        return found

    monkeypatch.setattr(MemoryStore, "read_boot", once)
    told = await asyncio.to_thread(accept, "rollback-gone", "--yes")
    assert told.exit_code == 4 and "has no boot of bookie-0" in told.output
    assert await store.read_boot(ME) is None


async def test_where_nothing_was_seen_there_is_nothing_to_accept() -> None:
    await stored("rollback-none", replace(SEEN, rolled_back=""))
    told = await asyncio.to_thread(accept, "rollback-none", "--yes")
    assert told.exit_code == 5 and "nothing to accept" in told.output


async def test_a_bookie_that_the_store_does_not_know_is_named() -> None:
    await MemoryStore(named_cluster("rollback-empty")).initialise()
    told = await asyncio.to_thread(accept, "rollback-empty", "--yes")
    assert told.exit_code != 0 and "has no boot of bookie-0" in told.output
