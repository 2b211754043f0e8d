"""What is shown of the clusters that an API server has, and how often it is asked."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import aiohttp
import pytest
from bookie.errors import BookieError, UnavailableError
from bookie.metadata.embedded import free_port
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.document import content
from bookie_operator.page.shown import FRESH_S, Fresh, Shown, Unreadable, shown
from bookie_operator.platform.kubernetes.api import CLUSTER
from bookie_operator.serve import run
from fake_api_server import FakeApiServer, as_kubeconfig
from kubectl_lab import tree_of
from parsed_page import Parsed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRONG = {"metadata": {"namespace": "books", "name": "w<"}, "spec": {"replicas": "many"}}


def test_a_cluster_that_is_as_the_schema_has_it_is_shown_whole() -> None:
    assert isinstance(shown(tree_of("limbo")), BookieCluster)


def test_another_one_is_shown_with_what_is_wrong_beside_the_others() -> None:
    found = shown(WRONG)
    assert isinstance(found, Unreadable) and "replicas" in found.why
    text = Parsed(content([found, shown(tree_of("limbo"))], now=NOW)).text
    assert "BookieCluster w< not readable" in text and found.why in text and "bookie-1" in text


@pytest.mark.parametrize(
    ("about", "namespace", "name"),
    [
        ({"metadata": {"namespace": "books", "name": "demo"}}, "books", "demo"),
        ({"metadata": {"name": "demo"}}, "", "demo"),
        ({"metadata": {"namespace": "books"}}, "books", ""),
        ({"metadata": {}}, "", ""),
        ({"metadata": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_what_cannot_be_read_is_named_as_far_as_it_says_who_it_is(
    about: dict[str, object], namespace: str, name: str
) -> None:
    found = shown({"spec": {"replicas": "many"}} | about)
    assert isinstance(found, Unreadable) and "spec.replicas: found 'many'" in found.why
    assert (found.namespace, found.name) == (namespace, name)


class Counted:
    """A source that is asked, and answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> Sequence[Shown]:
        self.asked += 1
        await self.may_answer.wait()
        return [Unreadable("", str(self.asked), "")]


async def test_many_open_pages_ask_the_api_server_once() -> None:
    source = Counted()
    fresh = Fresh(source)
    pages = [asyncio.create_task(fresh()) for _ in range(9)]
    await asyncio.sleep(0)
    source.may_answer.set()
    assert {one.name for found in await asyncio.gather(*pages) for one in found} == {"1"}  # type: ignore[union-attr]
    assert source.asked == 1


async def test_what_was_found_counts_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    source, now = Counted(), 0.0
    source.may_answer.set()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    fresh = Fresh(source)
    await fresh()
    now += FRESH_S - 0.01
    await fresh()
    assert source.asked == 1
    now += 0.01
    await fresh()
    assert source.asked == 2


async def test_a_source_that_failed_is_asked_again_at_once() -> None:
    answers: Iterator[BookieError | Sequence[Shown]] = iter((UnavailableError("away"), [], []))

    async def source() -> Sequence[Shown]:
        answer = next(answers)
        if isinstance(answer, BookieError):
            raise answer
        return answer

    fresh = Fresh(source)
    with pytest.raises(UnavailableError):
        await fresh()
    for _ in range(2):
        assert await fresh() == []
    assert len(list(answers)) == 1


async def test_the_operator_serves_the_clusters_of_its_api_server_to_its_own_machine() -> None:
    server, port = FakeApiServer(), free_port()
    server.namespace("books").put(CLUSTER, tree_of("limbo"))
    async with server.serving(), aiohttp.ClientSession() as session:
        with as_kubeconfig(server.url):
            stop = asyncio.Event()
            running = asyncio.ensure_future(run(namespaces=(), port=0, stop=stop, page_port=port))
            text = await answer_of(session, f"http://localhost:{port}/content")
            stop.set()
            await running
    assert "BookieCluster demo" in Parsed(text).text


async def answer_of(session: aiohttp.ClientSession, url: str) -> str:
    """Once somebody listens there."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.get(url) as answer:
                    assert answer.status == 200
                    return await answer.text()
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
