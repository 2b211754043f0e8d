"""`kubectl bookie` as people call it: what it reads, what it says, its exit codes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from bookie_operator.kubectl import client
from bookie_operator.kubectl.__main__ import plugin
from kubectl_lab import FakeLab, tree_of


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine whose clock shows another hour."""
    with monkeypatch.context() as here:
        here.setenv("TZ", "FAR+9")
        time.tzset()
        yield
    time.tzset()


class TestWhichCluster:
    def test_the_only_one_needs_no_name(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("status")
        assert done.exit_code == 0 and done.stdout.startswith("BookieCluster demo  Running")

    def test_none_is_an_error_that_names_the_namespace(self, lab: FakeLab) -> None:
        done = lab.run("status")
        assert done.exit_code == 1
        assert "found no BookieCluster in namespace books, expected one" in done.stderr

    def test_several_are_a_usage_error_that_names_them(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.put_cluster("limbo", name="other")
        done = lab.run("status")
        assert done.exit_code == 2 and "found demo, other in namespace books" in done.stderr

    def test_an_unknown_one_is_told_with_those_that_are_there(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        done = lab.run("status", "--cluster", "dmeo", "-n", "shelf")
        assert done.exit_code == 1
        assert "no BookieCluster dmeo in namespace shelf; there: demo" in done.stderr

    def test_one_that_this_version_cannot_read_is_told(self, lab: FakeLab) -> None:
        tree = tree_of("healthy")
        tree["status"]["bookies"][0]["state"] = "Dreaming"
        lab.put("bookieclusters", tree)
        done = lab.run("status")
        assert done.exit_code == 1 and "status.bookies.0.state: found 'Dreaming'" in done.stderr


class TestTheWayToTheServer:
    def test_flags_of_kubectl_are_handed_on_from_either_place(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.run("--context", "east", "status", "--cluster", "demo", "-n", "books", "--as", "ann")
        words = lab.calls()[0]["words"]
        assert words[-3:] == ["--context=east", "--namespace=books", "--as=ann"]

    def test_no_kubectl_on_path_is_told(
        self, lab: FakeLab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lab.env["PATH"] = "/nowhere"
        done = lab.run("status")
        assert done.exit_code == 1 and "found no kubectl on PATH" in done.stderr

    def test_a_server_that_never_answers_is_told_with_what_to_check(
        self, lab: FakeLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        silent = tmp_path / "silent" / "kubectl"
        silent.parent.mkdir()
        silent.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
        silent.chmod(0o755)
        lab.env["PATH"] = f"{silent.parent}:{os.defpath}"
        monkeypatch.setattr(client, "ANSWER_S", 0.01)
        done = lab.run("status")
        assert done.exit_code == 1
        assert "kubectl get: found no answer after 0.01 s, expected one within" in done.stderr
        assert "check the API server" in done.stderr

    def test_missing_definitions_are_told_with_how_to_install_them(self, lab: FakeLab) -> None:
        lab.forget("bookieclusters")
        done = lab.run("status")
        assert done.exit_code == 1 and "expected the CustomResourceDefinitions" in done.stderr

    @pytest.mark.parametrize(
        ("complaint", "told"),
        [
            ('Error from server (Forbidden): user "x" cannot list', "expected the right to do so"),
            ("error: You must be logged in to the server", "log in to the cluster again"),
            ("The connection to the server h:1 was refused", "expected an API server"),
            ("Error in configuration: context was not found", "kubectl config get-contexts"),
            ('error: context "nowhere" does not exist', "kubectl config get-contexts"),
            ("error: something new", "error: something new"),
        ],
    )
    def test_complaints_become_what_to_do(self, lab: FakeLab, complaint: str, told: str) -> None:
        lab.refuse("get", complaint)
        done = lab.run("status")
        assert done.exit_code == 1 and told in done.stderr


class TestStatus:
    def test_json_is_the_object_as_the_server_has_it(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        assert json.loads(lab.run("status", "-o", "json").stdout) == tree_of("limbo")

    def test_what_to_do_carries_the_flags_of_the_call(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        done = lab.run("status", "-n", "books")
        command = "kubectl bookie approve bookie-2 --cluster demo --plan ee794b4013cd"
        assert f"    {command} --namespace=books\n" in done.stdout

    def test_a_pipe_gets_unfolded_lines(self, lab: FakeLab) -> None:
        lab.put_cluster("blocked")
        lines = lab.run("status").stdout.splitlines()
        assert any("24 ledgers" in line and "bookie-3" in line for line in lines)
        assert max(map(len, lines)) > 200

    def test_watching_shows_each_change_until_the_cluster_is_deleted(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.later("demo", {"status": {"phase": "Running"}}, None)
        done = lab.run("status", "-w")
        phases = [line for line in done.stdout.splitlines() if line.startswith("BookieCluster")]
        assert ["Repairing" in phases[0], "Running" in phases[1]] == [True, True]
        assert done.exit_code == 1 and "demo was deleted" in done.stderr

    def test_a_version_with_one_digit_more_is_a_change_like_any_other(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo", resourceVersion="999")
        lab.later("demo", {"status": {"phase": "Running"}}, None)
        lines = lab.run("status", "-w", "-o", "json").stdout.splitlines()
        versions = [json.loads(line)["metadata"]["resourceVersion"] for line in lines]
        assert versions == ["999", "1000"]

    def test_watching_as_json_is_a_document_a_line(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.later("demo", {"status": {"phase": "Running"}}, None)
        lines = lab.run("status", "-w", "-o", "json").stdout.splitlines()
        assert [json.loads(line)["status"]["phase"] for line in lines] == ["Repairing", "Running"]


class TestLimbo:
    @pytest.mark.parametrize(("state", "code"), [("healthy", 0), ("limbo", 3), ("approval", 4)])
    def test_the_exit_code_tells_it(self, lab: FakeLab, state: str, code: int) -> None:
        lab.put_cluster(state)
        assert lab.run("limbo").exit_code == code

    def test_a_spec_that_the_operator_has_not_seen_is_not_known(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy", generation=2)
        assert lab.run("limbo").exit_code == 4

    def test_what_was_looked_at_in_the_future_is_not_known(self, lab: FakeLab) -> None:
        """The clock of the operator was wrong then, or this one is: who knows whether it works."""
        lab.put_cluster("healthy")
        lab.set_status("bookieclusters", "demo", {"lookedAt": "2999-01-01T00:00:00Z"})
        told = lab.run("limbo")
        assert told.exit_code == 4 and "in the future by the clock here" in told.stdout

    def test_what_no_operator_has_looked_at_for_long_is_not_known(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.set_status("bookieclusters", "demo", {"lookedAt": "2026-01-01T00:00:00Z"})
        told = lab.run("limbo")
        assert told.exit_code == 4
        assert "not known: the operator has not looked at the cluster for" in told.stdout

    def test_json_tells_it_as_well(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        told = json.loads(lab.run("limbo", "-o", "json").stdout)
        assert told["known"] == "present"
        assert told["bookies"]["bookie-1"] == {"limbo": 25, "unchecked": 63}

    @pytest.mark.parametrize("outcome", ["Cleared", "Superseded"])
    @pytest.mark.parametrize("bookie", ["bookie-1", "bookie-2"])
    def test_it_is_since_the_bookies_own_incident_that_is_open(
        self, lab: FakeLab, outcome: str, bookie: str
    ) -> None:
        lab.put_cluster("limbo")
        incidents = tree_of("limbo")["status"]["incidents"]
        over = incidents[0] | {"outcome": outcome, "bootEpochAfter": 77}
        other = incidents[0] | {"bookie": "bookie-0", "bootEpochAfter": 88}
        lab.set_status(
            "bookieclusters", "demo", {"incidents": [over | {"bookie": bookie}, other, *incidents]}
        )
        [row] = [line for line in lab.run("limbo").stdout.splitlines() if "bookie-1" in line]
        assert row.split()[5] == "2"

    def test_waiting_ends_when_the_operator_says_that_it_is_gone(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        lab.later("demo", {"status": tree_of("healthy")["status"]})
        done = lab.run("limbo", "--wait")
        assert done.exit_code == 0 and "25 ledgers in limbo, 63 unchecked" in done.stderr

    def test_what_is_not_known_is_waited_for(self, lab: FakeLab) -> None:
        lab.put_cluster("approval")
        lab.later("demo", {"status": tree_of("healthy")["status"]})
        assert lab.run("limbo", "--wait").exit_code == 0

    def test_waiting_ends_with_its_time(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        assert lab.run("limbo", "--wait", "--timeout", "200ms").exit_code == 3


class TestPause:
    def test_it_is_patched_and_told(self, lab: FakeLab) -> None:
        lab.put_cluster("limbo")
        done = lab.run("pause")
        assert lab.get("bookieclusters", "demo")["spec"]["paused"] is True
        assert "stops:" in done.stdout and "25 ledgers in limbo and 63 unchecked" in done.stdout

    def test_a_paused_cluster_goes_on(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.run("pause")
        assert lab.run("resume").exit_code == 0
        assert lab.get("bookieclusters", "demo")["spec"]["paused"] is False

    def test_a_restart_is_a_change_of_the_spec(self, lab: FakeLab, far_away: None) -> None:
        lab.put_cluster("healthy")
        told = lab.run("restart")
        assert told.exit_code == 0 and "one after the other" in told.stdout
        asked = lab.get("bookieclusters", "demo")["spec"]["restartedAt"]
        assert abs(datetime.fromisoformat(asked) - datetime.now(UTC)) < timedelta(hours=1)

    def test_a_restart_of_one_bookie_is_a_task(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        name = lab.run("restart", "bookie-1", "--no-wait").stdout.strip()
        asked = lab.get("bookietasks", name)["spec"]
        assert (asked["type"], asked["bookie"]) == ("restart", "bookie-1")
        assert "restartedAt" not in lab.get("bookieclusters", "demo")["spec"]

    def test_what_is_so_already_is_left_as_it_is(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        assert "demo was not paused: nothing changed" in lab.run("resume").stdout
        assert not [call for call in lab.calls() if call["words"][0] == "patch"]


class TestEvents:
    def event(self, number: int, *, of: str = "demo", **more: object) -> dict[str, object]:
        return {
            "metadata": {"name": f"e{number}", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "involvedObject": {"kind": "BookieCluster", "name": of},
            "reason": f"Reason{number}",
            "message": "told",
            "type": "Warning",
            **more,
        }

    def test_the_newest_comes_last_whatever_field_tells_its_time(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        lab.put("events", self.event(1, lastTimestamp="2026-01-01T00:00:09Z", count=3))
        lab.put("events", self.event(2, eventTime="2026-01-01T00:00:05.000001Z"))
        lab.put("events", self.event(3, of="other"))
        lines = lab.run("events").stdout.splitlines()
        assert ["Reason2" in lines[1], "Reason1" in lines[2], len(lines)] == [True, True, 3]
        assert "told (x3)" in lines[2]

    def test_none_is_told(self, lab: FakeLab) -> None:
        lab.put_cluster("healthy")
        assert "there are no events" in lab.run("events").stderr


def test_the_plugin_needs_only_what_every_part_needs() -> None:
    heavy = ("psutil", "kopf", "lightkube", "kazoo", "grpc", "pyspark", "bookie_operator.plan")
    code = f"import sys, bookie_operator.kubectl.__main__; print(set(sys.modules) & {set(heavy)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


ARGUMENTS = {"bookie": "bookie-1", "disk": "ledger-0", "ledgers": "7", "ledger": "7", "reason": "y"}
OF_ONE_CLUSTER = [
    name
    for name, command in plugin.commands.items()
    if any("--cluster" in parameter.opts for parameter in command.params)
]


@pytest.mark.parametrize("name", OF_ONE_CLUSTER)
def test_where_there_are_several_a_command_is_of_the_one_that_is_named(
    lab: FakeLab, name: str
) -> None:
    lab.put_cluster("healthy")
    lab.put_cluster("healthy", name="other")
    parameters = plugin.commands[name].params
    words = [ARGUMENTS[str(one.name)] for one in parameters if isinstance(one, click.Argument)]
    words += ["--no-wait"] if any("--no-wait" in one.opts for one in parameters) else []
    assert "found demo, other in namespace books" in lab.run(name, *words).stderr
    done = lab.run(name, *words, "--cluster", "other", stdin="n\n")
    assert "found demo, other in namespace books" not in done.output
    assert any("other" in call["words"] for call in lab.calls())
