"""The real Api against a local server: what it sends, and what it makes of every answer."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientTimeout, web
from bookie.errors import BookieError, UnavailableError
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.platform.kubernetes import dynamic_api as module
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    CONFIG_MAP,
    NODE,
    PAGE_MAX,
    POD,
    NotServedError,
    RefusedError,
)
from bookie_operator.platform.kubernetes.dynamic_api import ApiServer, DynamicApi, load_login
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import kube_config

READ = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}
BODY = {"metadata": {"name": "a"}, "data": {"b": "c"}}


@dataclass
class Server:
    """Remembers what it was asked, and answers as told."""

    status: int = 200
    answer: Any = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    """One after the other, before `answer`."""
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    content_types: list[str] = field(default_factory=list)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    logins: int = 0
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append((request.method, request.path_qs, json.loads(text) if text else None))
        self.headers.append(request.headers.get("Authorization", ""))
        self.content_types.append(request.headers.get("Content-Type", ""))
        self.is_asked.set()
        if request.path.endswith("/slow"):
            await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else self.answer
        if isinstance(answer, str):
            return web.Response(status=self.status, text=answer)
        return web.json_response(answer, status=self.status)

    async def log_in(self, configuration: Configuration) -> None:
        self.logins += 1
        configuration.host = self.url
        configuration.api_key["BearerToken"] = f"Bearer token-{self.logins}"


@asynccontextmanager
async def running(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    made.gate.set()
    await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running() as made:
        yield made


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[ApiServer]:
    made = await ApiServer.connect(server.log_in)
    yield made
    await made.close()


@pytest.fixture
def api(connection: ApiServer) -> DynamicApi:
    return DynamicApi(connection, "fleet")


# What is asked


async def test_kinds_are_where_kubernetes_keeps_them(server: Server, api: DynamicApi) -> None:
    await api.get(POD, "a")
    await api.get(NODE, "n")
    await api.get(CLUSTER, "demo")
    group = "apis/bookkeeper.bookie-operator.dev/v1alpha1"
    paths = [path for _method, path, _body in server.asked]
    assert paths == [
        "/api/v1/namespaces/fleet/pods/a",
        "/api/v1/nodes/n",
        f"/{group}/namespaces/fleet/bookieclusters/demo",
    ]


async def test_no_namespace_means_all(server: Server, connection: ApiServer) -> None:
    await DynamicApi(connection, "").list(POD)
    assert server.asked[0][1] == f"/api/v1/pods?limit={PAGE_MAX}"


async def test_a_list_selects_by_labels(server: Server, api: DynamicApi) -> None:
    server.answer = {"items": [{"metadata": {"name": "a"}}]}
    assert await api.list(POD, {"x/y": "1", "z": "2"}) == [{"metadata": {"name": "a"}}]
    _method, path, _body = server.asked[0]
    assert path.endswith(f"/fleet/pods?labelSelector=x/y%3D1,z%3D2&limit={PAGE_MAX}")


async def test_d2_a_list_is_read_in_pages(server: Server, api: DynamicApi) -> None:
    server.answers = [
        {"items": [{"metadata": {"name": name}}], "metadata": {"continue": more}}
        for name, more in (("a", "then-b"), ("b", ""))
    ]
    assert [one["metadata"]["name"] for one in await api.list(POD)] == ["a", "b"]
    asked = [path.partition("?")[2] for _method, path, _body in server.asked]
    assert asked == [f"limit={PAGE_MAX}", f"continue=then-b&limit={PAGE_MAX}"]


async def test_d2_a_list_that_grew_old_between_its_pages_is_read_anew_later(
    server: Server, api: DynamicApi
) -> None:
    server.status = 410
    with pytest.raises(UnavailableError):
        await api.list(POD)


async def test_an_apply_names_its_manager_and_forces(server: Server, api: DynamicApi) -> None:
    await api.apply(CONFIG_MAP, BODY, manager="me")
    method, path, body = server.asked[0]
    assert method == "PATCH"
    assert path.endswith("/configmaps/a?fieldManager=me&force=true")
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", **BODY}
    assert server.content_types == ["application/apply-patch+yaml"]


async def test_a_status_is_for_the_version_that_was_read(server: Server, api: DynamicApi) -> None:
    await api.replace_status(CLUSTER, "demo", {"phase": "Running"}, version="7")
    method, path, body = server.asked[0]
    assert method == "PUT" and path.endswith("/namespaces/fleet/bookieclusters/demo/status")
    assert body["metadata"] == {"name": "demo", "namespace": "fleet", "resourceVersion": "7"}
    assert body["status"] == {"phase": "Running"}


async def test_d8_a_deletion_names_object_and_version_it_is_for(
    server: Server, api: DynamicApi
) -> None:
    assert await api.delete(POD, READ)
    planned = {"uid": "u", "resourceVersion": "7"}
    [(_method, _path, body)] = server.asked
    assert body == {"propagationPolicy": "Background", "preconditions": planned}


# What comes back


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "", RefusedError),
        (401, "", UnavailableError),
        (403, 'pods is forbidden: User "x" cannot list', ForbiddenError),
        (403, "exceeded quota: small", RefusedError),
        (404, "knows no Pod", RefusedError),
        (409, "the object has been modified", PreconditionError),
        (422, "is invalid", RefusedError),
        (500, ".status.drain: field not declared in schema", RefusedError),
        (429, "too many requests", UnavailableError),
        (500, "etcd is away", UnavailableError),
        (503, "", UnavailableError),
    ],
)
async def test_every_refusal_says_what_to_do_next(
    server: Server, api: DynamicApi, status: int, reason: str, expected: type[BookieError]
) -> None:
    server.status, server.answer = status, {"message": reason}
    with pytest.raises(expected, match=reason or f"HTTP status {status}"):
        await api.list(POD)


async def test_another_object_under_the_name_is_a_changed_world(
    server: Server, api: DynamicApi
) -> None:
    causes = [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]
    server.status, server.answer = 422, {"message": "immutable", "details": {"causes": causes}}
    with pytest.raises(PreconditionError):
        await api.apply(CONFIG_MAP, BODY)


async def test_what_is_not_there_is_no_error(server: Server, api: DynamicApi) -> None:
    details = {"name": "a", "kind": "pods"}
    server.status, server.answer = 404, {"kind": "Status", "details": details}
    assert await api.get(POD, "a") is None
    assert await api.delete(POD, READ) is False


@pytest.mark.parametrize("answer", ["404 page not found\n", "default backend - 404"])
async def test_a_path_that_nobody_serves_is_no_object_that_is_gone(
    server: Server, api: DynamicApi, answer: str
) -> None:
    server.status, server.answer = 404, answer
    for asked in (api.get(POD, "a"), api.delete(POD, READ)):
        with pytest.raises(NotServedError, match="404"):
            await asked


async def test_only_an_existing_name_makes_a_create_moot(server: Server, api: DynamicApi) -> None:
    server.status, server.answer = 409, {"reason": "AlreadyExists"}
    assert await api.create(CONFIG_MAP, BODY) is None
    server.answer = {"reason": "Conflict", "message": "being deleted"}
    with pytest.raises(PreconditionError, match="create ConfigMap a: being deleted"):
        await api.create(CONFIG_MAP, BODY)


@pytest.mark.parametrize("answer", ["<html>Log in here</html>", "[1, 2]", ""])
async def test_only_an_object_is_an_answer(server: Server, api: DynamicApi, answer: str) -> None:
    server.answer = answer
    with pytest.raises(UnavailableError, match="expected a JSON object"):
        await api.get(POD, "a")


@pytest.mark.parametrize("answer", ["<html>Bad gateway</html>", "[1, 2]", ""])
async def test_an_answer_of_something_in_between_is_no_crash(
    server: Server, api: DynamicApi, answer: str
) -> None:
    server.status, server.answer = 502, answer
    with pytest.raises(UnavailableError):
        await api.list(POD)


async def test_the_end_of_a_log_is_text(server: Server, api: DynamicApi) -> None:
    server.answer = '{"a": 1}\n12 ledgers looked at\n'
    assert await api.log("p", container="repair", lines=9, size=99) == server.answer
    asked = "/api/v1/namespaces/fleet/pods/p/log?container=repair&tailLines=9&limitBytes=99"
    assert server.asked[-1][:2] == ("GET", asked)


async def test_a_container_without_a_log_is_refused(server: Server, api: DynamicApi) -> None:
    server.status, server.answer = 400, {"message": "waiting to start: PodInitializing"}
    with pytest.raises(RefusedError, match="log of Pod p: waiting to start"):
        await api.log("p", container="repair", lines=9, size=99)


async def test_nobody_there_is_unavailable(server: Server) -> None:
    server.url = "http://127.0.0.1:1"
    connection = await ApiServer.connect(server.log_in)
    with pytest.raises(UnavailableError, match="the API server does not answer"):
        await DynamicApi(connection, "fleet").get(POD, "a")
    await connection.close()


async def test_a_server_that_hangs_is_unavailable(
    api: DynamicApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", ClientTimeout(total=0.05))
    with pytest.raises(UnavailableError, match="TimeoutError"):
        await api.get(POD, "slow")


# Logging in


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: echo
      interactiveMode: Never
      args:
      - '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
         "status": {"token": "made-by-a-plugin"}}'
"""


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    path.write_text(KUBECONFIG)
    return path


