"""FakeApi over HTTP: discovery, lists in pages, watches, applies, patches, statuses, deletions.

Every namespace is a FakeApi; versions and uids are one row of numbers for all of them. What this
server does not simulate it answers 501, and never with something that only looks right; `asked`
has every request and what it cost.
"""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from aiohttp import web
from bookie.errors import BookieError, UnavailableError
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.platform.kubernetes.api import POD, Kind, Object
from fake_api import FakeApi
from fake_changes import Changes, ExpiredError, Selector, UnknownSelectorError
from fake_discovery import KINDS, NAMESPACE, WITH_STATUS, discovered
from fake_patches import PatchError, merged, patched
from kubernetes.aio.config import kube_config
from rights import Call, Judge

WATCH_S: Final = 1800.0
APPLY, MERGE, STEPS = (f"application/{kind}" for kind in (
    "apply-patch+yaml", "merge-patch+json", "json-patch+json"
))  # fmt: skip
REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
EXISTS: Final = "AlreadyExists"


class RefusalError(Exception):
    """What a server answers instead of an object."""

    def __init__(self, code: int, message: str, reason: str = "", *, name: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.details = {"name": name} if name else {}
        """Of the object that is refused, or is not there."""
        self.reason = reason or REASONS[code]

    @property
    def status(self) -> Object:
        kind = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        why = {"message": self.message, "reason": self.reason, "details": self.details}
        return {**kind, **why, "code": self.code}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names; `part`: status or log."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    part: str = ""


@dataclass(slots=True)
class Asked:
    """One request, as it came and as it was answered."""

    at: float
    verb: str
    target: Target
    query: Mapping[str, str]
    code: int = 0
    objects: int = 0
    """How many a list sent, or a watch so far."""
    size: int = 0
    """Of the answer, in bytes."""

    @property
    def is_write(self) -> bool:
        return self.verb not in ("get", "list", "watch")


@dataclass
class FakeApiServer:
    """All namespaces; `clock` is what objects are stamped with."""

    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    asked: list[Asked] = field(default_factory=list)
    hear: Callable[[Asked], None] = lambda asked: None
    """Is told of every request once it is answered; of a watch when it begins."""
    authorizer: Judge = lambda call: True
    """Whether who asks has the right to, by its rules."""
    changes: Changes = field(default_factory=Changes)
    url: str = ""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._apis: dict[str, FakeApi] = {}
        self.cluster_wide = self._new_api("")
        self._by_path = {kind.path(""): kind for kind in KINDS}

    def _new_api(self, namespace: str) -> FakeApi:
        made = FakeApi(namespace, numbers=self._numbers)
        made.now = self.clock()
        made.watch = self._tell
        return made

    def _tell(self, kind: Kind, thing: Object, is_gone: bool) -> None:
        metadata = thing["metadata"]
        if is_gone:  # a deletion is a change like others
            thing = {**thing, "metadata": {**metadata, "resourceVersion": str(self._number())}}
        version = int(thing["metadata"]["resourceVersion"])
        self.changes.tell(kind, thing, version=version, is_gone=is_gone)

    def _number(self) -> int:
        return next(self._numbers)

    def namespace(self, name: str) -> FakeApi:
        """Made when it is first named."""
        if name not in self._apis:
            self._apis[name] = self._new_api(name)
            self.cluster_wide.put(NAMESPACE, {"metadata": {"name": name}})
        return self._apis[name]

    def api_of(self, target: Target) -> FakeApi:
        """Where its objects lie, as late as it is now."""
        known = self._apis.get(target.namespace) if target.kind.namespaced else self.cluster_wide
        if known is None:
            words = f'namespaces "{target.namespace}" not found'
            raise RefusalError(404, words, name=target.namespace)
        known.now = self.clock()
        return known

    # Requests

    async def handle(self, request: web.Request) -> web.StreamResponse:
        known = discovered(request.path)
        if known is not None:
            return web.json_response(known)
        query = dict(request.query)
        try:
            target = self.target_of(request.path)
        except RefusalError as refusal:
            return web.json_response(refusal.status, status=refusal.code)
        verb = _verb(request.method, target, query)
        asked = Asked(time.monotonic(), verb, target, query)
        self.asked.append(asked)
        try:
            self._authorize(verb, target)
        except RefusalError as refusal:
            asked.code = refusal.code
            return web.json_response(refusal.status, status=refusal.code)
        if verb == "watch":
            return await self._watch(request, asked)
        asked.code, answer = await self._answer(request, asked)
        whole = answer if isinstance(answer, str) else json.dumps(answer)
        asked.size = len(whole)
        self.hear(asked)
        kind = "text/plain" if isinstance(answer, str) else "application/json"
        return web.Response(status=asked.code, text=whole, content_type=kind)

    def _authorize(self, verb: str, target: Target) -> None:
        kind = target.kind
        resource = f"{kind.plural}/{target.part}" if target.part else kind.plural
        if not self.authorizer(Call(target.namespace, kind.group, resource, verb, target.name)):
            raise RefusalError(403, f'User "operator" cannot {verb} resource "{resource}"')

    def target_of(self, path: str) -> Target:
        parts = path.strip("/").split("/")
        begin = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:begin]), parts[begin:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        kind = self._by_path.get(f"{root}/{rest[0] if rest else ''}")
        if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
            raise RefusalError(404, "the server could not find the requested resource")
        return Target(kind, namespace, *rest[1:])

    async def _answer(self, request: web.Request, asked: Asked) -> tuple[int, Object | str]:
        method = getattr(self, f"_{asked.verb}", None)
        try:
            if method is None:
                raise RefusalError(501, f"{asked.verb} is not simulated")
            return 201 if asked.verb == "create" else 200, await method(request, asked)
        except RefusalError as refusal:
            return refusal.code, refusal.status
        except BookieError as error:
            refusal = RefusalError(_code_of(error), str(error))
            return refusal.code, refusal.status

    async def _get(self, request: web.Request, asked: Asked) -> Object | str:
        target, query = asked.target, asked.query
        api = self.api_of(target)
        if target.kind == POD and target.part == "log":
            bounds = {"lines": int(query["tailLines"]), "size": int(query["limitBytes"])}
            return await api.log(target.name, container=query["container"], **bounds)
        return await self._known(api, target)

    async def _known(self, api: FakeApi, target: Target) -> Object:
        found = await api.get(target.kind, target.name)
        if found is None:
            raise _absent(target)
        return found

    async def _list(self, request: web.Request, asked: Asked) -> Object:
        """In pages; the version is that of the first page, so that a watch tells of what came."""
        target, query = asked.target, asked.query
        selector = _selector(query)
        token = query.get("continue", "")
        version, _colon, after = (
            token.partition(":") if token else (str(self.changes.version), "", "")
        )
        found = [
            (f"{namespace}/{one['metadata']['name']}", one)
            for namespace, api in sorted(self._listed(target).items())
            for one in await api.list(
                target.kind, selector.equal_labels, fields=_fields(request.query)
            )
            if selector.takes(one["metadata"].get("labels") or {})
        ]
        rest = [(key, one) for key, one in found if key > after]
        limit = int(query.get("limit") or len(rest) or 1)
        page = rest[:limit]
        asked.objects = len(page)
        more = {"continue": f"{version}:{page[-1][0]}"} if len(rest) > limit else {}
        metadata = {"resourceVersion": version, **more}
        kind, items = f"{target.kind.name}List", [one for _key, one in page]
        return {
            "kind": kind,
            "apiVersion": target.kind.api_version,
            "metadata": metadata,
            "items": items,
        }

    def _listed(self, target: Target) -> Mapping[str, FakeApi]:
        if not target.kind.namespaced:
            return {"": self.cluster_wide}
        if not target.namespace:
            return self._apis
        known = self._apis.get(target.namespace)
        return {target.namespace: known} if known is not None else {}

    async def _create(self, request: web.Request, asked: Asked) -> Object:
        body, target = await _body(request), asked.target
        api = self.api_of(target)
        _check_type(body, target)
        if not body.get("metadata", {}).get("name"):
            raise RefusalError(
                422, "name or generateName is required; generateName is not simulated"
            )
        made = await api.create(target.kind, body)
        if made is None:
            name = body["metadata"]["name"]
            raise RefusalError(409, f'{target.kind.plural} "{name}" already exists', EXISTS)
        return made

    async def _patch(self, request: web.Request, asked: Asked) -> Object:
        body, target = await _body(request), asked.target
        api = self.api_of(target)
        if request.content_type == APPLY:
            return await self._apply(api, body, asked)
        known = await self._known(api, target)
        if request.content_type == MERGE:
            _meet(body.get("metadata") or {}, known)
            made = merged(known, body)
        elif request.content_type == STEPS:
            try:
                made = patched(known, body)
            except PatchError as error:
                raise RefusalError(422, f"the server rejected our request: {error}") from error
        else:
            raise RefusalError(415, f"{request.content_type} is no type of a patch")
        api.edit(
            target.kind, target.name, partial(_become, made=_of_part(known, made, target.part))
        )
        return self._unless_over(api, target)

    async def _apply(self, api: FakeApi, body: Object, asked: Asked) -> Object:
        target, query = asked.target, asked.query
        asked.verb = "apply"
        if not query.get("fieldManager"):
            raise RefusalError(400, "fieldManager is required for apply patch")
        if query.get("force") != "true" or target.part:
            raise RefusalError(501, "an apply without force, or of a status, is not simulated")
        _check_type(body, target)
        if body["metadata"].get("name") != target.name:
            raise RefusalError(400, "the name of the object does not match the name on the URL")
        if api.find(target.kind, target.name) is None:
            self._authorize("create", target)
        return await api.apply(target.kind, body, manager=query["fieldManager"])

    def _unless_over(self, api: FakeApi, target: Target) -> Object:
        """An object that is being deleted goes with its last finalizer."""
        left = api.the(target.kind, target.name)
        is_over = "deletionTimestamp" in left["metadata"] and not left["metadata"].get("finalizers")
        if is_over and target.kind != POD:
            api.remove(target.kind, target.name)
        return left

    async def _update(self, request: web.Request, asked: Asked) -> Object:
        body, target = await _body(request), asked.target
        if target.part != "status" or target.kind not in WITH_STATUS:
            raise RefusalError(501, "only the status of our kinds is replaced here")
        api = self.api_of(target)
        await self._known(api, target)
        _check_type(body, target)
        version = str(body["metadata"].get("resourceVersion", ""))
        return await api.replace_status(
            target.kind, target.name, body.get("status") or {}, version=version
        )

    async def _delete(self, request: web.Request, asked: Asked) -> Object:
        target, options = asked.target, await _body(request)
        if not target.name:
            raise RefusalError(501, "the deletion of a collection is not simulated")
        api = self.api_of(target)
        known = await self._known(api, target)
        metadata = {key: known["metadata"][key] for key in ("name", "uid", "resourceVersion")}
        thing = {"metadata": metadata | (options.get("preconditions") or {})}
        await api.delete(target.kind, thing, is_forced=options.get("gracePeriodSeconds") == 0)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    async def _watch(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        """Until its client goes, or its time is over."""
        query, target = asked.query, asked.target
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        asked.code = 200
        await response.prepare(request)
        self.hear(asked)
        limit_s = float(query.get("timeoutSeconds") or WATCH_S)
        try:
            async with asyncio.timeout(limit_s):
                async for event in self._events(target, query):
                    line = json.dumps(event).encode() + b"\n"
                    asked.objects, asked.size = asked.objects + 1, asked.size + len(line)
                    await response.write(line)
        except (TimeoutError, ConnectionError):
            pass
        return response

    async def _events(self, target: Target, query: Mapping[str, str]) -> AsyncIterator[Object]:
        since = int(query.get("resourceVersion") or self.changes.version)
        try:
            follow = self.changes.follow(
                target.kind, target.namespace, _unselected(query), since=since
            )
            async for event in follow:
                yield event
        except ExpiredError as error:
            yield {"type": "ERROR", "object": RefusalError(410, str(error)).status}

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["FakeApiServer"]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
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


@contextmanager
def as_kubeconfig(url: str) -> Iterator[None]:
    """What a process finds when it looks for its API server."""
    before = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(url)))
        kube_config.KUBE_CONFIG_DEFAULT_LOCATION = str(path)
        try:
            yield
        finally:
            kube_config.KUBE_CONFIG_DEFAULT_LOCATION = before


