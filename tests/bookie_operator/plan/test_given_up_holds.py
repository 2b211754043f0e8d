"""What must be so before a bookie that is away is given up, and what a person can do."""

from dataclasses import replace

from bookie.ids import BookieId
from bookie_operator.model.reports import RereplicationReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import RemoveBookie, StartBookie, StartJob
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, observed, task

B1, B2 = BookieId("bookie-1"), BookieId("bookie-2")


def gone(one: Bookie) -> Bookie:
    return replace(one, process=None, health=None, is_writable=False, is_registered=False)


HOUR = 3600
BEFORE, AFTER = cluster(), cluster(excludedOrdinals=[1])


def moved(of: BookieId = B1, attempt: int = 1) -> Job:
    return Job(
        f"demo-rereplicate-{attempt}", JobKind.REREPLICATE, attempt, running=False, bookie=of,
        started_at=at(HOUR + 10), ended_at=at(HOUR + 20), report=RereplicationReport(),
    )  # fmt: skip


def passes(of, dead, seconds=(5, 40, HOUR + 40, HOUR + 50, HOUR + 60), jobs=None, **seen):
    """All serve at 3 s, `dead` are away after that; re-replications end at an hour and 20 s."""
    alive = [bookie(one.id) for one in dead]
    status, made = ClusterStatus(), []
    for all_of in (BEFORE, of):
        seen_first = observed(*alive, of=all_of, jobs=[audited()], seconds=3)
        status = plan(all_of, seen_first, status).status
    jobs = [moved(one.id, n + 1) for n, one in enumerate(dead)] if jobs is None else jobs
    for second in seconds:
        after = [*jobs, audited(attempt=2, began=HOUR + 30)] if second > HOUR else []
        look = observed(*dead, of=of, jobs=[audited(), *after], seconds=second, **seen)
        made.append(plan(of, look, status))
        status = made[-1].status
    return made


def removals(made: Plan) -> list[str]:
    return [a.bookie_id for a in made.actions if isinstance(a, RemoveBookie)]


def test_one_that_is_removed_is_not_started_in_the_same_pass() -> None:
    bare = gone(bookie(B1))
    for made in passes(AFTER, [bare]):
        started = [a.template.bookie_id for a in made.actions if isinstance(a, StartBookie)]
        assert not (removals(made) == [B1] and B1 in started)


def test_a_person_may_ask_for_one_of_two_that_are_away_as_the_message_says() -> None:
    both = cluster(excludedOrdinals=[1, 2])
    dead = [bookie(B1, running=False), bookie(B2, running=False)]
    wish = task("rereplicate", bookie=B1)
    made = passes(both, dead, seconds=(5, 40, 2 * HOUR), jobs=[], tasks=[wish])
    assert any(isinstance(a, StartJob) and a.bookie_id == B1 for one in made for a in one.actions)


def test_one_that_served_and_whose_cookie_is_gone_did_run() -> None:
    dead = replace(bookie(B1, running=False), has_cookie=False)
    made = passes(AFTER, [dead], seconds=(5, 10, 20), jobs=[])
    assert not [one for m in made for one in removals(m)]