@pytest.mark.usefixtures("kubeconfig")
async def test_a_kubeconfig_may_log_in_by_a_plugin() -> None:
    found = Configuration()
    await load_login(found)
    assert found.host == "https://10.0.0.1:6443"
    assert found.api_key["BearerToken"] == "Bearer made-by-a-plugin"


async def test_without_credentials_it_says_what_was_looked_for(kubeconfig: Path) -> None:
    kubeconfig.unlink()  # noqa: ASYNC240
    with pytest.raises(UnavailableError, match="neither a service account nor a kubeconfig"):
        await load_login(Configuration())


@pytest.mark.parametrize("cut", ["", "{", "kind", "- a", KUBECONFIG[:40]])
async def test_a_kubeconfig_that_is_half_written_is_read_again_later(
    kubeconfig: Path, cut: str
) -> None:
    kubeconfig.write_text(cut)  # noqa: ASYNC240
    with pytest.raises(UnavailableError, match="no credentials"):
        await ApiServer.connect()
    kubeconfig.write_text(KUBECONFIG)  # noqa: ASYNC240
    await (await ApiServer.connect()).close()


async def test_a_certificate_that_is_half_written_is_read_again_later(
    server: Server, tmp_path: Path
) -> None:
    own = Authority.make(tmp_path, "ca").sign("operator", Role.OPERATOR)

    async def log_in(configuration: Configuration) -> None:
        await server.log_in(configuration)
        if server.logins > 1:
            configuration.cert_file, configuration.key_file = str(own.certificate), str(own.key)

    connection = await ApiServer.connect(log_in)
    whole = own.key.read_bytes()
    own.key.write_bytes(whole[:20])
    connection.log_in_again()
    with pytest.raises(UnavailableError, match="expected a whole kubeconfig, certificate and key"):
        await DynamicApi(connection, "fleet").get(POD, "a")
    own.key.write_bytes(whole)
    assert await DynamicApi(connection, "fleet").get(POD, "a") == {}
    await connection.close()


