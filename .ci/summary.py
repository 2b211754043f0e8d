"""`.ci/summary.py OUTPUT TIMES`: the last lines of a CI run, times and what was skipped.

Exit code 1 when work was skipped for want of a tool that is on PATH: such a run proves less than it
could, and says that it is green.
"""

import re
import sys
from pathlib import Path
from shutil import which

_ABSENT = re.compile(
    r"(?:^|[ :])((?:[\w.-]+ and )*[\w.-]+) (?:is )?not on PATH|no ([\w.-]+) on PATH"
)
"""`mvn and java not on PATH`, `helm is not on PATH`, `no chromium on PATH`."""


def main(output: Path, times: Path) -> int:
    skips = skipped(output.read_text(encoding="utf-8", errors="replace"))
    print(f"\n{table(times.read_text(encoding='utf-8'))}\n")
    if not skips:
        print("Nothing was skipped.")
        return 0
    print("Not everything was run here:", *skips, sep="\n")
    needless = [line for line in skips if (tools := lacking(line)) and all(map(which, tools))]
    if needless:
        print("FAILED: skipped, though what is said to be missing is on PATH:", *needless, sep="\n")
    return 1 if needless else 0


def skipped(text: str) -> list[str]:
    """The lines that say so, each once, in their order."""
    return list(dict.fromkeys(line for line in text.splitlines() if line.startswith("SKIPPED")))


def lacking(line: str) -> list[str]:
    """The tools that a line says are missing."""
    return [
        tool for found in _ABSENT.finditer(line) for tool in (found[1] or found[2]).split(" and ")
    ]


def table(times: str) -> str:
    """From lines of seconds and a name: minutes of each part, and of all of them."""
    parts = [line.split(maxsplit=1) for line in times.splitlines()]
    rows = [(int(seconds), name) for seconds, name in parts]
    rows.append((sum(seconds for seconds, _name in rows), "in all"))
    return "\n".join(f"{took // 60:4d} min {took % 60:02d} s  {name}" for took, name in rows)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
