"""Events for people: once is once, repeats are counted, an outage loses none that matters."""

import asyncio
from datetime import timedelta

import pytest
from bookie.errors import UnavailableError
from bookie_operator.plan.actions import Event
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import EVENT, Object
from bookie_operator.platform.kubernetes.recorder import (
    MESSAGE_MAX,
    REMEMBERED_MAX,
    REPEAT_AFTER_S,
    Recorder,
)
from kubernetes_lab import Lab
from virtual_time import in_virtual_time

UNCLEAN = Event("UncleanShutdown", "boot 2", "bookie-0", type="Warning", once="bookie-0/2")
BLOCKED = Event("ActionFailed", "no room", "bookie-0", type="Warning")


@pytest.fixture
def lab() -> Lab:
    return Lab()


def events(lab: Lab) -> list[Object]:
    return list(lab.api.all(EVENT))


async def tell(lab: Lab, event: Event, recorder: Recorder | None = None) -> None:
    await (recorder or Recorder(lab.api)).record(event, lab.cluster)


async def test_an_event_is_about_its_cluster(lab: Lab) -> None:
    await tell(lab, UNCLEAN)
    [told] = events(lab)
    about = told["involvedObject"]
    assert (about["kind"], about["name"]) == ("BookieCluster", "demo")
    assert about["uid"] == lab.cluster.metadata.uid
    assert (told["type"], told["message"]) == ("Warning", "bookie-0: boot 2")
    assert told["metadata"]["labels"][names.BOOKIE_LABEL] == "bookie-0"
    assert told["firstTimestamp"] == told["lastTimestamp"] != ""


@pytest.mark.parametrize("bookie", ["10.0.0.7:3181", "x" * 64, "-", "bk_"])
async def test_a_bookie_of_somebody_else_may_have_a_name_that_no_label_can_hold(
    lab: Lab, bookie: str
) -> None:
    await tell(lab, Event("RereplicateStarted", "job-1", bookie))
    [told] = events(lab)
    assert names.BOOKIE_LABEL not in told["metadata"]["labels"]
    assert told["message"] == f"{bookie}: job-1"


@in_virtual_time
async def test_once_is_once_for_ever() -> None:
    lab = Lab()
    recorder = Recorder(lab.api)
    for _ in range(3):
        await tell(lab, UNCLEAN, recorder)
        await asyncio.sleep(2 * REPEAT_AFTER_S)
    assert [one["count"] for one in events(lab)] == [1]


async def test_once_is_once_for_a_new_operator_as_well(lab: Lab) -> None:
    for message in ("boot 2", "boot 2, told in other words"):
        again = Event("UncleanShutdown", message, "bookie-0", once=UNCLEAN.once)
        await tell(lab, again)
    assert [one["message"] for one in events(lab)] == ["bookie-0: boot 2"]


async def test_another_cluster_of_the_same_name_hears_it_anew(lab: Lab) -> None:
    await tell(lab, UNCLEAN)
    other = lab.cluster.metadata.model_copy(update={"uid": "another"})
    await Recorder(lab.api).record(UNCLEAN, lab.cluster.model_copy(update={"metadata": other}))
    assert len(events(lab)) == 2


@in_virtual_time
async def test_what_repeats_is_counted_up_at_most_once_a_minute() -> None:
    lab = Lab()
    recorder = Recorder(lab.api)
    for _ in range(int(2.5 * REPEAT_AFTER_S)):
        await tell(lab, BLOCKED, recorder)
        await asyncio.sleep(1)
    [told] = events(lab)
    assert told["count"] == 3


async def test_a_new_operator_counts_on(lab: Lab) -> None:
    await tell(lab, BLOCKED)
    lab.api.edit(EVENT, events(lab)[0]["metadata"]["name"], first_seen_earlier)
    await tell(lab, BLOCKED)
    [told] = events(lab)
    assert (told["count"], told["firstTimestamp"]) == (2, "2020-01-01T00:00:00Z")


def first_seen_earlier(event: Object) -> None:
    event["firstTimestamp"] = "2020-01-01T00:00:00Z"


async def test_another_message_is_another_event(lab: Lab) -> None:
    await tell(lab, BLOCKED)
    await tell(lab, Event("ActionFailed", "still no room", "bookie-0", type="Warning"))
    assert len(events(lab)) == 2


async def test_what_could_not_be_told_is_told_later(lab: Lab) -> None:
    recorder = Recorder(lab.api)
    lab.api.is_away = True
    with pytest.raises(UnavailableError):
        await tell(lab, UNCLEAN, recorder)
    lab.api.is_away = False
    await tell(lab, UNCLEAN, recorder)
    assert len(events(lab)) == 1


async def test_a_long_message_is_cut_and_not_dropped(lab: Lab) -> None:
    await tell(lab, Event("ActionFailed", "x" * 5000))
    assert len(events(lab)[0]["message"]) == MESSAGE_MAX


async def test_what_is_remembered_is_bounded(lab: Lab) -> None:
    recorder = Recorder(lab.api)
    for number in range(REMEMBERED_MAX + 5):
        await tell(lab, Event("A", str(number)), recorder)
    assert len(recorder._told) == REMEMBERED_MAX


async def test_an_event_that_expired_is_told_again(lab: Lab) -> None:
    """Kubernetes forgets events after an hour; what is told once then may be told once more."""
    await tell(lab, UNCLEAN)
    lab.api.remove(EVENT, events(lab)[0]["metadata"]["name"])
    lab.api.now += timedelta(hours=2)
    await tell(lab, UNCLEAN)
    assert len(events(lab)) == 1