@pytest.mark.parametrize(
    "failure",
    [UnavailableError("a plugin is away"), OSError("it is cut off"), asyncio.CancelledError()],
    ids=repr,
)
async def test_a_login_that_failed_is_tried_again_by_the_next_request(
    server: Server, failure: BaseException
) -> None:
    """Or was given up in the midst: the lease may end while it is under way."""

    async def log_in(configuration: Configuration) -> None:
        await server.log_in(configuration)
        if server.logins == 2:
            raise failure

    connection = await ApiServer.connect(log_in)
    connection.log_in_again()
    with pytest.raises((UnavailableError, asyncio.CancelledError)):
        await DynamicApi(connection, "fleet").get(POD, "a")
    for _ in range(2):
        await DynamicApi(connection, "fleet").get(POD, "a")
    await connection.close()
    assert server.headers == ["Bearer token-3", "Bearer token-3"]


async def test_one_login_serves_many_requests(server: Server, api: DynamicApi) -> None:
    for _ in range(3):
        await api.get(POD, "a")
    assert set(server.headers) == {"Bearer token-1"}


async def test_a_denied_login_is_made_anew(server: Server, api: DynamicApi) -> None:
    server.status = 401
    with pytest.raises(UnavailableError):
        await api.get(POD, "a")
    server.status = 200
    await api.get(POD, "a")
    assert server.headers == ["Bearer token-1", "Bearer token-2"]


