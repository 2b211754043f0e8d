"""What a person can do now: which hint there is, when, and the command behind it."""

from datetime import datetime
from typing import Any

import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.kubectl.advice import Hint
from bookie_operator.kubectl.hints import hint_lines, hints
from bookie_operator.kubectl.reasons import BY_REASON
from bookie_operator.kubectl.refusals import BY_REFUSAL
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.looks import OLD_AFTER
from bookie_operator.model.refused import RANKED
from bookie_operator.model.status import NOT_REREPLICATED, Blocked, ClusterStatus
from bookie_operator.observed import Bookie
from bookie_operator.plan.planner import plan
from operator_scenes import at, bookie, cluster, observed


def commands(of: BookieCluster, status: ClusterStatus) -> list[str]:
    told = hints(of.model_copy(update={"status": status}), now=at(0))
    return [" ".join(one.command) for one in told]


def held(of: BookieCluster, name: str, predicate: str = "LimboPresent") -> list[str]:
    """Commands while this bookie is to leave and cannot."""
    drain = DrainStatus(bookie=name, phase=DrainPhase.HELD, started_at=at(0))
    blocked = Blocked(bookie=name, action="ScaleDown", predicate=predicate, since=at(0))
    status = plan(of, observed(of=of), ClusterStatus()).status
    return commands(of, status.model_copy(update={"drain": drain, "blocked": (blocked,)}))


def test_one_that_is_to_leave_can_be_kept_by_what_asked_for_it() -> None:
    assert "scale bookiecluster demo --replicas 5" in held(cluster(), "bookie-4")
    gaps = cluster(replicas=3, excludedOrdinals=[0, 1])
    assert "scale bookiecluster demo --replicas 4" in held(gaps, "bookie-5")
    patch = """patch bookiecluster demo --type merge -p {"spec": {"excludedOrdinals": [0]}}"""
    assert patch in held(gaps, "bookie-1")
    more = """-p {"spec": {"excludedOrdinals": [0], "replicas": 9}}"""
    assert held(cluster(excludedOrdinals=[0, 9]), "bookie-9")[-1].endswith(more)


def test_one_that_is_away_and_to_leave_can_be_given_up_sooner() -> None:
    again = "bookie rereplicate bookie-1 --cluster demo"
    excluding = cluster(excludedOrdinals=[1])
    assert again in held(excluding, "bookie-1", NOT_REREPLICATED)
    assert again not in held(excluding, "bookie-1")


def test_one_whose_copies_others_hold_can_be_done_without() -> None:
    of = cluster(excludedOrdinals=[7])
    status = plan(of, observed(of=of), ClusterStatus()).status
    gone = status.bookies[1].model_copy(update={"rereplicated_at": at(0)})
    status = status.model_copy(update={"bookies": (status.bookies[0], gone)})
    assert commands(of, status)[-1].endswith("""-p {"spec": {"excludedOrdinals": [1, 7]}}""")


def hints_for(*special: Bookie) -> list[Hint]:
    of = cluster()
    status = plan(of, observed(*special), ClusterStatus()).status
    return hints(of.model_copy(update={"status": status}), now=at(0))


def test_a5_a_store_that_went_back_is_to_be_mended_before_anything_else_happens() -> None:
    told = hints_for(bookie("bookie-0", metadata_rolled_back="older"))[0]
    assert "looks rolled back" in told.text and told.command == (
        "bookie",
        "pause",
        "--cluster",
        "demo",
    )


def test_a5_a_held_collection_names_the_bookie_and_the_command_of_its_approval() -> None:
    why = "90 of 100 ledgers; approve plan f00d if they were deleted on purpose"
    held = {"collection_held": why, "collection_plan_id": "f00d"}
    told = [
        " ".join(hint.command)
        for hint in hints_for(bookie("bookie-2", **held), bookie("bookie-3", **held))
        if "deleted on purpose" in hint.text
    ]
    words = "bookie approve-collection {} --cluster demo --plan f00d"
    assert told == [words.format("bookie-2"), words.format("bookie-3")]


