"""`python -m benchmarks.profiles`: where client and bookie spend their time, by py-spy.

Three real bookies, 3/3/2, memory mode, 1 KiB entries; for each depth of `bench_append` the client
appends for some seconds while py-spy samples this process and one bookie, native frames included.
Counted is the innermost frame of the event loop's thread, wherever that does not wait for sockets:
a share is one of its busy time. `--publish` puts the tables into docs/performance.md.

A bookie at depth 1 is sampled while ledgers lie on one bookie each: sampling slows it down, and of
three nobody would wait for it; it would get adds by twos and threes, as no other bookie does.
"""

import argparse
import asyncio
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import getpid
from pathlib import Path
from typing import Final

from bookie.client.bookkeeper_client import Client

from benchmarks.bench_append import Case, turn
from benchmarks.fleet import BOOKIES, Fleet, lone_fleet, store_of
from benchmarks.loops import loop_factory
from benchmarks.report import PAGE
from benchmarks.rows import KIB

BEGIN: Final = "<!-- profiles: made by `python -m benchmarks.profiles --publish`, not by hand -->"
END: Final = "<!-- end of the profiles -->"
DEPTHS: Final = (0, 1024, 1)
SAMPLED_S: Final = 8
RATE: Final = 250
"""Samples a second."""
LOOP_THREAD: Final = "MainThread"
WAITS: Final = ("epoll_wait", "epoll_pwait")
SHOWN: Final = 14
"""Lines of a table; the rest is one more."""
_PLACE: Final = re.compile(r" \((?:.*/)?([^/()]+?)(?::\d+)?\)$")


class NoProfilerError(Exception):
    """py-spy is not there, or may not look at processes here."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by innermost frame. `who`: client or bookie; `what`: under which load."""

    who: str
    what: str
    samples: Counter[str]

    def table(self) -> str:
        """The frames with the largest shares, for people."""
        total = self.samples.total()
        lines = [
            f"#### {self.who}, {self.what} ({total:,} samples)",
            "| share | where |",
            "|---|---|",
        ]
        shown = self.samples.most_common(SHOWN)
        shown.append(("all others", total - sum(count for _frame, count in shown)))
        lines += [f"| {count / total:.1%} | {frame} |" for frame, count in shown]
        return "\n".join(lines) + "\n"


def samples_of(raw: Iterable[str]) -> Counter[str]:
    """py-spy's raw lines, `thread;outermost;...;innermost COUNT`, by their innermost frame."""
    found: Counter[str] = Counter()
    for line in raw:
        stack, _, count = line.rpartition(" ")
        innermost = stack.rpartition(";")[2]
        if LOOP_THREAD in stack.partition(";")[0] and not innermost.startswith(WAITS):
            found[_short(innermost)] += int(count)
    return found


def _short(frame: str) -> str:
    """Function and file, without line and folders: lines of one function count together."""
    place = _PLACE.search(frame)
    if place is None:
        return f"`{frame}`"
    # Without symbols there is an address: what such parts of the C library do here is copying.
    function = "copies, no symbol" if frame.startswith("0x") else f"`{frame[: place.start()]}`"
    return f"{function}, {place[1]}"


async def profiles(folder: Path) -> list[Profile]:
    """One for the client and one for a bookie at each depth."""
    found = []
    with lone_fleet(folder) as (_folder, fleet):
        async with store_of(fleet) as store, Client(store) as client:
            for depth in DEPTHS:
                case = Case(KIB, BOOKIES, "memory", depth)
                await turn(case, client, fleet)
                found += await _profiled(case, client, fleet, folder)
    return found


async def _profiled(case: Case, client: Client, fleet: Fleet, folder: Path) -> list[Profile]:
    """One after the other: who samples takes CPU as well."""
    found = []
    awaited = replace(case, bookies=1) if case.depth == 1 else case
    for who, pid, asked in (
        ("client", getpid(), case),
        ("bookie", fleet.bookies[0].child.pid, awaited),
    ):
        raw = folder / f"{who}.raw"
        sampling = asyncio.create_task(_sample(pid, raw))
        began = time.monotonic()
        while not sampling.done() and time.monotonic() - began < 2 * SAMPLED_S:
            await turn(asked, client, fleet)
        await sampling
        samples = samples_of(raw.read_text(encoding="utf-8").splitlines())
        found.append(Profile(who, asked.what, samples))
    return found


async def _sample(pid: int, raw: Path) -> None:
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    words = [
        "record",
        "--pid",
        pid,
        "--duration",
        SAMPLED_S,
        "--rate",
        RATE,
        "--native",
        "--threads",
    ]
    arguments = map(str, [*words, "--format", "raw", "--output", raw])
    try:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise NoProfilerError("py-spy is not installed: pip install py-spy") from error
    said, _ = await process.communicate()
    if process.returncode:
        raise NoProfilerError(f"py-spy could not look at process {pid}: {said.decode()[-300:]}")


def published(page: str, found: Sequence[Profile]) -> str:
    """The page with these profiles between its markers; ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for profiles: {BEGIN} ... {END}")
    tables = "\n".join(profile.table() for profile in found)
    return f"{before}{BEGIN}\n{tables}{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.profiles", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="put them into the page")
    chosen = parser.parse_args()
    _name, loop = loop_factory("auto")
    with tempfile.TemporaryDirectory(prefix="profiles-") as folder:
        try:
            with asyncio.Runner(loop_factory=loop) as runner:
                found = runner.run(profiles(Path(folder)))
        except NoProfilerError as error:
            sys.exit(str(error))
    for profile in found:
        print(profile.table())
    if chosen.publish:
        PAGE.write_text(published(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
