"""Why a bookie stopped, as far as the platform saw it, and what that is worth."""

import pytest
from bookie.ids import BookieId
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Exit, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed

B0 = BookieId("bookie-0")
HOME = {"pod": "pod-1", "node": "node-1", "node_boot_id": "boot-1"}
AUDITED = audited()


def at_home(**facts: object) -> Bookie:
    return bookie(B0, process_facts=HOME | facts)


def ended(reason: str, code: int | None, seconds: float = 8) -> dict[str, object]:
    return {"last_exit": Exit(at(seconds), code, reason)}


def back(reason: str = "UncleanShutdown", **facts: object) -> Plan:
    """bookie-0 was at home, and is there again after a stop, with these facts of the platform."""
    before = plan(cluster(), observed(at_home(), jobs=[AUDITED]), ClusterStatus()).status
    limbo = 2 if reason == "UncleanShutdown" else 0
    seen = bookie(B0, epoch=2, reason=reason, limbo=limbo, boot_at=10, process_facts=HOME | facts)
    return plan(cluster(), observed(seen, jobs=[AUDITED], seconds=11), before)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (ended("OOMKilled (signal 9)", -9), "OOMKilled"),
        (ended("Error (signal 9)", -9), "Signal"),
        (ended("Error (exit code 1)", 1), "ExitCode"),
        (ended("Completed (exit code 0)", 0), ""),
        (ended("Error (signal 9)", -9, seconds=12), ""),
        (ended("nobody could collect it", None), ""),
        ({"pod": "pod-2"}, "PodReplaced"),
        ({"pod": "pod-2", "node": "node-2", "node_boot_id": "boot-7"}, "NodeChanged"),
        ({"node_boot_id": "boot-2"}, "NodeRestarted"),
        ({"node": "node-2", "node_boot_id": "boot-7"}, ""),
        ({"node_boot_id": ""}, ""),
        ({}, ""),
    ],
)
def test_an_incident_names_what_the_platform_saw(facts: dict[str, object], cause: str) -> None:
    made = back(**facts)
    [incident] = made.status.incidents
    assert incident.cause == cause
    [told] = [event for event in made.events if event.reason == "UncleanShutdown"]
    assert f"; {cause}: " in told.message if cause else told.message.endswith("unchecked")


class TestTheFirstStrongEvidence:
    """What is seen after the end of a boot says nothing of how that boot ended."""

    KILLED = ended("Error (signal 9)", -9)

    def cause(self, *steps: dict[str, object], **facts: object) -> str:
        """bookie-0 was at home, then was down in these ways, and is back with `facts`."""
        status = plan(cluster(), observed(at_home()), ClusterStatus()).status
        for step in steps:
            down = bookie(B0, phase=None, running=False, process_facts=HOME | step)
            status = plan(cluster(), observed(down, seconds=9), status).status
        seen = bookie(B0, epoch=2, reason="UncleanShutdown", boot_at=20, process_facts=HOME | facts)
        return plan(cluster(), observed(seen, seconds=21), status).status.incidents[0].cause

    def test_d8_a_kill_stays_the_cause_when_the_pod_is_replaced_later(self) -> None:
        assert self.cause(self.KILLED, pod="pod-2") == "Signal"

    def test_d8_a_kill_stays_the_cause_when_boots_fail_after_it(self) -> None:
        failed = ended("Error (exit code 1)", 1, seconds=15)
        assert self.cause(self.KILLED, failed, **failed) == "Signal"

    def test_d8_a_kill_stays_the_cause_when_the_node_is_restarted_later(self) -> None:
        assert self.cause(self.KILLED, node_boot_id="boot-2") == "Signal"

    def test_d8_a_container_that_went_with_its_node_was_not_killed_alone(self) -> None:
        rebooted = {"node_boot_id": "boot-2"} | ended("Unknown (exit code 255)", None)
        assert self.cause(rebooted, **rebooted) == "NodeRestarted"
        killed = {"node_boot_id": "boot-2"} | self.KILLED
        assert self.cause(killed, **killed) == "NodeRestarted"

    def test_d8_what_ends_in_the_next_pod_is_not_the_cause(self) -> None:
        assert self.cause({"pod": "pod-2"} | self.KILLED, pod="pod-2") == "PodReplaced"

    def test_d8_a_stop_that_was_asked_for_is_no_kill(self) -> None:
        late = {"last_exit": Exit(at(8), -9, "signal 9", is_planned=True)}
        assert self.cause(late, pod="pod-2") == "PodReplaced"
        assert self.cause(late, **late) == "Signal", "in the same place it was, after its grace"

    def test_d8_a_refusal_that_was_ended_is_no_kill(self) -> None:
        refused = {"last_exit": Exit(at(8), 3, "exit code 3", is_planned=True)}
        assert self.cause(refused, **refused) == ""

    def test_d8_a_kill_explains_one_boot_only(self) -> None:
        self.status = ClusterStatus()
        killed = bookie(B0, phase=None, running=False, process_facts=HOME | self.KILLED)
        back_again = bookie(
            B0, epoch=2, reason="UncleanShutdown", boot_at=20, process_facts=HOME | self.KILLED
        )
        replaced = bookie(
            B0, epoch=3, reason="UncleanShutdown", boot_at=40, process_facts=HOME | {"pod": "pod-2"}
        )
        for seconds, one in ((0, at_home()), (9, killed), (21, back_again), (41, replaced)):
            self.status = plan(cluster(), observed(one, seconds=seconds), self.status).status
        assert [one.cause for one in self.status.incidents] == ["Signal", "PodReplaced"]


