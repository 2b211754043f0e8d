"""A bundle for the Operator Lifecycle Manager, of what the chart renders: nothing is said twice.

`python supply/olm_bundle.py --out FOLDER` writes bookie-operator-bundle-VERSION.tar.gz: manifests/
with the Deployment and the rights of the chart in a ClusterServiceVersion, the CRDs and an example
of each kind, and metadata/. What OLM cannot install is left out: the chart's admission policies, so
that approvals name who they say they are from (`decisions.enabled`, `podPolicies.enabled` off), its
Lease, which the operator makes, and its check before an uninstall. Where helm is not on PATH it
makes none, and says so in a line that begins with SKIPPED.
"""

import argparse
import base64
import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from archives import archive_of
from release_version import version

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts" / "bookie-operator"
NAME: Final = "bookie-operator"
NAMESPACE: Final = "placeholder"
"""OLM puts its own in its place; arguments get it from the pod."""
OFF: Final = ("crds.enabled", "decisions.enabled", "podPolicies.enabled", "uninstallCheck.enabled")
CHANNEL: Final = "alpha"
MODES: Final = {
    "OwnNamespace": False,
    "SingleNamespace": False,
    "MultiNamespace": False,
    "AllNamespaces": True,
}
EXAMPLES: Final = (
    ROOT / "examples" / "kubernetes.yaml",
    {
        "apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1",
        "kind": "BookieTask",
        "metadata": {"name": "look"},
        "spec": {"cluster": "demo", "type": "audit"},
    },
)
ABOUT: Final = {
    "BookieCluster": "A fleet of bookies: disks, quorums, durability, repairs and audits.",
    "BookieTask": "A one-shot operation on a fleet, such as a repair or an approval.",
}
PREFIX: Final = "operators.operatorframework.io.bundle"
ANNOTATIONS: Final = {
    f"{PREFIX}.mediatype.v1": "registry+v1",
    f"{PREFIX}.manifests.v1": "manifests/",
    f"{PREFIX}.metadata.v1": "metadata/",
    f"{PREFIX}.package.v1": NAME,
    f"{PREFIX}.channels.v1": CHANNEL,
    f"{PREFIX}.channel.default.v1": CHANNEL,
}
Tree = dict[str, Any]


def rendered() -> list[Tree]:
    """The chart's objects, without what OLM cannot install."""
    command = ["helm", "template", NAME, str(CHART), "--namespace", NAMESPACE]
    command += ["--kube-version", "1.34.0", *(f"--set={value}=false" for value in OFF)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [tree for tree in yaml.safe_load_all(done.stdout) if tree]


def csv(objects: Iterable[Mapping[str, Any]], crds: Iterable[Mapping[str, Any]]) -> Tree:
    """The ClusterServiceVersion."""
    objects = list(objects)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    [deployment] = [one for one in objects if one["kind"] == "Deployment"]
    spec, account = deployment["spec"], deployment["spec"]["template"]["spec"]["serviceAccountName"]
    examples = [
        yaml.safe_load(one.read_text(encoding="utf-8")) if isinstance(one, Path) else one
        for one in EXAMPLES
    ]
    icon = base64.b64encode((ROOT / "charts" / "icon.svg").read_bytes()).decode("ascii")
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{NAME}.v{version()}",
            "namespace": NAMESPACE,
            "annotations": {
                "alm-examples": json.dumps(examples, indent=1),
                "capabilities": "Full Lifecycle",
                "categories": "Storage",
                "containerImage": spec["template"]["spec"]["containers"][0]["image"],
            },
        },
        "spec": {
            "displayName": "bookie-operator",
            "description": f"{chart['description']}.",
            "version": version(),
            "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
            "maturity": CHANNEL,
            "keywords": chart["keywords"],
            "provider": {"name": "the maintainers of bookie-operator"},
            "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
            "installModes": [{"type": mode, "supported": on} for mode, on in MODES.items()],
            "install": {
                "strategy": "deployment",
                "spec": {
                    "deployments": [{"name": NAME, "spec": anywhere(spec)}],
                    "clusterPermissions": rights(objects, account, "ClusterRole"),
                    "permissions": rights(objects, account, "Role"),
                },
            },
            "customresourcedefinitions": {"owned": [owned(crd) for crd in crds]},
        },
    }


def owned(crd: Mapping[str, Any]) -> Tree:
    spec, kind = crd["spec"], crd["spec"]["names"]["kind"]
    return {
        "name": crd["metadata"]["name"],
        "kind": kind,
        "version": spec["versions"][0]["name"],
        "displayName": kind,
        "description": ABOUT[kind],
    }


def rights(objects: Iterable[Mapping[str, Any]], account: str, kind: str) -> list[Tree]:
    """Rules of the roles of this kind that are bound to the operator's account."""
    objects = list(objects)
    bound = [
        one["roleRef"]["name"]
        for one in objects
        if one["kind"] == f"{kind}Binding"
        and account in [subject["name"] for subject in one["subjects"]]
    ]
    rules = [
        rule
        for one in objects
        if one["kind"] == kind and one["metadata"]["name"] in bound
        for rule in one["rules"]
    ]
    return [{"serviceAccountName": account, "rules": rules}]


def anywhere(spec: Mapping[str, Any]) -> Tree:
    """The Deployment's spec for whichever namespace OLM puts it into."""
    found: Tree = copy.deepcopy(dict(spec))
    for label in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
        del found["template"]["metadata"]["labels"][label]
    [container] = found["template"]["spec"]["containers"]
    container["args"] = [
        argument.replace(f"={NAMESPACE}/", "=$(POD_NAMESPACE)/") for argument in container["args"]
    ]
    field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    container["env"] = [*container["env"], {"name": "POD_NAMESPACE", "valueFrom": field}]
    return found


def files() -> dict[str, Tree]:
    """What the bundle has, by path."""
    crds = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "crds").iterdir())
    ]
    return {
        f"manifests/{NAME}.clusterserviceversion.yaml": csv(rendered(), crds),
        "metadata/annotations.yaml": {"annotations": ANNOTATIONS},
        **{f"manifests/{crd['metadata']['name']}.yaml": crd for crd in crds},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if shutil.which("helm") is None:
        print("SKIPPED: the bundle for OLM: helm is not on PATH")
        return
    texts = {
        name: (yaml.safe_dump(tree, sort_keys=False, width=100).encode(), 0o644)
        for name, tree in files().items()
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"{NAME}-bundle-{version()}.tar.gz"
    path.write_bytes(archive_of(texts, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    print(path)


if __name__ == "__main__":
    main()
