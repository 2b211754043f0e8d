"""`python tests/security --kubernetes`: the same attacks on a default cluster of a kind cluster.

The operator is installed as docs/kubernetes.md says for production, and the cluster has the TLS
that it has by default. Attackers are pods: strangers in its namespace and in another one, and pods
that hold a certificate or a token of less. The harness of `e2e` brings up and applies; it is not
what is attacked, and the attacks share no code with the product.
"""

import json
import subprocess
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from catalogue import Doors
from control_plane import compiled
from harness import manifests
from harness.claims import LABEL
from harness.credentials import Credentials
from harness.fleet import BKC, Fleet, condition_of, pod_name
from harness.kind import Kind, NoClusterError, bring_up, load_images
from harness.kube import Object, wait_for
from harness.manifests import BOOKIE_IMAGE, CLUSTER, CREDENTIALS, REPAIR_IMAGE
from harness.operator import CHART, NAMESPACE, RELEASE, Operator
from harness.settings import TAG, Settings
from harness.story import remove_namespace
from verdicts import ON_EVERY_BOOKIE, Line, said

HERE: Final = Path(__file__).parent
TARGET: Final = "security-target"
ELSEWHERE: Final = "security-elsewhere"
CODE: Final = "/srv/attack/code"
FLEET: Final = f"spiffe://bookie-operator/{TARGET}/{CLUSTER}"
EXECUTORS: Final = "security-target/executors"
"""Label of the nodes that take executors: a driver that has none of them waits for them."""
SPEC: Final[Object] = {
    "audit": {"engine": "spark-kubernetes", "schedule": "@never"},
    "repair": {"startDeadlineSeconds": 600},
    "executorPod": {"nodeSelector": {EXECUTORS: "yes"}},
}
"""Over the manifest of e2e, which says nothing about TLS; the engine has a driver to attack."""
VALUES: Final = (
    f"image.repository=bookie-operator/operator,image.tag={TAG}",
    f"watchNamespaces={{{TARGET}}}",
    "rbac.nodes=false,rbac.storage=false",
)
WRITTEN: Final = "".join(f"line {number}\n" for number in range(500))
READY_S: Final = 90.0
ATTACKS_S: Final = 300.0
SPARK: Final = "spark-stranger"
SPARK_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class Post:
    """A pod from which attacks come."""

    name: str
    namespace: str = TARGET
    where: str = ""
    """Of strangers, in words; empty: it is none."""
    role: str = ""
    """Whose certificate of the fleet it has: `client`, `job`, `bookie`."""
    tokens: str = ""
    """What its account's token is tried for; empty: it has none."""
    account: str = "default"

    def holder(self) -> str:
        return "bookie-1" if self.role == "bookie" else self.role

    def plan(self, doors: Doors) -> Object:
        return {
            "doors": {name: getattr(doors, name) for name in Doors.__slots__},
            "is_stranger": bool(self.where),
            "where": self.where,
            "fleet": FLEET,
            "role": self.role,
            "folder": CREDENTIALS,
            "tokens": self.tokens,
            "account": f"the account {self.account} in {self.namespace}",
            "names": {"namespace": TARGET, "elsewhere": ELSEWHERE, "cluster": CLUSTER},
        }


POSTS: Final = (
    Post("stranger", where="in the namespace", tokens="anyone"),
    Post("stranger", ELSEWHERE, where="in another namespace", tokens="anyone"),
    Post("application", role="client"),
    Post("job", role="job", tokens="anyone", account=f"{CLUSTER}-repair"),
    Post("driver", tokens="driver", account=f"{CLUSTER}-spark-driver"),
    Post("bookie", role="bookie", tokens="anyone", account=f"{CLUSTER}-bookie"),
    Post("editor", tokens="editor", account="editor"),
    Post("operator", NAMESPACE, tokens="operator", account=RELEASE),
)


