"""The documentation site as `make site` builds it, and what its pages load and link to."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pages import ROOT

FOLLOWED: Final = {("a", "href"), ("form", "action")}
"""What a browser goes to when a person says so; it loads every other address by itself."""
IN_STYLE: Final = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s]+)""")
COUNTED: Final = ("li", "pre", "tr", "blockquote", "h1", "h2", "h3", "h4")


@dataclass
class Addresses(HTMLParser):
    """Of one page. `links`: a person may follow them; `loads`: a browser does at once."""

    html: str
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name == "class":
                self.classes |= set((value or "").split())
            elif name in ("href", "src", "srcset", "data", "action", "poster"):
                (self.links if (tag, name) in FOLLOWED else self.loads).append(value or "")
            elif name == "style":
                self.loads += IN_STYLE.findall(value or "")


def is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data", "mailto")


def counted(html: str) -> Counter[str]:
    """How many items, blocks, rows and headings there are."""
    found = re.findall(rf"<({'|'.join(COUNTED)})\b", html)
    return Counter(found)


@dataclass(frozen=True)
class Site:
    folder: Path
    said: str
    """What mkdocs printed."""

    @cached_property
    def pages(self) -> dict[Path, Addresses]:
        """Without the one for what is not found, which knows no place of its own."""
        paths = sorted(self.folder.rglob("*.html"))
        return {
            path: Addresses(path.read_text(encoding="utf-8"))
            for path in paths
            if path.name != "404.html"
        }

    def of(self, source: str) -> Path:
        """The file of a page, by where its text lies on the site."""
        return self.folder / re.sub(r"README\.md$", "index.md", source).replace(".md", ".html")

    def article(self, source: str) -> str:
        """What was made of the page's own text."""
        found = re.search(r"<article.*?</article>", self.of(source).read_text("utf-8"), re.DOTALL)
        assert found is not None
        return found[0]

    def broken(self, page: Path) -> Iterator[str]:
        """Links to a file that the site does not have, or to no heading of it."""
        for link in self.pages[page].links:
            parts = urlsplit(link)
            if is_elsewhere(link) or parts.scheme:
                continue
            to = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            to = to / "index.html" if to.is_dir() else to
            has_place = not parts.fragment or to not in self.pages
            if not to.exists() or not (has_place or unquote(parts.fragment) in self.pages[to].ids):
                yield link

    def loaded(self) -> Iterator[str]:
        """Whatever a browser loads with its pages and their styles."""
        for page in self.pages.values():
            yield from page.loads
        for style in self.folder.rglob("*.css"):
            yield from IN_STYLE.findall(style.read_text(encoding="utf-8"))
        for picture in self.folder.rglob("*.svg"):
            addresses = Addresses(picture.read_text(encoding="utf-8"))
            yield from addresses.loads + addresses.links


def build(folder: Path) -> Site:
    """With every warning an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Site(folder.resolve(), done.stdout + done.stderr)


async def serve(folder: Path) -> tuple[asyncio.subprocess.Process, str]:
    """A server of these files, and its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    found = re.search(rb"http://\S+/", await process.stdout.readline())
    assert found is not None
    return process, found[0].decode()
