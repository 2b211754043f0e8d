"""How far jobs are, by their pods' logs: seldom read, bounded, and never in the way."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from bookie_operator.observed import Job
from bookie_operator.platform.kubernetes.api import POD
from bookie_operator.platform.kubernetes.progress import AGAIN, BYTES_MAX, EVERY, LINES_MAX, LOG_S
from fake_api import FakeApi
from kubernetes_lab import Lab, repair_job
from virtual_time import clock, in_virtual_time

NAME = "demo-bookie-0-2-1"
A_POD = f"{NAME}-pod"
FIRST, SECOND = "7 ledgers looked at", "9 ledgers looked at"


async def started() -> Lab:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job())
    lab.controllers.settle()
    lab.api.logs[A_POD] = f"starting\n12:00:00 {FIRST}\n"
    return lab


async def the_job(lab: Lab) -> Job:
    [found] = await lab.platform.jobs()
    return found


def looks(lab: Lab) -> int:
    return lab.api.calls.count(("log", "Pod", A_POD))


async def test_a_running_job_says_how_far_it_is() -> None:
    assert (await the_job(await started())).progress == FIRST


async def test_a_log_is_read_now_and_then_only() -> None:
    lab = await started()
    assert (await the_job(lab)).progress == FIRST
    lab.api.logs[A_POD] += f"12:00:05 {SECOND}\n"
    assert (await the_job(lab)).progress == FIRST and looks(lab) == 1
    lab.api.now += EVERY
    assert (await the_job(lab)).progress == SECOND


async def test_a_clock_that_goes_back_keeps_no_log_from_being_read() -> None:
    lab = await started()
    await the_job(lab)
    lab.api.logs[A_POD] += f"12:00:05 {SECOND}\n"
    lab.api.now -= timedelta(hours=1)
    assert (await the_job(lab)).progress == SECOND


async def test_what_was_last_said_stays_under_what_is_no_progress() -> None:
    lab = await started()
    await the_job(lab)
    lab.api.logs[A_POD] += "INFO noise\n" * 2 * LINES_MAX
    lab.api.now += EVERY
    assert (await the_job(lab)).progress == FIRST


async def test_a_job_that_has_ended_says_no_more() -> None:
    lab = await started()
    await the_job(lab)
    lab.controllers.end_job(NAME, {})
    lab.api.now += EVERY
    assert (await the_job(lab)).progress == "" and looks(lab) == 1


async def test_a_pod_that_has_not_started_is_not_asked() -> None:
    lab = await started()
    lab.api.set_status(POD, A_POD, containerStatuses=[])
    assert (await the_job(lab)).progress == "" and not looks(lab)


async def test_a_log_that_may_not_be_read_fails_no_pass_and_is_left_alone() -> None:
    lab = await started()
    lab.api.forbid("log", POD)
    assert (await the_job(lab)).progress == ""
    lab.api.allow_all()
    lab.api.now += AGAIN - timedelta(seconds=1)
    assert (await the_job(lab)).progress == ""
    lab.api.now += timedelta(seconds=1)
    assert (await the_job(lab)).progress == FIRST


@pytest.fixture
def _silent_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def log(*_words: object, **_bounds: object) -> str:
        await asyncio.sleep(3600)
        return ""

    with monkeypatch.context() as patch:
        patch.setattr(FakeApi, "log", log)
        yield


@pytest.mark.usefixtures("_silent_nodes")
@in_virtual_time
async def test_a_node_that_does_not_answer_keeps_no_pass_waiting() -> None:
    lab = await started()
    began = clock()
    assert (await the_job(lab)).progress == "" and clock() - began <= LOG_S
    assert (await the_job(lab)).progress == "" and clock() - began <= LOG_S


def test_a_log_of_long_lines_is_read_in_bounds() -> None:
    assert BYTES_MAX >= LINES_MAX * 500


@pytest.mark.parametrize("is_refused", [True, False])
async def test_what_was_last_said_stays_while_the_log_cannot_be_read(is_refused: bool) -> None:
    lab = await started()
    await the_job(lab)
    if is_refused:
        lab.api.refuse("log", POD, "a webhook is away")
    else:
        lab.api.forbid("log", POD)
    for _look in range(2):
        lab.api.now += EVERY
        assert (await the_job(lab)).progress == FIRST