def test_d4_what_to_do_about_a_bookie_that_takes_no_entries() -> None:
    [told] = hints_for(bookie("bookie-1", phase=Phase.READ_ONLY, message="too little space: x"))[:1]
    assert "too little space: x" in told.text and "larger volumes" in told.text
    assert " ".join(told.command) == "exec demo-bookie-1-0 -c bookie -- df -h"


def refusing(message: str, **verdicts: str) -> str:
    """The hint for a bookie that refuses to boot with these words."""
    disks = {name.replace("_", "-"): verdict for name, verdict in verdicts.items()}
    one = bookie("bookie-1", phase=Phase.REFUSED, message=message, verdicts=disks)
    return f"{hints_for(one)[0].text} | {' '.join(hints_for(one)[0].command)}"


LOGS_OF_1 = "logs demo-bookie-1-0 -c bookie"
CLAIMS = "get pvc -l bookkeeper.bookie-operator.dev/cluster=demo -o wide"
PODS = "get pods -l bookkeeper.bookie-operator.dev/cluster=demo -o wide"
ALLOW = 'patch bookiecluster demo --type merge -p {"spec": {"cookieFix": {"policy": "Approve"}}}'


@pytest.mark.parametrize(
    ("message", "verdicts", "text", "command"),
    [
        (
            "/data/ledger-1/index.sqlite is missing: run `bookie index rebuild` for /data/ledger-1",
            {},
            "has lost an index",
            "bookie index-rebuild bookie-1 ledger-1 --cluster demo",
        ),
        (
            "a fact of the index is unreadable: x; run `bookie index rebuild`",
            {},
            "has lost an index",
            "bookie index-rebuild bookie-1 --cluster demo",
        ),
        (
            "/data/ledger-0: log file 3 is missing; treat the directory as lost",
            {},
            "has lost files of ledger-0;",
            "bookie replace-disk bookie-1 ledger-0 --cluster demo",
        ),
        (
            "a log file is missing; treat the directory as lost",
            {},
            "has lost files of DISK;",
            "bookie replace-disk bookie-1 DISK --cluster demo",
        ),
        (
            "the metadata store has no cookie of bookie-1",
            {},
            "its cookie in the metadata store does not match",
            "exec demo-bookie-1-0 -c bookie -- bookie cookie show",
        ),
        (
            "bookie bookie-1 is registered and alive at x:1",
            {},
            "Another process runs as bookie-1;",
            "delete pod demo-bookie-1-0",
        ),
        (
            "/data/ledger-0 is in use by another bookie process",
            {},
            "Another process still uses the folders of bookie-1,",
            PODS,
        ),
        ("the cookie fix policy is Never", {}, "found changed disks, and spec.cookieFix", ALLOW),
        ("something new", {}, "bookie-1 refuses to boot. It has changed nothing.", LOGS_OF_1),
        ("something", {"ledger_0": "reshaped"}, "with another number of disks,", LOGS_OF_1),
        ("something", {"ledger_1": "foreign"}, "another disk as ledger-1:", CLAIMS),
        ("something", {"ledger_1": "swapped"}, "another disk as ledger-1:", CLAIMS),
        (
            "STAMP is no stamp",
            {"ledger_1": "torn"},
            "cannot read the stamp of ledger-1.",
            "bookie replace-disk bookie-1 ledger-1 --cluster demo",
        ),
        (
            "/data/ledger-0 is odd",
            {"ledger_1": "torn"},
            "cannot read the stamp of ledger-1.",
            "bookie replace-disk bookie-1 ledger-1 --cluster demo",
        ),
    ],
)
def test_d5_a_refused_boot_has_the_command_that_mends_it(
    message: str, verdicts: dict[str, str], text: str, command: str
) -> None:
    hint = refusing(message, **verdicts)
    assert text in hint and hint.endswith(f": | {command}")


def test_d5_each_reason_of_a_refusal_has_its_hint() -> None:
    assert set(BY_REFUSAL) == set(RANKED)


def condition(kind: str, status: str, reason: str = "Why") -> dict[str, Any]:
    made = {"type": kind, "status": status, "reason": reason, "message": "told"}
    return made | {"lastTransitionTime": "2026-01-01T00:00:00Z"}


CALM = condition("Ready", "True")


