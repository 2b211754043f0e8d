"""From a version whose bookies speak an older wire to this one, as docs/kubernetes.md says.

Told only where a chart and images of an older revision are named (E2E_OLDER_CHART, E2E_OLDER_TAG).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.claims import is_whole
from harness.fleet import pod_name
from harness.kube import Object, wait_for
from harness.manifests import BOOKIE_IMAGE, OFF, REPAIR_IMAGE, WRITER_SCRIPT
from harness.operator import Operator
from harness.settings import IMAGES, ROOT, TAG
from harness.story import BOOKIE_PODS, Story

ROLL_S = 420.0
"""Every bookie stopped with its flush and started again, one after the other."""
LEAVES_S = 240.0


@pytest.fixture
def older(operator: Operator, bare_story: Story) -> Iterator[str]:
    """The older version's operator in place of ours; its tag."""
    settings = bare_story.kind.settings
    if not settings.older_chart:
        pytest.skip("no E2E_OLDER_CHART")
    for image in IMAGES:
        bare_story.kind.load(of(image, settings.older_tag))
    operator.remove()
    operator.install(settings.older_chart, tag=settings.older_tag)
    yield settings.older_tag
    operator.install()


def of(image: str, tag: str) -> str:
    return f"{image.removesuffix(TAG)}{tag}"


def bookie_pods(story: Story) -> dict[str, str]:
    """uids by name."""
    pods = story.kube.items("pods", BOOKIE_PODS)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def runs_this_version(story: Story) -> bool:
    """All bookies; between two restarts the cluster is whole, too."""
    pods = story.kube.items("pods", BOOKIE_PODS)
    return all(pod["spec"]["containers"][0]["image"] == BOOKIE_IMAGE for pod in pods)


def tells_budget(cluster: Object) -> bool:
    """The older version has no such field."""
    return bool((cluster.get("status") or {}).get("lossBudget"))


def stay_plain(story: Story) -> None:
    """Said before this version's operator comes: it takes a spec without a word for Required, and
    would give bookies of the older version settings that they do not know."""
    story.kube("apply", "--server-side", "--force-conflicts", "--filename", str(ROOT / "crds"))
    story.fleet.change({"tls": {"mode": OFF}})


def failures(story: Story) -> list[str]:
    events: list[Object] = story.kube.items("events")
    return [str(one["message"]) for one in events if one["reason"] == "ActionFailed"]


@pytest.mark.story("u", "a fleet of an older version: operator, one bookie less, images")
def test_a_fleet_of_an_older_version_comes_over_by_itself(older: str, bare_story: Story) -> None:
    story, fleet = bare_story, bare_story.fleet
    images = {"image": of(BOOKIE_IMAGE, older), "repair": {"image": of(REPAIR_IMAGE, older)}}
    story.up({"replicas": 5, **images})
    script = Path(story.kind.settings.older_writer or WRITER_SCRIPT)
    story.write(image=of(BOOKIE_IMAGE, older), script=script, judged=False)
    pods = bookie_pods(story)
    stay_plain(story)
    story.operator.install()
    fleet.wait("the word of this version's operator", tells_budget, seconds=60.0)
    fleet.wait_whole()
    assert bookie_pods(story) == pods, "an upgrade of the operator restarts no bookie"
    # The jobs of this version's operator need its image: docs/kubernetes.md names it first.
    fleet.change({"repair": {"image": REPAIR_IMAGE}})
    fleet.wait_whole()
    assert bookie_pods(story) == pods, "an image of repairs restarts no bookie"
    began = time.monotonic()
    fleet.change({"replicas": 4})
    leaves = pod_name("bookie-4")
    wait_for(f"{leaves} to go", lambda: story.kube.get("pod", leaves) is None, seconds=LEAVES_S)
    story.numbers["one_less_s"] = round(time.monotonic() - began, 1)
    began = time.monotonic()
    fleet.change({"image": BOOKIE_IMAGE})
    wait_for("the last pod of this version", lambda: runs_this_version(story), seconds=ROLL_S)
    fleet.wait_whole()
    story.numbers["roll_s"] = round(time.monotonic() - began, 1)
    assert not fleet.status().get("incidents"), "every stop was clean"
    assert failures(story) == []
    notes = story.load.end()
    story.write()
    is_whole(story.load.check_notes(notes))
    story.nothing_is_lost()
