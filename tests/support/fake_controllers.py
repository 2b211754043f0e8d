"""What a cluster's controllers and its one kubelet do to the objects of a FakeApi, step by step.

`settle()` is one step of all of them. Pods run at once unless `holds` names them; a pod that is
being deleted is gone one step later unless `clings` names it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    STATEFUL_SET,
    Kind,
    Object,
)
from fake_api import PROTECTED, FakeApi, copied, stamp

NODE_NAME: Final = "node-1"


class Controllers:
    """StatefulSets, Jobs, garbage, claims' protection, and the kubelets of all nodes."""

    def __init__(
        self,
        api: FakeApi,
        *,
        address_of: Callable[[int], str] = "10.0.0.{}".format,
        nodes: Sequence[str] = (NODE_NAME,),
    ) -> None:
        """`address_of`: of the pod that starts as the nth. `nodes` get pods in turns."""
        self.api = api
        self._address_of = address_of
        self._nodes = nodes
        self._started = self._scheduled = 0
        """Pods so far."""
        self.holds: set[str] = set()
        """Pods that are scheduled and do not start."""
        self.clings: set[str] = set()
        """Pods that do not end."""

    def settle(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._end_pods()
            self._collect_garbage()
            self._free_claims()
            self._run_sets()
            self._run_jobs()
            self._start_pods()

    def _end_pods(self) -> None:
        for pod in self.api.all(POD):
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"] and name not in self.clings:
                self.api.remove(POD, name)

    def _collect_garbage(self) -> None:
        makers = (*self.api.all(JOB), *self.api.all(STATEFUL_SET))
        owners = {one["metadata"]["uid"] for one in makers}
        for pod in self.api.all(POD):
            owned_by = pod["metadata"].get("ownerReferences") or ()
            if owned_by and not any(owner["uid"] in owners for owner in owned_by):
                self.api.begin_deletion(POD, pod["metadata"]["name"])

    def _free_claims(self) -> None:
        used = {name for pod in self.api.all(POD) for name in claims_of(pod)}
        for claim in self.api.all(CLAIM):
            metadata = claim["metadata"]
            held = [one for one in metadata.get("finalizers") or () if one != PROTECTED]
            if "deletionTimestamp" in metadata and metadata["name"] not in used and not held:
                self.api.remove(CLAIM, metadata["name"])

    def _run_sets(self) -> None:
        for one in self.api.all(STATEFUL_SET):
            name = f"{one['metadata']['name']}-0"
            one.setdefault("status", {})["observedGeneration"] = one["metadata"]["generation"]
            pod = self.api.find(POD, name)
            wanted = one["spec"].get("replicas", 1) > 0
            if pod is None and wanted:
                self._make_pod(name, one, STATEFUL_SET, one["spec"]["template"])
            elif pod is not None and not wanted:
                self.api.begin_deletion(POD, name)

    def _run_jobs(self) -> None:
        for job in self.api.all(JOB):
            name = f"{job['metadata']['name']}-pod"
            is_over = bool((job.get("status") or {}).get("conditions"))
            if self.api.find(POD, name) is None and not is_over:
                self._make_pod(name, job, JOB, job["spec"]["template"])

    def _make_pod(self, name: str, owner: Object, kind: Kind, template: Mapping[str, Any]) -> None:
        reference = {
            "kind": kind.name,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        metadata = {"name": name, **template["metadata"], "ownerReferences": [reference]}
        spec = copied(dict(template["spec"]))
        self.api.put(POD, {"metadata": metadata, "spec": spec})

    def _start_pods(self) -> None:
        for pod in self.api.all(POD):
            status = pod.get("status") or {}
            if "deletionTimestamp" in pod["metadata"] or status.get("phase") is not None:
                continue
            if not self._schedule(pod) or pod["metadata"]["name"] in self.holds:
                continue
            if any(self.api.find(CONFIG_MAP, name) is None for name in settings_of(pod)):
                continue  # its volumes cannot be mounted
            if any(self.api.find(SECRET, name) is None for name in secrets_of(pod)):
                continue
            self._started += 1
            self.api.set_status(
                POD,
                pod["metadata"]["name"],
                phase="Running",
                podIP=self._address_of(self._started),
                conditions=[],
                containerStatuses=[
                    self._running(container["name"]) for container in pod["spec"]["containers"]
                ],
            )

    def _schedule(self, pod: Object) -> bool:
        """A pod waits for every claim that it names, and never gets one that is going."""
        for name in claims_of(pod):
            claim = self.api.find(CLAIM, name)
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                why = "not found" if claim is None else "is being deleted"
                unscheduled(self.api, pod["metadata"]["name"], f'claim "{name}" {why}')
                return False
        if "nodeName" not in pod["spec"]:
            pod["spec"]["nodeName"] = self._nodes[self._scheduled % len(self._nodes)]
            self._scheduled += 1
        return True

    def _running(self, container: str) -> Object:
        return {
            "name": container,
            "restartCount": 0,
            "ready": True,
            "state": {"running": {"startedAt": stamp(self.api.now)}},
        }

    # What happens to processes

    def restart_container(self, pod: str, *, code: int = 137, reason: str = "Error") -> None:
        """The process ends, and the kubelet runs it again."""
        [container] = copied(self.api.the(POD, pod)["status"]["containerStatuses"])
        ended = {"exitCode": code, "reason": reason, "finishedAt": stamp(self.api.now)}
        container["restartCount"] += 1
        container["lastState"] = {"terminated": ended}
        container["state"] = {"running": {"startedAt": stamp(self.api.now)}}
        self.api.set_status(POD, pod, containerStatuses=[container])

    def end_job(self, name: str, summary: Any = None, *, code: int = 0, text: str = "") -> None:
        """Its pod ends with this summary (or this raw text), and the Job with it."""
        ended = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "finishedAt": stamp(self.api.now),
            "message": json.dumps(summary) if summary is not None else text,
        }
        container = {"name": "repair", "restartCount": 0, "state": {"terminated": ended}}
        self.api.set_status(POD, f"{name}-pod", phase="Ended", containerStatuses=[container])
        self.end_job_as(name, "Complete" if code == 0 else "Failed")

    def end_job_as(self, name: str, kind: str, message: str = "") -> None:
        condition = {"type": kind, "status": "True", "message": message}
        condition["lastTransitionTime"] = stamp(self.api.now)
        self.api.set_status(JOB, name, conditions=[condition])


def claims_of(pod: Object) -> Iterable[str]:
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]


def settings_of(pod: Object) -> list[str]:
    return [
        str(volume["configMap"]["name"])
        for volume in pod["spec"].get("volumes") or ()
        if "configMap" in volume
    ]


def secrets_of(pod: Object) -> list[str]:
    """Those without which it does not start."""
    return [
        str(volume["secret"]["secretName"])
        for volume in pod["spec"].get("volumes") or ()
        if "secret" in volume and not volume["secret"].get("optional")
    ]


def unscheduled(api: FakeApi, pod: str, message: str) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    api.set_status(POD, pod, conditions=[condition])
