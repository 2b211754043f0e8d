"""Fixtures of the stories: one kind cluster, one operator, a clean namespace each, their times.

Without a kind cluster every story is skipped, and the reason is said.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from harness.artifacts import Time, keep_times, table
from harness.kind import Kind, NoClusterError, load_images
from harness.operator import Operator
from harness.settings import PATIENCE
from harness.story import Story

OUTCOME = pytest.StashKey[pytest.TestReport]()
TIMES = pytest.StashKey[list[Time]]()
STORY_S = 900
"""The limit of one story with the installation before it; a wait that fails ends it sooner."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--letter", help="only the story of this letter")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TIMES] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--letter")
    for item in list(items):
        marker = item.get_closest_marker("story")
        if marker is not None:
            item.add_marker(pytest.mark.timeout(STORY_S * PATIENCE))
            if wanted not in (None, marker.args[0]):
                items.remove(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call" or (report.when == "setup" and not report.passed):
        item.stash[OUTCOME] = report


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    times = config.stash[TIMES]
    if times:
        terminalreporter.section("stories on Kubernetes")
        for line in table(times):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"kept in {keep_times(times)}")


@pytest.fixture(scope="session")
def kind(cluster: Kind) -> Kind:
    """The cluster, with our images on its nodes."""
    try:
        load_images(cluster)
    except NoClusterError as error:
        pytest.skip(f"no images: {error}")
    return cluster


@pytest.fixture(scope="session")
def operator(kind: Kind) -> Iterator[Operator]:
    """Installed by the first story that needs it; gone at the end."""
    operator = Operator(kind)
    operator.renew()
    yield operator
    if not kind.settings.keep:
        operator.remove()


@pytest.fixture
def bare_story(kind: Kind, request: pytest.FixtureRequest) -> Iterator[Story]:
    """A clean namespace; the operator is the story's own business."""
    marker = request.node.get_closest_marker("story")
    letter, title = marker.args
    began = time.monotonic()
    story = Story(kind, letter)
    story.begin()
    told_from = time.monotonic()
    try:
        yield story
    finally:
        told = time.monotonic() - told_from
        report = request.node.stash.get(OUTCOME, None)
        failed = report is None or report.failed
        if failed:
            print(f"\nwhat was seen of story {letter}: {story.keep_what_is_seen()}")
        if not (failed and kind.settings.keep):
            story.end()
        around = time.monotonic() - began - told
        outcome = "failed" if report is None else report.outcome
        request.config.stash[TIMES].append(
            Time(letter, title, outcome, round(told, 1), round(around, 1), story.numbers)
        )


@pytest.fixture
def story(operator: Operator, bare_story: Story) -> Story:
    """A clean namespace and this tree's operator, ready."""
    operator.ensure()
    return bare_story
