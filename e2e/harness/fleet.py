"""One BookieCluster as its user sees it: its spec patched, its status waited for.

Waits are on conditions of the generation that was applied, and on boot epochs: a status of before
the fault never satisfies one.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from harness import manifests
from harness.commands import CommandError
from harness.kube import Kube, LateError, Object, wait_for
from harness.manifests import CLUSTER, OFF, WRITER
from harness.settings import ROOT
from harness.watch import Watch

UP_S: Final = 150.0
DETECT_S: Final = 60.0
CLEAR_S: Final = 180.0
TASK_S: Final = 90.0
UNFLUSHED: Final = "bookie_unflushed_bytes"
SERVING: Final = 'bookie_phase{phase="serving"} 1.0'
BKC: Final = "bookieclusters.bookkeeper.bookie-operator.dev"
BKT: Final = "bookietasks.bookkeeper.bookie-operator.dev"


class Fleet:
    """The cluster `demo` of one namespace."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.watch = Watch(kube, BKC, CLUSTER)
        self._generation = 1

    def apply(self, change: Mapping[str, Any]) -> None:
        """As `kubectl apply -f`, then follow it."""
        self.kube.apply(manifests.cluster(self.kube.namespace, change))
        self.follow()

    def follow(self) -> None:
        """A cluster that is there: waits look at what is seen from now on."""
        self.watch.start()

    def stop_watching(self) -> None:
        self.watch.stop()

    # As it is
    def object(self) -> Object:
        found = self.kube.get(BKC, CLUSTER)
        assert found is not None, f"there is no cluster {CLUSTER} in {self.kube.namespace}"
        return found

    def status(self) -> Object:
        return dict(self.object().get("status") or {})

    def bookie(self, bookie: str) -> Object:
        return bookie_of(self.object(), bookie)

    def epoch(self, bookie: str) -> int:
        return int(self.bookie(bookie)["bootEpoch"])

    def metadata_url(self) -> str:
        return str(self.status()["metadata"]["url"])

    def tls_mode(self) -> str:
        """What the spec asks for, defaults and all; an older version's knows no such field."""
        return str((self.object()["spec"].get("tls") or {}).get("mode", OFF))

    def pod(self, bookie: str) -> Object:
        name = pod_name(bookie)
        return wait_for(f"pod {name}", lambda: self.kube.get("pod", name), seconds=60.0)

    def up_at(self, bookie: str, epoch: int) -> datetime:
        """When this boot of the bookie began to serve, by its own log."""
        wanted = f"serving: epoch {epoch},"
        for line in self.kube.logs(pod_name(bookie), "--timestamps").splitlines():
            if wanted in line:
                return datetime.fromisoformat(line.split()[0])
        raise AssertionError(f"the log of {bookie} does not say {wanted!r}")

    def has_unflushed(self, bookie: str, *, bytes_least: int = 1) -> bool:
        """It says that it holds so much only in memory; False also while its pod cannot be asked,
        or boots: it may just be restarted for other settings.

        By its own /metrics.
        """
        path = (
            f"/api/v1/namespaces/{self.kube.namespace}/pods/{pod_name(bookie)}:8080/proxy/metrics"
        )
        try:
            lines = self.kube.raw(path).splitlines()
        except CommandError:
            return False
        for line in lines:
            if line.startswith(f"{UNFLUSHED} "):
                return float(line.split()[-1]) >= bytes_least
        if SERVING in lines:
            raise AssertionError(f"{bookie} serves, and has no metric {UNFLUSHED}")
        return False

    def registered(self) -> Object:
        """Of each bookie the hosts that it registered and their addresses, seen from a pod."""
        script = (ROOT / "e2e" / "pods" / "registered.py").read_text(encoding="utf-8")
        inside = ("exec", "--stdin", WRITER, "--", "python", "-", self.metadata_url())
        found: Object = json.loads(self.kube(*inside, stdin=script).splitlines()[-1])
        return found

    # Changes
    def change(self, spec: Mapping[str, Any]) -> int:
        """Patch the spec; the generation that has it."""
        changed = self.kube.patch(BKC, CLUSTER, {"spec": spec})
        self._generation = int(changed["metadata"]["generation"])
        return self._generation

    def _is_current(self, cluster: Object) -> bool:
        """Its status speaks of the newest spec, which the watch may not have seen yet."""
        generation = cluster["metadata"]["generation"]
        status = cluster.get("status") or {}
        return bool(
            generation >= self._generation and status.get("observedGeneration") == generation
        )

    def ask(self, name: str, spec: Mapping[str, Any], *, seconds: float = TASK_S) -> Object:
        """A task from its making to its end; its status."""
        self.kube.apply(manifests.task(self.kube.namespace, name, spec))

        def ended() -> Object | None:
            found = self.kube.get(BKT, name) or {}
            status: Object = found.get("status") or {}
            return status if status.get("phase") in ("Succeeded", "Failed") else None

        return wait_for(f"task {name}", ended, seconds=seconds)

    # Waits
    def wait(
        self,
        what: str,
        wanted: Callable[[Object], Any],
        *,
        seconds: float,
        since: int | None = None,
    ) -> Object:
        try:
            return self.watch.wait(what, wanted, seconds=seconds, since=since)
        except LateError as error:
            raise LateError(f"{error}; now: {told(self.watch.latest)}") from None

    def wait_condition(
        self,
        kind: str,
        status: str = "True",
        *,
        reason: str = "",
        seconds: float = DETECT_S,
        since: int | None = None,
    ) -> Object:
        """The object whose condition says so for the newest generation."""

        def says(found: Object) -> bool:
            one = condition_of(found, kind)
            return (
                self._is_current(found)
                and one["status"] == status
                and reason in ("", one["reason"])
            )

        return self.wait(f"{kind}={status} {reason}", says, seconds=seconds, since=since)

    def wait_whole(self, *, seconds: float = UP_S) -> Object:
        """Available, every bookie serving, no limbo: of the newest generation."""

        def whole(found: Object) -> bool:
            wanted = found["spec"]["replicas"]
            bookies = (found.get("status") or {}).get("bookies") or []
            return (
                self._is_current(found)
                and condition_of(found, "Available")["status"] == "True"
                and condition_of(found, "LimboPresent")["status"] == "False"
                and [one["state"] for one in bookies] == ["Serving"] * wanted
            )

        return self.wait("Available, all Serving, no limbo", whole, seconds=seconds)

    def wait_incident(
        self, bookie: str, *, after: int, outcome: str = "", seconds: float = DETECT_S
    ) -> Object:
        """The incident of a boot after epoch `after`; with `outcome`, when it ended so."""

        def found(cluster: Object) -> Object | None:
            for one in incidents_of(cluster, bookie, after=after):
                if outcome in ("", one["outcome"]):
                    return one
            return None

        cluster = self.wait(f"an incident of {bookie} {outcome}", found, seconds=seconds)
        incident = found(cluster)
        assert incident is not None
        return incident

    def wait_cleared(self, bookie: str, *, after: int, seconds: float = CLEAR_S) -> Object:
        """The incident of a boot after epoch `after`, Cleared, and the cluster without limbo."""
        self.wait_incident(bookie, after=after, outcome="Cleared", seconds=seconds)
        self.wait_condition("LimboPresent", "False", seconds=CLEAR_S)
        return self.wait_incident(bookie, after=after, outcome="Cleared", seconds=10.0)

    def wait_refusal(
        self,
        predicate: str,
        *,
        bookie: str = "",
        seconds: float = DETECT_S,
        since: int | None = None,
    ) -> Object:
        """The entry of status.blocked that names this predicate."""

        def found(cluster: Object) -> Object | None:
            for one in (cluster.get("status") or {}).get("blocked") or []:
                if one["predicate"] == predicate and bookie in ("", one.get("bookie", "")):
                    return dict(one)
            return None

        cluster = self.wait(f"blocked by {predicate}", found, seconds=seconds, since=since)
        refusal = found(cluster)
        assert refusal is not None
        return refusal

    def pending_plan(self, bookie: str) -> str:
        """The id by which a person approves what the bookie waits for, as `blocked` names it."""
        told = self.wait_refusal("SuspectDisk", bookie=bookie)["message"]
        found = re.search(r"approve plan (\S+)", told)
        assert found is not None, told
        return found[1]


