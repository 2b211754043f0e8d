"""What needs time or a person, by its most pressing reason, and that people hear of it once."""

from dataclasses import replace

import pytest
from bookie.ids import BookieId
from bookie.tls.principals import Role
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Failure, Job, JobKind, MetadataView
from bookie_operator.plan.actions import RestartBookie
from bookie_operator.plan.failures import ACTION_FAILED, KEEP, NAME_TAKEN
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.tls_view import Issuer, TlsView
from operator_scenes import (
    DAY,
    T0,
    all_certified,
    at,
    audited,
    bookie,
    cluster,
    good,
    holder,
    observed,
)

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
AUDITED = audited()
SETTLED = plan(cluster(), observed(jobs=[AUDITED]), ClusterStatus()).status


def seen(*special: Bookie, before: ClusterStatus = SETTLED, **more: object) -> Plan:
    look = replace(observed(*special, jobs=[AUDITED], seconds=5), **more)  # type: ignore[arg-type]
    return plan(cluster(), look, before)


def reason(made: Plan) -> str:
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None
    return degraded.reason if degraded.status == "True" else ""


def told(made: Plan) -> list[str]:
    return [event.reason for event in made.events]


def waiting(why: str, name: str = B0) -> Bookie:
    return bookie(name, running=False, process_facts={"waiting": why})


def refused(name: str = B0, **verdicts: str) -> Bookie:
    disks = {"ledger-0" if key == "ledger" else key: value for key, value in verdicts.items()}
    return bookie(name, phase=Phase.REFUSED, verdicts=disks, message="not mine")


class TestContainersThatDoNotStart:
    @pytest.mark.parametrize(
        ("why", "expected"),
        [
            ("ImagePullBackOff: no such image", "ImageUnavailable"),
            ("ErrImageNeverPull: not here", "ImageUnavailable"),
            ("InvalidImageName: a b", "ImageUnavailable"),
            ("Unschedulable: 0/1 nodes are available", "Unschedulable"),
            ("CreateContainerConfigError: no such secret", "ContainerConfig"),
            ("ContainerCreating", "BookieDown"),
        ],
    )
    def test_each_has_its_reason(self, why: str, expected: str) -> None:
        made = seen(waiting(why))
        assert reason(made) == expected
        assert why in made.status.bookies[0].message

    def test_it_is_told_once(self) -> None:
        first = seen(waiting("ErrImagePull: no such image"))
        assert "ImageUnavailable" in told(first)
        again = seen(waiting("ImagePullBackOff: back-off"), before=first.status)
        assert reason(again) == "ImageUnavailable" and not again.events

    def test_one_that_never_ran_is_pending(self) -> None:
        made = plan(cluster(), observed(waiting("Unschedulable: no room")), ClusterStatus())
        assert made.status.bookies[0].state is BookieState.PENDING
        assert reason(made) == "Unschedulable"

    def test_a_container_in_the_making_is_no_trouble(self) -> None:
        made = seen(bookie(B0, running=False))
        assert made.status.bookies[0].state is BookieState.STARTING and reason(made) == ""


class TestRefusedBoots:
    @pytest.mark.parametrize(
        ("verdict", "expected"),
        [
            ("swapped", "SwappedDisk"),
            ("foreign", "ForeignDisk"),
            ("reshaped", "ReshapedDisks"),
            ("torn", "TornStamp"),
            ("ok", "RefusedBoot"),
            ("empty", "RefusedBoot"),
        ],
    )
    def test_a_disk_tells_why(self, verdict: str, expected: str) -> None:
        made = seen(refused(ledger=verdict))
        assert reason(made) == expected
        degraded = made.status.condition(ConditionType.DEGRADED)
        assert degraded is not None and degraded.message == "bookie-0: not mine"

    def test_d5_a_lost_index_is_no_matter_of_cookies(self) -> None:
        lost = "/data/ledger-1/index.sqlite is missing: run `bookie index rebuild`"
        assert reason(seen(bookie(B0, phase=Phase.REFUSED, message=lost))) == "IndexLost"

    def test_every_disk_of_several_bookies_is_another_clusters(self) -> None:
        all_foreign = {"journal": "foreign", "ledger-0": "foreign", "ledger-1": "foreign"}
        strangers = [bookie(name, phase=Phase.REFUSED, verdicts=all_foreign) for name in (B0, B1)]
        assert reason(seen(*strangers)) == "LineageMismatch"

    def test_two_swapped_disks_are_two_refusals(self) -> None:
        assert reason(seen(refused(ledger="foreign"), refused(B1, ledger="foreign"))) == (
            "ForeignDisk"
        )


