"""The site's pages are the repository's, with the same links: mkdocs calls this as it builds.

A page of docs/ links to files and folders beside docs/, as the repository's web view has them.
What is linked to from there comes onto the site below `repository/`, pages as pages and other
files as they are; a folder gets a page with its files. Then every link leads somewhere on the site,
wherever the repository lives. mkdocs.yml names this file.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
BESIDE: Final = "repository"
"""Where the site has what lies outside of docs/."""
INDENT: Final = 2
"""Spaces before what belongs to an item of a list, as the repository's web view takes them."""
LINK: Final = re.compile(r"(?<=\]\()([^)#\s:]+)(?=(?:#[^)]*)?\))")
FENCE: Final = re.compile(r"^ *(```|~~~)")
PICTURE: Final = re.compile(r'<img [^>]*src="(?:\.\./)*(pictures/[\w-]+\.svg)"[^>]*>')
ITEM: Final = re.compile(r"^ *([-*]|[0-9]+\.) ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(AsOnTheWeb())
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for path in sorted(linked()):
        if path.is_dir():
            files.append(File.generated(config, place(path), content=listing(path)))
        elif files.get_file_from_path(place(path)) is None:
            files.append(File.generated(config, place(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    source = page.file.abs_src_path
    return markdown if source is None else moved(markdown, Path(source))


def on_page_content(html: str, **_: object) -> str:
    """Drawings become part of the page: their words can be selected and found, and they are light
    or dark as the page is."""
    return PICTURE.sub(lambda found: (DOCS / found[1]).read_text(encoding="utf-8"), html)


def place(path: Path) -> str:
    """Where on the site a file or folder of the repository is."""
    inside = path.is_relative_to(DOCS)
    at = path.relative_to(DOCS) if inside else BESIDE / path.relative_to(ROOT)
    return (at / "index.md" if path.is_dir() else at).as_posix()


def moved(markdown: str, page: Path) -> str:
    """A page's text, its links as from its place on the site."""
    folder = os.path.dirname(place(page))
    text = list(markdown.splitlines(keepends=True))
    for number, is_code in enumerate(code_lines(text)):
        if not is_code:
            text[number] = LINK.sub(lambda link: _as_from(page, folder, link[1]), text[number])
    return "".join(text)


def _as_from(page: Path, folder: str, link: str) -> str:
    to = (page.parent / link).resolve()
    return os.path.relpath(place(to), folder or ".") if to.exists() else link


def code_lines(lines: list[str]) -> Iterator[bool]:
    """Of each line whether it belongs to a block of code."""
    is_code = False
    for line in lines:
        is_fence = FENCE.match(line) is not None
        yield is_code or is_fence
        is_code ^= is_fence


def links_of(page: Path) -> set[Path]:
    """Files and folders of the repository."""
    lines = page.read_text(encoding="utf-8").splitlines()
    text = (line for line, is_code in zip(lines, code_lines(lines), strict=True) if not is_code)
    found = {(page.parent / link).resolve() for line in text for link in LINK.findall(line)}
    return {path for path in found if path.exists()}


def linked() -> set[Path]:
    """What pages of the site link to: files outside of docs/, and folders with their files."""
    pages, found = set(DOCS.rglob("*.md")), set[Path]()
    while pages:
        of = pages.pop()
        new = {path for path in links_of(of) - found if path.is_dir() or not is_own(path)}
        new |= {file for path in new if path.is_dir() for file in files_of(path)}
        pages |= {path for path in new - found if path.suffix == ".md" and not is_own(path)}
        found |= new
    return found


def is_own(path: Path) -> bool:
    return path.is_relative_to(DOCS)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def listing(folder: Path) -> str:
    """The page of a folder that has none of its own."""
    lines = (f"- [{title_of(path)}]({path.name})\n" for path in files_of(folder))
    return f"# {folder.name.capitalize()}\n\n{''.join(lines)}"


def title_of(path: Path) -> str:
    if path.suffix != ".md":
        return path.name
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


class AsOnTheWeb(Extension):
    """Lists as the repository's web view takes them: right below a line of text, and with two
    spaces before what belongs to an item."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.tab_length = INDENT
        md.preprocessors.register(_ListsStandAlone(md), "lists-stand-alone", 0)


class _ListsStandAlone(Preprocessor):
    """An empty line before a list; blocks of code are out of the text by now."""

    def run(self, lines: list[str]) -> list[str]:
        found: list[str] = [""]
        is_list = False
        for line in lines:
            is_item = ITEM.match(line) is not None
            if not found[-1].strip():
                is_list = is_item
            elif is_item and not is_list:
                found.append("")
                is_list = True
            found.append(line)
        return found