def told(
    *conditions: dict[str, Any], spec: dict[str, Any] | None = None, **facts: Any
) -> list[str]:
    """What is hinted at in a cluster about which an operator reports this: text and command."""
    status = ClusterStatus.model_validate({"conditions": [CALM, *conditions]} | facts)
    of = cluster(**(spec or {})).model_copy(update={"status": status})
    return [f"{hint.text} | {' '.join(hint.command)}" for hint in hints(of, now=at(0))]


def test_a_cluster_at_rest_needs_nobody() -> None:
    assert not told()


def test_without_an_operator_the_only_hint_is_to_run_one() -> None:
    status = ClusterStatus.model_validate({"bookies": [{"id": "b", "state": "Down"}]})
    assert commands(cluster(paused=True), status) == [
        "get deployments -A -l app.kubernetes.io/name=bookie-operator"
    ]


@pytest.mark.parametrize(
    ("looked_at", "is_told"),
    [(None, False), (at(0), False), (at(0) - OLD_AFTER, True), (at(0) + OLD_AFTER, True)],
)
def test_an_operator_that_looks_no_more_is_to_be_looked_at(
    looked_at: datetime | None, is_told: bool
) -> None:
    words = "get pods -A -l app.kubernetes.io/name=bookie-operator"
    assert [one.endswith(words) for one in told(looked_at=looked_at)] == [True] * is_told


@pytest.mark.parametrize(
    ("paused", "wanted"), [(True, ["bookie resume --cluster demo"]), (False, [])]
)
def test_a_paused_operator_can_be_resumed(paused: bool, wanted: list[str]) -> None:
    assert [one.partition(" | ")[2] for one in told(spec={"paused": paused})] == wanted


def asking(*verdicts: str, state: str = "AwaitingApproval") -> dict[str, Any]:
    """A bookie that asks for approval, with disks of these verdicts."""
    disks = [
        {"name": f"d{n}", "role": "ledger", "verdict": verdict}
        for n, verdict in enumerate(verdicts)
    ]
    why = {"bookie": "b", "action": "CookieFix", "predicate": "P", "since": at(0)}
    return {
        "bookies": [{"id": "b", "state": state, "disks": disks}],
        "blocked": [why | {"message": "a disk is odd; approve plan f00d"}],
    }


@pytest.mark.parametrize(
    ("verdicts", "named"),
    [
        ((), "its disks"),
        (("ok", "new"), "its disks"),
        (("ok", "stale"), "d1"),
        (("empty", "ok", "torn"), "d0, d2"),
    ],
)
def test_a_bookie_that_asks_has_the_command_of_its_approval(
    verdicts: tuple[str, ...], named: str
) -> None:
    [one] = told(**asking(*verdicts))
    assert f"b asks whether it may give up the old content of {named}. " in one
    assert one.endswith(" | bookie approve b --cluster demo --plan f00d")


def repaired(state: str, *ledgers: int) -> dict[str, Any]:
    """What the status says of a repair that leaves these ledgers to a person."""
    rows = [{"ledger": ledger, "entry": 7} for ledger in ledgers]
    found = {"ledgers": len(rows), "through": max(ledgers, default=None), "first": rows}
    return {"episode": "e", "state": state, "undecided": found}


