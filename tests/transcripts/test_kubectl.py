"""What `kubectl bookie` says, how it ends, and which objects it hands to the API server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.kubectl.reasons import BY_REASON
from bookie_operator.kubectl.refusals import BY_REFUSAL
from bookie_operator.kubectl.tasks import why_pending
from bookie_operator.model.bookie_status import BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.task import BookieTask
from click.testing import Result
from kubectl_lab import FakeLab, tree_of
from shell_record import ShellRecord, always, broken
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NOW: Final = datetime(2026, 1, 1, 0, 21, tzinfo=UTC)
RUNNING: Final = {"phase": "Running", "target": "demo-job-1", "message": "1 of 2 ledgers"}
CHANGES: Final = (always(r'"restartedAt": "[^"]+"', '"restartedAt": "NOW"'),)
READS: Final = ("get", "config", "auth")


class Lab(FakeLab):
    """Knows what was asked of kubectl since it was looked at last."""

    seen = 0

    def type(self, *words: object, typed: str = "") -> Result:
        return self.run(*map(str, words), stdin=typed)

    def handed_in(self) -> str:
        """Objects that were created or patched since the last look."""
        calls = self.calls()
        new, self.seen = calls[self.seen :], len(calls)
        lines = [_handed(one) for one in new if one["words"][0] not in READS]
        return "\n".join(lines)


def _handed(call: dict[str, Any]) -> str:
    words = [word for word in call["words"] if not word.startswith("--patch=")]
    bodies = [word.removeprefix("--patch=") for word in call["words"] if word not in words]
    body = broken(json.loads(call["text"] or bodies[0]))
    return f"=> kubectl {' '.join(words)}\n{body}"


class Record(ShellRecord):
    """Writes down as well what the command handed in."""

    def __init__(self, lab: Lab) -> None:
        super().__init__("kubectl bookie", lab.type, CHANGES)
        self.lab = lab

    def __call__(self, *words: object, typed: str | bytes | None = None) -> Result:
        result = super().__call__(*words, typed=typed)
        self.note(self.lab.handed_in())
        return result


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A fake kubectl; it is always the same moment."""
    made = Lab(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("bookie_operator.kubectl.screen.now", lambda: NOW)
    return made


@pytest.fixture
def shell(lab: Lab, snapshot: SnapshotAssertion) -> Iterator[Record]:
    record = Record(lab)
    yield record
    assert snapshot(extension_class=Words) == record.text


@pytest.mark.parametrize("state", ["healthy", "limbo", "approval", "blocked"])
def test_a_cluster(state: str, lab: Lab, shell: Record) -> None:
    lab.put_cluster(state)
    shell("status")
    shell("status", "-o", "wide", "--cluster", "demo", "-n", "shelf")
    shell("limbo")
    shell("limbo", "-o", "json")


def test_which_cluster(lab: Lab, shell: Record) -> None:
    shell("status")
    lab.put_cluster("healthy")
    shell("tasks", "--cluster", "dmeo", "-n", "shelf")
    lab.put_cluster("limbo", name="other")
    shell("limbo")
    tree = tree_of("healthy")
    tree["status"]["bookies"][0]["state"] = "Dreaming"
    lab.put("bookieclusters", tree)
    shell("status", "--cluster", "demo")
    lab.forget("bookietasks")
    shell("audit", "--cluster", "other")


COMPLAINTS: Final = {
    "forbidden": 'Error from server (Forbidden): user "x" cannot list',
    "log-in": "error: You must be logged in to the server",
    "no-server": "The connection to the server h:1 was refused",
    "no-context": 'error: context "nowhere" does not exist',
    "other": "error: something new",
}


def test_what_kubectl_complains_about(lab: Lab, shell: Record) -> None:
    for complaint in COMPLAINTS.values():
        lab.refuse("get", complaint)
        shell.note(f"kubectl: {complaint}")
        shell("status")


def test_a_status_that_is_watched(lab: Lab, shell: Record) -> None:
    lab.put_cluster("healthy")
    lab.later("demo", {"status": {"phase": "Repairing"}}, None)
    shell("status", "-w")


def test_limbo_that_is_waited_for(lab: Lab, shell: Record) -> None:
    lab.put_cluster("limbo")
    shell("limbo", "--wait", "--timeout", "0s")
    lab.later("demo", {"status": tree_of("healthy")["status"]})
    shell("limbo", "--wait")
    lab.put_cluster("healthy", generation=2)
    shell("limbo")
    lab.put_cluster("healthy")
    lab.set_status("bookieclusters", "demo", {"lookedAt": "2025-12-31T00:00:00Z"})
    shell("limbo", "-o", "json")


def event(number: int, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{number}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "involvedObject": {"kind": "BookieCluster", "name": "demo"},
        "reason": f"Reason{number}",
        "message": f"message {number}",
        "type": "Warning" if number % 2 else "Normal",
        **more,
    }


def test_events(lab: Lab, shell: Record) -> None:
    lab.put_cluster("healthy")
    shell("events")
    lab.put("events", event(1, lastTimestamp="2026-01-01T00:20:09Z", count=3))
    lab.put("events", event(2, eventTime="2026-01-01T00:05:00.000001Z"))
    series = {"count": 7, "lastObservedTime": "2026-01-01T00:10:00.000001Z"}
    lab.put("events", event(3, series=series, lastTimestamp="2026-01-01T00:00:01Z"))
    shell("events")
    shell("events", "-o", "json")


def task(number: int, spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    created = f"2026-01-01T00:0{number}:00Z"
    return {
        "apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1",
        "kind": "BookieTask",
        "metadata": {"name": f"task-{number}", "creationTimestamp": created},
        "spec": {"cluster": "demo", **spec},
        "status": status,
    }


def test_tasks(lab: Lab, shell: Record) -> None:
    lab.put_cluster("healthy")
    shell("tasks")
    times = {"startedAt": "2026-01-01T00:10:00Z"}
    ended = times | {"finishedAt": "2026-01-01T00:11:30Z"}
    fix = {"type": "approve-cookie-fix", "bookie": "bookie-1", "planId": "f00d", "approvedBy": "a"}
    losses = {"type": "accept-loss", "ledgers": "4,9-12", "reason": "r", "approvedBy": "a"}
    loss = {"type": "retract-loss", "ledger": 7, "reason": "r", "approvedBy": "a"}
    disk = {"type": "replace-disk", "bookie": "bookie-2", "disk": "ledger-0"}
    lab.put("bookietasks", task(1, fix, phase="Succeeded", message="the fix was made", **ended))
    lab.put("bookietasks", task(2, losses, phase="Failed", message="2 are left", **ended))
    lab.put("bookietasks", task(3, loss, phase="Running", target="demo-job-3", **times))
    lab.put("bookietasks", task(4, disk, phase="Pending"))
    lab.put("bookietasks", task(5, {"type": "audit"}))
    lab.put("bookietasks", task(6, {"type": "audit", "cluster": "other"}))
    shell("tasks")
    shell("tasks", "-o", "json")


def test_pause_resume_and_restart(lab: Lab, shell: Record) -> None:
    lab.put_cluster("limbo")
    shell("pause")
    shell("pause")
    shell("restart")
    shell("resume")
    shell("restart", "bookie-1", "--no-wait")
    shell("restart", "bookie-9")


ASKED: Final[dict[str, tuple[tuple[object, ...], ...]]] = {
    "checks": (
        ("repair",), ("repair", "bookie-1", "-o", "json"), ("repair", "bookie-9"), ("audit",),
        ("scrub", "-o", "json"), ("rereplicate",),
    ),
    "bookies": (
        ("rereplicate", "10.0.0.7:3181", "--yes"), ("rereplicate", "10.0.0.7:3181"),
        ("rereplicate", "bookie-1", "--yes"), ("replace-bookie", "bookie-1", "--yes"),
        ("replace-disk", "bookie-1", "ledger-0", "--yes"), ("replace-disk", "bookie-1", "ledger-9"),
        ("index-rebuild", "bookie-1"), ("index-rebuild", "bookie-1", "ledger-0"),
        ("index-rebuild", "bookie-1", "journal"),
    ),
    "losses": (
        ("accept-loss", 4, "power cut", "--yes"), ("accept-loss", "4,9-12,40@7", "x", "--yes"),
        ("accept-loss", 4, "x", "--entry", 7, "--by", "jo", "--yes"),
        ("accept-loss", "4-9", "x", "--dry-run"), ("accept-loss", "9-4", "x", "--yes"),
        ("retract-loss", 4, "x", "--yes"), ("retract-loss", 4, "x", "--by", "jo", "--yes"),
    ),
    "consents": (
        ("approve", "bookie-2", "--yes"), ("approve", "bookie-2", "--by", "jo", "--yes"),
        ("approve", "bookie-2", "--plan", "f00d", "--yes"), ("approve", "bookie-0", "--yes"),
        ("approve-collection", "bookie-2", "--yes"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_a_task_that_is_handed_in(what: str, lab: Lab, shell: Record) -> None:
    lab.put_cluster("approval" if what == "consents" else "healthy")
    for words in ASKED[what]:
        shell(*words, "--no-wait")


def holding() -> dict[str, Any]:
    """A cluster of which bookie-1 waits with a collection, and bookie-2 is away."""
    tree = tree_of("healthy")
    why = {"action": "Collect", "bookie": "bookie-1", "predicate": "AwaitingApproval"}
    words = "90 of 100 ledgers here are gone; approve plan f00d (`x`)"
    why |= {"since": "2026-01-01T00:00:00Z", "message": words}
    tree["status"]["blocked"] = [why]
    gone = {"goneSince": "2026-01-01T00:03:00Z", "message": "its node is gone", "state": "Pending"}
    tree["status"]["bookies"][2] |= gone
    return tree


def test_what_is_asked_before_anything_is_given_up(lab: Lab, shell: Record) -> None:
    lab.put("bookieclusters", holding())
    shell("approve-collection", "bookie-1", typed="n\n")
    shell("approve-collection", "bookie-1", "--no-wait", typed="y\n")
    shell("approve-collection", "bookie-1", "--plan", "beef", "--yes")
    shell("replace-bookie", "bookie-2", typed="n\n")
    shell("replace-bookie", "bookie-2", "--no-wait", "--yes")
    shell("rereplicate", "bookie-2", "--no-wait", typed="yes\n")
    shell("replace-disk", "bookie-1", "journal", typed="n\n")
    shell("accept-loss", 4, "x", typed="n\n")
    shell("retract-loss", 4, "x", typed="n\n")


DONE: Final = {"phase": "Succeeded", "message": "done"}
FAILED: Final = {"phase": "Failed", "message": "12 ledgers in limbo are left"}
SECTIONS: Final = {"rereplicate": "rereplication"}
FOUND: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "clean": ("audit", {"finishedAt": "2026-01-01T00:20:00Z", "clean": True}),
    "damage": ("audit", {"finishedAt": "2026-01-01T00:20:00Z", "clean": False, "missing": 3}),
    "unsure": ("audit", {"finishedAt": "2026-01-01T00:20:00Z", "clean": False, "unknown": 3}),
    "scrub": ("scrub", {"finishedAt": "2026-01-01T00:20:00Z", "clean": False, "corruptFound": 3}),
    "rereplication": ("rereplicate", {"finishedAt": "2026-01-01T00:20:00Z", "clean": False}),
}


@pytest.mark.parametrize("name", FOUND)
def test_how_a_check_that_is_followed_ends(name: str, lab: Lab, shell: Record) -> None:
    command, report = FOUND[name]
    lab.put_cluster("healthy")
    lab.set_status("bookieclusters", "demo", {SECTIONS.get(command, command): report})
    lab.end_tasks(command, RUNNING, DONE)
    shell(command)


def test_how_other_tasks_end(lab: Lab, shell: Record) -> None:
    lab.put_cluster("limbo")
    for kind in ("repair", "restart", "scrub"):
        lab.end_tasks(kind, RUNNING, FAILED)
    lab.end_tasks("index-rebuild", DONE)
    shell("repair", "bookie-1", "-o", "json")
    shell("repair", "bookie-2")
    shell("restart", "bookie-1")
    shell("scrub")
    shell("index-rebuild", "bookie-1", "ledger-0")
    lab.later("audit-x7k2p", None)
    shell("audit")


REFUSAL: Final = {"since": "2026-01-01T00:00:00Z", "message": "why"}
REPAIRING: Final = {
    "type": "RepairRunning", "status": "True", "reason": "R", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
WAITING: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "refused": (
        ("repair", "bookie-1"),
        {"blocked": [REFUSAL | {"action": "Repair", "bookie": "bookie-1", "predicate": "Why"}]},
    ),
    "repair": (("repair",), {}),
    "audit": (("audit",), {"audit": {"running": True}}),
    "scrub": (("scrub",), {"scrub": {"running": True}}),
    "scrub-at-rest": (("scrub",), {}),
    "rereplication": (("rereplicate",), {"rereplication": {"running": True}}),
    "rereplication-at-rest": (("rereplicate",), {}),
    "audit-during-repair": (
        ("audit",),
        {"conditions": [REPAIRING]},
    ),
    "nothing": (("restart", "bookie-1"), {}),
}


def waits(words: tuple[str, ...], status: dict[str, Any], *, paused: bool) -> str:
    tree = tree_of("healthy")
    tree["spec"]["paused"] = paused
    tree["status"] |= status
    spec = {"cluster": "demo", "type": words[0], "bookie": "".join(words[1:])}
    asked = BookieTask.model_validate(task(1, spec))
    return why_pending(BookieCluster.model_validate(tree), asked)


def test_why_tasks_wait(snapshot: SnapshotAssertion) -> None:
    found = [f"{name}: {waits(*what, paused=False)}" for name, what in WAITING.items()]
    found += [f"{name}, paused: {waits(*what, paused=True)}" for name, what in WAITING.items()]
    assert snapshot(extension_class=Words) == "\n".join(found) + "\n"


def shown(cluster: BookieCluster, flags: tuple[str, ...] = ()) -> str:
    return "".join(f"{line.plain}\n" for line in hint_lines(hints(cluster, now=NOW), flags=flags))


def degraded(reason: str) -> BookieCluster:
    tree = tree_of("healthy")
    conditions = tree["status"]["conditions"]
    others = [one for one in conditions if one["type"] != "Degraded"]
    is_so = {"type": "Degraded", "status": "True", "reason": reason, "message": "why"}
    tree["status"]["conditions"] = [*others, conditions[0] | is_so]
    return BookieCluster.model_validate(tree)


def test_what_to_do_about_each_reason_of_a_degraded_cluster(snapshot: SnapshotAssertion) -> None:
    text = "".join(f"{one}{shown(degraded(one), ('-n', 'books'))}\n" for one in sorted(BY_REASON))
    assert snapshot(extension_class=Words) == text


def test_what_to_do_about_each_refusal_to_boot(snapshot: SnapshotAssertion) -> None:
    tree = tree_of("healthy")["status"]["bookies"][1]
    for disk, verdict in zip(tree["disks"], ("ok", "torn", "swapped"), strict=False):
        disk["verdict"] = verdict
    bookie = BookieStatus.model_validate(tree | {"message": "/data/ledger-0 is not as it was"})
    found = [(reason, make("demo", bookie)) for reason, make in sorted(BY_REFUSAL.items())]
    text = "".join(f"{one}\n  {hint.text}\n  {' '.join(hint.command)}\n\n" for one, hint in found)
    assert snapshot(extension_class=Words) == text
