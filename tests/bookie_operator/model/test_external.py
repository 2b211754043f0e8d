"""What a spec may say about clients outside of the Kubernetes cluster."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.crd import definitions
from bookie_operator.model.external import PLACE
from bookie_operator.model.manifest import parse
from operator_scenes import cluster, manifest


@pytest.mark.parametrize(
    "external",
    [
        {"type": "NodePort"},
        {"type": "NodePort", "advertisedHost": "gateway.example.org"},
        {"type": "LoadBalancer", "advertisedHost": f"{PLACE}.example.org"},
        {"type": "LoadBalancer", "sourceRanges": ["192.0.2.0/24", "2001:db8::/32"]},
    ],
)
def test_what_can_be_reached_is_taken(external: dict[str, Any]) -> None:
    found = cluster(external=external).spec.external
    assert found is not None
    assert external.items() <= found.as_dict().items()


@pytest.mark.parametrize(
    ("external", "found"),
    [
        ({}, "type"),
        ({"type": "ClusterIP"}, "ClusterIP"),
        ({"type": "LoadBalancer", "advertisedHost": "one.example.org"}, "all bookies have the"),
        ({"type": "NodePort", "advertisedHost": "a b"}, "advertisedHost"),
        ({"type": "NodePort", "advertisedHost": "{ordinal}.example.org"}, "advertisedHost"),
        ({"type": "LoadBalancer", "sourceRanges": ["192.0.2.0"]}, "sourceRanges"),
        ({"type": "NodePort", "hostName": "x"}, "hostName"),
        ({"type": "NodePort", "sourceRanges": ["192.0.2.0/24"]}, "everybody who reaches a node"),
        ({"type": "NodePort", "annotations": {f"a{n}": "" for n in range(33)}}, "annotations"),
    ],
)
def test_what_nobody_could_reach_is_refused(external: dict[str, Any], found: str) -> None:
    with pytest.raises(ManifestError, match=found):
        parse(BookieCluster, manifest(external=external), source="it")


def test_the_api_server_takes_no_more_annotations_than_the_operator() -> None:
    """What only the operator refused would be an invalid spec, and nobody healed any more."""
    version = definitions()["bookiecluster.yaml"]["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["external"]["properties"]["annotations"]["maxProperties"] == 32
