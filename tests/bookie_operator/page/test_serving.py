"""Who is served the page: its own person on this machine, and no site that a browser shows."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from aiohttp import ClientResponse, ClientSession, DummyCookieJar
from aiohttp.test_utils import TestClient, TestServer
from bookie.hosts import at_port
from bookie_operator.errors import LocalError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.serving import HEADERS, FreshPage, application, serve_page
from kubectl_lab import cluster_of

KEY = "the-key"


class Source:
    """What is shown; it may be changed, and may fail."""

    def __init__(self) -> None:
        self.clusters: Sequence[BookieCluster] = [cluster_of("limbo")]
        self.error: LocalError | None = None

    async def __call__(self) -> Sequence[BookieCluster]:
        if self.error is not None:
            raise self.error
        return self.clusters


class Visitor:
    """A browser without cookies, unless it is given some."""

    def __init__(self, client: TestClient) -> None:  # type: ignore[type-arg]
        self._client = client

    async def asks(self, path: str, **headers: str) -> ClientResponse:
        return await self._client.get(path, headers=headers, allow_redirects=False)

    async def posts(self, path: str) -> ClientResponse:
        return await self._client.post(path)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture(params=[KEY, ""], ids=["with a key", "without a key"])
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def visitor(source: Source, key: str) -> AsyncIterator[Visitor]:
    async with TestClient(TestServer(application(source, key=key))) as client:
        yield Visitor(client)


@pytest.mark.parametrize("path", ["/", "/content"])
async def test_without_its_key_nothing_is_shown(visitor: Visitor, key: str, path: str) -> None:
    answer = await visitor.asks(path)
    assert answer.status == (403 if key else 200)
    assert ("bookie-1" in await answer.text()) is not bool(key)


@pytest.mark.parametrize("given", ["wrong", "", "the-ke", "the-key2", "ü"])
async def test_another_key_is_refused(visitor: Visitor, key: str, given: str) -> None:
    if key:
        assert (await visitor.asks(f"/content?key={given}")).status == 403


async def test_the_key_of_the_address_becomes_a_cookie_that_scripts_do_not_see(
    visitor: Visitor,
) -> None:
    answer = await visitor.asks(f"/?key={KEY}")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    [cookie] = answer.cookies.values()
    assert cookie["httponly"] and cookie["samesite"] == "Strict"
    shown = await visitor.asks("/", Cookie=f"{cookie.key}={cookie.value}")
    assert shown.status == 200 and "bookie-1" in await shown.text()


async def test_a_browser_keeps_the_keys_of_all_fleets_of_a_machine(source: Source) -> None:
    """Its cookies do not depend on the port."""
    cookies: dict[str, str] = {}
    async with (
        TestClient(TestServer(application(source, key="one")), cookie_jar=DummyCookieJar()) as one,
        TestClient(
            TestServer(application(source, key="other")), cookie_jar=DummyCookieJar()
        ) as other,
    ):
        for client, key in ((one, "one"), (other, "other")):
            answer = await Visitor(client).asks(f"/?key={key}")
            cookies |= {name: cookie.value for name, cookie in answer.cookies.items()}
        both = "; ".join(f"{name}={value}" for name, value in cookies.items())
        for client in (one, other):
            assert (await Visitor(client).asks("/", Cookie=both)).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8088", "127.0.0.1.evil.example", "a b:c", "localhost:99999"],
)
async def test_a_request_for_another_host_is_refused(visitor: Visitor, host: str) -> None:
    answer = await visitor.asks(f"/content?key={KEY}", Host=host)
    assert answer.status == 403 and "bookie-1" not in await answer.text()


@pytest.mark.parametrize("host", ["localhost:8088", "127.0.0.1", "[::1]:8088"])
async def test_every_name_of_this_machine_is_served(visitor: Visitor, host: str) -> None:
    assert (await visitor.asks(f"/content?key={KEY}", Host=host)).status == 200


@pytest.mark.parametrize("path", ["/", "/content", f"/?key={KEY}", f"/content?key={KEY}"])
async def test_every_answer_forbids_to_frame_to_store_and_to_run(
    visitor: Visitor, path: str
) -> None:
    answer = await visitor.asks(path)
    assert HEADERS.items() <= answer.headers.items()


@pytest.mark.parametrize("path", ["/nothing", f"/nothing?key={KEY}"])
async def test_what_is_not_there_forbids_the_same(visitor: Visitor, path: str) -> None:
    answer = await visitor.asks(path)
    assert answer.status in (403, 404) and HEADERS.items() <= answer.headers.items()


async def test_nothing_can_be_changed(visitor: Visitor) -> None:
    assert (await visitor.posts(f"/content?key={KEY}")).status == 405


async def test_what_is_shown_is_what_the_source_says_now(visitor: Visitor, source: Source) -> None:
    source.clusters = []
    assert "no BookieCluster" in await (await visitor.asks(f"/content?key={KEY}")).text()


class Noted(list[BookieCluster]):
    """Clusters that note which threads went through them, and how often."""

    def __init__(self, *clusters: BookieCluster) -> None:
        super().__init__(clusters)
        self.threads: list[int] = []

    def __iter__(self) -> Iterator[BookieCluster]:
        self.threads.append(threading.get_ident())
        return super().__iter__()


@pytest.mark.parametrize("path", ["/", "/content"])
async def test_a_large_page_is_not_drawn_where_everything_else_waits_for_it(
    source: Source, path: str
) -> None:
    source.clusters = noted = Noted(cluster_of("limbo"))
    async with TestClient(TestServer(application(source, key=""))) as client:
        assert "bookie-1" in await (await client.get(path)).text()
    assert noted.threads and threading.get_ident() not in noted.threads


async def test_what_the_source_said_once_is_drawn_once(source: Source) -> None:
    source.clusters = noted = Noted(cluster_of("limbo"))
    async with TestClient(TestServer(application(source, key=""))) as client:
        await client.get("/content")
        drawn = len(noted.threads)
        await asyncio.gather(*(client.get("/content") for _ in range(3)))
    assert len(noted.threads) == drawn


class Fragile(list[BookieCluster]):
    """Clusters that cannot be drawn the first time."""

    is_whole = False

    def __iter__(self) -> Iterator[BookieCluster]:
        if not self.is_whole:
            self.is_whole = True
            raise RuntimeError("a defect")
        return super().__iter__()


async def test_what_could_not_be_drawn_is_drawn_when_it_is_asked_for_again(source: Source) -> None:
    drawn = FreshPage(source)
    source.clusters = []
    assert "no BookieCluster" in await drawn()
    source.clusters = Fragile([cluster_of("limbo")])
    with pytest.raises(RuntimeError):
        await drawn()
    assert "bookie-1" in await drawn()


async def test_a_source_that_fails_says_why(visitor: Visitor, source: Source) -> None:
    source.error = LocalError("status.json is unreadable: move it away")
    answer = await visitor.asks(f"/content?key={KEY}")
    assert (answer.status, await answer.text()) == (503, f"{source.error}\n")


async def test_what_could_not_be_read_forbids_the_same(visitor: Visitor, source: Source) -> None:
    source.error = LocalError("status.json is unreadable")
    answer = await visitor.asks(f"/content?key={KEY}")
    assert answer.status == 503 and HEADERS.items() <= answer.headers.items()


async def test_a_port_that_is_in_use_is_an_error_with_what_to_do(source: Source) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with taken, pytest.raises(LocalError, match=f":{port} cannot .* choose another --page-port"):
        await serve_page(source, port=port)


@pytest.mark.parametrize(("given", "status"), [("", 403), ("?key=x", 403), (f"?key={KEY}", 200)])
async def test_what_listens_shows_the_source_to_who_has_the_key(
    source: Source, given: str, status: int
) -> None:
    runner = await serve_page(source, port=0, key=KEY)
    host, port = runner.addresses[0][:2]
    async with ClientSession() as session:
        answer = await session.get(f"http://{at_port(host, port)}/content{given}")
        text = await answer.text()
    await runner.cleanup()
    assert answer.status == status and ("bookie-1" in text) is (status == 200)


async def test_it_listens_on_this_machine_alone(source: Source) -> None:
    runner = await serve_page(source, port=0)
    [address] = runner.addresses
    await runner.cleanup()
    assert address[0] in ("127.0.0.1", "::1")
