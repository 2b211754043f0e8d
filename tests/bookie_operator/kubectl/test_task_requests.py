"""What people are told before a task is created, what is handed in, and what became of it."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from bookie.ledger_selector import parse_selector
from bookie_operator.errors import ManifestError
from bookie_operator.kubectl import task_requests
from bookie_operator.kubectl.client import KubectlError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import TaskType
from kubectl_lab import FakeLab, tree_of
from operator_scenes import at, cluster
from pytest import CaptureFixture

DISKS = [
    {"name": "journal", "role": "journal", "verdict": "ok"},
    {"name": "ledger-0", "role": "ledger", "verdict": "stale"},
    {"name": "ledger-1", "role": "ledger", "verdict": "empty"},
]


def of(*blocked: dict[str, Any], spec: dict[str, Any] | None = None, **facts: Any) -> BookieCluster:
    """A cluster of four, of which bookie-1 has these facts."""
    one = {"id": "bookie-1", "state": "Serving", "disks": DISKS, "message": "why"} | facts
    other = {"id": "bookie-2", "state": "AwaitingApproval"}
    items = [{"predicate": "P", "since": at(0)} | item for item in blocked]
    status = ClusterStatus.model_validate({"bookies": [one, other], "blocked": items})
    return cluster(**(spec or {})).model_copy(update={"status": status})


def waits(bookie: str, plan_id: str, action: str = "CookieFix") -> dict[str, Any]:
    return {"bookie": bookie, "action": action, "message": f"m; approve plan {plan_id}"}


FIX = waits("bookie-1", "f00d")
ASKS = {"state": "AwaitingApproval"}
HELD = waits("bookie-1", "f00d", "Collect")


@pytest.mark.parametrize("plan_id", [None, "f00d"])
def test_an_approval_names_plan_and_person_and_tells_what_it_does(
    capsys: CaptureFixture[str], plan_id: str | None
) -> None:
    made = task_requests.approval(of(FIX, **ASKS), "bookie-1", plan_id=plan_id, by="ann")
    assert made["type"] == "approve-cookie-fix"
    assert (made["bookie"], made["planId"], made["approvedBy"]) == ("bookie-1", "f00d", "ann")
    first, *disks, last = capsys.readouterr().err.splitlines()
    assert first == "bookie-1 waits with plan f00d (P): m; approve plan f00d"
    assert disks == ["  ledger-0  ledger  stale", "  ledger-1  ledger  empty"]
    assert "fences every existing ledger" in last


@pytest.mark.parametrize("bookie", ["bookie-3", "bookie-1"])
def test_a_bookie_that_is_there_or_is_to_be_may_be_named_and_no_other(bookie: str) -> None:
    """bookie-1 is to leave, and bookie-3 has not come yet."""
    mine = of(spec={"replicas": 3, "excludedOrdinals": [1]})
    made = task_requests.wish(mine, TaskType.REPAIR, bookie=bookie)
    assert made == {"cluster": "demo", "type": "repair", "bookie": bookie}
    with pytest.raises(ManifestError, match=r"found bookie-7, .*: bookie-0, bookie-2, bookie-3, b"):
        task_requests.wish(mine, TaskType.REPAIR, bookie="bookie-7")


@pytest.mark.parametrize("plan_id", [None, "f00d"])
def test_an_approval_of_a_collection_names_its_plan_and_tells_what_it_does(
    capsys: CaptureFixture[str], plan_id: str | None
) -> None:
    made = task_requests.collection_approval(of(HELD), "bookie-1", plan_id=plan_id, by="ann")
    assert made["type"] == "approve-collection"
    assert (made["bookie"], made["planId"], made["approvedBy"]) == ("bookie-1", "f00d", "ann")
    first, last = capsys.readouterr().err.splitlines()
    assert first == "bookie-1: m; approve plan f00d"
    assert "Nobody can bring them back" in last


@pytest.mark.parametrize(
    ("found", "bookie", "plan_id", "told"),
    [
        (of(FIX, **ASKS), "bookie-1", "beef", "found plan f00d waiting on bookie-1, expected beef"),
        (of(), "bookie-1", None, "found bookie-1 Serving, .*bookies that wait: none$"),
        (of(FIX), "bookie-1", None, "found bookie-1 Serving, .*bookies that wait: none$"),
        (of(FIX, **ASKS), "bookie-0", None, "found bookie-0 Pending, .*that wait: bookie-1$"),
        (of(waits("bookie-2", "f00d")), "bookie-1", None, "Serving, .*that wait: bookie-2$"),
        (of(**ASKS), "bookie-1", None, "the operator, which approves by itself"),
        (of(waits("bookie-2", "f00d"), **ASKS), "bookie-1", None, "which approves by itself"),
    ],
)
def test_what_does_not_wait_cannot_be_approved(
    found: BookieCluster, bookie: str, plan_id: str | None, told: str
) -> None:
    with pytest.raises(KubectlError, match=told):
        task_requests.approval(found, bookie, plan_id=plan_id, by="ann")


@pytest.mark.parametrize(
    ("found", "bookie", "plan_id", "told"),
    [
        (of(HELD), "bookie-1", "beef", "found plan f00d waiting on bookie-1, expected beef"),
        (of(), "bookie-1", None, "waits on bookie-1, .*with one: none$"),
        (of(FIX), "bookie-1", None, "waits on bookie-1, .*with one: none$"),
        (of(HELD), "bookie-2", None, "waits on bookie-2, .*with one: bookie-1$"),
        (
            of(HELD, waits("bookie-2", "beef", "Collect")),
            "bookie-0",
            None,
            "with one: bookie-1, bookie-2$",
        ),
    ],
)
def test_what_no_bookie_holds_back_cannot_be_collected(
    found: BookieCluster, bookie: str, plan_id: str | None, told: str
) -> None:
    with pytest.raises(KubectlError, match=told):
        task_requests.collection_approval(found, bookie, plan_id=plan_id, by="ann")


@pytest.mark.parametrize(
    ("bookie", "told"),
    [("bookie-1", ["bookie-1: ledger-0  ledger  stale"]), ("bookie-3", [])],
)
def test_of_a_disk_that_is_replaced_it_is_told_what_is_known(
    capsys: CaptureFixture[str], bookie: str, told: list[str]
) -> None:
    made = task_requests.replacement(of(), bookie, "ledger-0")
    assert (made["type"], made["bookie"], made["disk"]) == ("replace-disk", bookie, "ledger-0")
    *known, last = capsys.readouterr().err.splitlines()
    assert known == told and "deletes its volume and makes a new one" in last


AWAY = {"state": "Down", "gone_since": at(0)}


def test_of_a_bookie_that_is_replaced_it_is_told_since_when_it_is_away(
    capsys: CaptureFixture[str],
) -> None:
    made = task_requests.bookie_replacement(of(**AWAY), "bookie-1")
    assert (made["type"], made["bookie"]) == ("replace-bookie", "bookie-1")
    first, last = capsys.readouterr().err.splitlines()
    assert first == "bookie-1 has been away since 2026-01-01 00:00:00 UTC: why"
    assert "deletes all its volumes and its pod" in last


@pytest.mark.parametrize(
    ("disk", "told"),
    [("", "the logs of all its ledger disks"), ("ledger-1", "the logs of ledger-1")],
)
def test_an_index_is_rebuilt_of_one_disk_or_of_all(
    capsys: CaptureFixture[str], disk: str, told: str
) -> None:
    made = task_requests.rebuild(of(), "bookie-1", disk)
    assert (made["type"], made["bookie"], made.get("disk", "")) == (
        "index-rebuild",
        "bookie-1",
        disk,
    )
    assert ("disk" in made) is bool(disk)
    assert f"{told}, and the bookie boots again. Nothing is deleted." in capsys.readouterr().err


GAPS = {"excludedOrdinals": [1]}


@pytest.mark.parametrize(
    ("found", "bookie"),
    [
        (of(), "10.0.0.7:3181"),
        (of(), "bookie-4"),
        (of(spec=GAPS), "bookie-1"),
        (of(spec=GAPS, **AWAY), "bookie-1"),
        (of(**AWAY), "bookie-1"),
    ],
)
def test_a_bookie_is_replaced_in_its_ledgers_if_it_is_away_or_not_wanted(
    capsys: CaptureFixture[str], found: BookieCluster, bookie: str
) -> None:
    made = task_requests.rereplication(found, bookie)
    assert made == {"cluster": "demo", "type": "rereplicate", "bookie": bookie}
    assert f"Every ledger that names {bookie} gets another" in capsys.readouterr().err


def test_ledgers_that_are_marked_need_no_explanation(capsys: CaptureFixture[str]) -> None:
    made = task_requests.rereplication(of(), "")
    assert made == {"cluster": "demo", "type": "rereplicate"}
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("request_of", "words", "told"),
    [
        (
            task_requests.replacement,
            ("bookie-1", "x"),
            "expected one of journal, ledger-0",
        ),
        (task_requests.replacement, ("bookie-9", "ledger-0"), "expected a bookie of cluster demo"),
        (
            task_requests.rebuild,
            ("bookie-1", "journal"),
            "expected one of ledger-0, ledger-1",
        ),
        (task_requests.rebuild, ("bookie-9", ""), "expected a bookie of cluster demo"),
        (task_requests.bookie_replacement, ("bookie-1",), "found bookie-1 Serving and not away"),
        (task_requests.bookie_replacement, ("bookie-3",), "found bookie-3 unknown and not away"),
        (task_requests.rereplication, ("bookie-1",), "found bookie-1, which the spec of demo asks"),
        (task_requests.rereplication, ("bookie-3",), "found bookie-3, which the spec of demo asks"),
    ],
)
def test_what_would_hit_the_wrong_one_is_a_usage_error(
    capsys: CaptureFixture[str], request_of: Any, words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ManifestError, match=told):
        request_of(of(), *words)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("selected", "handed_in", "told"),
    [
        ("0", {"ledger": 0}, "ledger 0 is closed, and later entries"),
        ("5", {"ledger": 5}, "ledger 5 is closed, and later entries"),
        ("5@0", {"ledger": 5, "entry": 0}, "ledger 5 is closed before entry 0, and later"),
        ("5@7,9", {"ledgers": "5@7,9"}, "each of the ledgers 5@7,9 is closed before its entry"),
        ("5-9", {"ledgers": "5-9"}, "each of the ledgers 5-9 is closed before its entry"),
    ],
)
def test_a_loss_is_accepted_of_what_was_selected_and_of_nothing_else(
    capsys: CaptureFixture[str], selected: str, handed_in: dict[str, Any], told: str
) -> None:
    words = {"reason": "burnt", "by": "ann"}
    select = parse_selector(selected)
    made = task_requests.acceptance(of(), select, dry_run=False, **words)
    kept = {"cluster": "demo", "type": "accept-loss", "reason": "burnt", "approvedBy": "ann"}
    assert made == kept | handed_in
    said = capsys.readouterr().err
    assert told in said and said.endswith("keep the name ann and the reason: burnt\n")
    shown = task_requests.acceptance(of(), select, dry_run=True, **words)
    assert shown == kept | {"ledgers": selected, "dryRun": True}
    assert "closes none" in capsys.readouterr().err


def test_a_record_is_taken_back_with_name_and_reason(capsys: CaptureFixture[str]) -> None:
    made = task_requests.retraction(of(), 5, reason="found", by="ann")
    assert made == {
        "cluster": "demo",
        "type": "retract-loss",
        "ledger": 5,
        "reason": "found",
        "approvedBy": "ann",
    }
    said = capsys.readouterr().err
    assert "a loss of ledger 5 deletes it" in said
    assert said.endswith("keep the name ann and the reason: found\n")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Where tests run in parallel, their processes pass over interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestAsk:
    def asked(self, lab: FakeLab, kind: str, output: str = "text", **how: Any) -> int:
        wish = {"cluster": "demo", "type": kind} | how.pop("wish", {})
        how = {"no_wait": False, "timeout": None} | how
        return task_requests.ask(lab.kubectl(), wish, output=output, **how)

    @pytest.mark.parametrize("output", ["text", "json"])
    @pytest.mark.parametrize("no_wait", [True, False])
    def test_that_it_was_created_is_told_and_the_answer_is_alone_on_stdout(
        self, lab: FakeLab, capsys: CaptureFixture[str], output: str, no_wait: bool
    ) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("audit", {"phase": "Succeeded", "message": "m"})
        assert self.asked(lab, "audit", output, no_wait=no_wait) == 0
        printed = capsys.readouterr()
        assert printed.err == "task audit-x7k2p created\n"
        phase = "Pending" if no_wait else "Succeeded"
        if output == "json":
            assert json.loads(printed.out)["status"]["phase"] == phase
        else:
            assert printed.out == "audit-x7k2p" + ("\n" if no_wait else " Succeeded: m\n")

    def test_one_that_has_not_ended_in_time_continues(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        with pytest.raises(KubectlError, match="task audit-x7k2p has not ended in time; it conti"):
            self.asked(lab, "audit", timeout=0.0)

    @pytest.mark.usefixtures("interruptible")
    def test_an_interrupt_is_of_this_command_alone_and_says_so(
        self, lab: FakeLab, capsys: CaptureFixture[str]
    ) -> None:
        """The watch interrupts who started it, as ^C does."""
        task = json.dumps({"metadata": {"name": "t"}, "spec": {"cluster": "demo", "type": "audit"}})
        lab.answer_by(f"case \"$*\" in *--watch*) kill -INT $PPID; exit;; esac; echo '{task}'")
        with pytest.raises(KeyboardInterrupt):
            self.asked(lab, "audit")
        assert capsys.readouterr().err.splitlines() == [
            "task t created",
            "task t continues in the cluster; see kubectl bookie tasks",
        ]

    @pytest.mark.parametrize(
        ("kind", "section", "report", "code"),
        [
            ("audit", "audit", {"clean": True}, 0),
            ("audit", "audit", {"clean": False, "missing": 1}, 3),
            ("audit", "audit", {"clean": False, "lost": 1, "unknown": 1}, 3),
            ("audit", "audit", {"clean": False, "unknown": 1}, 4),
            ("audit", "audit", {}, 4),
            ("audit", "scrub", {"clean": False}, 0),
            ("scrub", "scrub", {"clean": True, "corruptFound": 2, "corruptReplaced": 2}, 0),
            ("scrub", "scrub", {"clean": False, "corruptFound": 2, "corruptReplaced": 1}, 3),
            ("scrub", "scrub", {"clean": False, "corruptFound": 2, "corruptReplaced": 2}, 4),
            ("scrub", "scrub", {"clean": False, "blocked": 1}, 4),
            ("scrub", "scrub", {}, 4),
            ("scrub", "audit", {"clean": False}, 0),
            ("rereplicate", "rereplication", {"clean": False}, 3),
            ("rereplicate", "scrub", {"clean": False}, 0),
            ("repair", "audit", {"clean": False}, 0),
        ],
    )
    def test_what_succeeded_may_have_found_something_of_its_own_kind(
        self, lab: FakeLab, kind: str, section: str, report: dict[str, Any], code: int
    ) -> None:
        tree = tree_of("healthy")
        tree["status"] |= {name: {"clean": True} for name in ("audit", "scrub", "rereplication")}
        tree["status"][section] = report
        lab.put("bookieclusters", tree)
        lab.end_tasks(kind, {"phase": "Succeeded"})
        assert self.asked(lab, kind) == code

    @pytest.mark.parametrize(
        ("kind", "bookie", "code"),
        [
            ("audit", "", 1),
            ("scrub", "", 1),
            ("rereplicate", "", 1),
            ("repair", "", 3),
            ("repair", "bookie-0", 1),
            ("repair", "bookie-1", 3),
            ("restart", "bookie-1", 1),
        ],
    )
    def test_what_failed_leaves_damage_if_it_was_to_clear_it(
        self, lab: FakeLab, kind: str, bookie: str, code: int
    ) -> None:
        lab.put_cluster("limbo")
        lab.end_tasks(kind, {"phase": "Failed"})
        assert self.asked(lab, kind, wish={"bookie": bookie} if bookie else {}) == code


@pytest.mark.parametrize(
    ("state", "was", "paused", "told"),
    [
        ("healthy", False, False, "demo was not paused: nothing changed"),
        ("healthy", True, True, "demo was paused already: nothing changed"),
        ("healthy", True, False, "demo is no longer paused"),
        ("healthy", False, True, "demo is paused\n"),
    ],
)
def test_a_pause_is_set_only_if_it_changes_something(
    lab: FakeLab, capsys: CaptureFixture[str], state: str, was: bool, paused: bool, told: str
) -> None:
    tree = tree_of(state)
    tree["spec"]["paused"] = was
    lab.put("bookieclusters", tree)
    task_requests.set_paused(lab.kubectl(), BookieCluster.model_validate(tree), paused=paused)
    assert capsys.readouterr().out.startswith(told)
    assert [call["words"][0] for call in lab.calls()] == (["patch"] if was != paused else [])
    assert lab.get("bookieclusters", "demo")["spec"]["paused"] is paused


@pytest.mark.parametrize(
    ("limbo", "told"),
    [
        ({}, ""),
        ({"ledgers": 1}, "1 ledger in limbo and 0 unchecked stay so"),
        ({"unchecked": 2}, "0 ledgers in limbo and 2 unchecked stay so"),
    ],
)
def test_what_a_pause_leaves_in_limbo_is_told(
    lab: FakeLab, capsys: CaptureFixture[str], limbo: dict[str, int], told: str
) -> None:
    tree = tree_of("healthy")
    tree["status"]["limbo"] = limbo
    lab.put("bookieclusters", tree)
    task_requests.set_paused(lab.kubectl(), BookieCluster.model_validate(tree), paused=True)
    *lines, last = capsys.readouterr().out.splitlines()
    assert told in last and ("limbo" in last) is bool(told) and "stops:" in lines[1]


@pytest.mark.parametrize("paused", [False, True])
def test_bookies_restart_once_nothing_is_paused(
    lab: FakeLab, capsys: CaptureFixture[str], paused: bool
) -> None:
    tree = tree_of("healthy")
    tree["spec"]["paused"] = paused
    lab.put("bookieclusters", tree)
    task_requests.restart(lab.kubectl(), BookieCluster.model_validate(tree), now=at(90.5))
    assert lab.get("bookieclusters", "demo")["spec"]["restartedAt"] == "2026-01-01T00:01:30Z"
    printed = capsys.readouterr().out
    assert "kubectl bookie status --watch --cluster demo" in printed
    assert ("demo is paused: it restarts none before" in printed) is paused


def test_each_change_of_the_counts_is_told_once(capsys: CaptureFixture[str]) -> None:
    progress = task_requests.LimboProgress()
    limbo = {"ledgers": 25, "unchecked": 63}
    for counts in (limbo, limbo, {"ledgers": 1}, {}, {}, {"unchecked": 2}):
        status = ClusterStatus.model_validate({"limbo": counts})
        progress.tell(cluster().model_copy(update={"status": status}))
    assert capsys.readouterr().err.splitlines() == [
        "25 ledgers in limbo, 63 unchecked",
        "1 ledger in limbo, 0 unchecked",
        "not known yet: not every bookie has booted, or the operator has not looked",
        "0 ledgers in limbo, 2 unchecked",
    ]
