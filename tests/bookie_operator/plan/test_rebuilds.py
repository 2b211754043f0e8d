"""An index that is lost is built anew on request, while nothing starts its bookie."""

from dataclasses import dataclass, field, replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase, TaskStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import StartBookie, StartJob, StopJob
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.rebuilds import rebuild_job
from operator_scenes import at, bookie, cluster, observed, task

B0 = BookieId("bookie-0")
LOST = "/data/ledger-1/index.sqlite is missing: run `bookie index rebuild` for /data/ledger-1"
WISH = task("index-rebuild", bookie=B0, disk="ledger-1")
JOB = Job(
    name=rebuild_job(WISH),
    kind=JobKind.INDEX_REBUILD,
    attempt=1,
    running=True,
    started_at=at(8),
    bookie=B0,
)
DONE = replace(JOB, running=False, ended_at=at(20), exit_code=0)


def refusing() -> Bookie:
    return bookie(B0, phase=Phase.REFUSED, message=LOST)


def away() -> Bookie:
    return replace(refusing(), process=None, health=None)


@dataclass
class Story:
    """One fleet and one task, pass by pass."""

    wish: BookieTask = WISH
    of: BookieCluster = field(default_factory=cluster)
    status: ClusterStatus = field(
        default_factory=lambda: plan(cluster(), observed(), ClusterStatus()).status
    )

    def seen(self, one: Bookie, *jobs: Job, seconds: float = 5) -> Plan:
        look = observed(one, of=self.of, jobs=jobs, tasks=[self.wish], seconds=seconds)
        made = plan(self.of, look, self.status)
        self.status = made.status
        after = made.tasks.get("task-1", self.wish.status)
        self.wish = self.wish.model_copy(update={"status": after})
        return made

    @property
    def task(self) -> TaskStatus:
        return self.wish.status


def started(made: Plan) -> list[StartJob]:
    jobs = [one for one in made.actions if isinstance(one, StartJob)]
    return [one for one in jobs if one.kind is JobKind.INDEX_REBUILD]


def bookies_started(made: Plan) -> list[StartBookie]:
    return [one for one in made.actions if isinstance(one, StartBookie)]


def test_d5_a_bookie_that_refuses_gets_its_index_built_anew() -> None:
    story = Story()
    [job] = started(story.seen(refusing()))
    assert job == StartJob(JOB.name, JOB.kind, "", attempt=1, bookie_id=B0, disks=("ledger-1",))
    assert (story.task.phase, story.task.target) == (TaskPhase.RUNNING, job.name)


def test_d5_without_a_disk_all_that_have_an_index_are_meant() -> None:
    [job] = started(Story(task("index-rebuild", bookie=B0)).seen(refusing()))
    assert job.disks == ("ledger-0", "ledger-1")


def test_d5_nothing_starts_the_bookie_before_the_job_has_ended() -> None:
    story = Story()
    story.seen(refusing())
    waiting = story.seen(away(), seconds=6)
    assert started(waiting) and not bookies_started(waiting), "its pod is gone, no job yet"
    working = story.seen(away(), JOB, seconds=400)
    assert not working.actions
    assert story.status.bookies[0].state is BookieState.STARTING
    assert "its index is being rebuilt" in story.status.bookies[0].message


def test_d5_the_bookie_is_started_and_the_task_ends_with_the_job() -> None:
    story = Story()
    for one, jobs in ((refusing(), []), (away(), [JOB])):
        story.seen(one, *jobs)
    assert len(bookies_started(story.seen(away(), DONE, seconds=21))) == 1
    assert story.task.phase is TaskPhase.SUCCEEDED and "rebuilt" in story.task.message


def test_d5_a_job_that_fails_says_why_and_the_bookie_comes_back() -> None:
    story = Story()
    story.seen(refusing())
    failed = replace(DONE, exit_code=1, message="the disk is full")
    assert bookies_started(story.seen(away(), failed, seconds=21))
    assert (story.task.phase, story.task.message) == (TaskPhase.FAILED, "the disk is full")


