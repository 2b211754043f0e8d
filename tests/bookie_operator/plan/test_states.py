"""One word about each bookie, and whether it counts as out: table by table."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Exit, Job, JobKind, Process
from bookie_operator.plan.states import Impairment, Judged, brokenness, judge, judge_all, refusal_of
from operator_scenes import at, bookie, cluster, observed

B0, B4 = BookieId("bookie-0"), BookieId("bookie-4")
NOW = at(1000)
S = BookieState


def before(state: BookieState = S.SERVING, **facts: Any) -> BookieStatus:
    """What the last pass said of it; it has booted once."""
    usual: dict[str, Any] = {"boot_epoch": 1, "instance": "bookie-0-1", "state_since": at(940)}
    return BookieStatus(id=B0, state=state, **(usual | facts))


def of(one: Bookie, previous: BookieStatus | None = None) -> Judged:
    return judge(one, previous=previous, now=NOW)


def process(**facts: Any) -> Bookie:
    """It does not answer; by default it runs, since long ago."""
    usual: dict[str, Any] = {"running": True, "started_at": at(0)}
    run = Process(**({"instance": "bookie-0-1", "revision": "r"} | usual | facts))
    return Bookie(id=B0, volumes={}, process=run, health=None)


def nowhere() -> Bookie:
    return Bookie(id=B0, volumes={}, process=None, health=None)


def ended(code: int, seconds_ago: float = 1, **facts: Any) -> Bookie:
    end = Exit(NOW - timedelta(seconds=seconds_ago), code, "why it ended")
    return process(running=False, last_exit=end, **facts)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.BOOTING, S.BOOTING),
        (Phase.MARKING, S.MARKING),
        (Phase.AWAITING_APPROVAL, S.AWAITING_APPROVAL),
        (Phase.SERVING, S.SERVING),
        (Phase.READ_ONLY, S.READ_ONLY),
        (Phase.DRAINING, S.DRAINING),
        (Phase.STOPPING, S.STOPPING),
        (Phase.REFUSED, S.REFUSED),
    ],
)
def test_one_that_answers_is_what_it_says(phase: Phase, state: BookieState) -> None:
    judged = of(bookie(B0, phase=phase, message="its own words"))
    assert (judged.state, judged.message) == (state, "its own words")
    is_booted = state in (S.SERVING, S.READ_ONLY, S.DRAINING)
    assert judged.is_booted is is_booted
    assert judged.impairment == (None if is_booted else state)


def test_one_of_another_version_that_says_what_this_one_does_not_know_does_not_serve() -> None:
    """Its limbo stays what it was, it counts as out, and no other bookie gets its settings."""
    one = bookie(B0, phase=Phase.UNKNOWN, process_facts={"is_ready": True})
    judged = of(replace(one, is_writable=True), before(limbo_ledgers=3))
    assert (judged.state, judged.limbo, judged.can_write) == (S.UNRESPONSIVE, 3, False)
    assert judged.impairment is not None and "another version" in judged.message


@pytest.mark.parametrize(
    ("one", "previous", "state", "words"),
    [
        # No pod.
        (nowhere(), None, S.PENDING, ""),
        (nowhere(), before(boot_epoch=0), S.PENDING, ""),
        (nowhere(), before(), S.STARTING, "not there yet"),
        (nowhere(), before(S.STARTING), S.STARTING, "not there yet"),
        (nowhere(), before(S.STARTING, state_since=at(939)), S.DOWN, "no process"),
        (nowhere(), before(S.SERVING, state_since=at(0)), S.STARTING, "not there yet"),
        (nowhere(), before(S.DOWN), S.DOWN, "no process"),
        # A process that ended.
        (ended(-9), before(), S.DOWN, "process ended: why it ended"),
        (ended(0), before(), S.STARTING, "process ended: why it ended"),
        (ended(0, 60), before(), S.STARTING, "process ended: why it ended"),
        (ended(0, 61), before(), S.DOWN, "process ended: why it ended"),
        (
            ended(0, waiting="NoImage: x"),
            before(),
            S.DOWN,
            "process ended: why it ended; NoImage: x",
        ),
        # One that has not begun.
        (process(running=False, waiting="NoImage: x"), None, S.PENDING, "NoImage: x"),
        (process(running=False, waiting="NoImage: x"), before(boot_epoch=0), S.PENDING, "NoImage"),
        (process(running=False, waiting="NoImage: x"), before(), S.DOWN, "NoImage: x"),
        (process(running=False, started_at=None), before(), S.STARTING, "not there yet"),
        (process(running=False, started_at=at(940)), before(), S.STARTING, "not there yet"),
        (process(running=False, started_at=at(939)), before(), S.DOWN, "its process is not there"),
        # One that runs and does not answer.
        (process(started_at=None), before(), S.STARTING, "does not answer yet"),
        (process(started_at=at(940)), before(), S.STARTING, "does not answer yet"),
        (
            process(started_at=at(939)),
            before(),
            S.UNRESPONSIVE,
            "its control plane does not answer",
        ),
        # By the clock of its node it has just begun, and yet it has been silent for long.
        *(
            (process(started_at=began), before(instance=run, silent_since=since), state, words)
            for began in (None, at(940), at(2000))
            for run, since, state, words in (
                ("bookie-0-1", None, S.STARTING, "does not answer yet"),
                ("bookie-0-1", at(940), S.STARTING, "does not answer yet"),
                ("bookie-0-1", at(939), S.UNRESPONSIVE, "its control plane does not answer"),
                ("the one before", at(939), S.STARTING, "does not answer yet"),
            )
        ),
    ],
)
def test_one_that_does_not_answer_is_what_its_process_says(
    one: Bookie, previous: BookieStatus | None, state: BookieState, words: str
) -> None:
    judged = of(one, previous)
    assert judged.state is state and judged.impairment is state
    assert words in judged.message and bool(words) is bool(judged.message)
    assert not judged.is_booted and not judged.can_write


@pytest.mark.parametrize(("failures", "state"), [(1, S.DOWN), (2, S.CRASH_LOOP), (9, S.CRASH_LOOP)])
def test_three_ends_in_a_row_are_a_crash_loop(failures: int, state: BookieState) -> None:
    judged = of(ended(1, started_at=None), before(failures=failures))
    assert judged.state is state
    if state is S.CRASH_LOOP:
        assert judged.message == f"{failures + 1} ends in a row: why it ended"


def test_one_that_answers_between_its_ends_is_no_crash_loop_and_one_of_unknown_ends_is() -> None:
    answers = bookie(B0, exit_at=999, process_facts={"started_at": at(999)})
    assert of(answers, before(failures=5)).state is S.SERVING
    silent = process(started_at=at(999))
    assert of(silent, before(failures=5)).message == "5 ends in a row: no reason known"
    assert of(nowhere(), before(failures=5)).state is S.STARTING


@pytest.mark.parametrize(("limbo", "unchecked"), [(2, 0), (0, 3), (2, 3), (2, 2)])
def test_one_that_serves_with_marks_is_in_limbo(limbo: int, unchecked: int) -> None:
    judged = of(bookie(B0, limbo=limbo, unchecked=unchecked))
    assert (judged.state, judged.impairment) == (S.LIMBO, Impairment.IN_LIMBO)
    assert judged.message == f"{limbo} ledgers in limbo, {unchecked} unchecked"
    assert judged.has_marks and judged.is_booted and judged.can_write
    read_only = of(bookie(B0, limbo=limbo, unchecked=unchecked, phase=Phase.READ_ONLY))
    assert (read_only.state, read_only.impairment) == (S.READ_ONLY, Impairment.IN_LIMBO)


@pytest.mark.parametrize(
    ("one", "limbo", "unchecked"),
    [
        (bookie(B0, limbo=1), 1, 0),
        (bookie(B0), 0, 0),
        (bookie(B0, limbo=1, unchecked=7, phase=Phase.MARKING), 4, 7),
        (bookie(B0, limbo=9, phase=Phase.BOOTING), 9, 5),
        (process(), 4, 5),
        (nowhere(), 4, 5),
        (ended(-9), 4, 5),
    ],
)
def test_marks_are_carried_over_until_a_boot_has_ended(
    one: Bookie, limbo: int, unchecked: int
) -> None:
    judged = of(one, before(limbo_ledgers=4, unchecked_ledgers=5))
    assert (judged.limbo, judged.unchecked) == (limbo, unchecked)
    assert judged.has_marks is (limbo + unchecked > 0)


def test_how_long_it_is_silent_is_carried_over() -> None:
    judged = of(process(), before(silent_since=at(500), hung_restarts=2))
    assert (judged.silent_since, judged.hung_restarts) == (at(500), 2)
    assert (of(bookie(B0)).silent_since, of(bookie(B0)).hung_restarts) == (None, 0)
    assert of(ended(-9), before()).message == "process ended: why it ended"


def test_one_that_is_read_only_takes_no_writes_whatever_it_is_registered_as() -> None:
    assert not of(replace(bookie(B0, phase=Phase.READ_ONLY), is_writable=True)).can_write


def test_a_bookie_of_which_nothing_is_known_has_no_marks() -> None:
    assert (of(nowhere()).limbo, of(nowhere()).unchecked) == (0, 0)


@pytest.mark.parametrize("is_down", [True, False])
def test_what_one_that_is_gone_said_last_is_not_its_word(is_down: bool) -> None:
    """A health that is kept beside a process that ended."""
    one = bookie(B0, limbo=1)
    assert one.process is not None
    gone = replace(
        one, process=replace(one.process, running=not is_down, last_exit=Exit(at(999), -9, "x"))
    )
    judged = of(gone, before(limbo_ledgers=4))
    assert judged.limbo == (4 if is_down else 1) and judged.is_booted is not is_down


@pytest.mark.parametrize(
    ("one", "impairment"),
    [
        (bookie(B0), None),
        (bookie(B0, process_facts={"is_ready": False}), Impairment.NOT_READY),
        (bookie(B0, is_fresh=False), Impairment.SILENT),
        (replace(bookie(B0), is_writable=False), Impairment.NOT_REGISTERED),
        (replace(bookie(B0, phase=Phase.READ_ONLY), is_writable=False), None),
        (replace(bookie(B0, phase=Phase.DRAINING), is_writable=False), None),
        (bookie(B0, phase=Phase.DRAINING, is_fresh=False), Impairment.SILENT),
    ],
)
def test_one_that_serves_is_out_unless_all_see_it_serve(
    one: Bookie, impairment: Impairment | None
) -> None:
    judged = of(one)
    assert judged.impairment == impairment
    assert judged.can_write is (judged.state is S.SERVING and one.is_writable)


def test_the_most_broken_is_the_one_that_lives_least() -> None:
    ranks = [S.UNRESPONSIVE, S.REFUSED, S.DOWN, S.CRASH_LOOP]
    assert [brokenness(state) for state in ranks] == [1, 2, 3, 4]
    others = {*BookieState, *Impairment} - set(ranks)
    assert {brokenness(one) for one in others} == {0}


def test_why_it_refuses_is_found_in_its_disks_and_else_in_its_words() -> None:
    swapped = of(bookie(B0, phase=Phase.REFUSED, verdicts={"journal": "swapped"}))
    assert refusal_of(swapped) == "SwappedDisk"
    said = of(bookie(B0, phase=Phase.REFUSED, message="the cookie of bookie-0 names another"))
    assert refusal_of(said) == "RefusedCookie"
    assert refusal_of(replace(of(nowhere()), message="it is in use by another bookie process")) == (
        "FoldersInUse"
    )


# All of them


def drain(**facts: Any) -> DrainStatus:
    usual = {
        "bookie": B4,
        "phase": DrainPhase.REMOVING,
        "started_at": at(0),
        "instance": "bookie-4-1",
    }
    return DrainStatus(**(usual | facts))


def all_of(
    *special: Bookie,
    jobs: tuple[Job, ...] = (),
    previous: ClusterStatus | None = None,
    replicas: int = 4,
) -> dict[BookieId, Judged]:
    spec = cluster(replicas=replicas).spec
    seen = observed(*special, seconds=1000, jobs=jobs)
    return judge_all(spec, seen, previous or ClusterStatus())


def test_who_is_wanted_there_or_missed_is_judged_in_numeric_order() -> None:
    known = before().model_copy(update={"id": "bookie-11"})
    never = before(boot_epoch=0).model_copy(update={"id": "bookie-12"})
    found = all_of(bookie("bookie-10"), previous=ClusterStatus(bookies=(known, never)), replicas=5)
    assert list(found) == [f"bookie-{n}" for n in (0, 1, 2, 3, 4, 10, 11)]
    assert (found[B4].state, found[BookieId("bookie-11")].state) == (S.PENDING, S.STARTING)


@pytest.mark.parametrize(
    ("facts", "is_missed"),
    [({}, False), ({"phase": DrainPhase.EMPTIED}, True), ({"bookie": "bookie-3"}, True)],
)
def test_who_was_emptied_and_removed_is_not_missed(facts: dict[str, Any], is_missed: bool) -> None:
    gone = before().model_copy(update={"id": B4})
    found = all_of(previous=ClusterStatus(bookies=(gone,), drain=drain(**facts)))
    assert (B4 in found) is is_missed


LEFT = bookie(B4, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0)
ENDS = {"process_facts": {"is_ready": False}}


@pytest.mark.parametrize(
    ("one", "facts", "is_leaving"),
    [
        (bookie(B4, phase=Phase.STOPPING), {}, True),
        (bookie(B4, phase=None), {}, True),
        (bookie(B4, running=False), {}, True),
        (bookie(B4, running=False, epoch=2), {}, True),
        (bookie(B4, phase=None, epoch=2), {}, False),
        (Bookie(B4, {}, None, None), {}, True),
        (bookie(B4, is_fresh=False), {}, True),
        (LEFT, {}, False),
        (bookie(B4, phase=Phase.DRAINING, draining=True, ledgers_naming_it=0, **ENDS), {}, True),
        (bookie(B4, phase=Phase.DRAINING, draining=True, ledgers_naming_it=1, **ENDS), {}, False),
        (bookie(B4, draining=False, ledgers_naming_it=0, **ENDS), {}, False),
        (bookie(B4, phase=Phase.STOPPING), {"instance": "another"}, False),
        (bookie(B4, phase=Phase.STOPPING), {"phase": DrainPhase.EMPTIED}, False),
        (bookie(B4, phase=Phase.STOPPING), {"bookie": "bookie-9"}, False),
    ],
)
def test_the_very_process_that_said_it_is_empty_is_let_go(
    one: Bookie, facts: dict[str, Any], is_leaving: bool
) -> None:
    judged = all_of(one, previous=ClusterStatus(drain=drain(**facts)))[B4]
    assert (judged.state is S.LEAVING) is is_leaving
    if is_leaving:
        assert (judged.message, judged.impairment) == ("drained, being removed", None)
        assert judged.bookie == one
        assert (judged.limbo, judged.unchecked) == (0, 0) and judged.is_booted


def test_one_that_is_wanted_is_never_let_go() -> None:
    stopping = bookie(B4, phase=Phase.STOPPING)
    found = all_of(stopping, previous=ClusterStatus(drain=drain()), replicas=5)
    assert found[B4].state is S.STOPPING


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "by job demo-index-1"),
        ({"progress": "half"}, "half"),
        ({"progress": "half", "waiting": "NoImage: x"}, "NoImage: x"),
    ],
)
def test_one_whose_index_is_built_anew_starts(facts: dict[str, str], words: str) -> None:
    usual: dict[str, Any] = {"attempt": 1, "running": True, "started_at": at(0), "bookie": B0}
    job = Job("demo-index-1", JobKind.INDEX_REBUILD, **usual, **facts)
    judged = all_of(nowhere(), jobs=(job,))[B0]
    assert (judged.state, judged.message) == (S.STARTING, f"its index is being rebuilt: {words}")
    stopped = all_of(ended(-9), jobs=(job,))[B0]
    assert stopped.state is S.STARTING
    for other in (replace(job, running=False), replace(job, kind=JobKind.AUDIT)):
        assert all_of(nowhere(), jobs=(other,))[B0].state is S.PENDING
    assert all_of(bookie(B0), jobs=(job,))[B0].state is S.SERVING
    assert (
        all_of(nowhere(), jobs=(replace(job, bookie=BookieId("bookie-99")),))[B0].state is S.PENDING
    )
