"""Bookies inside the pods of a FakeApi, as far as their control planes tell, and the jobs on them.

A bookie boots when its container starts: unclean when the one before was killed. A repair that
ends well clears its limbo. `step()` lets whatever is due happen, once.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, Cookie, MetadataStore
from bookie.wire.admin.health import Health, Phase
from bookie_operator.control import Addressee
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, JOB, POD, Object
from bookie_operator.platform.kubernetes.names import BOOKIE_LABEL
from fake_controllers import Controllers, settings_of
from operator_scenes import bookie

LEDGERS: Final = 3
"""In limbo after an unclean stop."""
CLEAN_AUDIT: Final = {"engine": "inline", "audit": {"ledgers": LEDGERS, "entries": 9, "ok": 9}}
REPAIRED: Final = {"engine": "inline", "entries_copied": 7, "ledgers": {"recovered": LEDGERS}}


@dataclass
class Boots:
    """What lies on one bookie's disks."""

    instance: str = ""
    epoch: int = 0
    limbo: int = 0
    reason: str = "FirstBoot"


@dataclass
class FakeBookies:
    """A Control; addresses are those of pods."""

    controllers: Controllers
    metadata: MemoryCluster = field(default_factory=MemoryCluster)
    boots: dict[str, Boots] = field(default_factory=dict)
    sessions: list[MemoryStore] = field(default_factory=list)
    draining: set[str] = field(default_factory=set)
    """Addresses of bookies that take no entries; no ledger names them."""
    endless: set[str] = field(default_factory=set)
    """Jobs that work on and on."""
    mounted: dict[str, str] = field(default_factory=dict)
    """Settings by the uid of the pod that has them."""

    async def open_store(self, url: str) -> MetadataStore:
        return MemoryStore(self.metadata)

    async def register(self, *names: BookieId) -> None:
        for name in names:
            session = MemoryStore(self.metadata)
            await session.register(BookieInfo(name, ()))
            await session.create_cookie(Cookie(name, ("/journal",), ("/ledger-0",), "instance"))
            self.sessions.append(session)

    # The Control

    async def health(self, to: Addressee) -> Health | None:
        for pod in self.controllers.api.all(POD):
            status = pod.get("status") or {}
            if f"{status.get('podIP')}:3183" == to.address:
                return self._told(pod)
        return None

    async def approve(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        raise AssertionError("nothing waits for approval here")

    async def approve_collection(self, to: Addressee, *, plan_id: str, approved_by: str) -> None:
        raise AssertionError("nothing waits for approval here")

    async def drain(self, to: Addressee, *, cancel: bool) -> None:
        self.draining -= {to.address}
        self.draining |= set() if cancel else {to.address}

    async def close(self) -> None:
        return

    def _told(self, pod: Object) -> Health | None:
        name = str(pod["metadata"]["labels"][BOOKIE_LABEL])
        boot = self._booted(name, pod)
        told = bookie(name, epoch=boot.epoch, reason=boot.reason, limbo=boot.limbo).health
        assert told is not None
        if f"{pod['status']['podIP']}:3183" in self.draining:
            told = replace(told, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0)
        uids = self._volume_uids(pod)
        disks = tuple(
            replace(disk, volume_uid=uid) for disk, uid in zip(told.disks, uids, strict=True)
        )
        return replace(told, disks=disks)

    def _booted(self, name: str, pod: Object) -> Boots:
        [container] = pod["status"]["containerStatuses"]
        instance = f"{pod['metadata']['uid']}.{container['restartCount']}"
        boot = self.boots.setdefault(name, Boots())
        if boot.instance != instance:
            is_first, killed = boot.epoch == 0, "lastState" in container
            reason = "UncleanShutdown" if killed else "CleanStop"
            boot.reason = "FirstBoot" if is_first else reason
            boot.limbo = LEDGERS if killed else boot.limbo
            boot.instance, boot.epoch = instance, boot.epoch + 1
        return boot

    def _volume_uids(self, pod: Object) -> list[str]:
        """As its settings name them, which it has once it runs."""
        uid = str(pod["metadata"]["uid"])
        if uid not in self.mounted:
            [name] = settings_of(pod)
            self.mounted[uid] = self.controllers.api.the(CONFIG_MAP, name)["data"]["bookie.yaml"]
        return volume_uids(self.mounted[uid])

    # What happens meanwhile

    def step(self) -> None:
        self.controllers.settle()
        for job in self.controllers.api.all(JOB):
            name = job["metadata"]["name"]
            is_over = bool((job.get("status") or {}).get("conditions")) or name in self.endless
            if self.controllers.api.find(POD, f"{name}-pod") is not None and not is_over:
                self._end_job(name, job)

    def _end_job(self, name: str, job: Object) -> None:
        repaired = job["metadata"]["labels"].get(BOOKIE_LABEL)
        if repaired is not None:
            self.boots[repaired].limbo = 0
        self.controllers.end_job(name, REPAIRED if repaired is not None else CLEAN_AUDIT)


@functools.cache
def volume_uids(settings: str) -> list[str]:
    tree: Mapping[str, Any] = yaml.safe_load(settings)
    return [disk["volumeUid"] for disk in (tree["journal"], *tree["ledgers"])]
