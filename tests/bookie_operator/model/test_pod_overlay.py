"""What may be added to pods, and what is the operator's own."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import parse
from bookie_operator.plan.actions import template_of
from operator_scenes import cluster, manifest

WHOLE: dict[str, Any] = {
    "labels": {"team": "storage"},
    "annotations": {"a.example/b": "c"},
    "env": [{"name": "TZ", "value": "UTC"}, {"name": "S", "valueFrom": {"secretKeyRef": {}}}],
    "affinity": {"nodeAffinity": {"anything": [1, {"b": None}]}},
    "sidecars": [{"name": "mesh", "image": "mesh:1", "ports": [{"containerPort": 1}]}],
    "volumes": [{"name": "extra", "emptyDir": {}}],
    "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
}


def test_what_kubernetes_knows_passes_through_as_it_is() -> None:
    found = cluster(bookiePod=WHOLE).spec.bookie_pod
    assert found is not None
    assert {name: value for name, value in found.as_dict().items() if name in WHOLE} == WHOLE


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ({"labels": {"bookkeeper.bookie-operator.dev/bookie": "x"}}, "labels"),
        ({"annotations": {"bookkeeper.bookie-operator.dev/rack": "/x"}}, "annotations"),
        ({"env": [{"name": "BOOKIE_HOST", "value": "x"}]}, "BOOKIE_HOST"),
        ({"env": [{"value": "x"}]}, "env"),
        ({"sidecars": [{"name": "bookie"}]}, "bookie"),
        ({"initContainers": [{"image": "nameless"}]}, "init_containers"),
        ({"volumes": [{"name": "disk-journal"}]}, "disk-journal"),
        ({"volumes": [{"name": "settings"}]}, "settings"),
        ({"volumeMounts": [{"name": "a", "mountPath": "/data"}]}, "/data"),
        ({"volumeMounts": [{"name": "a", "mountPath": "/etc/bookie/x"}]}, "/etc/bookie/x"),
        ({"nodeSelektor": {}}, "did you mean nodeSelector"),
    ],
)
def test_what_is_the_operators_own_is_refused(part: dict[str, Any], found: str) -> None:
    with pytest.raises(ManifestError, match=found):
        parse(BookieCluster, manifest(bookiePod=part), source="it")


def test_only_what_is_added_to_bookies_restarts_bookies() -> None:
    plain = template_of(cluster().spec, cluster().spec.bookie_ids[0]).revision
    for field, changes in (
        ("bookiePod", True),
        ("zookeeperPod", False),
        ("jobPod", False),
        ("executorPod", False),
    ):
        made = cluster(**{field: {"labels": {"a": "b"}}})
        assert (template_of(made.spec, made.spec.bookie_ids[0]).revision != plain) is changes
