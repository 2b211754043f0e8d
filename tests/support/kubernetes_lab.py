"""A cluster's namespace in memory: the fake API server, its controllers, and a platform over it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from bookie.ids import BookieId
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.observed import Bookie, JobKind, Process
from bookie_operator.plan.actions import BookieTemplate, StartJob, template_of
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    CSI_DRIVER,
    NODE,
    POD,
    SECRET,
    STORAGE_CLASS,
    Object,
)
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from fake_api import FakeApi
from fake_controllers import NODE_NAME, Controllers
from operator_scenes import manifest

B0: Final = BookieId("bookie-0")
POD_0: Final = "demo-bookie-0-0"
NAMESPACE: Final = "fleet"
LOCAL_PATH: Final[Object] = {
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "rancher.io/local-path",
}


class Lab:
    """One BookieCluster `demo`; its metadata store lies elsewhere unless `spec` says otherwise."""

    def __init__(self, **spec: Any) -> None:
        self.api = FakeApi(NAMESPACE)
        self.controllers = Controllers(self.api)
        self.api.put(STORAGE_CLASS, LOCAL_PATH)
        body = manifest(**({"metadata": {"connect": "zk://zk:2181/ledgers"}} | spec))
        body["metadata"].pop("generation")
        self.api.put(CLUSTER, body)
        self.platform = self.restarted()

    def surround(self, labels: Mapping[str, str]) -> None:
        """A node with these labels, and two classes of disks that take ReadWriteOncePod volumes."""
        address = {"type": "InternalIP", "address": "10.1.0.1"}
        node = {"name": NODE_NAME, "labels": dict(labels)}
        self.api.put(NODE, {"metadata": node, "status": {"addresses": [address]}})
        for name in ("fast", "slow"):
            disks = {"provisioner": "disks.example.org"}
            self.api.put(STORAGE_CLASS, {"metadata": {"name": name}} | disks)
        self.api.put(CSI_DRIVER, {"metadata": {"name": "disks.example.org"}})

    def certify(self, holder: str) -> None:
        """Credentials are there: no pod has to wait for them."""
        if self.api.find(SECRET, f"demo-{holder}-tls") is None:
            self.api.put(SECRET, {"metadata": {"name": f"demo-{holder}-tls"}})

    @property
    def cluster(self) -> BookieCluster:
        return BookieCluster.model_validate(self.api.the(CLUSTER, "demo"))

    def restarted(self) -> KubernetesPlatform:
        """The platform of an operator that has just started."""
        return KubernetesPlatform(self.api, self.cluster, clock=lambda: self.api.now)

    def template(self, bookie_id: BookieId = B0, **spec: Any) -> BookieTemplate:
        wanted = self.cluster.spec.model_copy(update=spec)
        return template_of(wanted, bookie_id)

    async def reach_metadata(self) -> str:
        return await self.platform.metadata_url(self.cluster)

    async def make_volumes(self, bookie_id: BookieId = B0) -> list[bool]:
        disks = self.template(bookie_id).disks
        return [await self.platform.create_volume(bookie_id, disk) for disk in disks]

    async def run_bookie(self, bookie_id: BookieId = B0) -> Process:
        """From nothing to a bookie whose pod runs."""
        await self.reach_metadata()
        await self.make_volumes(bookie_id)
        self.certify(bookie_id)
        await self.platform.start_bookie(self.template(bookie_id))
        self.controllers.settle()
        return await self.process(bookie_id)

    async def bookie(self, bookie_id: BookieId = B0) -> Bookie:
        return (await self.platform.bookies())[bookie_id]

    async def process(self, bookie_id: BookieId = B0) -> Process:
        process = (await self.bookie(bookie_id)).process
        assert process is not None
        return process

    async def instance(self, bookie_id: BookieId = B0) -> str:
        return (await self.process(bookie_id)).instance

    def pod(self, bookie_id: BookieId = B0) -> Object | None:
        return self.api.find(POD, names.pod_name("demo", bookie_id))


def repair_job(name: str = "demo-bookie-0-2-1", **facts: Any) -> StartJob:
    whole: dict[str, Any] = {
        "kind": JobKind.REPAIR,
        "engine": "inline",
        "attempt": 1,
        "bookie_id": B0,
        "boot_epoch": 2,
    }
    return StartJob(name=name, **(whole | facts))


def expanded(text: str, **variables: str) -> str:
    """As a kubelet does it with arguments and with values of variables, where these are set."""

    def put_in(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else variables.get(found[2], found[0])

    return re.sub(r"\$(\$|\(([^)]*)\))", put_in, text)
