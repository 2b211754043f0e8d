"""Serves the page on this machine alone, to whoever has its key, where it has one.

A page on loopback is reached by every user of a machine, and by every site that a browser shows: so
a fleet of this machine has a key, and a request that was made for another host is refused. In a pod
there is no key: only `kubectl port-forward` reaches its loopback, and that asks for rights.
"""

import asyncio
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from bookie.errors import BookieError
from bookie.hosts import at_port, loopback

from bookie_operator.errors import LocalError
from bookie_operator.page.document import POLICY, content, document
from bookie_operator.page.shown import Fresh, Shown, Source

HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
KEY: Final = "key"
"""Name of the key in the query, and in the cookie that replaces it."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def serve_page(source: Source, *, port: int, key: str = "") -> web.AppRunner:
    """Start it; the caller cleans the runner up. `port` 0: any. LocalError: it cannot be had.

    The source is asked once a second at most.
    """
    runner = web.AppRunner(application(Fresh(source), key=key), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, loopback(), port).start()
    except OSError as error:
        await runner.cleanup()
        raise LocalError(
            f"{at_port(loopback(), port)} cannot be listened on: {error}; choose another "
            "--page-port"
        ) from error
    return runner


class FreshPage:
    """The content of the page, drawn once of what the source said, however many pages are open.

    It is drawn in a thread: of a thousand bookies it takes a fifth of a second, in which the
    operator has something better to do.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._of: Sequence[Shown] | None = None
        """What the source said; None before the first answer."""
        self._text = ""
        """That, drawn."""
        self._lock = asyncio.Lock()
        """Held while it is drawn: others wait for the same text."""

    async def __call__(self) -> str:
        async with self._lock:
            found = await self._source()
            if found is not self._of:
                self._text = await asyncio.to_thread(content, found, now=datetime.now(UTC))
                self._of = found
            return self._text


def application(source: Source, *, key: str) -> web.Application:
    async def show(request: web.Request) -> web.Response:
        if KEY in request.query:  # out of the address, so that it is in no history
            there = web.Response(status=303, headers={"Location": "/"})
            there.set_cookie(_cookie(request), key, httponly=True, samesite="Strict")
            return there
        text = await asyncio.to_thread(document, await source(), now=datetime.now(UTC))
        return web.Response(text=text, content_type="text/html")

    async def show_content(_: web.Request) -> web.Response:
        return web.Response(text=await fresh(), content_type="text/html")

    fresh = FreshPage(source)
    found = web.Application(middlewares=[_guard(key)])
    found.add_routes([web.get("/", show), web.get("/content", show_content)])
    return found


def _guard(key: str) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _host(request)
        if host not in HOSTS:
            return _refused(f"this page is for this machine: found host {host}, expected localhost")
        given = request.query.get(KEY) or request.cookies.get(_cookie(request), "")
        if key and not hmac.compare_digest(given.encode(), key.encode()):
            return _refused("the key is wrong or missing: `bookie-operator local page` has the URL")
        try:
            answer = await handler(request)
        except BookieError as error:
            answer = web.Response(status=503, text=f"{error}\n")
        except web.HTTPException as error:  # no such page, or a method that changes something
            error.headers.update(HEADERS)
            raise
        answer.headers.update(HEADERS)
        return answer

    return guard


def _host(request: web.Request) -> str:
    """The name that was asked for; what is no name is given as it came."""
    try:
        return request.url.host or ""
    except ValueError:
        return request.host


def _cookie(request: web.Request) -> str:
    """Name of the cookie: cookies do not depend on the port, and a machine may have several
    fleets."""
    return f"{KEY}-{request.url.port}"


def _refused(why: str) -> web.Response:
    return web.Response(status=403, text=f"{why}\n", headers=HEADERS)
