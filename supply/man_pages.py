"""Manual pages of the three programs, from what `--help` shows: one page for each command.

`python supply/man_pages.py FOLDER` writes them. They are committed, so that a wheel and an sdist
have them without building anything; tests/test_man_pages.py says when they are not as generated.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from bookie.cli.main import main as bookie
from bookie_operator.__main__ import main as bookie_operator
from bookie_operator.kubectl.__main__ import plugin
from click_man.man import ManPage
from release_version import version

PROGRAMS: Final[dict[str, click.Group]] = {
    "bookie": bookie,
    "bookie-operator": bookie_operator,
    "kubectl bookie": plugin,
}
SECTION: Final = "1"
AS_IT_IS: Final = "\b\n"
"""What click puts before lines that it must not fill."""


def pages() -> Iterator[tuple[str, str]]:
    """Name of the file and text of every page."""
    for name, program in PROGRAMS.items():
        yield from _pages_of(click.Context(program, info_name=name))


def _pages_of(context: click.Context) -> Iterator[tuple[str, str]]:
    command = context.command
    page = ManPage(context.command_path)
    page.date = ""  # a page is as old as the version that it names
    page.version = f"bookie-operator {version()}"
    text = inspect.cleandoc(command.help or "")
    page.short_help = text.partition("\n\n")[0].replace("\n", " ").rstrip(".")
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = _unfilled(text)
    options = [option for option in command.params if isinstance(option, click.Option)]
    page.options = [record for one in options if (record := one.get_help_record(context))]
    below = _below(context)
    page.commands = [(one.info_name, one.command.get_short_help_str(limit=200)) for one in below]
    name = context.command_path.replace(" ", "-")
    named = str(page).replace(f"See \\fB{context.command_path}-", f"See \\fB{name}-")
    yield f"{name}.{SECTION}", _safe(named)
    for one in below:
        yield from _pages_of(one)


def _below(context: click.Context) -> list[click.Context]:
    """Commands of a group that are shown."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        click.Context(command, info_name=name, parent=context)
        for name, command in found
        if command is not None and not command.hidden
    ]


def _unfilled(text: str) -> str:
    """Paragraphs that click leaves as they are, between troff's .nf and .fi."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f".nf\n{paragraph.removeprefix(AS_IT_IS)}\n.fi"
        if paragraph.startswith(AS_IT_IS)
        else paragraph
        for paragraph in paragraphs
    )


def _safe(page: str) -> str:
    """An apostrophe that begins a line would be a request to troff."""
    return "".join(
        f"\\&{line}" if line.startswith("'") else line for line in page.splitlines(keepends=True)
    )


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = dict(pages())
    for stale in {path.name for path in folder.glob(f"*.{SECTION}")} - made.keys():
        (folder / stale).unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