class Field:
    """The kind cluster with the fleet that is attacked, and the pods of the attackers."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.kube = kind.kube.within(TARGET)
        self.fleet = Fleet(self.kube)
        self._operator = Operator(kind)

    @contextmanager
    def prepared(self, folder: Path) -> Iterator[Doors]:
        """All of it, and a ledger that an honest person wrote; gone afterwards."""
        self._cleared()
        for name in (TARGET, ELSEWHERE):
            self._kind.kube.apply(namespace(name))
        values = [word for value in VALUES for word in ("--set", value)]
        words = ("upgrade", "--install", RELEASE, str(CHART), "--create-namespace", *values)
        self._operator.kube.helm(*words, "--wait", "--timeout=240s", seconds=250)
        try:
            self._take_executors()
            self.fleet.apply(SPEC)
            self.fleet.wait_whole()
            doors = self._doors(self._write())
            self._post(folder)
            yield doors
        finally:
            self.fleet.stop_watching()
            self._take_executors(are_taken=False)
            if not self._kind.settings.keep:
                self._cleared()

    def _cleared(self) -> None:
        """Nothing is left, neither of this run nor of one that was cut off.

        The cluster goes while there is an operator, and the operator while there are the namespaces
        that it names: its check before an uninstall looks into them.
        """
        if self._operator.is_installed():
            self._kind.kube.apply(namespace(TARGET))
            self.kube.delete(BKC, CLUSTER, wait=True)
        self._operator.kube.delete("pod", "operator")
        self._operator.remove()
        for name in (TARGET, ELSEWHERE):
            remove_namespace(self._kind.kube, name)

    def _take_executors(self, *, are_taken: bool = True) -> None:
        """Whether any node takes executors from now on; those that run go on."""
        self.kube("label", "nodes", "--all", EXECUTORS + ("=yes" if are_taken else "-"))

    def _write(self) -> int:
        """As the README has it, by a command in a bookie's pod."""
        words = ("bookie", "ledger", "write", "-", "--lines", "--output", "json", *ON_EVERY_BOOKIE)
        inside = ("exec", "--stdin", pod_name("bookie-0"), "--", *words)
        return int(json.loads(self.kube(*inside, stdin=WRITTEN))["ledger_id"])

    def _doors(self, ledger_id: int) -> Doors:
        host = f"{pod_name('bookie-0')}.{CLUSTER}-bookies.{TARGET}.svc"
        zookeeper = f"{CLUSTER}-zookeeper.{TARGET}.svc:2181"
        return Doors(host, 3183, 3181, 3182, zookeeper, "bookie-0", ledger_id)

    # Attackers
    def _post(self, folder: Path) -> None:
        """Their code, their accounts and their pods, until they run."""
        names = {file.name: file.read_text(encoding="utf-8") for file in HERE.glob("*.py")}
        names.pop("on_kind.py")
        pb2 = compiled(folder / "proto")
        authorities = Credentials(self.fleet).read(f"{CLUSTER}-client-tls")["ca.crt"]
        data = {**names, pb2.name: pb2.read_text(), "ca.crt": authorities.decode("ascii")}
        for place in (TARGET, ELSEWHERE, NAMESPACE):
            self.kube.within(place).apply(config_map(place, data))
        self.kube.apply(*editor())
        everyone = {post: self.kube.within(post.namespace) for post in POSTS}
        for post, kube in everyone.items():
            kube.delete("pod", post.name, wait=True)
            kube.apply(pod_of(post))
        self.kube.apply(pod_of(Post(SPARK), image=REPAIR_IMAGE))
        for post, kube in (*everyone.items(), (Post(SPARK), self.kube)):
            words = ("wait", "pod", post.name, "--for=condition=Ready", "--timeout=90s")
            kube(*words, seconds=READY_S)

    def attacked(self, post: Post, doors: Doors) -> Iterator[Line]:
        """What came of all that this one tries."""
        words = ("exec", "--stdin", post.name, "--", "python", f"{CODE}/in_pod.py")
        text = json.dumps(post.plan(doors)) + "\n"
        told = self.kube.within(post.namespace)(*words, stdin=text, seconds=ATTACKS_S)
        for line in told.splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    @contextmanager
    def half_opened(self, doors: Doors) -> Iterator[None]:
        """Meanwhile a stranger holds handshakes half open on every port of a bookie."""
        words = ("exec", "--stdin", "stranger", "--", "python", f"{CODE}/in_pod.py", "hold")
        environment = self.kube.environment
        holding = subprocess.Popen(
            self.kube.words(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**environment, "HOME": str(Path.home())},
        )  # fmt: skip
        assert holding.stdin is not None and holding.stdout is not None
        holding.stdin.write(json.dumps(POSTS[0].plan(doors)) + "\n")
        holding.stdin.flush()
        assert holding.stdout.readline() == "held\n", "no handshake could be begun"
        try:
            yield
        finally:
            holding.stdin.close()
            holding.wait(30)
            holding.stdout.close()

    def at_driver(self) -> Iterator[Line]:
        """A5: a stranger's executors at the driver of an audit; then it gets its own.

        No node takes these before: a driver that has them is soon done.
        """
        self.fleet.wait_condition("DurabilityVerified", seconds=SPARK_S)  # no other driver runs
        before = {str(pod["metadata"]["name"]) for pod in self.kube.items("pods")}
        self._take_executors(are_taken=False)
        self.kube.apply(manifests.task(TARGET, "attacked", {"type": "audit"}))
        driver = wait_for("a driver of Spark", lambda: self._driver(before), seconds=READY_S)
        words = ("exec", SPARK, "--", "python", f"{CODE}/spark_in_pod.py", driver)
        told = self.kube(*words, seconds=SPARK_S)
        self._take_executors()
        for line in told.splitlines():
            if line.startswith("["):
                what, refused, came = json.loads(line)
                yield spark_line("a stranger in the namespace", what, refused, came)
        ended = wait_for("the audit", self._audited, seconds=SPARK_S)
        came = f"{ended['phase']}: {ended.get('message', '')}"
        is_good = ended["phase"] == "Succeeded"
        yield spark_line("its own executors", "do the audit", not is_good, came, must_work=True)

    def _driver(self, before: Container[str]) -> str | None:
        """The address of the driver's pod, once it runs; none that was there before."""
        for pod in self.kube.items("pods", f"{LABEL}/cluster={CLUSTER}"):
            account = pod["spec"].get("serviceAccountName", "")
            status = pod["status"]
            own = [one["kind"] for one in pod["metadata"].get("ownerReferences") or ()]
            is_driver = account.endswith("-spark-driver") and own == ["Job"]
            is_new = pod["metadata"]["name"] not in before
            if is_driver and is_new and status["phase"] == "Running":
                return str(status["podIP"])
        return None

    def _audited(self) -> Object | None:
        found = self.kube.get("bookietasks.bookkeeper.bookie-operator.dev", "attacked") or {}
        status: Object = found.get("status") or {}
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    # Afterwards
    def intact(self, doors: Doors) -> bool:
        """What was written is read back by an application with credentials."""
        where = ("--metadata", self.fleet.metadata_url())
        words = ("bookie", "ledger", "read", str(doors.ledger_id), "--raw", *where)
        return self.kube("exec", "application", "--", *words) == WRITTEN.replace("\n", "")

    def is_whole(self) -> bool:
        """An audit finds every copy, nobody is afraid of a loss, and nobody was restarted."""
        audit = self.kube("exec", pod_name("bookie-0"), "--", "bookie", "audit", seconds=120)
        found = self.fleet.wait_whole()
        return (
            "everything that must be there is there" in audit
            and condition_of(found, "PossibleDataLoss")["status"] == "False"
            and all(one["bootEpoch"] == 1 for one in found["status"]["bookies"])
        )

    def with_tokens(self) -> list[str]:
        """Pods of the fleet that could ask the API server for anything."""
        ours = self.kube.items("pods", f"{LABEL}/component in (bookie,zookeeper)")
        mounted = "/var/run/secrets/kubernetes.io"
        return [
            str(pod["metadata"]["name"])
            for pod in ours
            for one in pod["spec"]["containers"]
            if any(m["mountPath"].startswith(mounted) for m in one["volumeMounts"])
        ]


