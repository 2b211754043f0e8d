"""Pods, claims and StatefulSets as the planner's Bookie: what the platform knows, no more. Pure.

Container states are lossy: they hold only the last end, and nothing of a former pod. So they say
how a process probably ended; whether that was clean, the bookie's own boot record tells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bookie.hosts import at_port
from bookie.ids import BookieId

from bookie_operator.errors import PreconditionError
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, Exit, Process, Volume
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.annotations import annotation_of
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.bookies import ADMIN_PORT, CONTAINER
from bookie_operator.platform.kubernetes.nodes import Node
from bookie_operator.platform.kubernetes.racks import rack_of

SIGNALLED: Final = 128
SIGNALS_MAX: Final = 64
"""Exit codes above the one are signals, as far as there are so many; 255 is none."""
LOST: Final = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of ends that nobody saw, as with a node that was restarted: their code is made up."""


def moment(text: str | None) -> datetime | None:
    """A Kubernetes timestamp; whole seconds."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def bookies_of(
    *,
    pods: Sequence[Object],
    claims: Sequence[Object],
    sets: Sequence[Object],
    nodes: Mapping[str, Node],
) -> dict[BookieId, Bookie]:
    """Every bookie that has a StatefulSet, a pod, or a volume that was not kept after it left."""
    live = [claim for claim in claims if names.RETAINED_LABEL not in claim["metadata"]["labels"]]
    by_bookie = {
        bookie_id: of_bookie(pods, bookie_id)
        for bookie_id in {bookie_of(thing) for thing in (*pods, *live, *sets)} - {""}
    }
    return {
        BookieId(bookie_id): Bookie(
            id=BookieId(bookie_id),
            volumes={volume.disk: volume for volume in map(volume_of, of_bookie(live, bookie_id))},
            process=_process(mine, nodes),
        )
        for bookie_id, mine in by_bookie.items()
    }


def kept_claims_of(claims: Sequence[Object]) -> dict[BookieId, tuple[str, ...]]:
    """Names of claims that were kept when their bookie left; one that is ending is kept no more."""
    kept = [
        claim["metadata"]
        for claim in claims
        if names.RETAINED_LABEL in claim["metadata"]["labels"]
        and "deletionTimestamp" not in claim["metadata"]
    ]
    found: dict[BookieId, tuple[str, ...]] = {}
    for one in sorted(kept, key=lambda one: str(one["name"])):
        bookie_id = BookieId(str(one["labels"].get(names.BOOKIE_LABEL, "")))
        found[bookie_id] = (*found.get(bookie_id, ()), str(one["name"]))
    return {bookie_id: listed for bookie_id, listed in found.items() if bookie_id}


def is_known(stateful_set: Object | None) -> bool:
    """The controller has seen the set as it is; there is nothing to see of one that is gone."""
    if stateful_set is None:
        return True
    seen = (stateful_set.get("status") or {}).get("observedGeneration", 0)
    return bool(seen >= stateful_set["metadata"]["generation"])


def of_bookie(things: Sequence[Object], bookie_id: str) -> list[Object]:
    return [thing for thing in things if bookie_of(thing) == bookie_id]


def bookie_of(thing: Object) -> str:
    return str((thing["metadata"].get("labels") or {}).get(names.BOOKIE_LABEL, ""))


def volume_of(claim: Object) -> Volume:
    metadata = claim["metadata"]
    return Volume(
        disk=str(metadata["labels"].get(names.DISK_LABEL, "")),
        uid=str(metadata["uid"]),
        size=str(claim["spec"]["resources"]["requests"].get("storage", "")),
        is_terminating="deletionTimestamp" in metadata,
        storage_class=str(claim["spec"].get("storageClassName") or ""),
    )


def _process(pods: Sequence[Object], nodes: Mapping[str, Node]) -> Process | None:
    """Of the newest pod; an older one that is still ending is not asked any more."""
    if not pods:
        return None
    pod = max(pods, key=_age)
    metadata, status = pod["metadata"], pod.get("status") or {}
    container = container_of(pod, CONTAINER)
    state = container.get("state") or {}
    running = state.get("running")
    restarts = int(container.get("restartCount", 0))
    started_at = moment(running["startedAt"]) if running else None
    node = str((pod.get("spec") or {}).get("nodeName", ""))
    ip = status.get("podIP")
    return Process(
        instance=f"{metadata['uid']}.{restarts}",
        running=running is not None,
        revision=str((metadata.get("annotations") or {}).get(names.REVISION, "")),
        restarts=restarts,
        started_at=started_at or moment(metadata.get("creationTimestamp")),
        last_exit=_last_exit(container, asked_at=_asked_to_end(metadata)),
        control=at_port(ip, ADMIN_PORT) if running and ip else None,
        is_ready=bool(container.get("ready")) and "deletionTimestamp" not in metadata,
        waiting=waiting_reason(pod, CONTAINER),
        pod=str(metadata["uid"]),
        node=node,
        node_boot_id=nodes[node].boot_id if node in nodes else "",
        node_trouble=nodes[node].trouble if node in nodes else "",
        rack=rack_of(pod),
        advertised=annotation_of(pod, names.ADVERTISED),
        tls=_tls_of(pod),
    )


def _tls_of(pod: Object) -> TlsMode:
    """What it was made to take; people may write anything into an annotation."""
    said = annotation_of(pod, names.TLS_MODE)
    return TlsMode(said) if said in set(TlsMode) else TlsMode.OFF


def pod_of_instance(pods: Sequence[Object], bookie_id: str, instance: str) -> Object | None:
    """The pod that `Process.instance` names; None when it is ending already.

    Raises PreconditionError when the bookie runs as another one by now.
    """
    uid, _, restarts = instance.rpartition(".")
    for pod in pods:
        if pod["metadata"]["uid"] != uid:
            continue
        if "deletionTimestamp" in pod["metadata"]:
            return None
        if str(container_of(pod, CONTAINER).get("restartCount", 0)) == restarts:
            return pod
    raise PreconditionError(f"{bookie_id} runs no more as {instance}")


def _age(pod: Object) -> tuple[str, bool]:
    """Order of pods by age; of two pods of the same second, the one that stays is newer."""
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp", "")), "deletionTimestamp" not in metadata


def container_of(pod: Object, name: str) -> dict[str, Any]:
    """A container's status; empty while there is none."""
    found = (pod.get("status") or {}).get("containerStatuses") or []
    return next((one for one in found if one.get("name") == name), {})


