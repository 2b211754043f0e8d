"""What somebody types into a shell and what comes of it, as one text for a transcript.

It has all that a program can see of a command: stdout, stderr (each line behind `!`), exit code. A
JSON document is broken into lines as a person reads it: what is short stays on one line.
"""

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
from bookie.cli.main import main
from cli_lab import CliLab
from click.testing import CliRunner, Result
from fleet_ledgers import no_sleep
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

Change = Callable[[str], str]
"""Replaces what differs between any two runs by a name of it."""
RULE: Final = "-" * 72
WIDTH: Final = 96
FOLDER: Final = re.compile(r"/[^\s\"]*/pytest-of-[^/]+/pytest-\d+/(popen-gw\d+/)?[^/\s\",:)']+")
"""Where the files of a test are, on any machine."""


def always(pattern: str, name: str) -> Change:
    """What matches is shown as this name."""
    found = re.compile(pattern, re.MULTILINE)
    return lambda text: found.sub(name, text)


CHANGES: Final = (
    always(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", "TIME"),
    always(r"^(! .*)\b\d\d:\d\d:\d\d ", r"\1TIME "),
    always(r"\b1[6-9]\d{11}\b", "MS"),
    always(r"\b1[6-9]\d{8}\b", "SINCE 1970"),
    always(r'("seconds(_left)?"): \d+(\.\d+)?', r"\1: SECONDS"),
    always(r"^seconds( +)\d+(\.\d+)?$", r"seconds\1SECONDS"),
    always(r'"run_id": "[0-9a-f]{12}"', '"run_id": "RUN"'),
    always(r"^run( +)[0-9a-f]{12}$", r"run\1RUN"),
    # How fast a job works. Lines on its way come as fast as that; the last one has all of it.
    always(r", [\d.]+ [KMG]?i?B/s, [\d.]+ ledgers/s, .* left$", ", SPEED"),
    always(r"^! TIME (\d+) of (?!\1 ).*, SPEED\n", ""),
    always(r"memory://[^\s\",]*[^\s\",:]", "memory://fleet"),
    always(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "INSTANCE"),
    always(r"\bplan(\"?:?) +(\"?)[0-9a-f]{12}\b", r"plan\1 \2PLAN"),
    always(r'"disk_id": "[0-9a-f]{32}"', '"disk_id": "DRAWN"'),
    always(r"waits is [0-9a-f]{12}\b", "waits is PLAN"),
    always(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
)
"""Of every command: moments, how long it took, ids drawn by chance, ports."""


def without_folders(text: str) -> str:
    """The folders of this test have one name; columns of a table are as wide as the true one."""
    short = FOLDER.sub("/FOLDER", text)
    is_table = short != text and not short.startswith(("{", "["))
    return re.sub(r"(?<=\S) {2,}", "  ", short) if is_table else short


class ShellRecord:
    """Call it with the words of a command of `program`; it runs, and is recorded."""

    def __init__(
        self, program: str, run: Callable[..., Result], changes: Sequence[Change] = CHANGES
    ) -> None:
        self._program = program
        self._run = run
        self._changes = changes
        self._parts: list[str] = []

    def __call__(self, *words: object, typed: str | bytes | None = None) -> Result:
        more = {} if typed is None else {"typed": typed}
        result = self._run(*words, **more)
        shown = " ".join([self._program, *(_quoted(str(word)) for word in words)])
        self.note(f"{RULE}\n$ {shown}" + (f" <<< {typed!r}" if typed is not None else ""))
        self.note(readable(without_folders(result.stdout)))
        self.note("".join(f"! {line}".rstrip() + "\n" for line in result.stderr.splitlines()))
        self.note(f"exit {result.exit_code}")
        return result

    def both(self, *words: object, typed: str | bytes | None = None) -> None:
        """As a table, then as JSON; for commands that change nothing."""
        self(*words, typed=typed)
        self(*words, "--output", "json", typed=typed)

    def note(self, text: str) -> None:
        """What nobody typed: what happens to the fleet, or what is in a file."""
        text = without_folders(text)
        for change in self._changes:
            text = change(text)
        if text:
            self._parts.append(text.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self._parts) + "\n"


def readable(text: str) -> str:
    """One JSON document is broken into lines anew; all else is as it is."""
    if text.startswith(("{\n", "[\n")):
        return broken(json.loads(text)) + "\n"
    return text if not text or text.endswith("\n") else f"{text}\n(no newline at the end)"


def broken(tree: Any) -> str:
    """A document of several lines."""
    return "\n".join(_lines(tree, ""))


def _lines(tree: Any, indent: str, head: str = "", tail: str = "") -> Iterator[str]:
    short = f"{indent}{head}{json.dumps(tree, ensure_ascii=False)}{tail}"
    if len(short) <= WIDTH or not isinstance(tree, dict | list) or not tree:
        yield short
        return
    is_list = isinstance(tree, list)
    parts = [("", one) for one in tree] if is_list else [(f'"{k}": ', v) for k, v in tree.items()]
    yield f"{indent}{head}{'[' if is_list else '{'}"
    for place, (name, part) in enumerate(parts):
        yield from _lines(part, indent + "  ", name, "," if place < len(parts) - 1 else "")
    yield f"{indent}{']' if is_list else '}'}{tail}"


def _quoted(word: str) -> str:
    return repr(word) if not word or re.search(r"\s", word) else word


def as_ann(metadata: str, *words: object, typed: str | bytes | None = None) -> Result:
    """`bookie` on the cluster at this URL, by a person whose name is ann."""
    environment = {"BOOKIE_METADATA": metadata, "COLUMNS": "80", "LOGNAME": "ann"}
    return CliRunner(env=environment).invoke(
        main, list(map(str, words)), input=typed, prog_name="bookie"
    )


@pytest.fixture
def shell(
    cli: CliLab, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ShellRecord]:
    """A record of `bookie` on the fleet; what it has in the end is compared. Where a new ledger
    goes is drawn with the same numbers each time, and no job waits for adds on their way."""
    dice = SimpleNamespace(Random=lambda: random.Random(7))
    monkeypatch.setattr("bookie.client.bookkeeper_client.random", dice)
    at_once = SimpleNamespace(**vars(asyncio) | {"sleep": no_sleep})
    for module in ("look.audit", "jobs.evacuation", "jobs.repair_job"):
        monkeypatch.setattr(f"bookie.repair.{module}.asyncio", at_once)
    monkeypatch.setenv("LOGNAME", "ann")
    record = ShellRecord("bookie", cli.bookie)
    yield record
    assert snapshot(extension_class=Words) == record.text
