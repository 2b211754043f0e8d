"""What the platform needs of an API server, over plain dictionaries; ground of this package.

Writes are server-side applies under a field manager of our own, so that what others own in an
object survives; deletions name object and version they were planned for. Nothing is retried here: a
pass that fails is planned again. The only importer of aiohttp among the operator's platforms.
"""

import asyncio
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import aiohttp
from bookie.errors import BookieError, UnavailableError

from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.model.base import GROUP, VERSION

REQUEST_S: Final = 15.0
CONNECTIONS_MAX: Final = 16
LOGIN_MAX_AGE_S: Final = 600.0
"""Tokens of service accounts are rotated on disk; they are read again after this time."""
MANAGER: Final = "bookie-operator"
PAGE_MAX: Final = 500
"""Objects that a server sends at once; as kubectl has it."""
PAGES_MAX: Final = 100

Object = dict[str, Any]


class RefusedError(BookieError):
    """The API server refused the object itself; the message is the server's."""


class NotServedError(RefusedError):
    """The API server knows no such kind: its CRD is not installed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where objects of one kind live."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{middle}/{self.plural}"


POD: Final = Kind("", "v1", "pods", "Pod")
CLAIM: Final = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CONFIG_MAP: Final = Kind("", "v1", "configmaps", "ConfigMap")
SERVICE: Final = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNT: Final = Kind("", "v1", "serviceaccounts", "ServiceAccount")
EVENT: Final = Kind("", "v1", "events", "Event")
NODE: Final = Kind("", "v1", "nodes", "Node", namespaced=False)
STATEFUL_SET: Final = Kind("apps", "v1", "statefulsets", "StatefulSet")
JOB: Final = Kind("batch", "v1", "jobs", "Job")
BUDGET: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ROLE: Final = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
STORAGE_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_DRIVER: Final = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CLUSTER: Final = Kind(GROUP, VERSION, "bookieclusters", "BookieCluster")
TASK: Final = Kind(GROUP, VERSION, "bookietasks", "BookieTask")


class Api(Protocol):
    """One namespace of an API server; cluster-wide kinds are reached as well.

    UnavailableError = no answer now; ForbiddenError = a permission lacks; PreconditionError = the
    object is not what the caller planned for; RefusedError = the object is wrong.
    """

    @property
    def namespace(self) -> str: ...

    async def get(self, kind: Kind, name: str) -> Object | None: ...

    async def list(self, kind: Kind, labels: Mapping[str, str] | None = None) -> Sequence[Object]:
        """Live, by equality of labels."""

    async def create(self, kind: Kind, body: Object) -> Object | None:
        """None = an object of this name exists."""

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        """Server-side apply with force.

        A uid in `body` stands for that very object, a resourceVersion for that state of it; without
        a uid an object that is not there is created.
        """

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        """The whole status anew, of that very state of the object.

        Not applied: what a CRD of another version has no field for is left out, where an apply
        would be refused whole.
        """

    async def delete(self, kind: Kind, thing: Object) -> bool:
        """False = it is not there. Only that very object, as it was when `thing` was read."""

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        """The last `lines` of a container's log, and of these the first `size` bytes.

        RefusedError: there is no such pod, or the container has not started.
        """


class Login(Protocol):
    """Server and credentials; kopf's ConnectionInfo is one."""

    @property
    def server(self) -> str: ...

    def as_http_headers(self) -> dict[str, str]: ...

    def as_ssl_context(self) -> ssl.SSLContext: ...


@dataclass(slots=True)
class _Session:
    """One login. An old one lives until the requests that were made under it have ended."""

    client: aiohttp.ClientSession
    server: str
    since: float
    requests: int = 0


class HttpConnection:
    """One pool of connections for all namespaces; logs in again when credentials grow old."""

    def __init__(self, login: Callable[[], Login]) -> None:
        self._login = login
        self._session: _Session | None = None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        is_text: bool = False,
    ) -> tuple[int, Object]:
        """Status and body of an answer; of one that `is_text`, its `text`.

        UnavailableError when there is none.
        """
        session = await self._open()
        session.requests += 1
        try:
            async with session.client.request(
                method,
                session.server + path,
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type},
                params=params or {},
            ) as response:
                if response.status == 401 and self._session is session:
                    self._session = None  # the next request logs in again
                return response.status, await _body_of(response, is_text=is_text)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            told = str(error) or type(error).__name__
            raise UnavailableError(f"the API server does not answer: {told}") from error
        finally:
            session.requests -= 1
            await self._drop_if_old(session)

    async def _open(self) -> _Session:
        now = asyncio.get_running_loop().time()
        known = self._session
        if known is not None and now - known.since <= LOGIN_MAX_AGE_S:
            return known
        login = self._login()
        client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=login.as_ssl_context(), limit=CONNECTIONS_MAX),
            headers=login.as_http_headers(),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
        )
        made = self._session = _Session(client, login.server.rstrip("/"), now)
        if known is not None:
            await self._drop_if_old(known)
        return made

    async def _drop_if_old(self, session: _Session) -> None:
        if session is not self._session and not session.requests:
            await session.client.close()


