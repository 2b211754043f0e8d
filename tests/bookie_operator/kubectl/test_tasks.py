"""What people ask by `kubectl bookie`: tasks that are created, followed, and judged."""

import json
from typing import Any

import pytest
from bookie_operator.kubectl.tasks import ACTIONS
from bookie_operator.model.task import TaskType
from kubectl_lab import FakeLab, tree_of

Tree = dict[str, Any]
RUNNING = {"phase": "Running", "target": "demo-job-1", "startedAt": "2026-01-01T00:10:01Z"}
DONE = {"phase": "Succeeded", "message": "the fix was made"}
FAILED = {"phase": "Failed", "message": "12 ledgers in limbo, 30 unchecked are left"}


def test_of_every_type_of_task_it_is_known_what_refuses_it() -> None:
    assert set(ACTIONS) == set(TaskType)


class TestApprove:
    def test_the_plan_that_waits_is_approved_and_followed_to_its_end(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        lab.end_tasks("approve-cookie-fix", RUNNING, DONE)
        done = lab.run("approve", "bookie-2", "--by", "ann", "--yes")
        wanted = {"cluster": "demo", "type": "approve-cookie-fix", "bookie": "bookie-2"}
        assert lab.created() == [wanted | {"planId": "ee794b4013cd", "approvedBy": "ann"}]
        assert done.exit_code == 0
        name = "approve-cookie-fix-bookie-2-x7k2p"
        assert done.stdout == f"{name} Succeeded: the fix was made\n"

    def test_who_approves_is_who_the_api_server_says(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        lab.run("approve", "bookie-2", "--yes", "--no-wait")
        lab.run("approve", "bookie-2", "--by", "jo", "--yes", "--no-wait")
        assert [one["approvedBy"] for one in lab.created()] == ["ann", "jo"]

    def test_it_tells_what_the_fix_is_and_asks(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("approve", "bookie-2", stdin="n\n")
        assert "ledger-1  ledger  stale" in done.stderr and "nothing was changed" in done.stderr
        assert done.exit_code == 1 and not lab.created()

    def test_a_yes_is_enough(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        assert lab.run("approve", "bookie-2", "--no-wait", stdin="y\n").exit_code == 0
        assert len(lab.created()) == 1

    def test_nobody_there_to_answer_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("approve", "bookie-2")
        assert done.exit_code == 2 and "pass --yes" in done.stderr

    def test_another_plan_than_the_one_that_waits_is_refused(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("approve", "bookie-2", "--plan", "f00d", "--yes")
        assert done.exit_code == 1 and "found plan ee794b4013cd waiting" in done.stderr
        assert not lab.created()

    def test_a_bookie_that_asks_nothing_is_told_with_those_that_do(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("approve", "bookie-0", "--yes")
        assert done.exit_code == 1
        assert (
            "found bookie-0 Serving" in done.stderr and "bookies that wait: bookie-2" in done.stderr
        )

    def test_a_fix_that_the_operator_approves_needs_nobody(self, lab: FakeLab) -> None:
        tree = tree_of("approval")
        tree["status"]["blocked"] = []
        lab.put("bookieclusters", tree)
        assert "approves by itself" in lab.run("approve", "bookie-2").stderr

    def test_an_unknown_bookie_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("approve", "bookie-9", "--yes")
        assert done.exit_code == 2 and "expected a bookie of cluster demo: bookie-0" in done.stderr


def holding(plan_id: str = "f00d") -> Tree:
    """A cluster whose bookie-1 waits with this collection."""
    tree = tree_of("healthy")
    since = "2026-01-01T00:00:00Z"
    why = {"action": "Collect", "bookie": "bookie-1", "predicate": "AwaitingApproval"}
    words = f"90 of 100 ledgers here are gone; approve plan {plan_id} (`x`)"
    tree["status"]["blocked"] = [why | {"since": since, "message": words}]
    return tree


class TestApproveCollection:
    def test_the_plan_that_waits_is_approved_in_the_name_that_the_api_server_says(
        self, lab: FakeLab
    ) -> None:
        lab.put("bookieclusters", holding())
        lab.end_tasks("approve-collection", RUNNING, DONE)
        done = lab.run("approve-collection", "bookie-1", stdin="y\n")
        wanted = {"cluster": "demo", "type": "approve-collection", "bookie": "bookie-1"}
        assert lab.created() == [wanted | {"planId": "f00d", "approvedBy": "ann"}]
        assert done.exit_code == 0 and "90 of 100 ledgers here are gone" in done.stderr

    def test_who_does_not_say_that_they_were_deleted_approves_nothing(self, lab: FakeLab) -> None:
        lab.put("bookieclusters", holding())
        done = lab.run("approve-collection", "bookie-1", stdin="n\n")
        assert done.exit_code == 1 and not lab.created()

    def test_another_plan_than_the_one_that_was_seen_is_refused(self, lab: FakeLab) -> None:
        lab.put("bookieclusters", holding("beef"))
        done = lab.run("approve-collection", "bookie-1", "--plan", "f00d", "--yes")
        assert done.exit_code == 1 and "found plan beef waiting" in done.stderr
        assert not lab.created()

    def test_a_bookie_that_holds_nothing_back_is_told_with_those_that_do(
        self, lab: FakeLab
    ) -> None:
        lab.put("bookieclusters", holding())
        done = lab.run("approve-collection", "bookie-2", "--yes")
        assert done.exit_code == 1 and "bookies with one: bookie-1" in done.stderr


class TestRepair:
    def test_limbo_that_is_left_is_damage(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.end_tasks("repair", RUNNING, FAILED)
        done = lab.run("repair", "bookie-1")
        assert done.exit_code == 3 and "Failed: 12 ledgers in limbo" in done.stdout
        assert "Running demo-job-1" in done.stderr

    def test_a_repair_of_every_ledger_that_failed_leaves_damage(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("repair", {"phase": "Failed", "message": "3 entries are not as they must be"})
        assert lab.run("repair").exit_code == 3

    def test_another_failure_is_one(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("repair", {"phase": "Failed", "message": "job x is gone"})
        assert lab.run("repair", "bookie-1").exit_code == 1

    def test_why_it_waits_is_told(self, lab: FakeLab) -> None:
        tree = tree_of("limbo")
        since = "2026-01-01T00:00:00Z"
        why = {"action": "Repair", "bookie": "bookie-1", "predicate": "Paused", "since": since}
        tree["status"]["blocked"] = [why | {"message": "spec.paused is true"}]
        lab.put("bookieclusters", tree)
        done = lab.run("repair", "bookie-1", "--timeout", "200ms")
        assert done.exit_code == 1 and "refused by Paused: spec.paused is true" in done.stderr
        assert "has not ended in time; it continues" in done.stderr

    def test_why_another_bookies_repair_waits_is_not_told(self, lab: FakeLab) -> None:
        tree = tree_of("limbo")
        since = "2026-01-01T00:00:00Z"
        why = {"action": "Repair", "bookie": "bookie-2", "predicate": "Paused", "since": since}
        tree["status"]["blocked"] = [why | {"message": "not now"}]
        lab.put("bookieclusters", tree)
        assert "not now" not in lab.run("repair", "bookie-1", "--timeout", "200ms").stderr

    def test_a_task_that_is_deleted_has_no_outcome(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.later("repair-bookie-1-x7k2p", None)
        done = lab.run("repair", "bookie-1")
        assert done.exit_code == 1 and "was deleted before it had ended" in done.stderr


class TestAudit:
    @pytest.mark.parametrize(
        ("found", "code"),
        [
            ({"clean": True}, 0),
            ({"clean": False, "missing": 1}, 3),
            ({"clean": False, "lost": 1}, 3),
            ({"clean": False, "missing": 1, "unknown": 7}, 3),
            ({"clean": False, "unknown": 7}, 4),
            ({"clean": False, "classes": {"metadata_unreadable": {"findings": 1}}}, 4),
        ],
    )
    def test_what_is_missing_is_damage_and_what_is_unknown_is_not(
        self, lab: FakeLab, found: dict[str, Any], code: int
    ) -> None:
        tree = tree_of("healthy")
        tree["status"]["audit"] |= found
        lab.put("bookieclusters", tree)
        lab.end_tasks("audit", DONE)
        assert lab.run("audit").exit_code == code

    def test_json_is_the_task_at_its_end(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("audit", DONE)
        done = lab.run("audit", "-o", "json")
        assert json.loads(done.stdout)["status"]["phase"] == "Succeeded"

    @pytest.mark.parametrize(("timeout", "longest"), [("200ms", 1), ("2s", 2), ("1m", 5)])
    def test_no_look_at_it_lasts_longer_than_the_time_that_is_left(
        self, lab: FakeLab, timeout: str, longest: int
    ) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("audit", *([] if longest < 5 else [DONE]))
        lab.run("audit", "--timeout", timeout)
        words = [word for call in lab.calls() for word in call["words"]]
        limits = [word for word in words if word.startswith("--request-timeout=")]
        assert limits[0] == f"--request-timeout={longest}s"

    def test_without_waiting_the_name_is_the_answer(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        assert lab.run("audit", "--no-wait").stdout == "audit-x7k2p\n"

    @pytest.mark.parametrize(
        ("state", "told"),
        [
            ("limbo", "it begins after the repair"),
            ("healthy", "the operator has not started it yet"),
        ],
    )
    def test_why_it_waits_is_told(self, lab: FakeLab, state: str, told: str) -> None:
        lab.put_cluster(state)
        done = lab.run("audit", "--timeout", "200ms")
        assert done.exit_code == 1 and f"Pending: {told}" in done.stderr

    def test_it_waits_for_an_audit_that_runs(self, lab: FakeLab) -> None:
        tree = tree_of("healthy")
        tree["status"]["audit"]["running"] = True
        lab.put("bookieclusters", tree)
        done = lab.run("audit", "--timeout", "200ms")
        assert "Pending: it begins after the audit" in done.stderr


class TestScrub:
    @pytest.mark.parametrize(("corrupt", "code"), [(0, 0), (1, 3)])
    def test_corrupt_copies_that_are_left_are_damage(
        self, lab: FakeLab, corrupt: int, code: int
    ) -> None:
        tree = tree_of("healthy")
        tree["status"]["scrub"] = {"clean": not corrupt, "corruptFound": corrupt}
        lab.put("bookieclusters", tree)
        lab.end_tasks("scrub", DONE)
        assert lab.run("scrub").exit_code == code

    @pytest.mark.parametrize(
        ("running", "told"), [(True, "it begins after the scrub"), (False, "a scrub begins once")]
    )
    def test_why_it_waits_is_told(self, lab: FakeLab, running: bool, told: str) -> None:
        tree = tree_of("healthy")
        tree["status"]["scrub"] = {"running": running}
        lab.put("bookieclusters", tree)
        assert f"Pending: {told}" in lab.run("scrub", "--timeout", "200ms").stderr


class TestRereplicate:
    def test_a_bookie_of_others_is_named_after_a_question(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        asked = lab.run("rereplicate", "10.0.0.7:3181", "--no-wait", stdin="y\n")
        assert asked.exit_code == 0 and asked.stdout == "rereplicate-10-0-0-7-3181-x7k2p\n"
        wanted = {"cluster": "demo", "type": "rereplicate", "bookie": "10.0.0.7:3181"}
        assert lab.created() == [wanted]
        assert lab.run("rereplicate", "10.0.0.7:3181", stdin="n\n").exit_code == 1

    def test_marks_need_no_question(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        assert lab.run("rereplicate", "--no-wait").stdout == "rereplicate-x7k2p\n"
        assert lab.created() == [{"cluster": "demo", "type": "rereplicate"}]

    def test_a_bookie_that_is_wanted_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("rereplicate", "bookie-1", "--yes")
        assert done.exit_code == 2 and "spec.excludedOrdinals" in done.stderr

    def test_a_bookie_that_is_wanted_and_away_may_be_declared_lost(self, lab: FakeLab) -> None:
        tree = tree_of("healthy")
        [one] = [one for one in tree["status"]["bookies"] if one["id"] == "bookie-1"]
        one |= {"state": "Down", "goneSince": "2026-01-01T00:00:00Z"}
        lab.put("bookieclusters", tree)
        done = lab.run("rereplicate", "bookie-1", "--yes", "--no-wait")
        assert done.exit_code == 0, done.stderr

    @pytest.mark.parametrize(("is_clean", "code"), [(True, 0), (False, 3)])
    def test_what_is_left_is_damage(self, lab: FakeLab, is_clean: bool, code: int) -> None:
        tree = tree_of("healthy")
        tree["status"]["rereplication"] = {"clean": is_clean}
        lab.put("bookieclusters", tree)
        lab.end_tasks("rereplicate", RUNNING | {"message": "7 ledgers looked at"}, DONE)
        done = lab.run("rereplicate")
        assert done.exit_code == code and "  7 ledgers looked at" in done.stderr

    @pytest.mark.parametrize(
        ("running", "told"),
        [(True, "it begins after the re-replication"), (False, "once every bookie")],
    )
    def test_why_it_waits_is_told(self, lab: FakeLab, running: bool, told: str) -> None:
        tree = tree_of("healthy")
        tree["status"]["rereplication"] = {"running": running}
        lab.put("bookieclusters", tree)
        assert told in lab.run("rereplicate", "--timeout", "200ms").stderr


class TestReplaceDisk:
    def test_the_volume_that_goes_is_told_before_it_is_asked_for(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("replace-disk", "bookie-3", "ledger-1", "--no-wait", stdin="y\n")
        assert "bookie-3: ledger-1  ledger  ok  10 GiB  volume 2070b524" in done.stderr
        assert lab.created()[0]["disk"] == "ledger-1"

    def test_an_unknown_disk_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("replace-disk", "bookie-3", "ledger-9", "--yes")
        assert done.exit_code == 2 and "expected one of journal, ledger-0" in done.stderr


class TestReplaceBookie:
    def test_all_volumes_of_a_bookie_that_is_away_are_asked_for_by_name(self, lab: FakeLab) -> None:
        tree = tree_of("healthy")
        tree["status"]["bookies"][1]["goneSince"] = "2026-01-01T00:00:00Z"
        lab.put("bookieclusters", tree)
        done = lab.run("replace-bookie", "bookie-1", "--no-wait", stdin="y\n")
        assert lab.created() == [
            {"cluster": "demo", "type": "replace-bookie", "bookie": "bookie-1"}
        ]
        assert "bookie-1 has been away since 2026-01-01 00:00:00 UTC" in done.stderr

    def test_why_it_waits_is_shown(self, lab: FakeLab) -> None:
        tree = tree_of("healthy")
        since = "2026-01-01T00:00:00Z"
        tree["status"]["bookies"][1]["goneSince"] = since
        why = {"action": "ReplaceBookie", "bookie": "bookie-1", "predicate": "LimboPresent"}
        tree["status"]["blocked"] = [why | {"since": since, "message": "bookie-2 in limbo"}]
        lab.put("bookieclusters", tree)
        done = lab.run("replace-bookie", "bookie-1", "--yes", "--timeout", "200ms")
        assert done.exit_code == 1 and "refused by LimboPresent: bookie-2 in limbo" in done.stderr

    def test_a_bookie_that_serves_keeps_its_volumes(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("replace-bookie", "bookie-1", "--yes")
        assert done.exit_code == 2 and "found bookie-1 Serving and not away" in done.stderr
        assert not lab.created()


class TestIndexRebuild:
    def test_d5_the_disk_is_handed_in(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.end_tasks("index-rebuild", {"phase": "Succeeded", "message": "built anew"})
        done = lab.run("index-rebuild", "bookie-3", "ledger-1")
        assert done.exit_code == 0 and "Nothing is deleted" in done.stderr
        assert lab.created()[0]["disk"] == "ledger-1"

    def test_without_a_disk_all_are_meant(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.run("index-rebuild", "bookie-3", "--no-wait")
        assert lab.created() == [{"cluster": "demo", "type": "index-rebuild", "bookie": "bookie-3"}]

    def test_a_disk_without_an_index_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("index-rebuild", "bookie-3", "journal")
        assert done.exit_code == 2 and "expected one of ledger-0" in done.stderr


class TestAcceptLoss:
    def test_ledger_entry_reason_and_person_are_handed_in(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lab.end_tasks("accept-loss", {"phase": "Succeeded", "message": "ledger 5 closed"})
        words = ("5", "two disks burnt", "--entry", "10", "--by", "ann", "--yes")
        assert lab.run("accept-loss", *words).exit_code == 0
        [spec] = lab.created()
        assert (spec["ledger"], spec["entry"], spec["approvedBy"]) == (5, 10, "ann")
        assert spec["reason"] == "two disks burnt"

    def test_many_ledgers_are_handed_in_as_one_task(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lab.end_tasks("accept-loss", {"phase": "Succeeded", "message": "2 of 2 ledgers closed"})
        done = lab.run("accept-loss", "5@10,7-9", "power cut", "--yes")
        assert done.exit_code == 0 and "each of the ledgers 5@10,7-9 is closed" in done.stderr
        [spec] = lab.created()
        assert (spec["ledgers"], spec.get("ledger")) == ("5@10,7-9", None)

    def test_a_dry_run_asks_nobody_and_says_that_nothing_is_closed(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lab.end_tasks("accept-loss", {"phase": "Succeeded", "message": "would be closed"})
        done = lab.run("accept-loss", "5@10", "power cut", "--dry-run")
        assert done.exit_code == 0 and "closes none" in done.stderr
        [spec] = lab.created()
        assert (spec["ledgers"], spec["dryRun"]) == ("5@10", True)
        assert "ledger" not in spec, "release 0.1.0 passes over dryRun, and would decide"

    @pytest.mark.parametrize("words", [("5,7", "--entry", "1"), ("5-3",), ("5@1", "--entry", "1")])
    def test_what_selects_nothing_is_a_usage_error(
        self, lab: FakeLab, words: tuple[str, ...]
    ) -> None:
        lab.put_cluster("blocked")
        done = lab.run("accept-loss", words[0], "power cut", *words[1:], "--yes")
        assert done.exit_code == 2 and "expected" in done.stderr

    def test_no_reason_is_a_usage_error(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        done = lab.run("accept-loss", "5", " ", "--yes")
        assert done.exit_code == 2 and "expected why the loss is accepted" in done.stderr


class TestRetractLoss:
    def test_ledger_reason_and_who_the_api_server_says_are_handed_in(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lab.end_tasks("retract-loss", {"phase": "Succeeded", "message": "ledger 5"})
        done = lab.run("retract-loss", "5", "bookie-2 has them", stdin="y\n")
        assert done.exit_code == 0 and "The end of a closed ledger does not change" in done.stderr
        wanted = {"cluster": "demo", "type": "retract-loss", "ledger": 5}
        assert lab.created() == [wanted | {"reason": "bookie-2 has them", "approvedBy": "ann"}]

    def test_nothing_is_taken_back_without_a_yes(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        assert lab.run("retract-loss", "5", "why", stdin="n\n").exit_code == 1
        assert not lab.created()


class TestTasks:
    def test_those_of_the_cluster_are_listed_with_their_outcome(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lab.end_tasks("audit", RUNNING | {"finishedAt": "2026-01-01T00:10:21Z"} | DONE)
        lab.run("audit")
        lines = lab.run("tasks").stdout.splitlines()
        assert "audit-x7k2p" in lines[1] and "20s   the fix was made" in lines[1]

    def test_those_of_another_cluster_are_not(self, lab: FakeLab) -> None:
        for name in ("demo", "other"):
            lab.put_cluster("healthy", name=name)
            lab.run("audit" if name == "demo" else "scrub", "--cluster", name, "--no-wait")
        for name, mine in (("demo", "audit"), ("other", "scrub")):
            _head, line = lab.run("tasks", "--cluster", name).stdout.splitlines()
            assert line.startswith(f"{mine}-")

    @pytest.mark.parametrize(
        ("words", "about"),
        [(("5",), "ledger 5 "), (("5@1", "--dry-run"), "ledgers 5@1 "), (("5,7",), "ledgers 5,7 ")],
    )
    def test_a_decision_is_listed_with_its_ledgers(
        self, lab: FakeLab, words: tuple[str, ...], about: str
    ) -> None:
        lab.put_cluster("blocked")
        lab.run("accept-loss", words[0], "power cut", *words[1:], "--yes", "--no-wait")
        assert about in lab.run("tasks").stdout

    def test_none_are_told(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        assert "there are no tasks of demo" in lab.run("tasks").stderr
