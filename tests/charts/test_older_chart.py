"""The packaged older release that the story of an upgrade starts from."""

from typing import Any

from helm_charts import OPERATOR, ROOT, Object, of_kind, only, render

OLDER = ROOT / "e2e" / "fixtures" / "bookie-operator-0.0.9.tgz"


def names(objects: list[Object]) -> set[tuple[str, str]]:
    return {(tree["kind"], tree["metadata"]["name"]) for tree in objects}


def repair_fields(objects: list[Object]) -> set[str]:
    crds = of_kind(objects, "CustomResourceDefinition")
    crd = next(one for one in crds if one["spec"]["names"]["kind"] == "BookieCluster")
    whole: Any = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(whole["properties"]["spec"]["properties"]["repair"]["properties"])


def test_an_upgrade_changes_the_same_objects() -> None:
    assert names(render(OLDER)) <= names(render(OPERATOR))


def test_an_upgrade_brings_a_field_of_the_crd() -> None:
    assert repair_fields(render(OPERATOR)) - repair_fields(render(OLDER)) >= {
        "startDeadlineSeconds"
    }


def test_an_upgrade_changes_the_image() -> None:
    older, newer = (
        only(render(chart), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
        for chart in (OLDER, OPERATOR)
    )
    assert older == "bookie-operator/operator:0.0.9" and newer != older


def test_an_upgrade_keeps_the_selector_which_cannot_change() -> None:
    older, newer = (
        only(render(chart), "Deployment")["spec"]["selector"] for chart in (OLDER, OPERATOR)
    )
    assert older == newer
