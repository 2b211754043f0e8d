"""What a status is shown as, of clusters in which more goes on than in those of test_kubectl."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.status_tree.answers import show
from bookie_operator.status_tree.tree import cluster_tree
from kubectl_lab import tree_of
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NOW: Final = datetime(2026, 1, 1, 0, 21, tzinfo=UTC)
Tree = dict[str, Any]


def at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T00:{minute:02}:{second:02}Z"


ENDED: Final = {"attempt": 3, "startedAt": at(1), "finishedAt": at(2)}
WORK: Final[dict[str, Tree]] = {
    "done": {
        "audit": ENDED | {
            "clean": False, "ledgers": 4, "entries": 50, "missing": 5, "unknown": 6,
            "belowAckQuorum": 7, "noCopy": 8, "lost": 9, "acceptedLosses": 10,
            "underreplicatedSkipped": 11, "engine": "spark-local", "nextAt": at(31),
            "classes": {
                "metadata_unreadable": {"findings": 12}, "silent_bookie": {"findings": 13},
            },
        },
        "mend": ENDED | {
            "clean": False, "ledgers": 14, "blocked": 15, "entriesCopied": 16,
            "corruptReplaced": 17,
        },
        "scrub": ENDED | {
            "clean": True, "ledgers": 18, "entries": 19, "corruptFound": 20, "corruptReplaced": 21,
        },
        "rereplication": ENDED | {
            "clean": False, "bookie": "bookie-9", "ledgersMoved": 22, "ledgersLeft": 23,
            "marksFound": 24, "marksCleared": 25, "message": "a sentence",
        },
        "drain": {
            "bookie": "bookie-3", "phase": "Held", "startedAt": at(5), "ledgersLeft": 26,
            "ledgersMoved": 27, "entriesCopied": 28, "attempt": 29, "failures": 30,
            "nextAttemptAt": at(32), "message": "it cannot leave", "racks": "one rack is left",
        },
    },
    "running": {
        "audit": {"running": True, "attempt": 1, "progress": "1 of 2 ledgers"},
        "mend": ENDED | {"running": True, "clean": None, "message": "a message"},
        "scrub": {"running": True, "attempt": 1},
        "rereplication": ENDED | {"running": True, "clean": True, "progress": "3 of 4"},
        "drain": {
            "bookie": "bookie-3", "phase": "Draining", "startedAt": at(5), "isRunning": True,
            "attempt": 2, "progress": "5 of 6", "engine": "spark-kubernetes", "executors": 7,
            "engineReason": "many ledgers", "sparkAppId": "app-1",
        },
    },
    "failed": {
        name: {"attempt": 2, "failures": 2, "message": f"{name} failed", "nextAt": at(40)}
        for name in ("audit", "mend", "scrub", "rereplication")
    } | {"drain": {"bookie": "bookie-3", "phase": "Emptied", "startedAt": at(5), "ledgersLeft": 0}},
}  # fmt: skip


def condition(kind: str, reason: str, status: str = "True") -> Tree:
    transition = {"lastTransitionTime": at(11), "message": f"message of {kind}"}
    return {"type": kind, "status": status, "reason": reason, **transition}


def refusal(action: str, predicate: str, bookie: str = "", message: str = "why") -> Tree:
    found = {"action": action, "predicate": predicate, "bookie": bookie}
    return found | {"since": at(12), "message": message}


def incident(bookie: str, outcome: str, **more: Any) -> Tree:
    found = {"bookie": bookie, "kind": "UncleanShutdown", "outcome": outcome, "detectedAt": at(3)}
    return found | {"bootEpochBefore": 4, "bootEpochAfter": 5, **more}


PLAN: Final = "90 of 100 ledgers; approve plan f00d if they were deleted on purpose"
LEFT: Final = ("demo-bookie-7-journal", "demo-bookie-7-ledger-0")
TROUBLE: Final[dict[str, Tree]] = {
    "metadata": {
        "metadata": {"url": "zk://zk:2181/ledgers", "reachable": False}, "lossBudget": None,
        "conditions": [
            condition("MetadataRolledBack", "Older"), condition("SpaceLow", "Disks"),
            condition("DurabilityVerified", "AuditStale", "False"),
        ],
    },
    "findings": {
        "conditions": [
            condition("DurabilityVerified", "AuditFindings", "False"),
            condition("PossibleDataLoss", "LossAccepted"),
        ],
        "blocked": [
            refusal("Restart", "LastCopy", "bookie-0"), refusal("Restart", "LastCopy", "bookie-1"),
            refusal("Collect", "AwaitingApproval", "bookie-2", PLAN),
            refusal("ScaleDown", "NotRereplicated", "bookie-3"), refusal("Audit", "Busy"),
        ],
        "drain": {"bookie": "bookie-3", "phase": "Held", "startedAt": at(5)},
        "leftOver": [
            {"bookie": "bookie-7", "hasCookie": True, "claims": list(LEFT), "message": "kept"},
            {"bookie": "bookie-8", "claims": ["demo-bookie-8-journal"], "message": "so is this"},
        ],
    },
    "incidents": {
        "conditions": [condition("Available", "EnoughWritable")],
        "incidents": [
            incident("bookie-0", "Cleared", clearedAt=at(4), limboLedgers=6, ledgersFenced=7),
            incident("bookie-1", "Superseded", cause="OOMKilled", causeMessage="code 137"),
            incident("bookie-2", "Open", cause="OOMKilled", causeMessage="code 137", attempts=2,
                     entriesBroughtBack=8, engine="inline", engineReason="few ledgers"),
        ],
    },
    "nobody": {"conditions": [], "bookies": [], "metadata": {}, "lookedAt": None},
    "old": {"lookedAt": "2025-12-31T00:00:00Z"},
}  # fmt: skip
BOOKIES: Final[dict[str, Tree]] = {
    "bookie-0": {"state": "ReadOnly", "message": "too little space: 1 of 9 GiB"},
    "bookie-1": {
        "state": "CrashLoop", "failures": 4, "restarts": 9, "lastEnd": {"at": at(13), "code": 137,
        "reason": "OOMKilled"}, "isUpdated": False,
    },
    "bookie-2": {
        "state": "Down", "goneSince": at(7), "rereplicatedAt": at(9), "lossesRecorded": 2,
        "rack": "/rack-1", "node": "node-1", "advertised": "stock=192.0.2.7:31811",
    },
    "bookie-3": {
        "state": "Unresponsive", "message": "no answer for 7m", "silentSince": at(14),
        "hungRestarts": 3, "tls": "Accepted", "version": "9.9.9",
    },
}  # fmt: skip
SPECS: Final[dict[str, Tree]] = {
    "paused": {"paused": True}, "journal": {"journalWriteData": True}, "sync": {"ack": "sync"},
    "excluded": {"excludedOrdinals": [3], "replicas": 3},
}  # fmt: skip


def drawn(capsys: pytest.CaptureFixture[str], tree: Tree, *, wide: bool = False) -> str:
    cluster = BookieCluster.model_validate(tree)
    view = cluster_tree(cluster, now=NOW, wide=wide)
    show(view, hint_lines(hints(cluster, now=NOW), flags=()))
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize("name", [*WORK, *TROUBLE])
def test_a_status(
    name: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    tree = tree_of("healthy")
    tree["status"] |= (WORK | TROUBLE)[name]
    assert snapshot(extension_class=Words) == drawn(capsys, tree)


@pytest.mark.parametrize("wide", [False, True])
def test_bookies_in_trouble(
    wide: bool, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    tree = tree_of("healthy")
    for bookie in tree["status"]["bookies"]:
        bookie |= BOOKIES[bookie["id"]]
    assert snapshot(extension_class=Words) == drawn(capsys, tree, wide=wide)


def test_other_specs(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    texts = []
    for name, spec in SPECS.items():
        tree = tree_of("healthy")
        tree["spec"] |= spec
        tree["metadata"]["generation"] = 9
        tree["status"]["bookies"][3]["goneSince"] = at(7)
        texts.append(f"{name}\n{drawn(capsys, tree)}")
    assert snapshot(extension_class=Words) == "\n".join(texts)
