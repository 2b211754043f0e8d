"""An API server over HTTP with so many pods of others that nobody should ever be sent them.

It knows discovery, lists (by label and in pages) and watches that stay open: what kopf asks.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from bookie_operator.platform.kubernetes.api import Kind, Object

NEEDED_BY_KOPF: Final = (
    Kind("", "v1", "namespaces", "Namespace", namespaced=False),
    Kind("", "v1", "events", "Event"),
    Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
)
VERBS: Final = ["get", "list", "watch", "create", "patch", "delete"]


@dataclass
class CrowdedServer:
    """Objects by kind; `sent`: how many of them went out by lists."""

    kinds: Sequence[Kind]
    objects: dict[Kind, list[Object]] = field(default_factory=dict)
    lists: list[tuple[Kind, dict[str, str]]] = field(default_factory=list)
    watches: dict[Kind, dict[str, str]] = field(default_factory=dict)
    sent: int = 0
    url: str = ""
    is_watched: asyncio.Event = field(default_factory=asyncio.Event)
    """Every kind has its watch."""
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        groups = self._discovered(request.path)
        if groups is not None:
            return web.json_response(groups)
        kind = next(one for one in self.kinds if one.path("") == request.path)
        query = dict(request.query)
        if query.get("watch") == "true":
            return await self._watched(request, kind, query)
        self.lists.append((kind, query))
        return web.json_response(self._listed(kind, query))

    def _listed(self, kind: Kind, query: dict[str, str]) -> Object:
        label = query.get("labelSelector", "").partition("=")[0]
        found = [
            one
            for one in self.objects.get(kind, ())
            if not label or label in one["metadata"].get("labels", {})
        ]
        begin, size = int(query.get("continue") or 0), int(query.get("limit") or len(found) or 1)
        page = found[begin : begin + size]
        self.sent += len(page)
        more = str(begin + size) if begin + size < len(found) else ""
        metadata = {"resourceVersion": "1", "continue": more}
        return {"kind": f"{kind.name}List", "metadata": metadata, "items": page}

    async def _watched(
        self, request: web.Request, kind: Kind, query: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches[kind] = query
        if set(self.watches) == set(self.kinds):
            self.is_watched.set()
        await self.is_over.wait()
        return response

    def _discovered(self, path: str) -> Any:
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            return {"groups": list(self._groups())}
        for kind in self._known():
            if path == kind.path("").rpartition("/")[0]:
                return {"resources": self._resources(kind.group, kind.version)}
        return None

    def _known(self) -> Sequence[Kind]:
        return (*self.kinds, *NEEDED_BY_KOPF)

    def _groups(self) -> Iterator[Object]:
        for group, version in {(kind.group, kind.version) for kind in self._known()} - {("", "v1")}:
            known = {"groupVersion": f"{group}/{version}", "version": version}
            yield {"name": group, "versions": [known], "preferredVersion": known}

    def _resources(self, group: str, version: str) -> list[Object]:
        return [
            {
                "name": kind.plural,
                "singularName": kind.name.lower(),
                "kind": kind.name,
                "namespaced": True,
                "verbs": VERBS,
            }
            for kind in self._known()
            if (kind.group, kind.version) == (group, version)
        ]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["CrowdedServer"]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.is_over.set()
            await runner.cleanup()


def kubeconfig(url: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
