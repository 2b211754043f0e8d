"""Shared fixtures: modules of tests/support, loaded as plugins."""

import os
from pathlib import Path

import bookie_operator
import pytest
from hypothesis import settings

import bookie

if settings.default is None or settings.default.deadline is not None:
    # How long an example takes says nothing of what it claims, and on a busy machine a lot.
    settings.register_profile("tests", deadline=None)
    settings.load_profile("tests")

pytest_plugins = [
    "planner_claims",  # first: whoever imports the planner gets it with its claims
    "answer_tap",
    "boot_lab",
    "cli_lab",
    "shell_record",
    "server_lab",
    "town",
    "spark_fixture",
    "stock_client",
    "ticket_client",
    "zookeeper_fixture",
]

# What tests start must be the tree under test too, not the one that is installed: in a copy of the
# sources (tests/mutants, tests/mutation) and in a second work tree these are not the same.
_SOURCES = [str(Path(str(one.__file__)).parents[1]) for one in (bookie_operator, bookie)]
_MORE = os.environ.get("PYTHONPATH", "").split(os.pathsep)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*_SOURCES, *(path for path in _MORE if path and path not in _SOURCES)]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start real processes come first: with a long one at the end, all workers of xdist
    but one would have nothing to do. Within a file the order stays."""
    first = {item.path for item in items if item.get_closest_marker("process") is not None}
    items.sort(key=lambda item: item.path not in first)
