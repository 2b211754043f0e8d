"""The bundle for OLM: what its own validation asks for, and what the chart renders."""

import base64
import io
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import olm_bundle
import pytest
import yaml
from archives import archive_of
from helm_charts import OPERATOR, only, render

CSV: Final = "manifests/bookie-operator.clusterserviceversion.yaml"


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    if shutil.which("helm") is None:
        pytest.skip("helm is not on PATH")
    return olm_bundle.files()


def faults(bundle: dict[str, Any]) -> list[str]:
    """By the rules of operator-framework/api, pkg/validation: names, modes, examples, CRDs."""
    csv = bundle[CSV]
    spec, name = csv["spec"], csv["metadata"]["name"]
    owned = {(one["kind"], one["version"]) for one in spec["customresourcedefinitions"]["owned"]}
    crds = [tree for tree in bundle.values() if tree.get("kind") == "CustomResourceDefinition"]
    there = {(c["spec"]["names"]["kind"], v["name"]) for c in crds for v in c["spec"]["versions"]}
    examples = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    shown = {(one["kind"], one["apiVersion"].split("/")[1]) for one in examples}
    modes = [mode["type"] for mode in spec["installModes"]]
    wrong = {
        "name": not re.fullmatch(r"[a-z0-9-]+\.v\d+\.\d+\.\d+", name),
        "version": name != f"bookie-operator.v{spec['version']}",
        "modes": len(set(modes)) < len(modes)
        or not any(m["supported"] for m in spec["installModes"]),
        "crds": owned != there,
        "examples": shown != owned,
        "strategy": spec["install"]["strategy"] != "deployment",
    }
    return [fault for fault, is_wrong in wrong.items() if is_wrong]


def test_olm_takes_the_bundle(bundle: dict[str, Any]) -> None:
    assert faults(bundle) == []
    annotations = bundle["metadata/annotations.yaml"]["annotations"]
    keys = ("mediatype", "manifests", "metadata", "package", "channels", "channel.default")
    assert annotations.keys() == {f"operators.operatorframework.io.bundle.{k}.v1" for k in keys}


def test_a_crd_that_is_missing_is_seen(bundle: dict[str, Any]) -> None:
    [task] = [name for name in bundle if "bookietasks" in name]
    assert faults({name: tree for name, tree in bundle.items() if name != task}) == ["crds"]


def test_its_rights_are_those_of_the_chart(bundle: dict[str, Any]) -> None:
    [asked] = bundle[CSV]["spec"]["install"]["spec"]["clusterPermissions"]
    of_chart = [
        role["rules"] for role in render(OPERATOR)
        if role["kind"] == "ClusterRole" and role["metadata"]["name"] == "ops-demo-bookie-operator"
    ]  # fmt: skip
    assert [asked["rules"]] == of_chart


def test_its_operator_is_that_of_the_chart_in_any_namespace(bundle: dict[str, Any]) -> None:
    [deployment] = bundle[CSV]["spec"]["install"]["spec"]["deployments"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    of_chart = only(render(OPERATOR), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == of_chart["image"]
    assert "--lease=$(POD_NAMESPACE)/bookie-operator" in container["args"]
    names = [variable["name"] for variable in container["env"]]
    assert "POD_NAMESPACE" in names and "BOOKIE_OPERATOR_NAMES_PROVED" not in names


def test_its_icon_is_a_drawing(bundle: dict[str, Any]) -> None:
    [icon] = bundle[CSV]["spec"]["icon"]
    assert icon["mediatype"] == "image/svg+xml"
    assert b"<svg" in base64.b64decode(icon["base64data"])


def test_operator_frameworks_own_validation_has_nothing_to_say(
    bundle: dict[str, Any], tmp_path: Path
) -> None:
    if shutil.which("operator-verify") is None:
        pytest.skip("operator-verify is not on PATH")
    for name, tree in bundle.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(tree), encoding="utf-8")
    command = ["operator-verify", "manifests", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""  # it ends with 0 whatever it found


def test_an_archive_has_its_folders() -> None:
    made = archive_of({"manifests/a.yaml": (b"a", 0o644)}, 0)
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        assert archive.getnames() == ["manifests/a.yaml"]
