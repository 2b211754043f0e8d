"""The embedded ZooKeeper of a local fleet: who comes next finds it, and its address stays."""

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Final

import pytest
from bookie.errors import UnavailableError
from bookie_operator.local.stored import STALE_AFTER_S
from bookie_operator.platform import embedded
from bookie_operator.platform.embedded import PATIENCE_S, EmbeddedStore
from bookie_operator.platform.folders import LocalFolders, held, read_json, write_json
from bookie_operator.platform.processes import ProcessId, is_alive, send, wait_gone

pytestmark = pytest.mark.process
START_S: Final = 90.0
ENDED: Final = ProcessId(os.getpid(), created=0.0)
"""A process that has ended: another one has its number."""


async def url_of(store: EmbeddedStore) -> str:
    async with asyncio.timeout(START_S):
        while True:
            try:
                return await store.url()
            except UnavailableError as error:
                assert "is starting" in str(error)


def process_of(folders: LocalFolders) -> ProcessId:
    return ProcessId.of(read_json(folders.zookeeper_file) or {})


async def test_its_address_stays_the_same_for_the_next_operator_and_after_an_end(
    tmp_path: Path,
) -> None:
    """Settings of bookies name it."""
    folders = LocalFolders(tmp_path)
    folders.make()
    first, second, third = (EmbeddedStore(folders) for _ in range(3))
    try:
        url = await url_of(first)
        await first.close()
        assert await second.url() == url, "it runs on"
        await asyncio.to_thread(second.stop)
        await asyncio.to_thread(first.stop)  # collects what it had started
        assert await url_of(third) == url
        send(process_of(folders), signal.SIGKILL)
        await asyncio.to_thread(wait_gone, process_of(folders), START_S)
        async with asyncio.timeout(
            START_S
        ):  # its threads end after it, and may hide that for a look
            while not is_alive(process_of(folders)):
                assert await url_of(third) == url
    finally:
        await third.close()
        await asyncio.to_thread(third.stop)


async def test_a_pass_does_not_wait_until_it_has_started_and_the_next_one_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, starts = threading.Event(), list[bool]()
    store = EmbeddedStore(LocalFolders(tmp_path), lambda: starts.append(may_go_on.wait(START_S)))
    with monkeypatch.context() as hurry:
        hurry.setattr(embedded, "PATIENCE_S", 0.01)
        for _pass in range(2):
            with pytest.raises(UnavailableError, match="is starting"):
                await store.url(wants_tls=True)
    may_go_on.set()
    await store.close()
    assert starts == [True], "one start, however many ask"
    with pytest.raises(UnavailableError, match="waits for its certificate"):
        await store.url(wants_tls=True)
    assert starts == [True, True]


def test_who_waits_for_a_start_leaves_no_status_that_counts_as_old() -> None:
    assert 0 < PATIENCE_S < STALE_AFTER_S / 2


@pytest.mark.parametrize("had_tls", [False, True])
async def test_one_that_ran_keeps_or_lacks_tls_whatever_the_spec_wants_by_now(
    tmp_path: Path, had_tls: bool
) -> None:
    """Else bookies, whose settings name `zk://` or `zks://`, would lose it for good."""
    folders = LocalFolders(tmp_path)
    folders.zookeeper.mkdir()
    write_json(folders.zookeeper_file, ENDED.as_dict() | {"port": 1, "tls": had_tls})
    why = "waits for its certificate" if had_tls else "already runs"
    with held(folders.zookeeper / "lock"), pytest.raises(UnavailableError, match=why):
        await EmbeddedStore(folders).url(wants_tls=not had_tls)