def missed_object(bookie: Bookie, pods: Sequence[Object], set_name: str) -> str:
    """Name of the object whose events say why a bookie does not start; empty = it runs, or its
    pod's status says why."""
    process = bookie.process
    if process is None:
        return set_name
    if process.running or process.waiting or process.last_exit is not None:
        return ""
    return next((str(one["metadata"]["name"]) for one in pods if bookie_of(one) == bookie.id), "")


def with_word(bookie: Bookie, word: str) -> Bookie:
    """The bookie, with what Kubernetes said of what has not come."""
    if bookie.process is None:
        return replace(bookie, waiting=word)
    return replace(bookie, process=replace(bookie.process, waiting=word))


def waiting_reason(pod: Object, name: str) -> str:
    """`Reason: message` while the pod's container of this name does not run, else empty. Those that
    people have put beside it say nothing about its work."""
    waiting = (container_of(pod, name).get("state") or {}).get("waiting")
    if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return joined(waiting.get("reason"), waiting.get("message"))
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return joined(condition.get("reason"), condition.get("message"))
    return ""


def joined(reason: str | None, message: str | None) -> str:
    return f"{reason or 'Unknown'}: {message}" if message else str(reason or "Unknown")


def _asked_to_end(metadata: Mapping[str, Any]) -> datetime | None:
    """When somebody asked to delete the pod; its own timestamp is the end of the grace period."""
    end = moment(metadata.get("deletionTimestamp"))
    grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    return end - grace if end is not None else None


def _last_exit(container: Mapping[str, Any], *, asked_at: datetime | None) -> Exit | None:
    """The last end, of this container or of the one before it in the same pod."""
    for state in (container.get("state"), container.get("lastState")):
        ended = (state or {}).get("terminated")
        if ended:
            code = int(ended.get("exitCode", 0))
            at = moment(ended.get("finishedAt"))
            if at is None:
                continue
            began = moment(ended.get("startedAt"))
            signal = code - SIGNALLED if 0 < code - SIGNALLED <= SIGNALS_MAX else 0
            how = f"signal {signal}" if signal else f"exit code {code}"
            reason = str(ended.get("reason") or "Error")
            known = None if reason in LOST else -signal if signal else code
            lasted = at - began if began is not None else None
            is_planned = asked_at is not None and at >= asked_at
            return Exit(at, known, f"{reason} ({how})", lasted, is_planned)
    return None
