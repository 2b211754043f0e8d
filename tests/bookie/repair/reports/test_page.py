"""The page for people: what it says, that it runs nothing, and what a real browser draws of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bookie.repair.reports.page import page
from bookie.repair.reports.plots import BOOKIES_MAX, copies_plot
from browser import Page, chromium, opened
from page_cases import NASTY, damaged, healthy, row
from parsed_page import Parsed

needs_browser = pytest.mark.skipif(chromium() is None, reason="no chromium on PATH")
BARS = """Object.fromEntries([...document.querySelectorAll('.row')].map(row =>
  [row.dataset.bookie, [...row.querySelectorAll('rect[data-copies]')].map(bar =>
    [bar.getAttribute('class'), +bar.dataset.copies, bar.getBoundingClientRect().width,
     bar.parentNode.getBoundingClientRect().width, getComputedStyle(bar).fill])]))"""


@pytest.mark.parametrize("document", [healthy(), damaged(), {"kind": "drain", "exit_code": 5}])
def test_the_page_is_well_formed_and_loads_nothing(document: dict[str, Any]) -> None:
    parsed = Parsed(page(document))
    assert parsed.open == [] and not {"script", "img", "link", "iframe"} & set(parsed.names)
    names = {name for name, _value in parsed.attributes}
    assert not {"src", "href"} & names and not any(name.startswith("on") for name in names)


def test_what_the_cluster_says_is_text() -> None:
    parsed = Parsed(page(damaged()))
    assert parsed.text.count(NASTY) == 2 and "script" not in parsed.names


def test_the_page_says_what_where_and_since_when() -> None:
    text = Parsed(page(damaged())).text
    assert "Entries are missing or lost" in text and "missing 4: 3-5, 9" in text
    assert "2026-11-17 11:06:40 UTC" in text and "2026-11-18 11:06:40 UTC" in text
    assert "bookie-1: missing 4: 3-5, 9" in text


def test_a_healthy_page_says_so_without_findings() -> None:
    text = Parsed(page(healthy())).text
    assert "Everything that must be there is there" in text and "first seen" not in text


def test_what_was_repaired_has_a_section() -> None:
    text = page(healthy() | {"kind": "repair", "entries_copied": 1234, "bytes_copied": 99})
    assert "What was repaired" in text and "1,234" in text


def test_many_bookies_are_cut_and_counted_worst_first() -> None:
    rows = [row(f"b{n:03}", 10, missing=int(n == 150)) for n in range(BOOKIES_MAX + 60)]
    drawn = copies_plot(rows)
    assert drawn.count('class="row"') == BOOKIES_MAX and "and 60 more" in drawn
    assert drawn.index('data-bookie="b150"') < drawn.index('data-bookie="b000"')


@pytest.fixture(params=[1200, 500])
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Page]:
    path = tmp_path / "report.html"
    path.write_text(page(damaged()), encoding="utf-8")
    async with opened(path.as_uri(), tmp_path / "profile", width=request.param) as found:
        yield found


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    mark = {"ledger_id": 7, "marked_at_ms": -(10**18)}
    text = Parsed(page(healthy() | {"underreplicated": [mark]})).text
    assert f"{-(10**18)} ms" in text


@needs_browser
@pytest.mark.process
async def test_a_browser_draws_the_figures_and_does_not_complain(shown: Page) -> None:
    bars = await shown.value(BARS)
    assert [bar[:2] for bar in bars["bookie-0"]] == [["held", 1_000_000]]
    assert [bar[:2] for bar in bars["bookie-1"]] == [
        ["held", 999_988], ["missing", 8], ["corrupt", 4], ["missing", 8], ["corrupt", 4],
    ]  # fmt: skip
    assert set(bars) == {"bookie-0", "bookie-1", "bookie-2", NASTY}
    ((_, _, thick, whole, _),) = bars["bookie-2"]
    assert thick / whole == pytest.approx(900_000 / 1_000_000, rel=1e-3)
    thin = bars[NASTY][-1][2]
    assert thin / whole == pytest.approx(3 / 12, rel=1e-3)
    assert await shown.value("document.scripts.length") == 0
    assert await shown.value("document.documentElement.scrollWidth <= innerWidth")
    assert shown.complaints == []
