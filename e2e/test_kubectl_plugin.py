"""The plugin against a real API server: the same claims that its fake kubectl keeps.

Needs the CRDs (applies them where there are none) and no operator: statuses are set as an operator
sets them. Runs only against a kubeconfig whose context starts with `kind-`, and not beside an
operator that watches every namespace, which would write those statuses itself.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bookie_operator.kubectl.__main__ import plugin
from bookie_operator.kubectl.client import CLUSTERS, TASKS, Kubectl, KubectlError
from click.testing import CliRunner, Result
from kubectl_contract import KubectlContract
from kubectl_lab import tree_of

pytestmark = pytest.mark.usefixtures("cluster")

CRDS = Path(__file__).parents[1] / "crds"
NAMESPACE = "books"
RESOURCES = {"bookieclusters": CLUSTERS, "bookietasks": TASKS, "events": "events"}
SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "namespace", "generation")


def kubectl(*words: str, stdin: object = None) -> str:
    text = "" if stdin is None else json.dumps(stdin)
    done = subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


class RealLab:
    """A namespace of a real API server."""

    user = "kubernetes-admin"
    """Of the kubeconfig that kind writes."""

    def run(self, *words: str, stdin: str = "") -> Result:
        return CliRunner().invoke(plugin, ["-n", NAMESPACE, *words], input=stdin)

    def kubectl(self, *flags: str) -> Kubectl:
        return Kubectl((f"--namespace={NAMESPACE}", *flags))

    def put(self, plural: str, tree: dict[str, Any]) -> None:
        kept = {k: v for k, v in tree["metadata"].items() if k not in SERVERS_OWN}
        kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=tree | {"metadata": kept})
        if "status" in tree:
            self.set_status(plural, kept["name"], tree["status"])

    def get(self, plural: str, name: str) -> dict[str, Any]:
        return self.kubectl().get(RESOURCES[plural], name)

    def set_status(self, plural: str, name: str, status: dict[str, Any]) -> None:
        change = json.dumps({"status": status})
        words = ("--subresource=status", "--type=merge", f"--patch={change}")
        kubectl("patch", RESOURCES[plural], name, "-n", NAMESPACE, *words)

    def delete(self, plural: str, name: str) -> None:
        kubectl("delete", RESOURCES[plural], name, "-n", NAMESPACE)

    def look_on(self) -> None:
        """A real watch always does."""


@pytest.fixture(scope="module")
def namespace() -> Iterator[None]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    found = subprocess.run(
        ["kubectl", "config", "current-context"], capture_output=True, text=True, timeout=60
    )
    context = found.stdout.strip()
    if not context.startswith("kind-"):
        pytest.skip(f"the context is {context or 'not set'!r}, expected one that starts with kind-")
    if _watches_everything():
        pytest.skip("an operator that watches every namespace would set the statuses itself")
    for crd in sorted(CRDS.glob("*.yaml")):
        kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crd))
    names = (f"crd/{CLUSTERS}", f"crd/{TASKS}")
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "-f", "-", stdin=made)
    yield
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _watches_everything() -> bool:
    words = ("get", "deployments", "-A", "-l", "app.kubernetes.io/name=bookie-operator")
    return any(
        not any(word.startswith("--namespace") for word in container.get("args", ()))
        for deployment in json.loads(kubectl(*words, "-o", "json"))["items"]
        for container in deployment["spec"]["template"]["spec"]["containers"]
    )


@pytest.fixture
def lab(namespace: None) -> Iterator[RealLab]:
    yield RealLab()
    for resource in RESOURCES.values():
        kubectl("delete", resource, "--all", "-n", NAMESPACE)


class TestReal(KubectlContract):
    def test_a_task_that_breaks_a_rule_is_refused_in_our_words(self, lab: RealLab) -> None:
        spec = {"cluster": "demo", "type": "replace-disk", "disk": "ledger-0"}
        task = {"apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1", "kind": "BookieTask"}
        with pytest.raises(KubectlError, match="bookie is needed by approve"):
            lab.kubectl().create(task | {"metadata": {"generateName": "x-"}, "spec": spec})

    def test_a_right_that_is_lacking_is_told(self, lab: RealLab) -> None:
        done = lab.run("status", "--as", "nobody")
        assert done.exit_code == 1 and "expected the right to do so" in done.stderr

    def test_an_unknown_context_is_told(self, lab: RealLab) -> None:
        done = lab.run("status", "--context", "nowhere")
        assert done.exit_code == 1 and "kubectl config get-contexts" in done.stderr

    def test_a_server_that_is_not_there_is_told(self, lab: RealLab, tmp_path: Path) -> None:
        cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
        context = {"name": "c", "context": {"cluster": "c"}}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
        path = tmp_path / "config"
        path.write_text(json.dumps(config | {"clusters": [cluster], "contexts": [context]}))
        done = lab.run("status", "--kubeconfig", str(path))
        assert done.exit_code == 1 and "expected an API server" in done.stderr

    def test_kubectl_finds_the_plugin(self, lab: RealLab) -> None:
        if shutil.which("kubectl-bookie") is None:
            pytest.skip("kubectl-bookie is not on PATH")
        lab.put("bookieclusters", tree_of("healthy"))
        assert "BookieCluster demo" in kubectl("bookie", "status", "-n", NAMESPACE)
