"""The page in a real browser: wide and narrow, light and dark, by keyboard, and as time goes on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.page.serving import serve_page
from browser import chromium, opened
from kubectl_lab import cluster_of

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(chromium() is None, reason="no chromium on PATH"),
]
WIDTHS = [1200, 500]
SCHEMES = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0",)}
CONTRAST = """(() => {
  const light = words => { const [r, g, b] = words.match(/[\\d.]+/g).map(Number).map(one => {
    const part = one / 255; return part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
  }); return .2126 * r + .7152 * g + .0722 * b; };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll("main *")].filter(one => one.textContent.trim())
    .map(one => { const ink = light(getComputedStyle(one).color);
      return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); })
    .reduce((least, one) => Math.min(least, one)); })()"""
LOWEST = """Math.min(...[...document.querySelectorAll("main svg text")]
  .map(one => one.getBoundingClientRect().height))"""


@dataclass
class Fleet:
    """A page that is served, of clusters that can be changed."""

    clusters: Sequence[BookieCluster]
    runner: web.AppRunner | None = None
    url: str = ""
    thawed: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: whoever asks waits, as where a process is frozen."""

    async def source(self) -> Sequence[BookieCluster]:
        await self.thawed.wait()
        return self.clusters

    async def start(self) -> None:
        self.thawed.set()
        self.runner = await serve_page(self.source, port=0)
        host, port = self.runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/"

    async def stop(self) -> None:
        self.thawed.set()
        if self.runner is not None:
            await self.runner.cleanup()
        self.runner = None


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet([cluster_of("limbo")])
    await fleet.start()
    yield fleet
    await fleet.stop()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
async def test_it_fits_is_readable_and_makes_the_browser_complain_of_nothing(
    fleet: Fleet, tmp_path: Path, width: int, scheme: str
) -> None:
    async with opened(fleet.url, tmp_path, width=width, options=SCHEMES[scheme]) as page:
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")
        is_dark = await page.value("matchMedia('(prefers-color-scheme: dark)').matches")
        assert is_dark == (scheme == "dark")
        assert await page.value(CONTRAST) >= 4.5  # WCAG AA
        assert await page.value(LOWEST) >= 9, "pixels of the words on the time line"
        assert page.complaints == []


async def test_it_follows_the_fleet_and_keeps_what_was_opened_and_in_focus(
    fleet: Fleet, tmp_path: Path
) -> None:
    async with opened(fleet.url, tmp_path) as page:
        disks = await page.value("document.querySelector('summary').id")
        await page.value(f"document.getElementById({disks!r}).focus()")
        await page.key("Enter")
        assert await page.value("document.querySelectorAll('details[open]').length") == 1
        fleet.clusters = [cluster_of("healthy")]
        await page.becomes("!document.querySelector('main').textContent.includes('LimboPresent')")
        assert await page.value("document.querySelectorAll('details[open]').length") == 1
        assert await page.value("document.activeElement.id") == disks


async def test_every_thing_to_open_is_reached_by_tab(fleet: Fleet, tmp_path: Path) -> None:
    async with opened(fleet.url, tmp_path) as page:
        wanted = await page.value("[...document.querySelectorAll('summary')].map(one => one.id)")
        reached = []
        for _ in wanted:
            await page.key("Tab")
            reached.append(await page.value("document.activeElement.id"))
        assert reached == wanted


async def test_a_server_that_is_gone_is_told_and_one_that_is_back_is_used(
    fleet: Fleet, tmp_path: Path
) -> None:
    async with opened(fleet.url, tmp_path) as page:
        assert fleet.runner is not None
        port = fleet.runner.addresses[0][1]
        await fleet.stop()
        await page.becomes("document.getElementById('state').className === 'late'")
        assert "no answer since" in await page.value("document.body.textContent")
        fleet.runner = await serve_page(fleet.source, port=port)
        await page.becomes("document.getElementById('state').className === ''")


async def test_a_server_that_takes_requests_and_does_not_answer_is_told(
    fleet: Fleet, tmp_path: Path
) -> None:
    async with opened(fleet.url, tmp_path) as page:
        fleet.thawed.clear()
        await page.becomes("document.getElementById('state').className === 'late'")
        fleet.thawed.set()
        await page.becomes("document.getElementById('state').className === ''")