FIELDS: Final = frozenset({"involvedObject.name", "involvedObject.kind", "type", "reason"})
"""Of Events, besides those that every kind has."""


def _verb(method: str, target: Target, query: Mapping[str, str]) -> str:
    if method == "GET" and query.get("watch") in ("true", "1"):
        return "watch"
    if method == "GET":
        return "get" if target.name else "list"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())


async def _body(request: web.Request) -> Any:
    text = await request.text()
    try:
        return json.loads(text) if text else {}
    except ValueError as error:
        raise RefusalError(400, f"the body is no JSON: {error}") from error


def _fields(query: Mapping[str, str]) -> dict[str, str]:
    """Of a field selector, by equality; what a real server has no index for it refuses."""
    parts = [part.partition("=") for part in query.get("fieldSelector", "").split(",") if part]
    for path, _is, _value in parts:
        if path not in FIELDS:
            raise RefusalError(400, f'field label not supported: "{path}"')
    return {path: value for path, _is, value in parts}


def _selector(query: Mapping[str, str]) -> Selector:
    if query.get("sendInitialEvents"):
        raise RefusalError(501, "initial events are not simulated")
    try:
        return Selector.parse(query.get("labelSelector", ""))
    except UnknownSelectorError as error:
        raise RefusalError(400, str(error)) from error


