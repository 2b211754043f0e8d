"""The web page of a cluster on this machine, for the person who runs it."""

import asyncio
import secrets
from typing import Any, Final

from aiohttp import web
from bookie.hosts import at_port, loopback

from bookie_operator.errors import LocalError
from bookie_operator.local.stored import no_look, stored_cluster
from bookie_operator.page.serving import KEY, serve_page
from bookie_operator.page.shown import Shown
from bookie_operator.platform.folders import LocalFolders, operator_pid, read_json, write_json

KEY_BYTES: Final = 16


async def serve(folders: LocalFolders, port: int | None) -> web.AppRunner | None:
    """Serve the page, if a port is given; LocalError when the port cannot be used.

    The key is kept in the folder, so that an open page works again after a restart.
    """
    before: dict[str, Any] = read_json(folders.page_file) or {}
    if port is None and not before:
        return None
    key = str(before.get(KEY) or secrets.token_urlsafe(KEY_BYTES))
    write_json(folders.page_file, {"port": port, KEY: key})
    if port is None:
        return None

    def current() -> list[Shown]:
        cluster = stored_cluster(folders)
        if cluster is None:
            return []
        if why := no_look(folders):
            raise LocalError(
                f"the operator {why}; the last known status: {folders.command('status')}"
            )
        return [cluster]

    async def source() -> list[Shown]:
        return await asyncio.to_thread(current)

    return await serve_page(source, port=port, key=key)


def url_of(folders: LocalFolders) -> str:
    """The page's URL for a browser; LocalError when no page is served."""
    found: dict[str, Any] = read_json(folders.page_file) or {}
    if found.get("port") is None or operator_pid(folders) is None:
        raise LocalError(
            f"no operator serves a page of {folders.root}: run "
            f"{folders.command('up --page-port 8088')}"
        )
    return f"http://{at_port(loopback(), found['port'])}/?{KEY}={found[KEY]}"
