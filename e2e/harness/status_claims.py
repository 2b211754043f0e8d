"""What people read in the status of a whole fleet, held against the pods and against itself.

A number that is wrong in the status misleads whoever decides by it, and no check of the data sees
that. Each function returns sentences on what is untrue; a story asserts that there are none.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from harness.fleet import condition_of
from harness.operator import is_ready

Object = Mapping[str, Any]
ENDED: Final = ("Cleared", "Superseded")
ROUNDED_S: Final = 0.01
"""Seconds in the status are rounded, and times are of milliseconds."""


def untrue_when_whole(cluster: Object, pods: Sequence[Object], *, entries: int) -> list[str]:
    """Of a cluster that was just audited: no job runs, and nothing is in limbo.

    `pods`: the bookies', as the API server has them now. `entries`: at least so many were written.
    """
    living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    status = cluster["status"]
    return [
        *_of_another_generation(cluster),
        *_wrong_about_pods(status, living),
        *_wrong_about_limbo(cluster),
        *_wrong_counts(status["audit"], entries),
        *(word for one in status.get("incidents") or () for word in _wrong_incident(one)),
    ]


def _of_another_generation(cluster: Object) -> Iterator[str]:
    generation, status = cluster["metadata"]["generation"], cluster["status"]
    if status["observedGeneration"] != generation:
        yield f"observedGeneration {status['observedGeneration']} of generation {generation}"
    for one in status["conditions"]:
        if one["observedGeneration"] != generation:
            yield f"{one['type']} is about generation {one['observedGeneration']} of {generation}"


def _wrong_about_pods(status: Object, pods: Sequence[Object]) -> Iterator[str]:
    ready = sum(map(is_ready, pods))
    if status["readyReplicas"] != ready:
        yield f"readyReplicas {status['readyReplicas']}, and {ready} pods are ready"
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    known = {one.get("pod", ""): one for one in status["bookies"]}
    if known.keys() != by_uid.keys():
        yield f"bookies in pods {sorted(known)}, expected {sorted(by_uid)}"
    for uid in known.keys() & by_uid.keys():
        yield from _wrong_about_pod(known[uid], by_uid[uid])


def _wrong_about_pod(bookie: Object, pod: Object) -> Iterator[str]:
    [container] = [one for one in pod["status"]["containerStatuses"] if one["name"] == "bookie"]
    restarts = container["restartCount"]
    true = {
        "node": pod["spec"]["nodeName"],
        "restarts": restarts,
        "instance": f"{pod['metadata']['uid']}.{restarts}",
        "state": "Serving",
        "failures": bookie["failures"] if restarts else 0,
    }
    for field, value in true.items():
        if bookie[field] != value:
            yield f"{bookie['id']}: {field} {bookie[field]!r}, expected {value!r}"
    if not bookie["control"].startswith(f"{pod['status']['podIP']}:"):
        yield f"{bookie['id']}: control {bookie['control']}, its pod is {pod['status']['podIP']}"


def _wrong_about_limbo(cluster: Object) -> Iterator[str]:
    status = cluster["status"]
    totals, condition = status["limbo"], condition_of(cluster, "LimboPresent")
    if condition["status"] != "False":
        yield f"LimboPresent {condition['status']} where nothing is in limbo"
    if totals["ledgers"] or totals["unchecked"] or totals.get("bookies"):
        yield f"limbo {dict(totals)}, expected none"
    for one in status["bookies"]:
        if one["limboLedgers"] or one["uncheckedLedgers"]:
            limbo, unchecked = one["limboLedgers"], one["uncheckedLedgers"]
            yield f"{one['id']}: {limbo} in limbo, {unchecked} unchecked"
        repair = one.get("repair")
        if repair and repair["state"] != "Finished":
            yield f"{one['id']}: its repair is {repair['state']} though no mark is left"
        elif repair and repair["ledgersCleared"] != repair["ledgersTotal"]:
            yield f"{one['id']}: finished, {repair['ledgersCleared']} of {repair['ledgersTotal']}"


def _wrong_counts(audit: Object, entries: int) -> Iterator[str]:
    parts = ("ok", "missing", "unknown", "lost")
    if audit["entries"] != sum(audit[part] for part in parts):
        yield f"audit: {audit['entries']} entries are not {[audit[part] for part in parts]}"
    if audit["entries"] < entries:
        yield f"audit: {audit['entries']} entries, and {entries} were written"
    wanting = ("missing", "unknown", "belowWriteQuorum", "belowAckQuorum", "noCopy", "failures")
    for field in wanting:
        if audit[field]:
            yield f"audit: {field} {audit[field]} where every copy was found"
    if audit["running"] or audit.get("clean") is not True:
        yield f"audit: running {audit['running']}, clean {audit.get('clean')}"
    if _seconds(audit["startedAt"], audit["finishedAt"]) < 0:
        yield f"audit: it finished at {audit['finishedAt']}, before {audit['startedAt']}"


def _wrong_incident(one: Object) -> Iterator[str]:
    name = f"{one['kind']} of {one['bookie']}"
    if one["outcome"] not in ENDED:
        yield f"{name}: {one['outcome']} where nothing is in limbo"
        return
    if one["bootEpochAfter"] <= one["bootEpochBefore"]:
        yield f"{name}: boot {one['bootEpochBefore']} before it, {one['bootEpochAfter']} after it"
    if one["entriesCopiedClosed"] > one["entriesCopied"]:
        yield f"{name}: {one['entriesCopiedClosed']} of {one['entriesCopied']} copies were closed"
    if one["entriesCopied"] and not (one["attempts"] and one["engine"]):
        yield f"{name}: copies without an attempt or an engine"
    if one["outcome"] == "Cleared":
        took = _seconds(one["detectedAt"], one["clearedAt"])
        if took < 0 or abs(took - one["secondsToClear"]) > ROUNDED_S:
            yield f"{name}: secondsToClear {one['secondsToClear']}, by its times {took}"


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