def pod_name(bookie: str) -> str:
    return f"{CLUSTER}-{bookie}-0"


def set_name(bookie: str) -> str:
    return f"{CLUSTER}-{bookie}"


def claim_name(bookie: str, disk: str) -> str:
    return f"{CLUSTER}-{bookie}-{disk}"


def condition_of(cluster: Object, kind: str) -> Object:
    """The condition, if it speaks of this generation; else one that says nothing."""
    for one in (cluster.get("status") or {}).get("conditions") or []:
        if one["type"] == kind and one["observedGeneration"] == cluster["metadata"]["generation"]:
            return dict(one)
    return {"type": kind, "status": "Unknown", "reason": "NotThere", "message": ""}


def bookie_of(cluster: Object, bookie: str) -> Object:
    for one in (cluster.get("status") or {}).get("bookies") or []:
        if one["id"] == bookie:
            return dict(one)
    return {"id": bookie, "state": "Unknown", "bootEpoch": 0, "limboLedgers": 0}


def incidents_of(cluster: Object, bookie: str, *, after: int) -> list[Object]:
    found = (cluster.get("status") or {}).get("incidents") or []
    return [one for one in found if one["bookie"] == bookie and one["bootEpochAfter"] > after]


def told(cluster: Object) -> str:
    """The status in one line, for the message of a wait that failed."""
    status = cluster.get("status") or {}
    conditions = [
        f"{one['type']}={one['status']}({one['reason']})" for one in status.get("conditions") or []
    ]
    bookies = [
        f"{one['id']} {one['state']} epoch {one.get('bootEpoch')}"
        for one in status.get("bookies") or []
    ]
    blocked = [f"{one['action']} by {one['predicate']}" for one in status.get("blocked") or []]
    return "; ".join([*conditions, *bookies, *blocked]) or "no status"
