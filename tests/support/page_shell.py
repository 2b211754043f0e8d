"""The commands of a page and what it says that they print, and a shell to give them in."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT: Final = "$ "
ENDED: Final = "the command has ended:"
INSTALLS: Final = ("git clone ", "python3 -m venv ", "pip install ")
WORD: Final = re.compile(r"[A-Za-z]{3,}")


@dataclass
class Step:
    command: str
    shown: str = ""
    """What the page says that it prints."""

    @property
    def words(self) -> set[str]:
        """Of what is printed whoever runs it: no numbers, no folders, no keys."""
        return set(WORD.findall(re.sub(r"\S*[/=]\S*", "", self.shown)))

    def lacks(self, printed: str) -> set[str]:
        """Words that the page shows, and that were not printed."""
        return self.words - set(re.findall(r"[A-Za-z]+", printed))


def steps_of(page: str) -> list[Step]:
    """Commands in their order."""
    found: list[Step] = []
    for line in "".join(BLOCK.findall(page)).splitlines():
        if line.startswith(PROMPT):
            found.append(Step(line.removeprefix(PROMPT)))
        else:
            found[-1].shown += f"{line}\n"
    return found


def begun_of(page: str) -> list[Step]:
    """Those that install: whoever runs tests has done that."""
    return [step for step in steps_of(page) if step.command.startswith(INSTALLS)]


@dataclass
class Shell:
    """One shell that outlives each command, as a person has it."""

    folder: Path
    """Where it is to begin."""
    command: Sequence[str] = ("bash",)
    """What starts it."""
    _process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        binaries = Path(sys.executable).parent
        self._process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}", "COLUMNS": "100"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Exit code, and what it printed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho {ENDED} $?\n")
        self._process.stdin.flush()
        printed = ""
        for line in self._process.stdout:
            before, is_end, code = line.partition(ENDED)
            printed += before
            if is_end:
                return int(code), printed
        raise AssertionError(f"the shell ended: {printed}")

    def close(self) -> None:
        self._process.communicate()