def test_a_pod_that_boots_for_long_is_compared_with_the_boot_before() -> None:
    before = plan(cluster(), observed(at_home()), ClusterStatus()).status
    silent = bookie(B0, phase=None, process_facts=HOME | {"pod": "pod-2"})
    while_booting = plan(cluster(), observed(silent, seconds=5), before).status
    assert while_booting.bookies[0].pod == "pod-1"


class TestCleanAfterKill:
    def made(self) -> Plan:
        return back("CleanStop", **ended("OOMKilled (signal 9)", -9))

    def test_it_is_believed_told_and_audited(self) -> None:
        made = self.made()
        assert not made.status.incidents
        [told] = [event for event in made.events if event.reason == "CleanAfterKill"]
        assert told.once == "bookie-0/2/CleanAfterKill" and told.type == "Warning"
        assert [a.kind for a in made.actions if isinstance(a, StartJob)] == [JobKind.AUDIT]

    def test_durability_is_not_verified_until_then(self) -> None:
        assert not self.made().status.is_true(ConditionType.DURABILITY_VERIFIED)

    def test_it_is_told_of_each_boot_once(self) -> None:
        seen = bookie(B0, epoch=2, boot_at=10, process_facts=HOME | ended("OOMKilled", -9))
        again = plan(cluster(), observed(seen, jobs=[AUDITED], seconds=12), self.made().status)
        assert "CleanAfterKill" not in [event.reason for event in again.events]

    def test_an_unclean_boot_is_an_incident_instead(self) -> None:
        told = [event.reason for event in back(**ended("OOMKilled", -9)).events]
        assert "UncleanShutdown" in told and "CleanAfterKill" not in told

    def test_a_graceful_stop_is_no_suspicion(self) -> None:
        assert not back("CleanStop", **ended("Completed (exit code 0)", 0)).events[1:]

    def test_a_pod_moved_gracefully_is_no_suspicion(self) -> None:
        made = back("CleanStop", pod="pod-2", **ended("Error (exit code 1)", 1))
        assert "CleanAfterKill" not in [event.reason for event in made.events]


def test_d8_an_index_built_anew_is_no_word_about_how_its_pod_stopped() -> None:
    [incident] = back("IndexRebuilt", pod="pod-2").status.incidents
    assert (incident.kind, incident.cause) == ("IndexRebuilt", "")


def test_a_replaced_disk_is_no_word_about_how_its_pod_stopped() -> None:
    [incident] = back("DiskReplaced", pod="pod-2").status.incidents
    assert (incident.kind, incident.cause) == ("DiskReplaced", "PodReplaced")
    assert "flush" not in incident.cause_message
