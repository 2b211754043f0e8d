"""A pod that does not come: what Kubernetes says of it stands in the status, in its words."""

from datetime import timedelta
from typing import Any

import pytest
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.states import judge
from bookie_operator.platform.kubernetes.api import EVENT, POD
from bookie_operator.platform.kubernetes.warnings import PATIENCE, SLACK, Warnings
from fake_api import FakeApi, stamp
from kubernetes_lab import B0, POD_0, Lab, repair_job

WHY = 'create Pod demo-bookie-0-0 failed: violates PodSecurity "restricted:latest"'
SET = "demo-bookie-0"
JOB_NAME = "demo-bookie-0-2-1"


def warn(api: FakeApi, name: str, *, after_s: float = 0, **more: Any) -> None:
    """An event as controllers write them, that much after now."""
    number = len(api.all(EVENT))
    at = stamp(api.now + timedelta(seconds=after_s))
    event = {"type": "Warning", "reason": "FailedCreate", "message": WHY, "lastTimestamp": at}
    about = {"involvedObject": {"name": name}}
    api.put(EVENT, {"metadata": {"name": f"e{number}"}} | about | event | more)


async def asked(api: FakeApi, warnings: Warnings, *, after: timedelta) -> dict[str, str]:
    api.now += after
    return await warnings.about({"it": SET})


async def test_what_comes_soon_is_not_asked_about() -> None:
    api = FakeApi()
    warnings = Warnings(api, lambda: api.now)
    warn(api, SET)
    assert await asked(api, warnings, after=timedelta(0)) == {}
    assert await asked(api, warnings, after=PATIENCE / 2) == {}
    assert not [call for call in api.calls if call[0] == "list"]
    assert await asked(api, warnings, after=PATIENCE / 2) == {"it": f"FailedCreate: {WHY}"}


async def test_a_clock_that_goes_back_keeps_nobody_from_being_asked() -> None:
    api = FakeApi()
    warnings = Warnings(api, lambda: api.now)
    for after in (timedelta(0), PATIENCE, -timedelta(hours=1)):
        assert await asked(api, warnings, after=after) == {}
    warn(api, SET)
    assert await asked(api, warnings, after=PATIENCE) == {"it": f"FailedCreate: {WHY}"}


@pytest.mark.parametrize("why", ["", "a webhook is away"])
async def test_it_is_asked_again_only_after_a_while_also_where_that_is_refused(why: str) -> None:
    api = FakeApi()
    if why:
        api.refuse("list", EVENT, why)
    warnings = Warnings(api, lambda: api.now)
    for _ in range(31):
        await asked(api, warnings, after=timedelta(seconds=1))
    assert len([call for call in api.calls if call[0] == "list"]) == 3


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({}, f"FailedCreate: {WHY}"),
        ({"type": "Normal"}, ""),
        ({"involvedObject": {"name": "other"}}, ""),
        ({"after_s": -SLACK.total_seconds() - 1}, ""),
        ({"after_s": -SLACK.total_seconds()}, f"FailedCreate: {WHY}"),
        ({"lastTimestamp": None}, ""),
    ],
)
async def test_the_last_warning_about_this_object_counts(event: dict[str, Any], word: str) -> None:
    api = FakeApi()
    warnings = Warnings(api, lambda: api.now)
    await asked(api, warnings, after=timedelta(0))
    warn(api, SET, **event)
    found = await asked(api, warnings, after=PATIENCE)
    assert found.get("it", "") == word


async def test_what_came_and_is_missed_again_is_missed_anew() -> None:
    api = FakeApi()
    warnings = Warnings(api, lambda: api.now)
    warn(api, SET)
    await asked(api, warnings, after=timedelta(0))
    assert await asked(api, warnings, after=PATIENCE)
    assert await warnings.about({}) == {}, "it has come"
    assert await asked(api, warnings, after=2 * SLACK) == {}, "it may come at any moment"
    assert await asked(api, warnings, after=PATIENCE) == {}, "what was said was of the one before"
    warn(api, SET)
    assert await asked(api, warnings, after=PATIENCE) == {"it": f"FailedCreate: {WHY}"}


async def test_without_the_right_there_is_no_word() -> None:
    api = FakeApi()
    warnings = Warnings(api, lambda: api.now)
    warn(api, SET)
    api.forbid("list", EVENT)
    await asked(api, warnings, after=timedelta(0))
    assert await asked(api, warnings, after=PATIENCE) == {}


async def test_a_pod_that_may_not_be_made_is_told_with_the_servers_words() -> None:
    lab = Lab()
    await lab.run_bookie()
    before = ClusterStatus().bookie(B0)
    lab.api.remove(POD, POD_0)
    await lab.bookie()
    warn(lab.api, SET)
    lab.api.now += PATIENCE
    one = await lab.bookie()
    assert one.process is None and one.waiting == f"FailedCreate: {WHY}"
    assert judge(one, previous=before, now=lab.api.now).message == f"FailedCreate: {WHY}"


async def test_a_volume_that_is_not_mounted_is_told_with_the_kubelets_words() -> None:
    lab = Lab()
    lab.controllers.holds.add(POD_0)
    await lab.run_bookie()
    warn(lab.api, POD_0, reason="FailedMount", message="no such device")
    lab.api.now += PATIENCE
    assert (await lab.process()).waiting == "FailedMount: no such device"


async def test_a_job_whose_pod_may_not_be_made_is_told_with_the_servers_words() -> None:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(JOB_NAME))
    assert [one.waiting for one in await lab.platform.jobs()] == [""]
    warn(lab.api, JOB_NAME)
    lab.api.now += PATIENCE
    assert [one.waiting for one in await lab.platform.jobs()] == [f"FailedCreate: {WHY}"]
    lab.controllers.settle()
    assert [one.waiting for one in await lab.platform.jobs()] == [""]


async def test_a_job_that_may_have_no_pod_is_told_of_while_another_one_works() -> None:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job("demo-at-work"))
    lab.controllers.settle()
    await lab.platform.start_job(repair_job(JOB_NAME))
    await lab.platform.jobs()
    warn(lab.api, JOB_NAME)
    lab.api.now += PATIENCE
    assert {one.waiting for one in await lab.platform.jobs()} == {"", f"FailedCreate: {WHY}"}


async def test_a_jobs_pod_that_does_not_start_is_told_with_the_kubelets_words() -> None:
    lab = Lab()
    lab.controllers.holds.add(f"{JOB_NAME}-pod")
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(JOB_NAME))
    lab.controllers.settle()
    await lab.platform.jobs()
    warn(lab.api, f"{JOB_NAME}-pod", reason="FailedMount", message="no such device")
    lab.api.now += PATIENCE
    assert [one.waiting for one in await lab.platform.jobs()] == ["FailedMount: no such device"]


async def test_a_job_that_has_ended_is_not_asked_about() -> None:
    lab = Lab()
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job(JOB_NAME))
    lab.controllers.settle()
    lab.controllers.end_job(JOB_NAME)
    lab.api.remove(POD, f"{JOB_NAME}-pod")
    await lab.platform.jobs()
    lab.api.now += PATIENCE
    await lab.platform.jobs()
    assert ("list", EVENT.name) not in [call[:2] for call in lab.api.calls]