def spark_line(who: str, what: str, refused: bool, came: str, *, must_work: bool = False) -> Line:
    mark = "RED " if refused is must_work else ""
    verdict = f"{mark}{'refused' if refused else 'worked'}"
    return {"line": "Spark's driver", "who": who, "what": what, "came": came, "verdict": verdict}


def namespace(name: str) -> Object:
    """Without Pod Security: what refuses is to be the product's own."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(place: str, data: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "attack", "namespace": place},
        "data": dict(data),
    }


def editor() -> list[Object]:
    """An account that may change clusters and tasks, as people have the right: no pods."""
    meta = {"name": "editor", "namespace": TARGET}
    rules = [
        {
            "apiGroups": ["bookkeeper.bookie-operator.dev"],
            "resources": ["bookieclusters", "bookietasks"],
            "verbs": ["get", "create", "update", "patch"],
        }
    ]
    subject = {"kind": "ServiceAccount", **meta}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor"}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": rbac, "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": meta, "subjects": [subject],
         "roleRef": ref},
    ]  # fmt: skip


def pod_of(post: Post, *, image: str = BOOKIE_IMAGE) -> Object:
    """It waits to be told what to do."""
    container: dict[str, Any] = {
        "name": "attacker",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "86400"],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "code", "mountPath": CODE}],
    }
    volumes: list[Object] = [{"name": "code", "configMap": {"name": "attack"}}]
    if post.role:
        container["volumeMounts"].append(manifests.mount(post.holder(), CREDENTIALS))
        container["env"] += manifests.credentials_env(manifests.REQUIRED)
        volumes.append(manifests.secret_volume(post.holder()))
    made = manifests.pod(post.namespace, post.name, container, volumes)
    made["spec"] |= {
        "serviceAccountName": post.account,
        "automountServiceAccountToken": bool(post.tokens),
        "enableServiceLinks": False,
    }
    return made


def attack_on_kind(folder: Path) -> tuple[list[Line], Mapping[str, bool]]:
    """Every line, and what must hold afterwards; neither where no kind cluster is to be had."""
    try:
        kind = bring_up(Settings.from_environment())
        load_images(kind)
    except NoClusterError as error:
        print(f"SKIPPED: attacks on Kubernetes: no kind cluster: {error}")
        return [], {}
    try:
        return _attacked(Field(kind), folder)
    finally:
        kind.down()


def _attacked(field: Field, folder: Path) -> tuple[list[Line], Mapping[str, bool]]:
    lines: list[Line] = []

    def take(found: Iterator[Line]) -> None:
        for line in found:
            lines.append(line)
            print(said(line), flush=True)

    with field.prepared(folder) as doors:
        for post in POSTS:
            take(field.attacked(post, doors))
        take(field.at_driver())
        with field.half_opened(doors):
            is_intact = field.intact(doors)
        return lines, {
            "what was written is read back while handshakes hang": is_intact,
            "an audit finds every copy, and nobody was restarted": field.is_whole(),
            "no pod of the fleet at rest has a token": not field.with_tokens(),
        }
