"""What the charts make, object by object, and what they say to whoever installs them.

Not here: CRDs (they are written down in crds/) and dashboards (in charts/bookie-operator/files).
"""

import json
from pathlib import Path
from typing import Final

import pytest
from helm_charts import CLUSTER, OPERATOR, Object, only, with_notes
from syrupy.assertion import SnapshotAssertion
from transcripts import Manifests, Words
from whole_spec import BALANCED, ISSUED, SECRETS, WHOLE, sizes

USUAL: Final = "as-it-is"
PEER: Final = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
DROP: Final = {"sourceLabels": ["__name__"], "regex": "bookie_a", "action": "drop"}
SCRAPED: Final[Object] = {
    "enabled": True,
    "interval": "11s",
    "labels": {"team": "12"},
    "relabelings": [{"targetLabel": "region", "replacement": "13"}],
    "metricRelabelings": [DROP],
}
ALL_ON: Final[Object] = {
    "image": {"repository": "registry.example.org/operator", "tag": "14", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry-15"}],
    "replicas": 2,
    "rbac": {"certManager": True},
    "serviceAccount": {"annotations": {"cloud/role": "16"}},
    "verbose": True,
    "extraArgs": ["--page-port=0"],
    "extraEnv": [{"name": "MORE", "value": "17"}],
    "resources": sizes(1),
    "podAnnotations": {"note": "18"},
    "podLabels": {"team": "19"},
    "nodeSelector": {"disk": "20"},
    "tolerations": [{"key": "storage", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "important-21",
    "metrics": {
        "podMonitor": SCRAPED,
        "bookies": SCRAPED | {"scheme": "https", "tlsConfig": {"serverName": "demo"}},
        "zookeeper": SCRAPED,
        "prometheusRule": {
            "enabled": True,
            "labels": {"team": "22"},
            "runbookUrl": "https://runbooks.example.org",
            "auditOldAfterSeconds": 23,
            "certificateExpiresWithinSeconds": 24,
            "syncSlowAfterSeconds": 0.25,
            "zookeeperSyncSlowAfterSeconds": 0.26,
            "zookeeperOutstandingMax": 27,
            "limboOldAfter": "28m",
            "limboStillFor": "29m",
            "findingsOldAfter": "30m",
            "passOldAfterSeconds": 31,
        },
    },
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [PEER],
        "apiServerPorts": [6432],
        "metadataPorts": [2133],
    },
    "fullnameOverride": "keeper-34",
}
OPERATORS: Final[dict[str, Object]] = {
    USUAL: {},
    "all-on": ALL_ON,
    "two-namespaces": {"watchNamespaces": ["north", "south"], "networkPolicy": {"enabled": True}},
    "rights-of-others": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "given-35"},
        "image": {"digest": "sha256:" + "36" * 32},
        "nameOverride": "short",
    },
    "all-off": {
        "rbac": dict.fromkeys(("nodes", "storage", "logs", "secrets", "aggregate"), False),
        "decisions": {"enabled": False},
        "podPolicies": {"enabled": False},
        "uninstallCheck": {"enabled": False},
        "metrics": {"enabled": False},
    },
}
CLUSTERS: Final[dict[str, Object]] = {
    USUAL: {},
    "whole": WHOLE,
    "balanced": {"external": BALANCED, "tls": {"mode": "Accepted"}},
    "of-another-store": SECRETS | {"metadata": SECRETS["metadata"] | {"embedded": None}},
    "of-an-issuer": {"tls": ISSUED},
}


LEFT_OUT: Final = ("CustomResourceDefinition", "Notes")


def made(folder: Path, chart: Path, values: Object) -> list[Object]:
    path = folder / "values.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return with_notes(folder, chart, f"--values={path}")


def objects_of(folder: Path, chart: Path, values: Object) -> list[Object]:
    """Of all values but the usual ones those that are not just so with these."""
    (folder / "usual").mkdir()
    usual = made(folder / "usual", chart, {}) if values else []
    return [
        tree
        for tree in made(folder, chart, values)
        if tree not in usual and tree["kind"] not in LEFT_OUT
    ]


@pytest.mark.parametrize("values", OPERATORS)
def test_the_operators_chart(values: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    objects = objects_of(tmp_path, OPERATOR, OPERATORS[values])
    assert snapshot(extension_class=Manifests) == objects


@pytest.mark.parametrize("values", CLUSTERS)
def test_the_clusters_chart(values: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Manifests) == objects_of(tmp_path, CLUSTER, CLUSTERS[values])


@pytest.mark.parametrize("values", [USUAL, "two-namespaces", "all-off"])
def test_the_notes_of_the_operators_chart(
    values: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    notes = only(made(tmp_path, OPERATOR, OPERATORS[values]), "Notes")["text"]
    assert snapshot(extension_class=Words) == notes


@pytest.mark.parametrize("values", CLUSTERS)
def test_the_notes_of_the_clusters_chart(
    values: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    notes = only(made(tmp_path, CLUSTER, CLUSTERS[values]), "Notes")["text"]
    assert snapshot(extension_class=Words) == notes