class HttpApi:
    """The real Api of one namespace; empty = all of them, for lists."""

    def __init__(self, connection: HttpConnection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        return self._namespace

    async def get(self, kind: Kind, name: str) -> Object | None:
        status, answer = await self._connection.request("GET", self._path(kind, name))
        if status == 404:
            return None
        return _checked(status, answer, f"get {kind.name} {name}")

    async def list(self, kind: Kind, labels: Mapping[str, str] | None = None) -> Sequence[Object]:
        selector = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        params = {"limit": str(PAGE_MAX)} | ({"labelSelector": selector} if selector else {})
        items: list[Object] = []
        for _ in range(PAGES_MAX):
            answer = await self._page(kind, params)
            items += answer.get("items") or ()
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return items
            params["continue"] = str(token)
        raise RefusedError(f"list {kind.plural}: more than {PAGE_MAX * PAGES_MAX}; delete old ones")

    async def _page(self, kind: Kind, params: Mapping[str, str]) -> Object:
        path = kind.path(self._namespace)
        status, answer = await self._connection.request("GET", path, params=params)
        if status == 404:
            raise NotServedError(f"list {kind.plural}: the API server knows no {kind.name}")
        return _checked(status, answer, f"list {kind.plural}")

    async def create(self, kind: Kind, body: Object) -> Object | None:
        path = kind.path(self._namespace)
        status, answer = await self._connection.request("POST", path, body=typed(kind, body))
        if status == 409 and answer.get("reason") == "AlreadyExists":
            return None
        return _checked(status, answer, f"create {kind.name} {_name(body)}")

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        status, answer = await self._connection.request(
            "PATCH",
            self._path(kind, _name(body)),
            body=typed(kind, body),
            content_type="application/apply-patch+yaml",
            params={"fieldManager": manager, "force": "true"},
        )
        return _checked(status, answer, f"apply {kind.name} {_name(body)}")

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        metadata = {"name": name, "namespace": self._namespace, "resourceVersion": version}
        body = typed(kind, {"metadata": metadata, "status": status})
        path = f"{self._path(kind, name)}/status"
        code, answer = await self._connection.request("PUT", path, body=body)
        return _checked(code, answer, f"replace the status of {kind.name} {name}")

    async def delete(self, kind: Kind, thing: Object) -> bool:
        name, metadata = _name(thing), thing["metadata"]
        planned = {key: metadata[key] for key in ("uid", "resourceVersion")}
        options: Object = {"propagationPolicy": "Background", "preconditions": planned}
        path = self._path(kind, name)
        status, answer = await self._connection.request("DELETE", path, body=options)
        if status == 404:
            return False
        _checked(status, answer, f"delete {kind.name} {name}")
        return True

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        bounds = {"tailLines": str(lines), "limitBytes": str(size)}
        status, answer = await self._connection.request(
            "GET",
            f"{self._path(POD, pod)}/log",
            params={"container": container} | bounds,
            is_text=True,
        )
        return str(_checked(status, answer, f"read the log of Pod {pod}")["text"])

    def _path(self, kind: Kind, name: str) -> str:
        return f"{kind.path(self._namespace)}/{quote(name)}"


def typed(kind: Kind, body: Object) -> Object:
    """The object with its apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def _name(body: Object) -> str:
    metadata = body["metadata"]
    return str(metadata.get("name") or metadata.get("generateName", ""))


async def _body_of(response: aiohttp.ClientResponse, *, is_text: bool) -> Object:
    text = await response.text(errors="replace")
    if is_text and response.status < 400:
        return {"text": text}
    try:
        answer = json.loads(text)
    except ValueError:
        return {"message": text[:200]}
    return answer if isinstance(answer, dict) else {}


def _checked(status: int, answer: Object, what: str) -> Object:
    """The answer, or the error that tells the caller what to do next."""
    if status < 400:
        return answer
    told = f"{what}: {answer.get('message') or f'HTTP status {status}'}"
    if "field not declared in schema" in told:
        raise RefusedError(told)  # an API server calls it its own error, 500
    if status == 403 and _LACKS.search(told):
        raise ForbiddenError(told)
    if status == 409 or _is_another_object(answer):
        raise PreconditionError(told)
    if status in (401, 408, 410, 429) or status >= 500:  # 410: the list grew old between pages
        raise UnavailableError(told)
    raise RefusedError(told)


_LACKS: Final = re.compile(r'User "[^"]*" cannot |is attempting to grant RBAC permissions')
"""How a server says that a right lacks. Quotas, policies and storage classes answer 403 as well."""


def _is_another_object(answer: Object) -> bool:
    """How a server refuses an apply that names the uid of an object that is not there any more."""
    causes = (answer.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)
