"""What is created, grown, started and restarted: rule by rule, without the rest of a pass."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus, MetadataStatus
from bookie_operator.model.task import TaskPhase, TaskStatus
from bookie_operator.observed import Bookie, MetadataView, Observed, Volume
from bookie_operator.plan.actions import (
    CreateVolume,
    ExpandVolume,
    InitialiseMetadata,
    RestartBookie,
    StartBookie,
    bookie_of,
    template_of,
)
from bookie_operator.plan.budget import budget_of
from bookie_operator.plan.copies import Copies
from bookie_operator.plan.other_store import lineage_refusal
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.restarts import (
    expansions,
    follow_restart,
    other_classes,
    provision,
    restarts,
)
from operator_scenes import DISKS, HEALTHY, at, bookie, cluster, observed, task

B0, B1, B2, B3 = (BookieId(f"bookie-{n}") for n in range(4))
KNOWN = ClusterStatus(metadata=MetadataStatus(instance_id="instance-1"))


def pass_of(
    seen: Observed, *, of: BookieCluster | None = None, previous: ClusterStatus = KNOWN
) -> Pass:
    return Pass.of(of or cluster(), seen, previous)


def without(name: str, *volumes: str, terminating: str = "") -> Bookie:
    """It has no process, lacks these volumes, and one of them is on its way out."""
    one = bookie(name)
    kept = {
        disk: replace(volume, is_terminating=disk == terminating)
        for disk, volume in one.volumes.items()
        if disk not in volumes
    }
    return replace(one, volumes=kept, process=None, health=None)


def made(seen: Observed, *, of: BookieCluster | None = None, **more: Any) -> list[str]:
    """What is created and started, in words."""
    actions, _refusals = provision(pass_of(seen, of=of), **more)
    words = {CreateVolume: "create", StartBookie: "start"}
    return [
        f"{words[type(one)]} {bookie_of(one)}" if type(one) in words else type(one).__name__
        for one in actions
    ]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (bookie(B1), []),
        (without(B1), ["start bookie-1"]),
        (without(B1, "journal", "ledger-1"), ["create bookie-1", "create bookie-1"]),
        (without(B1, terminating="ledger-0"), []),
        (bookie(B1, running=False), []),
        (bookie(B1, running=False, process_facts={"revision": "older"}), ["start bookie-1"]),
        (bookie(B1, process_facts={"revision": "older"}), []),
    ],
)
def test_a_bookie_starts_once_its_volumes_are_there(one: Bookie, expected: list[str]) -> None:
    assert made(observed(one, seconds=100)) == expected


def test_who_is_away_or_leaves_is_started_only_when_it_must_run() -> None:
    gone = observed(without(B1), without("bookie-7"))
    assert made(gone, away=(B1,)) == []
    assert made(gone, kept=(BookieId("bookie-7"),)) == ["start bookie-1", "start bookie-7"]


def test_while_paused_nothing_is_made() -> None:
    paused = cluster(paused=True)
    assert made(observed(without(B1, "journal"), of=paused), of=paused) == []
    assert not expansions(pass_of(observed(sized("1Gi"), of=paused), of=paused))


@pytest.mark.parametrize(
    ("metadata", "previous", "expected"),
    [
        (HEALTHY, KNOWN, ["create bookie-1", "start bookie-2"]),
        (replace(HEALTHY, instance_id="other"), KNOWN, ["create bookie-1"]),
        (MetadataView(), KNOWN, ["create bookie-1"]),
        (
            replace(HEALTHY, instance_id=None),
            ClusterStatus(),
            ["create bookie-1", "InitialiseMetadata"],
        ),
        (replace(HEALTHY, instance_id=None), KNOWN, ["create bookie-1"]),
    ],
)
def test_nothing_is_started_on_a_store_that_is_not_the_clusters(
    metadata: MetadataView, previous: ClusterStatus, expected: list[str]
) -> None:
    seen = observed(without(B1, "journal"), without(B2), metadata=metadata)
    actions, refusals = provision(pass_of(seen, previous=previous))
    names = {CreateVolume: "create bookie-1", StartBookie: "start bookie-2"}
    assert [names.get(type(one), type(one).__name__) for one in actions] == expected
    is_another = metadata.reachable and previous is KNOWN and metadata.instance_id != "instance-1"
    assert [one.predicate for one in refusals] == (["LineageMismatch"] if is_another else [])
    assert InitialiseMetadata() in actions or "InitialiseMetadata" not in expected


@pytest.mark.parametrize(("found", "word"), [("other", "other"), (None, "none (an empty store)")])
def test_another_lineage_is_told_with_both_ids(found: str | None, word: str) -> None:
    refusal = lineage_refusal(pass_of(observed(metadata=replace(HEALTHY, instance_id=found))))
    assert refusal is not None and (refusal.action, refusal.bookie) == ("Start", "")
    assert refusal.message == (
        f"the metadata store's instance id is {word}, the cluster's was instance-1: restore the "
        "store; no disk is touched"
    )


def sized(size: str, *, terminating: bool = False) -> Bookie:
    one = bookie(B1)
    journal = Volume("journal", "bookie-1-journal-uid", size=size, is_terminating=terminating)
    return replace(one, volumes={**one.volumes, "journal": journal})


@pytest.mark.parametrize(
    ("one", "grows"),
    [
        (sized("1Gi"), True),
        (sized("1Gi", terminating=True), False),
        (sized(""), False),
        (sized("900Ti"), False),
        (without(B1, "journal"), False),
    ],
)
def test_a_volume_that_is_smaller_than_wanted_grows(one: Bookie, grows: bool) -> None:
    actions = expansions(pass_of(observed(one)))
    assert [type(action) for action in actions] == ([ExpandVolume] if grows else [])
    assert all(bookie_of(action) == B1 for action in actions)


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (7, " and 2 more")]
)
def test_other_classes_are_told_in_one_sentence(count: int, more: str) -> None:
    wanted = cluster(replicas=9, storage={"disks": [d | {"storageClass": "fast"} for d in DISKS]})
    fleet = []
    for number in range(9):
        one = bookie(f"bookie-{number}")
        classes = {
            "journal": "slow" if number < count else "fast",
            "ledger-0": "",
            "ledger-1": "fast",
        }
        volumes = {n: replace(v, storage_class=classes[n]) for n, v in one.volumes.items()}
        fleet.append(replace(one, volumes=volumes))
    [refusal] = other_classes(pass_of(observed(*fleet, of=wanted), of=wanted))
    named = ", ".join(f"bookie-{n} journal (slow)" for n in range(min(count, 5)))
    assert refusal.message.startswith(f"{named}{more}: of another class")
    assert (refusal.action, refusal.predicate) == ("ChangeClass", "NewVolumesOnly")


# Restarts


def restarted(
    seen: Observed, *, of: BookieCluster | None = None, previous: ClusterStatus = KNOWN
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Who restarts and why, and who is refused by what."""
    one = pass_of(seen, of=of, previous=previous)
    budget = budget_of(one, copies=Copies(3, "AckQuorum", "3 copies"), is_loss_possible=False)
    actions, refusals = restarts(one, budget)
    assert all(isinstance(action, RestartBookie) for action in actions)
    told = [(bookie_of(a), a.reason) for a in actions if isinstance(a, RestartBookie)]
    return told, {refusal.bookie: f"{refusal.predicate}: {refusal.message}" for refusal in refusals}


