"""Claims that several stories make, in one place: in time, by Spark, exactly once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from harness.fleet import Fleet, incidents_of
from harness.manifests import CLUSTER
from harness.operator import is_ready
from harness.watch import Seen, Watch

DETECTED_S: Final = 5.0
CLEARED_S: Final = 180.0
EXECUTORS_MIN: Final = 2
LABEL: Final = "bookkeeper.bookie-operator.dev"


def seconds_after_up(fleet: Fleet, incident: Mapping[str, Any]) -> float:
    """From the bookie's first moment of service to the detection of what its last stop was."""
    up = fleet.up_at(incident["bookie"], incident["bootEpochAfter"])
    return round((datetime.fromisoformat(incident["detectedAt"]) - up).total_seconds(), 1)


def detected_and_cleared_in_time(fleet: Fleet, incident: Mapping[str, Any]) -> None:
    assert seconds_after_up(fleet, incident) <= DETECTED_S, incident
    assert incident["secondsToClear"] <= CLEARED_S, incident


def is_whole(found: Mapping[str, Any]) -> None:
    """A check of notes found every entry, and each with its bytes."""
    assert found["acked"] > 0
    assert found["read"] == found["acked"], found
    assert (found["lost"], found["wrong"], found["unknown"]) == (0, 0, 0), found


def by_spark(incident: Mapping[str, Any], executors: Watch) -> None:
    """Entries were copied, and by executors of a Spark application, as pods of their own."""
    assert incident["engine"] == "spark-kubernetes", incident
    assert incident["sparkAppId"], incident
    assert incident["executors"] >= EXECUTORS_MIN, incident
    assert incident["entriesCopied"] > 0, incident
    assert len(executors.names()) >= EXECUTORS_MIN, executors.names()


def out_at_once(seen: Sequence[Seen], *, bookies: int) -> int:
    """The most bookies without a ready pod at a time, since each had one: by the pods that were
    watched, whatever the operator says of them."""
    serves: dict[str, bool] = {}
    most, all_served = 0, False
    for one in seen:
        about = one.object["metadata"]
        serves[about["name"]] = "deletionTimestamp" not in about and is_ready(one.object)
        all_served = all_served or sum(serves.values()) == bookies
        if all_served:
            most = max(most, bookies - sum(serves.values()))
    assert all_served, f"the watch never saw {bookies} ready pods: {serves}"
    return most


def told_once(fleet: Fleet, bookie: str, *, after: int) -> None:
    """One incident, one event for its begin and one for its end, and no attempt twice."""
    incidents = incidents_of(fleet.object(), bookie, after=after)
    assert len(incidents) == 1, incidents
    events = fleet.kube.events(CLUSTER)
    for reason in (incidents[0]["kind"], "LimboCleared"):
        mine = [one for one in events if one["reason"] == reason and bookie in one["message"]]
        assert sum(int(one.get("count") or 1) for one in mine) == 1, mine
    jobs = fleet.kube.items("jobs", f"{LABEL}/bookie={bookie}")
    assert len(jobs) == incidents[0]["attempts"] >= 1, [job["metadata"]["name"] for job in jobs]