def serving(**repairs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": name, "state": "Serving", "repair": it} for name, it in repairs.items()]


@pytest.mark.parametrize(
    ("ledgers", "words"),
    [
        ((), []),
        ((5,), ["1 ledger cannot be closed", "5@7 REASON --cluster demo --dry-run"]),
        ((5, 9), ["2 ledgers cannot be closed", "5@7,9@7 REASON --cluster demo --dry-run"]),
    ],
)
def test_what_nobody_can_decide_can_be_accepted_as_lost(
    ledgers: tuple[int, ...], words: list[str]
) -> None:
    found = told(bookies=serving(b=repaired("Waiting", *ledgers)))
    assert len(found) == bool(words)
    assert all(word in one for one in found for word in words)


LOGS = "logs demo-b-0 -c bookie"
OF_STATES = {
    "Pending": "b has no running process. Show why: | describe pod demo-b-0",
    "Down": "b has no running process. Show why: | describe pod demo-b-0",
    "Refused": f" Show what it found: | {LOGS}",
    "Unresponsive": f"b: told. Show its log: | {LOGS}",
    "CrashLoop": f"b ends each time it starts. The last lines of its log: | {LOGS} --previous",
    "ReadOnly": "b takes no new entries: told. ",
}


@pytest.mark.parametrize("state", BookieState)
def test_a_bookie_has_a_hint_if_a_person_can_do_something(state: BookieState) -> None:
    found = told(bookies=[{"id": "b", "state": state.value, "message": "told"}])
    assert len(found) == (state.value in OF_STATES)
    assert all(OF_STATES[state.value] in one for one in found)


def test_a_bookie_that_takes_no_entries_need_not_say_why() -> None:
    [one] = told(bookies=[{"id": "b", "state": "ReadOnly"}])
    assert one.startswith("b takes no new entries: it does not say why. ")


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        (("Waiting", "Running", "Finished"), []),
        (("Running", "Failed", "Finished"), ["The repair of b1 has failed"]),
        (("Failed", "Running", "Failed"), ["The repair of b0, b2 has failed"]),
    ],
)
def test_a_repair_that_failed_can_be_tried_now(states: tuple[str, ...], wanted: list[str]) -> None:
    repairs = {f"b{n}": repaired(state) for n, state in enumerate(states)}
    found = told(bookies=serving(**repairs))
    assert [one.partition(";")[0] for one in found] == wanted
    first = f"b{states.index('Failed')}" if wanted else ""
    assert all(one.endswith(f" | bookie repair {first} --cluster demo") for one in found)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("OverlappingUnclean", "disturbs no bookie until repairs have cleared limbo"),
        ("AuditMissing", "Entries have no copy left"),
        ("LossRecorded", "retract-loss LEDGER REASON"),
        ("LossAccepted", "accepted a possible loss"),
        ("SomethingNew", "Entries have no copy left"),
    ],
)
def test_a_possible_loss_is_told_by_its_reason(reason: str, words: str) -> None:
    [one] = told(condition("PossibleDataLoss", "True", reason))
    assert words in one and one.endswith(" | ")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("PossibleDataLoss", "AuditMissing"),
        ("SpaceLow", "Why"),
        ("MetadataRolledBack", "Why"),
        *(("Degraded", reason) for reason in BY_REASON),
    ],
)
@pytest.mark.parametrize(("status", "hinted"), [("True", 1), ("False", 0), ("Unknown", 0)])
def test_a_condition_has_its_hint_only_while_it_is_true(
    kind: str, reason: str, status: str, hinted: int
) -> None:
    assert len(told(condition(kind, status, reason))) == hinted


@pytest.mark.parametrize("reason", BY_REASON)
def test_a_degraded_cluster_is_named_in_the_command(reason: str) -> None:
    [one] = told(condition("Degraded", "True", reason))
    assert one.startswith(BY_REASON[reason][0])
    assert ("demo" in one) is (reason not in ("Forbidden", "NodeLost"))


def test_a_reason_that_is_not_known_has_no_hint() -> None:
    assert not told(condition("Degraded", "True", "SomethingNew"))


def test_full_disks_are_met_by_an_edit() -> None:
    [one] = told(condition("SpaceLow", "True"))
    assert one.endswith("larger volumes: | edit bookiecluster demo")


AUDIT, REPAIR = "bookie audit --cluster demo", "bookie repair --cluster demo"
OPEN = {"kind": "UncleanShutdown", "bookie": "b", "detected_at": at(0)}


@pytest.mark.parametrize(
    ("status", "reason", "facts", "wanted"),
    [
        ("True", "AuditClean", {}, []),
        ("False", "LimboPresent", {}, []),
        ("False", "AuditFindings", {}, [REPAIR]),
        ("False", "AuditFindings", {"incidents": [OPEN]}, [REPAIR]),
        ("False", "AuditFindings", {"audit": {"running": True}}, [REPAIR]),
        ("False", "AuditFindings", {"mend": {"running": True}}, []),
        ("False", "AuditPending", {}, [AUDIT]),
        ("False", "AuditStale", {}, [AUDIT]),
        ("False", "AuditStale", {"mend": {"running": True}}, [AUDIT]),
        ("False", "AuditStale", {"audit": {"running": True}}, []),
        ("False", "AuditStale", {"incidents": [OPEN]}, []),
        ("False", "AuditStale", {"incidents": [OPEN | {"outcome": "Cleared"}]}, [AUDIT]),
    ],
)
def test_what_is_not_verified_can_be_audited_and_what_was_found_repaired(
    status: str, reason: str, facts: dict[str, Any], wanted: list[str]
) -> None:
    found = told(condition("DurabilityVerified", status, reason), **facts)
    assert [one.partition(" | ")[2] for one in found] == wanted


