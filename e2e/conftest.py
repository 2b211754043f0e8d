"""Puts `harness` on the path of the stories and names their markers; test_demo.py needs neither."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "story(letter, title): a story on Kubernetes")
    config.addinivalue_line("markers", "smoke: the story that .ci/run tells")