def test_d4_a_bookie_that_takes_no_entries_says_why() -> None:
    made = seen(bookie(B0, phase=Phase.READ_ONLY, message="too little space: /data/x has 1 GiB"))
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.reason == "BookieReadOnly"
    assert degraded.message == "bookie-0: too little space: /data/x has 1 GiB"


class TestWhatIsAround:
    def test_metadata_that_is_away_is_told_once(self) -> None:
        away = MetadataView(message="no route")
        first = seen(metadata=away)
        assert reason(first) == "MetadataUnreachable" and "MetadataUnreachable" in told(first)
        assert "MetadataUnreachable" not in told(seen(metadata=away, before=first.status))

    def test_a_permission_that_lacked_in_the_pass_before(self) -> None:
        made = seen(forbidden="jobs is forbidden")
        assert reason(made) == "Forbidden" and "Forbidden" in told(made)
        assert reason(seen(before=made.status)) == ""


class TestJournalModeFlip:
    @pytest.mark.parametrize("journaled", [True, False])
    def test_both_ways_one_bookie_at_a_time(self, journaled: bool) -> None:
        before, after = (cluster(journalWriteData=flag) for flag in (not journaled, journaled))
        mode = "memory" if journaled else "journal"
        fleet = [with_mode(bookie(f"bookie-{n}", of=before), mode) for n in range(4)]
        made = plan(after, observed(*fleet, of=before, jobs=[AUDITED], seconds=5), SETTLED)
        mixed = made.status.condition(ConditionType.MIXED_DURABILITY)
        assert mixed is not None and (mixed.status, mixed.reason) == ("True", "JournalModeFlip")
        assert len([a for a in made.actions if isinstance(a, RestartBookie)]) == 1
        assert "MixedDurability" in told(made)

    @pytest.mark.parametrize("journaled", [True, False])
    def test_never_while_anything_is_in_limbo(self, journaled: bool) -> None:
        before, after = (cluster(journalWriteData=flag) for flag in (not journaled, journaled))
        limbo = bookie(B0, of=before, epoch=2, reason="UncleanShutdown", limbo=1)
        made = plan(after, observed(limbo, of=before, seconds=5), SETTLED)
        assert not [a for a in made.actions if isinstance(a, RestartBookie)]
        assert "LimboPresent" in {refusal.predicate for refusal in made.refusals}

    def test_a_fleet_as_wanted_is_not_mixed(self) -> None:
        assert not SETTLED.is_true(ConditionType.MIXED_DURABILITY)


def with_mode(one: Bookie, mode: str) -> Bookie:
    assert one.health is not None and one.health.boot is not None
    boot = replace(one.health.boot, mode=mode)
    return replace(one, health=replace(one.health, boot=boot))


class TestRepairs:
    def repairing(self, marks: int, **job: object) -> Plan:
        unclean = bookie(B0, epoch=2, reason="UncleanShutdown", limbo=marks)
        first = seen(bookie(B0, epoch=2, reason="UncleanShutdown", limbo=8)).status
        facts = {"name": "demo-bookie-0-2-1", "kind": JobKind.REPAIR, "attempt": 1}
        facts |= {"running": True, "started_at": at(5), "bookie": B0, "boot_epoch": 2}
        mine = Job(**(facts | job))  # type: ignore[arg-type]
        return plan(cluster(), observed(unclean, jobs=[AUDITED, mine], seconds=9), first)

    def test_progress_is_the_bookies_own_count(self) -> None:
        made = self.repairing(2)
        repair = made.status.bookies[0].repair
        assert repair is not None and repair.progress == "6/8 ledgers (75 %)"
        running = made.status.condition(ConditionType.REPAIR_RUNNING)
        assert running is not None and "attempt 1: 6/8 ledgers (75 %)" in running.message

    def test_a_job_that_cannot_start_says_why(self) -> None:
        made = self.repairing(8, waiting="ImagePullBackOff: no such image")
        repair = made.status.bookies[0].repair
        assert repair is not None and "ImagePullBackOff" in repair.message


