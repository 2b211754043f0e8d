"""The real Api: the dynamic client of the `kubernetes` package, over plain dictionaries.

A `Kind` says where its objects live, so nothing has to be discovered before the first call. No
typed models: they drop what they do not know, and a server-side apply wants what was written.
"""

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import aiohttp
import yaml
from bookie.errors import BookieError, UnavailableError
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.exceptions import DynamicApiError

from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.platform.kubernetes.api import (
    MANAGER,
    PAGE_MAX,
    POD,
    Kind,
    NotServedError,
    Object,
    RefusedError,
    typed,
)

TIMEOUT: Final = aiohttp.ClientTimeout(total=15.0)
"""Time limit of one request, including the wait for a connection."""
CONNECTIONS_MAX: Final = 16
PAGES_MAX: Final = 100
LOGIN_MAX_AGE_S: Final = 600.0
"""Tokens of service accounts are rotated on disk, those of exec plugins expire: both are asked for
again after this time, and after an answer 401."""
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
_SERVER_ERRORS: Final = 500
_TRY_AGAIN: Final = frozenset({_UNAUTHORIZED, 408, 410, 429})
"""No answer now: not logged in any more, too slow, too busy. 410: the list grew old between two of
its pages."""
_LACKS: Final = re.compile(r'User "[^"]*" cannot |is attempting to grant RBAC permissions')
"""How a server says that a right lacks. Quotas, policies and storage classes answer 403 as well."""

_HALF_WRITTEN: Final = (yaml.YAMLError, ValueError, TypeError, OSError)
"""What the loaders raise for a kubeconfig, a certificate or a key that is cut off; a file that is
away between two others, and ssl.SSLError, are an OSError."""

Moot = Callable[[int, Object], bool]
"""Says of the status and body of a refusal that the caller asked for nothing more."""
Load = Callable[[Configuration], Awaitable[None]]
"""Puts server and credentials into the configuration."""


async def load_login(configuration: Configuration) -> None:
    """Credentials of the service account in a pod, otherwise of the kubeconfig's current
    context."""
    try:
        load_incluster_config(configuration, try_refresh_token=False)
    except ConfigException:
        try:
            await load_kube_config(client_configuration=configuration)
        except ConfigException as error:
            raise UnavailableError(
                "no credentials: found neither a service account nor a kubeconfig (set "
                f"KUBECONFIG): {error}"
            ) from error


@contextmanager
def _reading_credentials() -> Iterator[None]:
    """UnavailableError for files that cannot be read now: who rotates them writes one after the
    other, and the next request reads them again."""
    try:
        yield
    except _HALF_WRITTEN as error:
        raise UnavailableError(
            f"no credentials: found what cannot be read ({str(error) or type(error).__name__}), "
            "expected a whole kubeconfig, certificate and key"
        ) from error


class ApiServer:
    """One API server for all namespaces: a pool of connections, logged in again now and then.

    Made by `connect`; to be closed.
    """

    def __init__(self, client: ApiClient, load: Load) -> None:
        self._client = client
        self._load = load
        self._loaded_at = time.monotonic()
        """When the login was read last, in seconds of the monotonic clock; -inf: read it again."""
        self.dynamic = DynamicClient(client)

    @classmethod
    async def connect(cls, load: Load = load_login) -> "ApiServer":
        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS_MAX
        with _reading_credentials():
            await load(configuration)
            client = ApiClient(configuration)
        return cls(client, load)

    async def close(self) -> None:
        await self._client.close()

    def log_in_again(self) -> None:
        """The next request asks for credentials first."""
        self._loaded_at = float("-inf")

    async def refresh(self) -> None:
        """Log in again if that is due; to be called before each request. The client's own hook is
        only called for logins with a token, and certificates expire as well."""
        if time.monotonic() - self._loaded_at <= LOGIN_MAX_AGE_S:
            return
        self._loaded_at = time.monotonic()
        try:
            with _reading_credentials():
                await self._log_in(self._client.configuration)
        except BaseException:
            self.log_in_again()  # half a login is none
            raise

    async def _log_in(self, configuration: Configuration) -> None:
        await self._load(configuration)
        trusted = self._client.rest_client.ssl_context  # for connections made from now on
        if configuration.ssl_ca_cert:
            trusted.load_verify_locations(configuration.ssl_ca_cert)
        if configuration.cert_file:
            trusted.load_cert_chain(configuration.cert_file, configuration.key_file)


