"""The chart's life: an upgrade from an older release, an uninstall with a cluster there."""

import pytest
from harness.commands import CommandError
from harness.fleet import BKC
from harness.kube import Object
from harness.operator import Operator
from harness.settings import ROOT, TAG
from harness.story import Story

OLDER = ROOT / "e2e" / "fixtures" / "bookie-operator-0.0.9.tgz"
OLDER_TAG = "0.0.9"
NEW_FIELD = "startDeadlineSeconds"
"""Of spec.repair: the older chart's CRD does not have it."""
STOP_S = 120.0


def knows_field(story: Story) -> bool:
    crd: Object = story.kube.get("crd", BKC) or {}
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return NEW_FIELD in schema["properties"]["spec"]["properties"]["repair"]["properties"]


def volumes(story: Story) -> dict[str, str]:
    """uids by name."""
    claims = story.kube.items("pvc")
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims}


@pytest.mark.story("m", "helm upgrade from an older chart")
def test_an_upgrade_brings_fields_and_disturbs_no_bookie(
    operator: Operator, bare_story: Story
) -> None:
    story = bare_story
    operator.remove()
    story.kind.load_as(f"bookie-operator/operator:{TAG}", f"bookie-operator/operator:{OLDER_TAG}")
    operator.install(str(OLDER), tag=OLDER_TAG)
    assert not knows_field(story)
    story.up()
    story.write()
    pods, image = story.bookie_pods(), operator.image()
    operator.install()
    assert knows_field(story)
    assert operator.image() != image
    generation = story.fleet.change({"repair": {NEW_FIELD: 77}})
    whole = story.fleet.wait_whole()
    assert whole["status"]["observedGeneration"] == generation
    assert whole["spec"]["repair"][NEW_FIELD] == 77
    assert story.bookie_pods() == pods, "an upgrade of the operator restarts no bookie"
    before = story.faults.kill("bookie-1")
    story.note(story.fleet.wait_cleared("bookie-1", after=before))
    story.nothing_is_lost()


@pytest.mark.story("n", "uninstall with a cluster present")
def test_an_uninstall_is_refused_and_data_is_kept(story: Story) -> None:
    story.up()
    story.write()
    pods = story.bookie_pods()
    with pytest.raises(CommandError) as refused:
        story.operator.uninstall()
    assert f"{story.name}/demo" in refused.value.output, refused.value.output
    assert story.bookie_pods() == pods
    story.load.goes_on()
    kept = volumes(story)
    story.fleet.stop_watching()
    story.kube.delete(BKC, "demo", wait=True, seconds=STOP_S)
    story.operator.uninstall()
    assert volumes(story) == kept, "volumes stay"
    story.operator.install()
    story.again()
    assert volumes(story) == kept
    assert story.fleet.status().get("incidents", []) == [], "the bookies had stopped cleanly"
    story.load.goes_on()
    story.nothing_is_lost()
