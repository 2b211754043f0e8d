"""What a story asserts of the status at its end: each field that is wrong is found, by its name."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from harness.status_claims import untrue_when_whole

Tree = dict[str, Any]
UID = "774ecd0f"


def pod() -> Tree:
    return {
        "metadata": {"uid": UID},
        "spec": {"nodeName": "n1"},
        "status": {
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "bookie", "restartCount": 1}],
        },
    }


def whole() -> Tree:
    bookie = {"id": "bookie-0", "pod": UID, "node": "n1", "restarts": 1, "instance": f"{UID}.1"}
    bookie |= {"state": "Serving", "failures": 1, "control": "10.0.0.1:3183"}
    bookie |= {"limboLedgers": 0, "uncheckedLedgers": 0}
    bookie["repair"] = {"state": "Finished", "ledgersCleared": 3, "ledgersTotal": 3}
    audit = {"entries": 9, "ok": 8, "missing": 0, "unknown": 0, "lost": 1, "running": False}
    audit |= {"belowWriteQuorum": 0, "belowAckQuorum": 0, "noCopy": 0, "failures": 0, "clean": True}
    audit |= {"startedAt": "2026-11-27T09:10:32Z", "finishedAt": "2026-11-27T09:10:38Z"}
    incident = {"kind": "UncleanShutdown", "bookie": "bookie-0", "outcome": "Cleared"}
    incident |= {"bootEpochBefore": 1, "bootEpochAfter": 2, "attempts": 1, "engine": "inline"}
    incident |= {"entriesCopied": 5, "entriesCopiedClosed": 5, "secondsToClear": 6.0}
    incident |= {"detectedAt": "2026-11-27T09:10:32Z", "clearedAt": "2026-11-27T09:10:38Z"}
    status = {"observedGeneration": 2, "readyReplicas": 1, "bookies": [bookie], "audit": audit}
    status["limbo"] = {"ledgers": 0, "unchecked": 0}
    status["incidents"] = [incident]
    conditions = {"Available": "True", "LimboPresent": "False"}
    status["conditions"] = [
        {"type": kind, "status": value, "observedGeneration": 2}
        for kind, value in conditions.items()
    ]
    return {"metadata": {"generation": 2}, "status": status}


def found(change: Callable[[Tree, Tree], Any], *, entries: int = 9) -> list[str]:
    """What is untrue after the change to the status or the pod."""
    cluster, mine = copy.deepcopy(whole()), pod()
    change(cluster["status"], mine)
    return untrue_when_whole(cluster, [mine], entries=entries)


def test_of_a_status_that_is_true_nothing_is_said() -> None:
    assert found(lambda status, pod: None) == []


def test_a_pod_that_leaves_is_none_of_the_fleet() -> None:
    leaving = pod() | {"metadata": {"uid": "old", "deletionTimestamp": "now"}}
    assert untrue_when_whole(whole(), [pod(), leaving], entries=0) == []


@pytest.mark.parametrize("field", ["observedGeneration", "readyReplicas"])
def test_a_number_of_the_fleet_that_is_wrong_is_found(field: str) -> None:
    assert [field in word for word in found(lambda s, p: s.update({field: 7}))] == [True]


@pytest.mark.parametrize(
    "change",
    [
        {"node": "n2"},
        {"restarts": 0},
        {"instance": f"{UID}.0"},
        {"state": "Limbo"},
        {"control": "10.0.0.11:3183"},
        {"control": ""},
        {"limboLedgers": 1},
        {"uncheckedLedgers": 1},
        {"repair": {"state": "Running", "ledgersCleared": 3, "ledgersTotal": 3}},
        {"repair": {"state": "Finished", "ledgersCleared": 2, "ledgersTotal": 3}},
    ],
    ids=str,
)
def test_a_bookie_s_field_that_is_wrong_is_found(change: Tree) -> None:
    words = found(lambda status, pod: status["bookies"][0].update(change))
    assert len(words) == 1 and words[0].startswith("bookie-0: ")


def test_failures_of_a_container_that_never_ended_are_found() -> None:
    def change(status: Tree, pod: Tree) -> None:
        pod["status"]["containerStatuses"][0]["restartCount"] = 0
        status["bookies"][0] |= {"restarts": 0, "instance": f"{UID}.0"}

    assert found(change) == ["bookie-0: failures 1, expected 0"]


def test_a_bookie_in_a_pod_that_is_gone_is_found() -> None:
    assert found(lambda status, pod: pod["metadata"].update(uid="new")) == [
        f"bookies in pods ['{UID}'], expected ['new']"
    ]


def test_a_condition_of_an_older_generation_is_found() -> None:
    words = found(lambda status, pod: status["conditions"][0].update(observedGeneration=1))
    assert words == ["Available is about generation 1 of 2"]


@pytest.mark.parametrize("field", ["ledgers", "unchecked"])
def test_limbo_that_only_the_totals_have_is_found(field: str) -> None:
    assert len(found(lambda status, pod: status["limbo"].update({field: 1}))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"ok": 9},
        {"entries": 8, "ok": 7},
        {"missing": 1, "ok": 7},
        {"unknown": 1, "ok": 7},
        {"belowWriteQuorum": 1},
        {"belowAckQuorum": 1},
        {"noCopy": 1},
        {"failures": 1},
        {"running": True},
        {"clean": False},
        {"finishedAt": "2026-11-27T09:10:31Z"},
    ],
    ids=str,
)
def test_a_count_of_the_audit_that_is_wrong_is_found(change: Tree) -> None:
    words = found(lambda status, pod: status["audit"].update(change))
    assert len(words) == 1 and words[0].startswith("audit: ")


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "Open"},
        {"bootEpochAfter": 1},
        {"entriesCopiedClosed": 6},
        {"attempts": 0},
        {"engine": ""},
        {"secondsToClear": 7.0},
        {"clearedAt": "2026-11-27T09:10:31Z"},
    ],
    ids=str,
)
def test_a_field_of_an_incident_that_is_wrong_is_found(change: Tree) -> None:
    words = found(lambda status, pod: status["incidents"][0].update(change))
    assert len(words) == 1 and words[0].startswith("UncleanShutdown of bookie-0: ")
