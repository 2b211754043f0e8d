"""The documentation site: every page and link of the repository's, and nothing from elsewhere."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from browser import chromium, opened
from built_site import Addresses, Site, build, counted, is_elsewhere, serve
from markdown_it import MarkdownIt
from pages import ROOT
from site_hooks import DOCS, linked, moved, place

PAGES = sorted({*DOCS.rglob("*.md"), *(path for path in linked() if path.suffix == ".md")})
NOWHERE = ("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",)
"""A browser that finds no other host."""
COPIED = """(() => { const block = [...document.querySelectorAll('code')]
  .find(one => one.textContent.startsWith('$ bookie-operator local up'));
  block.setAttribute('data-md-copying', ''); return block.innerText.trim(); })()"""
"""As the theme's button takes it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return build(tmp_path_factory.mktemp("site"))


def test_it_is_built_without_a_word_of_complaint(site: Site) -> None:
    assert "WARNING" not in site.said and "not included in the" not in site.said


def test_it_has_every_page_of_docs_and_what_they_link_to(site: Site) -> None:
    assert [page for page in PAGES if not site.of(place(page)).exists()] == []
    assert (site.folder / "repository" / "examples" / "application.yaml").exists()


def test_every_link_of_every_page_leads_somewhere_on_it(site: Site) -> None:
    broken = {page.name: found for page in site.pages if (found := [*site.broken(page)])}
    assert broken == {} and len(site.pages) > 100


def test_it_asks_no_other_host_for_anything(site: Site) -> None:
    loaded = set(site.loaded())
    assert loaded and [address for address in loaded if is_elsewhere(address)] == []


def test_no_page_has_what_the_theme_fetches_a_script_for(site: Site) -> None:
    asking = {"mermaid", "md-source", "md-annotation"}
    assert [page for page, found in site.pages.items() if asking & found.classes] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_same_lists_tables_and_blocks_as_on_the_web(site: Site, page: Path) -> None:
    """CommonMark with tables is what the repository's web view takes a page for."""
    wanted = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
    assert counted(site.article(place(page))) == counted(wanted)


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("docs/README.md", "../README.md", "repository/README.md"),
        ("docs/README.md", "../crds", "repository/crds/index.md"),
        ("docs/runbooks/README.md", "../operating.md#tasks", "../operating.md#tasks"),
        ("README.md", "docs/cli.md", "../cli.md"),
        ("docs/cli.md", "nowhere.md", "nowhere.md"),
    ],
)
def test_a_link_is_from_the_page_s_place_on_the_site(
    page: str, link: str, on_the_site: str
) -> None:
    assert moved(f"[a]({link}) b", ROOT / page) == f"[a]({on_the_site}) b"


def test_a_link_in_a_block_of_code_stays_as_it_is() -> None:
    text = "```\n[a](../README.md)\n```\n"
    assert moved(text, ROOT / "docs/README.md") == text


def test_an_address_elsewhere_is_found_out() -> None:
    page = Addresses('<img src="//host/a.png"><p style="background: url(http://host/b)">')
    assert all(map(is_elsewhere, page.loads)) and len(page.loads) == 2


@pytest.fixture
async def address(site: Site) -> AsyncIterator[str]:
    process, found = await serve(site.folder)
    yield found
    process.terminate()
    await process.communicate()


@pytest.mark.process
@pytest.mark.skipif(chromium() is None, reason="no chromium on PATH")
async def test_a_browser_without_any_other_host_shows_and_searches_it(
    address: str, tmp_path: Path
) -> None:
    async with opened(f"{address}cli.html?q=limbo", tmp_path, options=NOWHERE) as page:
        await page.becomes("document.querySelectorAll('.md-search-result__item').length > 3")
        asked = await page.value("performance.getEntriesByType('resource').map(one => one.name)")
        assert asked and all(re.match(re.escape(address), one) for one in asked)
        assert page.complaints == []


@pytest.mark.process
@pytest.mark.skipif(chromium() is None, reason="no chromium on PATH")
async def test_a_copied_block_is_its_commands_alone(address: str, tmp_path: Path) -> None:
    async with opened(f"{address}tutorial.html", tmp_path, options=NOWHERE) as page:
        copied = await page.value(COPIED)
        assert copied.split("\n")[0].startswith("bookie-operator local up ")
        assert "metadata:" not in copied and "$" not in copied