@pytest.mark.parametrize(("predicate", "hinted"), [("LastCopy", 1), ("LimboPresent", 0)])
def test_last_copies_can_be_made_again_by_a_scrub(predicate: str, hinted: int) -> None:
    why = {"action": "Restart", "predicate": predicate, "since": at(0)}
    found = told(blocked=[why, why | {"bookie": "b"}])
    assert [one.partition(" | ")[2] for one in found] == ["bookie scrub --cluster demo"] * hinted


@pytest.mark.parametrize(
    ("found", "hinted"),
    [
        ({}, False),
        ({"url": "zk://h/l"}, True),
        ({"url": "zk://h/l", "reachable": True}, False),
    ],
)
def test_a_metadata_store_that_does_not_answer_is_to_be_brought_back(
    found: dict[str, Any], hinted: bool
) -> None:
    assert [
        one.startswith("The metadata store does not answer") for one in told(metadata=found)
    ] == ([True] * hinted)


@pytest.mark.parametrize(
    ("phase", "failures", "hinted"),
    [("Held", 0, True), ("Held", 1, True), ("Draining", 0, False), ("Draining", 1, True)],
)
def test_one_that_cannot_leave_can_be_kept_and_one_that_leaves_needs_nobody(
    phase: str, failures: int, hinted: bool
) -> None:
    drain = {"bookie": "bookie-4", "phase": phase, "started_at": at(0), "failures": failures}
    found = told(drain=drain)
    assert [one.startswith("bookie-4 cannot be removed yet") for one in found] == [True] * hinted


@pytest.mark.parametrize(
    ("excluded", "rereplicated_at", "patched"),
    [
        ([], None, []),
        ([], at(0), ['{"spec": {"excludedOrdinals": [2]}}']),
        ([0, 9], at(0), ['{"spec": {"excludedOrdinals": [0, 2, 9]}}']),
        ([2], at(0), []),
        ([2], None, []),
    ],
)
def test_one_that_is_wanted_and_whose_copies_others_hold_can_be_excluded(
    excluded: list[int], rereplicated_at: datetime | None, patched: list[str]
) -> None:
    away = {"id": "bookie-2", "state": "Serving", "rereplicated_at": rereplicated_at}
    found = told(spec={"excludedOrdinals": excluded}, bookies=[away])
    words = "patch bookiecluster demo --type merge -p "
    assert [one.partition(f" | {words}")[2] for one in found] == patched


def test_what_gives_up_most_is_asked_first() -> None:
    urgent = asking("stale")
    lost = condition("PossibleDataLoss", "True", "LossRecorded")
    urgent["bookies"] += serving(c=repaired("Failed", 5))
    found = told(lost, spec={"paused": True}, looked_at=at(0) - OLD_AFTER, **urgent)
    order = ("not renewed", "paused", "b asks", "cannot be closed", "repair of c", "permanently")
    assert len(found) == len(order)
    assert all(words in one for words, one in zip(order, found, strict=True))


@pytest.mark.parametrize(
    ("hint", "lines"),
    [
        (Hint("do"), ["  do"]),
        (Hint("do:", ("a", "b c")), ["  do:", "    kubectl a 'b c' --context=x"]),
    ],
)
def test_a_command_has_a_line_of_its_own_and_the_flags_of_the_call(
    hint: Hint, lines: list[str]
) -> None:
    printed = [line.plain for line in hint_lines([hint, hint], flags=["--context=x"])]
    assert printed == ["\nwhat to do", *lines, *lines]
    assert not hint_lines([], flags=["--context=x"])
