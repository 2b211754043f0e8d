"""What the charts make, object by object."""

from typing import Final

import pytest
from helm_charts import CLUSTER, OPERATOR, render
from syrupy.assertion import SnapshotAssertion
from transcripts import Manifests

OPTIONS: Final[dict[str, tuple[str, ...]]] = {"as-it-is": ()}


@pytest.mark.parametrize("options", OPTIONS)
def test_the_operators_chart(options: str, snapshot: SnapshotAssertion) -> None:
    made = render(OPERATOR, *OPTIONS[options])
    assert snapshot(extension_class=Manifests) == made


def test_the_clusters_chart(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Manifests) == render(CLUSTER)
