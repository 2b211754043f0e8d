"""The web page of a fleet on this machine: its key, its URL, and no page that nobody asked for."""

from pathlib import Path

import aiohttp
import pytest
from bookie.metadata.embedded import free_port
from bookie_operator.errors import LocalError
from bookie_operator.local.stored import mark_looked
from bookie_operator.local.web_page import serve, url_of
from bookie_operator.platform.folders import LocalFolders, operator_lock, write_json
from operator_scenes import cluster


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    folders = LocalFolders(tmp_path)
    folders.make()
    return folders


async def test_without_a_port_nothing_is_served_and_nothing_written(folders: LocalFolders) -> None:
    assert await serve(folders, None) is None
    assert not folders.page_file.exists()


async def test_the_url_opens_the_page_and_stays_the_same(folders: LocalFolders) -> None:
    urls, port = set(), free_port()
    for _ in range(2):
        runner = await serve(folders, port)
        with operator_lock(folders):
            urls.add(url_of(folders))
        browser = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        async with browser as session, session.get(max(urls)) as answer:
            assert (answer.status, answer.url.path) == (200, "/")
        assert runner is not None
        await runner.cleanup()
    assert len(urls) == 1


def test_without_a_page_its_url_says_how_to_have_one(folders: LocalFolders) -> None:
    with operator_lock(folders), pytest.raises(LocalError, match="--page-port"):
        url_of(folders)


async def test_an_operator_that_has_ended_serves_no_page(folders: LocalFolders) -> None:
    runner = await serve(folders, free_port())
    assert runner is not None
    await runner.cleanup()
    with pytest.raises(LocalError, match="--page-port"):
        url_of(folders)


async def test_an_operator_without_a_page_names_none_of_the_operator_before_it(
    folders: LocalFolders,
) -> None:
    port = free_port()
    urls = []
    for given in (port, None, port):
        runner = await serve(folders, given)
        with operator_lock(folders):
            if given is None:
                with pytest.raises(LocalError, match="--page-port"):
                    url_of(folders)
            else:
                urls.append(url_of(folders))
        if runner is not None:
            await runner.cleanup()
    assert urls[0] == urls[1], "the key stays"


async def test_a_status_that_nobody_keeps_current_is_not_shown_as_current(
    folders: LocalFolders,
) -> None:
    write_json(folders.status_file, cluster().as_dict())
    mark_looked(folders, began_s=0)
    runner = await serve(folders, free_port())
    with operator_lock(folders):
        url = url_of(folders).replace("/?", "/content?")
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 503 and "has not looked" in await answer.text()
    assert runner is not None
    await runner.cleanup()