OLD, NEW = cluster(), cluster(image="new:1")
FLEET = [bookie(name, of=OLD) for name in (B0, B1, B2, B3)]


def test_changed_settings_and_replaced_volumes_ask_for_a_restart() -> None:
    assert restarted(observed()) == ([], {})
    told, refused = restarted(observed(*FLEET, of=NEW, seconds=100), of=NEW)
    assert told == [(name, "SettingsChanged") for name in (B0, B1, B2, B3)] and not refused
    one = bookie(B1)
    other = Volume("ledger-0", "another")
    swapped = replace(one, volumes={**one.volumes, "ledger-0": other})
    assert restarted(observed(swapped)) == ([(B1, "VolumeReplaced")], {})
    fewer = replace(one, volumes={k: v for k, v in one.volumes.items() if k != "ledger-0"})
    silent = replace(swapped, health=None, is_writable=False)
    assert one.health is not None
    untold = tuple(replace(disk, volume_uid="") for disk in one.health.disks)
    nameless = replace(swapped, health=replace(one.health, disks=untold))
    for quiet in (fewer, silent, nameless):
        assert restarted(observed(quiet))[0] == []


def test_one_that_does_not_run_is_not_restarted() -> None:
    down = bookie(B0, of=OLD, running=False)
    gone = replace(down, process=None)
    for one in (down, gone):
        told, _ = restarted(observed(one, of=NEW, seconds=100), of=NEW)
        assert told == []


def test_a_restart_names_the_very_process_and_the_new_template() -> None:
    one = pass_of(observed(FLEET[0], of=NEW, seconds=100), of=NEW)
    budget = budget_of(one, copies=Copies(3, "AckQuorum", "3 copies"), is_loss_possible=False)
    [action], _refusals = restarts(one, budget)
    assert action == RestartBookie(template_of(NEW.spec, B0), "bookie-0-1", "SettingsChanged")