def test_durability_is_told_when_it_is_proven() -> None:
    first = plan(cluster(), observed(), ClusterStatus()).status
    done = plan(cluster(), observed(jobs=[AUDITED], seconds=5), first)
    assert "DurabilityVerified" in told(done)
    assert "DurabilityVerified" not in told(seen(before=done.status))


class TestLostNodes:
    def lost(self, name: str = B0, *, phase: Phase | None = None, node: str = "n7") -> Bookie:
        facts = {"node": node, "node_trouble": "is gone", "started_at": at(-100)}
        return bookie(name, phase=phase, process_facts=facts)

    def test_the_node_is_named_with_all_its_bookies(self) -> None:
        made = seen(self.lost(B0), self.lost(B1))
        degraded = made.status.condition(ConditionType.DEGRADED)
        assert degraded is not None and degraded.reason == "NodeLost"
        assert degraded.message == "bookie-0, bookie-1: node n7 is gone"
        assert made.status.bookies[0].message.endswith("; its node n7 is gone")

    def test_who_answers_has_lost_nothing(self) -> None:
        made = seen(self.lost(phase=Phase.SERVING))
        assert reason(made) == "" and made.status.bookies[0].message == ""

    def test_an_answer_of_before_is_none(self) -> None:
        serving = self.lost(phase=Phase.SERVING)
        assert serving.health is not None
        stale = replace(serving, health=replace(serving.health, is_fresh=False))
        assert reason(seen(stale)) == "NodeLost"


def kept_not(name: str, reason: str = ACTION_FAILED, count: int = 2) -> Failure:
    """An object that cannot be written."""
    return Failure(name, KEEP, f"{name} is refused", at(200), count=count, reason=reason)


@pytest.mark.parametrize(
    ("failures", "expected", "words"),
    [
        ([kept_not("a")], ACTION_FAILED, "Keep a is refused"),
        ([kept_not("a", count=1)], "", ""),
        (
            [kept_not("a"), kept_not("b", NAME_TAKEN), kept_not("c")],
            NAME_TAKEN,
            "Keep b is refused; Keep a is refused; Keep c is refused",
        ),
        (
            [*map(kept_not, "abcde")],
            ACTION_FAILED,
            "Keep a is refused; Keep b is refused; Keep c is refused; and 2 more, see Blocked",
        ),
    ],
)
def test_of_what_could_not_be_done_a_name_that_is_taken_comes_first(
    failures: list[Failure], expected: str, words: str
) -> None:
    made = seen(failures=tuple(failures))
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and reason(made) == expected and degraded.message == words


JOB = holder(Role.JOB)
ENDED = replace(
    all_certified(cluster()),
    certificates={**all_certified(cluster()).certificates, JOB: good(JOB, ends=-DAY)},
)
SIGNED_ELSEWHERE = replace(ENDED, issuer=Issuer("Issuer x"))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (all_certified(cluster()), ""),
        (TlsView({}, denied="secrets is forbidden"), "CertificatesUnseen: secrets is forbidden"),
        (None, "CertificatesUnseen: not looked at yet"),
        (SIGNED_ELSEWHERE, "CertificateExpired:  has been expired since"),
        (ENDED, ""),
        (replace(SIGNED_ELSEWHERE, certificates={}), ""),
    ],
    ids=["well", "denied", "unseen", "an issuer is late", "ours to mend", "the first are coming"],
)
def test_certificates_are_a_reason_where_the_operator_does_not_mend_them_itself(
    view: TlsView | None, words: str
) -> None:
    made = seen(tls=view, before=ClusterStatus(), now=T0)
    degraded = made.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.message.startswith(words)
    assert reason(made) == ("CertificatesInvalid" if words else "")
