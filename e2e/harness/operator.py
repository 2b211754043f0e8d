"""The operator as helm installs it: up, killed, upgraded, gone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.commands import CommandError
from harness.containers import running_containers, signal_containers
from harness.fleet import BKC, BKT
from harness.kind import Kind
from harness.kube import Object, wait_for
from harness.settings import PATIENCE, ROOT, TAG

RELEASE: Final = "bookie-operator"
NAMESPACE: Final = "bookie-system"
CHART: Final = ROOT / "charts" / "bookie-operator"
SELECTOR: Final = "app.kubernetes.io/name=bookie-operator"
HELM_S: Final = 150.0
READY_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU since the container began, memory now."""

    cpu_seconds: float
    mib: float


class Operator:
    """One release in one namespace of one cluster."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.kube = kind.kube.within(NAMESPACE)

    def install(
        self,
        chart: str = str(CHART),
        *,
        tag: str = TAG,
        replicas: int = 1,
        values: Sequence[str] = (),
    ) -> None:
        """`helm upgrade --install`, and until it is ready. `values`: more of the chart's."""
        given = [f"image.repository=bookie-operator/operator,image.tag={tag}", *values]
        if replicas > 1:  # an older chart knows no such value
            given.append(f"replicas={replicas}")
        sets = [word for value in given for word in ("--set", value)]
        words = ("upgrade", "--install", RELEASE, chart, "--create-namespace", *sets)
        self.kube.helm(*words, "--wait", "--timeout", f"{120 * PATIENCE:.0f}s", seconds=HELM_S)

    def renew(self) -> None:
        """This tree's chart and image in place of an earlier run's under the same names."""
        if self.is_installed():
            self.install()
            self.kube("rollout", "restart", "deployment", "--selector", SELECTOR)
            self.kube("rollout", "status", "deployment", "--selector", SELECTOR, seconds=READY_S)

    def ensure(self) -> None:
        """Installed and ready."""
        if not self.is_installed():
            self.remove()
            self.install()
        self.wait_ready()

    def remove(self) -> None:
        """Nothing of it left, its CRDs neither: they belong to one release in one namespace."""
        if self.is_installed():
            self.uninstall()
        for crd in (BKT, BKC):
            left = self.kube.items(crd, everywhere=True) if self.kube.get("crd", crd) else []
            assert not left, f"{len(left)} {crd} of others would go with their CRD"
            self.kube.delete("crd", crd, wait=True)

    def uninstall(self) -> None:
        """CommandError when the chart refuses."""
        self.kube.helm(
            "uninstall", RELEASE, "--wait", "--timeout", f"{90 * PATIENCE:.0f}s", seconds=HELM_S
        )

    def is_installed(self) -> bool:
        found = json.loads(self.kube.helm("list", "--all", "--output", "json"))
        return any(one["name"] == RELEASE for one in found)

    def pod(self, name: str = "") -> Object:
        """The one of this name, or one that is not on its way out."""

        def alive() -> Object | None:
            pods = [
                pod
                for pod in self.kube.items("pods", SELECTOR)
                if "deletionTimestamp" not in pod["metadata"]
                and not is_job(pod)
                and name in ("", pod["metadata"]["name"])
            ]
            return pods[0] if pods else None

        return wait_for("the operator's pod", alive, seconds=READY_S)

    def leader(self) -> str:
        """The pod that holds the lease."""

        def holder() -> str | None:
            lease = self.kube.get("lease", RELEASE) or {}
            return (lease.get("spec") or {}).get("holderIdentity")

        return str(wait_for("an operator that holds the lease", holder, seconds=READY_S))

    def image(self) -> str:
        return str(self.pod()["spec"]["containers"][0]["image"])

    def wait_ready(self) -> Object:
        return wait_for(
            "a ready operator",
            lambda: pod if is_ready(pod := self.pod()) else None,
            seconds=READY_S,
        )

    def kill(self, name: str = "") -> None:
        """SIGKILL its process, and drop the pod: a restart in place would wait for back-off."""
        pod = self.pod(name)
        name = pod["metadata"]["name"]
        for identity in running_containers(pod).values():
            signal_containers(self._kind, pod["spec"]["nodeName"], [identity], "KILL")
        self.kube("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")

    def usage(self) -> Usage:
        """What its container has taken so far, as the node's container runtime counts."""
        pod = self.pod()
        (identity,) = running_containers(pod).values()
        words = f"crictl stats --output json --id {identity}"
        (found,) = json.loads(self._kind.on_node(pod["spec"]["nodeName"], words))["stats"]
        seconds = int(found["cpu"]["usageCoreNanoSeconds"]["value"]) / 1e9
        return Usage(seconds, int(found["memory"]["workingSetBytes"]["value"]) / 2**20)

    def log(self) -> str:
        try:
            return self.kube("logs", "--selector", SELECTOR, "--tail", "-1", "--prefix")
        except CommandError as error:
            return str(error)


def is_job(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["kind"] == "Job" for owner in owners)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