async def test_a_denied_login_without_a_token_is_made_anew_too(server: Server) -> None:
    logins = []

    async def log_in(configuration: Configuration) -> None:
        configuration.host = server.url  # as a kubeconfig that has a client's certificate
        logins.append(configuration)

    connection = await ApiServer.connect(log_in)
    connection.log_in_again()
    await DynamicApi(connection, "fleet").get(POD, "a")
    await connection.close()
    assert len(logins) == 2


async def test_a_new_login_leaves_requests_under_way_alone(
    server: Server, api: DynamicApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = asyncio.ensure_future(api.get(POD, "slow"))
    await server.is_asked.wait()
    monkeypatch.setattr(module, "LOGIN_MAX_AGE_S", -1.0)
    await api.get(POD, "a")
    assert server.headers == ["Bearer token-1", "Bearer token-2"]
    server.gate.set()
    assert await slow == {}


async def test_an_authority_that_takes_over_is_trusted_from_the_next_login_on(
    tmp_path: Path,
) -> None:
    authorities = [Authority.make(tmp_path / name, name) for name in ("old", "new")]
    own = authorities[1].sign("server", Role.BOOKIE)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.certificate, own.key)

    async with running(tls) as secure:

        async def log_in(configuration: Configuration) -> None:
            await secure.log_in(configuration)
            configuration.ssl_ca_cert = str(authorities.pop(0).own.certificate)

        connection = await ApiServer.connect(log_in)
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await DynamicApi(connection, "fleet").get(POD, "a")
        connection.log_in_again()
        assert await DynamicApi(connection, "fleet").get(POD, "a") == {}
        await connection.close()


@pytest.mark.parametrize(
    "words",
    [
        'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized '
        "and the storageclass that provisions the pvc must support resize",
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": host namespaces',
        'pods "a" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi',
        'persistentvolumeclaims "a" is forbidden: exceeded quota: disks',
        'admission webhook "validate.kyverno.svc" denied the request: no',
    ],
)
async def test_d10_what_a_policy_refuses_is_no_lack_of_rights(
    server: Server, api: DynamicApi, words: str
) -> None:
    server.status, server.answer = 403, {"message": words, "reason": "Forbidden"}
    with pytest.raises(RefusedError, match=r"apply ConfigMap a: .*"):
        await api.apply(CONFIG_MAP, BODY)


@pytest.mark.parametrize(
    "words",
    [
        'pods is forbidden: User "system:serviceaccount:ops:op" cannot list resource "pods" in API '
        'group "" in the namespace "fleet"',
        'roles "a" is forbidden: user "op" (groups=["x"]) is attempting to grant RBAC permissions '
        "not currently held",
    ],
)
async def test_d10_a_right_that_lacks_is_told_as_such(
    server: Server, api: DynamicApi, words: str
) -> None:
    server.status, server.answer = 403, {"message": words, "reason": "Forbidden"}
    with pytest.raises(ForbiddenError):
        await api.apply(CONFIG_MAP, BODY)