class DynamicApi:
    """The real Api of one namespace; empty = all of them, for lists."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        return self._namespace

    async def get(self, kind: Kind, name: str) -> Object | None:
        path = self._path(kind, name)
        return await self._ask_unless(_is_absent, "get", path, f"get {kind.name} {name}")

    async def list(
        self,
        kind: Kind,
        labels: Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        selector, field_selector = _selector(labels), _selector(fields)
        items: list[Object] = []
        token = None
        for _ in range(PAGES_MAX):
            answer = await self._ask_unless(
                _is_unserved, "get", self._path(kind), f"list {kind.plural}",
                limit=PAGE_MAX, label_selector=selector, field_selector=field_selector,
                _continue=token,
            )  # fmt: skip
            if answer is None:
                raise NotServedError(f"list {kind.plural}: the API server knows no {kind.name}")
            items += answer.get("items") or ()
            if not (token := (answer.get("metadata") or {}).get("continue")):
                return items
        raise RefusedError(f"list {kind.plural}: more than {PAGE_MAX * PAGES_MAX}; delete old ones")

    async def create(self, kind: Kind, body: Object) -> Object | None:
        what = f"create {kind.name} {_name(body)}"
        path = self._path(kind)
        return await self._ask_unless(_exists, "post", path, what, body=typed(kind, body))

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        return await self._ask(
            "patch", self._path(kind, _name(body)), f"apply {kind.name} {_name(body)}",
            body=typed(kind, body), content_type="application/apply-patch+yaml",
            field_manager=manager, force_conflicts=True,
        )  # fmt: skip

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        metadata = {"name": name, "namespace": self._namespace, "resourceVersion": version}
        body = typed(kind, {"metadata": metadata, "status": status})
        path = f"{self._path(kind, name)}/status"
        return await self._ask("put", path, f"replace the status of {kind.name} {name}", body=body)

    async def delete(self, kind: Kind, thing: Object, *, is_forced: bool = False) -> bool:
        name, metadata = _name(thing), thing["metadata"]
        planned = {key: metadata[key] for key in ("uid", "resourceVersion")}
        options: Object = {"propagationPolicy": "Background", "preconditions": planned}
        if is_forced:
            options["gracePeriodSeconds"] = 0
        path, what = self._path(kind, name), f"delete {kind.name} {name}"
        answer = await self._ask_unless(_is_absent, "delete", path, what, body=options)
        return answer is not None

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        bounds = [("container", container), ("tailLines", lines), ("limitBytes", size)]
        path, what = f"{self._path(POD, pod)}/log", f"read the log of Pod {pod}"
        try:
            return await self._text("get", path, query_params=bounds)
        except DynamicApiError as error:
            raise _error_of(error.status, _refusal_of(error), what) from error

    def _path(self, kind: Kind, name: str = "") -> str:
        return kind.path(self._namespace, name)

    async def _ask(self, method: str, path: str, what: str, **more: Any) -> Object:
        """The answer to what is asked for, `what` in words. `more`: see DynamicClient.request."""
        answer = await self._ask_unless(_never, method, path, what, **more)
        assert answer is not None, "nothing was moot"
        return answer

    async def _ask_unless(
        self, moot: Moot, method: str, path: str, what: str, **more: Any
    ) -> Object | None:
        """The answer; None where a refusal makes the request moot."""
        try:
            return _object_of(await self._text(method, path, **more))
        except DynamicApiError as error:
            answer = _refusal_of(error)
            if moot(error.status, answer):
                return None
            raise _error_of(error.status, answer, what) from error

    async def _text(self, method: str, path: str, **more: Any) -> str:
        """What the server answers; DynamicApiError when it refuses."""
        try:
            await self._server.refresh()
            response: aiohttp.ClientResponse = await self._server.dynamic.request(
                method, path, serialize=False, _request_timeout=TIMEOUT, **more
            )
            return await response.text(errors="replace")
        except DynamicApiError as error:
            if error.status == _UNAUTHORIZED:
                self._server.log_in_again()
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(f"the API server does not answer: {why}") from error


def _name(body: Object) -> str:
    metadata = body["metadata"]
    return str(metadata.get("name") or metadata.get("generateName", ""))


def _object_of(text: str) -> Object:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UnavailableError(f"the API server answers {text[:200]!r}, expected a JSON object")
    return answer


def _refusal_of(error: DynamicApiError) -> Object:
    """Why something was refused: a Status of Kubernetes, or the words of a proxy in between."""
    try:
        return _object_of(error.body or "")
    except UnavailableError:
        return {"message": (error.body or "")[:200]}


def _never(_status: int, _answer: Object) -> bool:
    return False


def _is_absent(status: int, answer: Object) -> bool:
    """The server names the object that it has not. Whoever knows no such path names none: a proxy
    in between, or a server without that version of the kind."""
    return status == _NOT_FOUND and bool((answer.get("details") or {}).get("name"))


def _is_unserved(status: int, _answer: Object) -> bool:
    return status == _NOT_FOUND


def _exists(status: int, answer: Object) -> bool:
    return status == _CONFLICT and answer.get("reason") == "AlreadyExists"


def _error_of(status: int, answer: Object, what: str) -> BookieError:
    """The error that tells the caller what to do next."""
    words = f"{what}: {answer.get('message') or f'HTTP status {status}'}"
    if "field not declared in schema" in words:
        return RefusedError(words)  # an API server calls it its own error, 500
    if status == _NOT_FOUND and not _is_absent(status, answer):
        return NotServedError(words)
    if status == _FORBIDDEN and _LACKS.search(words):
        return ForbiddenError(words)
    if status == _CONFLICT or _is_another_object(answer):
        return PreconditionError(words)
    if status in _TRY_AGAIN or status >= _SERVER_ERRORS:
        return UnavailableError(words)
    return RefusedError(words)


def _is_another_object(answer: Object) -> bool:
    """How a server refuses an apply that names the uid of an object that is not there any more."""
    causes = (answer.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _selector(wanted: Mapping[str, str] | None) -> str | None:
    return ",".join(f"{name}={value}" for name, value in (wanted or {}).items()) or None