@pytest.mark.parametrize(("ran", "waits"), [(-1, False), (0, True), (9.9, True), (10, False)])
def test_the_next_one_waits_until_the_last_has_run_a_while(ran: float, waits: bool) -> None:
    new = bookie(B0, of=NEW, boot_at=100 - ran)
    told, refused = restarted(observed(new, *FLEET[1:], of=NEW, seconds=100), of=NEW)
    words = "OneActionAtATime: waits until bookie-0 has run for 10 s with the new settings"
    assert refused == (dict.fromkeys((B1, B2, B3), words) if waits else {})
    assert [name for name, _ in told] == ([] if waits else [B1, B2, B3])


def test_one_of_which_nobody_knows_since_when_it_runs_holds_up_nobody() -> None:
    new = bookie(B0, of=NEW, process_facts={"started_at": None})
    assert len(restarted(observed(new, *FLEET[1:], of=NEW, seconds=100), of=NEW)[0]) == 3


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        (bookie(B0, of=NEW, running=False, exit_at=99), "(1 ends in a row: process ended: killed"),
        (bookie(B0, of=NEW, phase=None), "(Unresponsive: its control plane does not answer"),
        (bookie(B0, of=NEW, exit_at=95, boot_at=96), "(1 ends in a row)"),
    ],
)
def test_one_that_fails_with_new_settings_halts_the_rest(failing: Bookie, words: str) -> None:
    told, refused = restarted(observed(failing, *FLEET[1:], of=NEW, seconds=100), of=NEW)
    assert told == []
    assert refused[B1].startswith(f"RolloutHalted: bookie-0 fails with the new settings {words}")
    assert refused[B1].endswith("; correct the spec, or bookie-0")


def test_one_that_fails_with_its_old_settings_comes_first_and_halts_nobody() -> None:
    refusing = bookie(B1, of=OLD, phase=Phase.REFUSED)
    told, refused = restarted(observed(FLEET[0], refusing, *FLEET[2:], of=NEW, seconds=100), of=NEW)
    assert told == [(B1, "SettingsChanged")]
    assert refused[B0].startswith("LossBudgetExceeded: ")


@pytest.mark.parametrize(
    ("seconds", "is_ready", "tries", "expected"),
    [
        (299, False, 0, ""),
        (300, False, 0, "restart"),
        (300, True, 0, ""),
        (300, False, 2, "restart"),
        (300, False, 3, "HungAgain: 3 restarts did not help: look at its log and its disks"),
    ],
)
def test_one_that_hangs_is_restarted_within_bounds(
    seconds: float, is_ready: bool, tries: int, expected: str
) -> None:
    hung = bookie(B0, phase=None, process_facts={"is_ready": is_ready})
    hung = replace(hung, is_registered=is_ready)
    before = BookieStatus(
        id=B0, state=BookieState.UNRESPONSIVE, boot_epoch=1, instance="bookie-0-1", tls="Required",
        silent_since=at(1000), hung_restarts=tries,
    )  # fmt: skip
    previous = KNOWN.model_copy(update={"bookies": (before,)})
    told, refused = restarted(observed(hung, seconds=1000 + seconds), previous=previous)
    assert told == ([(B0, "Hung")] if expected == "restart" else [])
    assert refused.get(B0, "") == ("" if expected == "restart" else expected)


@pytest.mark.parametrize(
    ("facts", "phase"),
    [
        ({}, TaskPhase.SUCCEEDED),
        ({"phase": Phase.READ_ONLY}, TaskPhase.SUCCEEDED),
        ({"phase": Phase.BOOTING}, TaskPhase.RUNNING),
        ({"phase": None, "boot_at": 995}, TaskPhase.RUNNING),
        ({"running": False, "exit_at": 999}, TaskPhase.RUNNING),
        ({"phase": Phase.AWAITING_APPROVAL}, TaskPhase.RUNNING),
        ({"phase": Phase.REFUSED}, TaskPhase.FAILED),
        ({"phase": None}, TaskPhase.FAILED),
    ],
    ids=str,
)
def test_a_restart_that_was_asked_for_ends_when_its_new_process_serves_or_cannot(
    facts: dict[str, Any], phase: TaskPhase
) -> None:
    begun = TaskStatus(phase=TaskPhase.RUNNING, started_at=at(900), target="bookie-0-1")
    asked = task("restart", bookie=B0).model_copy(update={"status": begun})
    for epoch, expected in ((1, TaskPhase.RUNNING), (2, phase)):  # the old process, a new one
        pass_ = pass_of(observed(bookie(B0, epoch=epoch, **facts), seconds=1000))
        assert follow_restart(pass_, asked, ()).phase is expected