def _unselected(query: Mapping[str, str]) -> Selector:
    """Of a watch."""
    if query.get("fieldSelector"):
        raise RefusalError(501, "watches by fields are not simulated")
    return _selector(query)


def _check_type(body: Object, target: Target) -> None:
    kind = target.kind
    if (body.get("apiVersion"), body.get("kind")) != (kind.api_version, kind.name):
        raise RefusalError(400, f"the object is no {kind.api_version} {kind.name}")
    metadata = body.get("metadata") or {}
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise RefusalError(400, "the namespace of the object does not match that on the URL")
    if target.name and metadata.get("name") != target.name:
        raise RefusalError(400, "the name of the object does not match the name on the URL")


def _meet(planned: Object, known: Object) -> None:
    for key in ("uid", "resourceVersion"):
        if planned.get(key, known["metadata"][key]) != known["metadata"][key]:
            raise RefusalError(409, f"the object has been modified: its {key} is another one")


def _of_part(known: Object, made: Object, part: str) -> Object:
    """What a patch may change: of an object all but its status, of its status nothing else."""
    source, status = (known, made) if part == "status" else (made, known)
    whole = {key: value for key, value in source.items() if key != "status"}
    return whole | ({"status": status["status"]} if "status" in status else {})


def _become(tree: Object, *, made: Object) -> None:
    tree.clear()
    tree.update(made)


def _absent(target: Target) -> RefusalError:
    words = f'{target.kind.plural} "{target.name}" not found'
    return RefusalError(404, words, name=target.name)


def _code_of(error: BookieError) -> int:
    if isinstance(error, PreconditionError):
        return 409
    if isinstance(error, ForbiddenError):
        return 403
    return 503 if isinstance(error, UnavailableError) else 422