@pytest.mark.parametrize(
    ("one", "predicate"),
    [
        (bookie(B0, phase=Phase.BOOTING), "NotRefused"),
        (bookie(B0, phase=None, running=False), "NotRefused"),
        (bookie(B0, phase=Phase.AWAITING_APPROVAL), "NotRefused"),
    ],
)
def test_d5_a_bookie_that_does_not_refuse_is_left_alone(one: Bookie, predicate: str) -> None:
    story = Story()
    made = story.seen(one)
    assert not started(made) and story.task.phase is TaskPhase.PENDING
    assert predicate in [refusal.predicate for refusal in made.refusals]


def test_d5_a_bookie_that_serves_has_its_index() -> None:
    story = Story()
    assert not started(story.seen(bookie(B0)))
    assert story.task.phase is TaskPhase.FAILED and "has booted" in story.task.message


def test_a_paused_cluster_builds_nothing() -> None:
    story = Story(of=cluster(paused=True))
    assert not started(story.seen(refusing())) and story.task.phase is TaskPhase.PENDING


def test_one_job_works_on_a_bookie_at_a_time() -> None:
    other = replace(JOB, name="another")
    assert not started(Story().seen(refusing(), other))


@pytest.mark.parametrize("disk", ["journal", "ledger-9"])
def test_a_disk_without_an_index_is_a_mistake(disk: str) -> None:
    story = Story(task("index-rebuild", bookie=B0, disk=disk))
    assert not started(story.seen(refusing())) and story.task.phase is TaskPhase.FAILED


def test_a_job_that_does_not_start_is_stopped_and_not_begun_again() -> None:
    story = Story()
    story.seen(refusing())
    stuck = story.seen(away(), replace(JOB, waiting="ErrImagePull: no"), seconds=200)
    assert StopJob(JOB.name, "NotStarted, ErrImagePull: no") in stuck.actions
    gone = story.seen(away(), seconds=600)
    assert not started(gone) and bookies_started(gone)
    assert story.task.phase is TaskPhase.FAILED


def test_a_bookie_that_boots_before_its_job_is_made_is_not_stopped_for_it() -> None:
    story = Story()
    assert [a for a in story.seen(refusing()).actions if isinstance(a, StartJob)]
    made = story.seen(bookie(B0, epoch=2, boot_at=6), seconds=10)  # the job could not be made
    assert not [a for a in made.actions if isinstance(a, StartJob) and a.bookie_id == B0]
    assert story.task.phase is TaskPhase.FAILED and "has booted" in story.task.message


def test_another_refusal_than_a_lost_index_has_none_built() -> None:
    story = Story()
    made = story.seen(replace_message("another process uses this bookie id"))
    assert not [a for a in made.actions if isinstance(a, StartJob)]
    assert [r.predicate for r in made.refusals if r.action == "RebuildIndex"] == ["NotRefused"]


def replace_message(message: str) -> Bookie:
    return bookie(B0, phase=Phase.REFUSED, message=message)


def test_a_job_whose_end_nobody_saw_is_judged_by_the_next_boot() -> None:
    unknown = replace(DONE, exit_code=None, message="longer than its deadline")
    for boot, phase in (
        (bookie(B0, epoch=2, boot_at=21), TaskPhase.SUCCEEDED),
        (refusing(), TaskPhase.FAILED),
    ):
        story = Story()
        story.seen(refusing())
        story.seen(away(), unknown, seconds=22)
        assert story.task.phase is TaskPhase.RUNNING
        story.seen(boot, unknown, seconds=30)
        assert story.task.phase is phase


@pytest.mark.parametrize(("seconds", "is_over"), [(180, False), (181, True)])
def test_one_that_is_not_seen_is_given_up_once_its_bookie_had_time_to_stop_and_it_to_start(
    seconds: float, is_over: bool
) -> None:
    story = Story(of=cluster(gracePeriodSeconds=60, repair={"startDeadlineSeconds": 120}))
    story.seen(refusing(), seconds=5)
    made = story.seen(away(), seconds=5 + seconds)
    assert (bool(started(made)), bool(bookies_started(made))) == (not is_over, is_over)
    assert story.task.phase is (TaskPhase.FAILED if is_over else TaskPhase.RUNNING)


def test_a_rebuild_that_release_0_1_0_began_is_found_again() -> None:
    asked = task("index-rebuild", name="once", bookie="bookie-1")
    own = asked.metadata.model_copy(update={"uid": "u1"})
    name = rebuild_job(asked.model_copy(update={"metadata": own}))
    assert name == "demo-index-5498e79c29d2"  # as that release names it
