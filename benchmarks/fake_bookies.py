"""Bookies as far as an operator sees them: a control plane at each pod's address, and ZooKeeper.

Each is a gRPC server of its own, with the product's guard in front: it answers for one boot of one
bookie, and whoever means another is refused. Pods have addresses of the loopback network. What
stands in ZooKeeper is written through the product's own store, on one session for all of them.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import grpc
from bookie.errors import MetadataConflictError
from bookie.ids import BookieId
from bookie.metadata.layout import Paths
from bookie.metadata.session import ZooKeeperSession
from bookie.metadata.store import ADMIN_ENDPOINT, RUN_ENDPOINT, BookieInfo, Cookie, Endpoint
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.server.admin import IdentityGuard
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.admin.health import Health, Phase
from bookie.wire.identity import Identity
from bookie_operator.control import Addressee
from bookie_operator.platform.kubernetes.api import CLUSTER, POD, Object
from bookie_operator.platform.kubernetes.bookies import ADMIN_PORT, RUN_PORT
from bookie_operator.platform.kubernetes.names import BOOKIE_LABEL
from fake_api import FakeApi
from fake_controllers import Controllers
from fake_pods import FakeBookies

NOBODY: Final = Identity("", "")
NAME: Final = "fleet"
"""Of the one BookieCluster of each namespace."""


class FakeBookie(BookieAdminServicer):
    """The control plane of one bookie in one pod."""

    def __init__(self, fleet: "FakeFleet", name: str, address: str) -> None:
        self.name = name
        self._fleet = fleet
        self._address = address
        self._identity = NOBODY
        self._server = grpc.aio.server(interceptors=[IdentityGuard(lambda: self._identity)])
        add_BookieAdminServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]

    async def start(self) -> None:
        target = f"{self._address}:{ADMIN_PORT}"
        assert self._server.add_insecure_port(target), f"{target} is taken"
        await self._look()
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _look(self) -> Health | None:
        health = await self._fleet.health(Addressee(self._address, NOBODY))
        if health is not None and health.boot is not None:
            self._identity = Identity(health.instance_id, self.name, health.boot.epoch)
        return health

    async def GetHealth(self, request: Any, context: Any) -> pb.Health:
        health = await self._look()
        if health is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the pod is gone")
            raise AssertionError("abort raises")
        return message_of(health, self.name)


class FakeFleet:
    """The bookies of one namespace, and what its controllers do; `step` lets it happen once."""

    def __init__(self, api: FakeApi, controllers: Controllers, session: ZooKeeperSession) -> None:
        self.api = api
        self.read_only: set[str] = set()
        """Bookies whose disks are full."""
        self._bookies = FakeBookies(controllers)
        self._store = ZooKeeperStore(session, Paths(f"/{api.namespace}/ledgers"))
        self._instance_id = ""
        self._serving: dict[str, FakeBookie] = {}
        """By the address of the pod."""

    async def make_cluster(self) -> None:
        """The metadata of an empty cluster, as its first bookie would make it."""
        self._instance_id = await self._store.initialise()

    async def health(self, address: str) -> Health | None:
        found = await self._bookies.health(Addressee(f"{address}:{ADMIN_PORT}", NOBODY))
        if found is None or address not in self._serving:
            return None
        is_full = self._serving[address].name in self.read_only
        phase = Phase.READ_ONLY if is_full else found.phase
        return replace(found, instance_id=self._instance_id, phase=phase)

    async def step(self) -> None:
        self._bookies.step()
        pods = {_address(pod): _bookie(pod) for pod in self.api.all(POD) if _bookie(pod)}
        for address in {*self._serving} - {*pods}:
            gone = self._serving.pop(address)
            await gone.stop()
            if gone.name not in pods.values():
                await self._store.unregister(BookieId(gone.name))
        for address in {*pods} - {*self._serving} - {""}:
            await self._start(pods[address], address)

    async def _start(self, name: str, address: str) -> None:
        bookie = FakeBookie(self, name, address)
        self._serving[address] = bookie
        await bookie.start()
        await self.register(name)

    async def register(self, name: str) -> None:
        """As it is now: full, or not."""
        address = next(key for key, one in self._serving.items() if one.name == name)
        endpoints = (
            Endpoint(RUN_ENDPOINT, address, RUN_PORT, RUN_ENDPOINT),
            Endpoint(ADMIN_ENDPOINT, address, ADMIN_PORT, "grpc"),
        )
        cookie = Cookie(BookieId(name), ("/journal",), ("/ledger-0",), self._instance_id)
        if await self._store.read_cookie(cookie.bookie_id) is None:
            with suppress(MetadataConflictError):
                await self._store.create_cookie(cookie)
        info = BookieInfo(BookieId(name), endpoints, read_only=name in self.read_only)
        await self._store.register(info)

    @property
    def status(self) -> Object:
        """What the operator says of the cluster."""
        found: Object = self.api.the(CLUSTER, NAME).get("status") or {}
        return found

    @property
    def is_whole(self) -> bool:
        """Its pods run, and the operator says so of these very ones, and of the object as it is."""
        generation = self.api.the(CLUSTER, NAME)["metadata"]["generation"]
        status, pods = self.status, [pod for pod in self.api.all(POD) if _bookie(pod)]
        seen = {one.get("pod") for one in status.get("bookies") or ()}
        return (
            status.get("phase") == "Running"
            and status.get("observedGeneration") == generation
            and status.get("readyReplicas") == status.get("replicas") == len(self._serving)
            and seen == {pod["metadata"]["uid"] for pod in pods}
            and not any("deletionTimestamp" in pod["metadata"] for pod in pods)
        )


def _bookie(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(BOOKIE_LABEL, ""))


def _address(pod: Object) -> str:
    return str((pod.get("status") or {}).get("podIP") or "")


def message_of(health: Health, name: str) -> pb.Health:
    boot = health.boot
    assert boot is not None, "these boot at once"
    return pb.Health(
        bookie_id=name,
        instance_id=health.instance_id,
        phase=pb.Phase.Value(health.phase.name),
        limbo_ledgers=health.limbo_ledgers,
        boot=pb.BootRecord(
            boot_epoch=boot.epoch,
            clean=boot.clean,
            reason=boot.reason,
            started_at_ms=round(boot.started_at.timestamp() * 1000),
            mode=boot.mode,
        ),
        disks=[
            pb.DiskHealth(
                role=one.role,
                index=one.index,
                disk_id=one.disk_id,
                verdict=one.verdict,
                volume_uid=one.volume_uid,
            )
            for one in health.disks
        ],
    )
