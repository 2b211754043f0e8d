"""One kind cluster for everything in this folder that needs one; test_demo.py needs none.

`harness` is put on the path here. The stories come last: the other modules bring CRDs of their own
and want no operator that watches every namespace.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness.kind import Kind, NoClusterError, bring_up
from harness.settings import Settings


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "story(letter, title): a story on Kubernetes")
    config.addinivalue_line("markers", "smoke: a story that .ci/run tells")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("story") is not None)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Kind]:
    """Found or brought up; KUBECONFIG and PATH of this process name it."""
    try:
        kind = bring_up(Settings.from_environment())
    except NoClusterError as error:
        pytest.skip(f"no kind cluster: {error}")
    before = dict(os.environ)
    os.environ.update(kind.kube.environment)
    try:
        yield kind
    finally:
        os.environ.update({name: before.get(name, "") for name in kind.kube.environment})
        kind.down()
