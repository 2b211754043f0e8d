"""pytest plugin (`-p mutation_recording`): coverage with a context for each test.

Coverage starts when this module is imported: before the product is.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import coverage
import pytest
from mutation_hypothesis import load_profile
from mutation_map import ROOT, SOURCES, Lines, RecordedTest, keep

load_profile()
COVERAGE: Final = coverage.Coverage(
    data_file=None, source=[str(ROOT / source) for source in SOURCES], config_file=False
)
COVERAGE.start()
WAITS: Final = 10
"""Of its time by the clock a tenth counts at the least: more says how busy a machine was."""
_TESTS: Final[dict[str, RecordedTest]] = {}
_FAILED: Final[set[str]] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    COVERAGE.switch_context(item.nodeid)
    began, worked = time.monotonic(), time.process_time()
    try:
        return (yield)
    finally:
        wall, cpu = time.monotonic() - began, time.process_time() - worked
        seconds = round(max(cpu, wall / WAITS), 4)
        is_process = item.get_closest_marker("process") is not None
        _TESTS[item.nodeid] = RecordedTest(item.nodeid, seconds, is_process)
        COVERAGE.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed or report.skipped:
        _FAILED.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    COVERAGE.stop()
    files = {item.nodeid.partition("::")[0] for item in session.items}
    of_file: dict[str, Lines] = {file: defaultdict(dict) for file in files}
    at_import: Lines = defaultdict(dict)
    data = COVERAGE.get_data()
    for measured in data.measured_files():
        source = measured.removeprefix(f"{ROOT}/")
        for line, ids in data.contexts_by_lineno(measured).items():
            for test_id in ids:
                if not test_id:
                    at_import[source][line] = []
                elif test_id not in _FAILED:
                    lines = of_file[test_id.partition("::")[0]][source]
                    lines.setdefault(line, []).append(test_id)
    for file, lines in of_file.items():
        tests = [test for test in _TESTS.values() if test.file == file and test.id not in _FAILED]
        keep(file, tests, lines, at_import)
