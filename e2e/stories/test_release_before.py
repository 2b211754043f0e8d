"""From the release before to this tree and back, as docs/gitops.md says, under both writers.

Chart, images and the writer are built of that release's commit (supply/releases.py).
"""

import time
from collections.abc import Iterator

import pytest
import releases
from harness.fleet import pod_name
from harness.kind import NoClusterError, build_images_before
from harness.kube import Object, wait_for
from harness.manifests import BOOKIE_IMAGE, REPAIR_IMAGE
from harness.operator import Operator
from harness.settings import IMAGES, TAG
from harness.story import Story

ROLL_S = 420.0
"""Every bookie stopped with its flush and started again, one after the other."""


@pytest.fixture
def before(operator: Operator, bare_story: Story) -> Iterator[str]:
    """The operator of the release before in place of ours; that release's version."""
    version = releases.newest()
    try:
        releases.source(version)
        build_images_before(bare_story.kind.settings)
    except (NoClusterError, releases.NoHistoryError) as error:
        pytest.skip(f"no images of {version}: {error}")
    for image in IMAGES:
        bare_story.kind.load(of(image, version))
    operator.remove()
    operator.install(chart(version), tag=version)
    yield version
    operator.install()


def chart(version: str) -> str:
    return str(releases.source(version) / "charts" / "bookie-operator")


def of(image: str, version: str) -> str:
    return f"{image.removesuffix(TAG)}{version}"


def roll(story: Story, image: str) -> float:
    """Give the bookies this image; the seconds until the last one has it and the fleet is whole."""
    began = time.monotonic()
    story.fleet.change({"image": image})

    def runs_it() -> bool:
        return set(story.bookie_images().values()) == {image}

    wait_for(f"all bookies to run {image}", runs_it, seconds=ROLL_S)
    story.fleet.wait_whole()
    return round(time.monotonic() - began, 1)


def crash(story: Story, bookie: str) -> None:
    """A bookie crashes, and the operator and the jobs of the moment bring its copies back."""
    epoch = story.faults.kill(bookie)
    incident = story.fleet.wait_cleared(bookie, after=epoch)
    story.note(incident, name=bookie)
    story.load.goes_on()


def failures(story: Story) -> list[str]:
    events: list[Object] = story.kube.items("events")
    return [str(one["message"]) for one in events if one["reason"] == "ActionFailed"]


@pytest.mark.smoke
@pytest.mark.story("u", "up from the release before and back: operator, jobs, bookies")
def test_a_fleet_goes_up_from_the_release_before_and_back(before: str, bare_story: Story) -> None:
    story, fleet = bare_story, bare_story.fleet
    old = {"image": of(BOOKIE_IMAGE, before), "repair": {"image": of(REPAIR_IMAGE, before)}}
    story.up(old)
    story.write(
        image=of(BOOKIE_IMAGE, before), script=releases.source(before) / "e2e/pods/writer.py"
    )
    pods = story.bookie_pods()
    story.operator.install()
    fleet.change({"repair": {"image": REPAIR_IMAGE}})
    fleet.wait_whole()
    assert story.bookie_pods() == pods, "another operator and another image of jobs restart nobody"
    crash(story, "bookie-1")
    story.numbers["roll_s"] = roll(story, BOOKIE_IMAGE)
    story.numbers["roll_back_s"] = roll(story, of(BOOKIE_IMAGE, before))
    fleet.change(old)
    story.operator.install(chart(before), tag=before)
    crash(story, "bookie-2")
    crashed = sorted(one["bookie"] for one in fleet.status()["incidents"])
    assert crashed == ["bookie-1", "bookie-2"], "every other stop was clean"
    assert failures(story) == []
    assert story.bookie_pods()[pod_name("bookie-0")] != pods[pod_name("bookie-0")]
    story.nothing_is_lost()
