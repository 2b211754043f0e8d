"""The story: up to this tree's release one bookie at a time, and back; whole, and a short form.

Each step says what must be so then; the first that is not ends the story with its sentence.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from judge_fleet import COMMAND_WAIT_S, Document, until
from judge_java import WHOLE, Judge
from judge_story import WRITE_BEYOND_S, WRITING
from upgrade_sides import Side

NAMES: Final = tuple(f"bookie-{number}" for number in range(4))
GOES_ON_S: Final = 60.0
NOTES_BEFORE_STOP: Final = 50
STRIPED: Final = ("--write-quorum", "2", "--digest", "HMAC")
"""A bookie holds runs with gaps; by default it holds every entry."""
ENTRIES: Final = WRITING | {"rate": 100, "layouts": "3/3/2,3/2/2"}
"""Of the judge: with room for a bookie that is away."""


class ClaimError(Exception):
    """What was found, and what must be so."""


@dataclass(slots=True)
class Written:
    """A ledger of a native client, and its entries in order."""

    ledger_id: int
    entries: list[str]


@dataclass(slots=True)
class Story:
    """`classpath`: of the judge; None: there are no tools to build it with."""

    before: Side
    now: Side
    classpath: str | None
    seed: int
    written: list[Written] = field(default_factory=list)
    judges: list[Judge] = field(default_factory=list)
    """Each with notes of its own."""
    killed: list[str] = field(default_factory=list)
    figures: Document = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        print(f"{self.now.fleet.mode} {time.monotonic() - self.began:4.0f} s: {words}", flush=True)

    def run(self, *, is_short: bool) -> Document:
        """Short: back at a stop of the fleet. Whole: back one at a time, forward at a stop."""
        before, now = self.before, self.now
        before.fleet.up(replicas=len(NAMES), image=before.image)
        self.all_run(before)
        self.write(before, before)
        self.roll(before, now, victim=NAMES[1])
        if is_short:
            self.stop_and_start(now, before, victim=NAMES[3])
        else:
            self.roll(now, before, victim=NAMES[2])
            self.stop_and_start(before, now, victim=NAMES[3])
        return self.figures | {
            "mode": now.fleet.mode,
            "killed": self.killed,
            "judges": len(self.judges),
        }

    # One bookie at a time
    def roll(self, old: Side, new: Side, *, victim: str) -> None:
        """From one release to the other under the judge's writer, with a crash in the middle."""
        with self.judge_writes(old):
            epochs = self.epochs(old)
            new.takes_over(old)
            claim(self.epochs(new) == epochs, "another operator restarts no bookie")
            self.all_run(old)
            self.cut_off(old, new)
            self.say(f"the operator of {new.version} has bookies of {old.version}")
            self.kill(new, victim)
            claim(new.serves(victim), f"{victim} comes up with programs of {new.version}")
            others = [name for name in NAMES if name != victim]
            claim(all(map(old.serves, others)), f"the others still run those of {old.version}")
            self.write(old, new)
            self.write(new, old)
            self.goes_on()
            self.say(f"{victim} of {new.version} was killed, repaired and written to among others")
            new.roll()
            self.all_run(new)
            self.cut_off(new, old)
            self.goes_on()
        self.write(old, new)
        self.verdict(new)
        self.say(f"all bookies run {new.version}: every entry and every copy is there")

    # All at once
    def stop_and_start(self, old: Side, new: Side, *, victim: str) -> None:
        """The whole fleet down under the judge's writer, one bookie by SIGKILL, and up again as the
        other release: with ledgers that nobody closed, and entries that nobody flushed."""
        with self.judge_writes(old):
            self.goes_on(NOTES_BEFORE_STOP)
            old.fleet.end_operator()
            os.kill(old.pid(victim), signal.SIGKILL)
            self.killed.append(victim)
            self.goes_on()
        old.fleet.down()
        self.disks_say_the_same()
        new.fleet.spec = dict(old.fleet.spec)
        new.fleet.up(image=new.image)
        new.fleet.wait()
        self.all_run(new)
        self.verdict(new)
        self.say(f"stopped as {old.version} and started as {new.version}: every entry is there")

    # Steps
    def kill(self, side: Side, victim: str) -> None:
        side.fleet.kill(victim)
        self.killed.append(victim)
        side.fleet.wait()

    def write(self, writer: Side, reader: Side) -> None:
        """Ledgers by the client of one release, read by that of the other with all before them.

        One is left open, and recovered by the reader.
        """
        self._write(writer)
        left = self._write(writer, *STRIPED, "--keep-open")
        found = reader.ledger("recover", str(left.ledger_id))["last_entry_id"]
        claim(found == len(left.entries) - 1, f"recovery ends {left.ledger_id} there: {found}")
        self.read(reader)

    def _write(self, writer: Side, *options: str) -> Written:
        number = len(self.written)
        entries = [f"ledger {number} entry {entry}" for entry in range(50 + number)]
        given = "".join(f"{one}\n" for one in entries)
        made = writer.ledger("write", "--lines", *options, given=given)
        self.written.append(Written(int(made["ledger_id"]), entries))
        return self.written[-1]

    def cut_off(self, writer: Side, other: Side) -> None:
        """The other release's client closes a ledger that is written to: bookies of the writer's
        release fence it, so that nothing is acknowledged to its writer any more."""
        with writer.begun() as (ledger_id, process):
            last = other.ledger("recover", str(ledger_id))["last_entry_id"]
            _out, said = process.communicate("too late\n", timeout=COMMAND_WAIT_S)
            claim(process.returncode != 0, f"the writer of ledger {ledger_id} is cut off: {said}")
            is_so = f"acknowledged up to entry {last}\n" in said
            claim(is_so, f"nothing is acknowledged behind the end of {ledger_id}, {last}: {said}")

    def read(self, reader: Side) -> None:
        for one in self.written:
            found = [entry["payload"] for entry in reader.ledger("read", str(one.ledger_id))]
            claim(found == one.entries, f"ledger {one.ledger_id} reads as it was written: {found}")

    @contextmanager
    def judge_writes(self, side: Side) -> Iterator[None]:
        if self.classpath is None:
            yield
            return
        folder = side.fleet.folder / f"judge-{len(self.judges)}"
        folder.mkdir()
        fleet = side.fleet
        judge = Judge(self.classpath, folder, fleet.metadata(), fleet.credentials())
        seed = self.seed + len(self.judges)
        writer = judge.write(seconds=WRITE_BEYOND_S, seed=seed, options=ENTRIES)
        self.judges.append(judge)
        try:
            yield
        finally:
            told = writer.stop()
        self.add("acknowledged", told["acknowledged"])
        claim(told["acknowledged"] > 0, "the judge wrote")

    def goes_on(self, notes_min: int = 1) -> None:
        """The judge's writer notes as many acknowledgements as that, from now on."""
        if self.judges:
            notes = self.judges[-1].notes
            wanted = acknowledgements(notes) + notes_min
            until("the judge to write on", lambda: acknowledgements(notes) >= wanted, GOES_ON_S)

    def disks_say_the_same(self) -> None:
        """Of a fleet that is down: both releases find the same fences and marks on its disks."""
        fenced = 0
        for name in NAMES:
            one, other = self.before.inspected(name), self.now.inspected(name)
            claim(one == other, f"both releases find the same on {name}: {one} and {other}")
            fenced += sum(row["fenced"] or 0 for row in one)
        claim(fenced > 0, "some ledger is fenced on the disks of some bookie")
        self.add("fenced", fenced)

    def verdict(self, side: Side) -> None:
        """Both clients read everything, each bookie has its copies, and crashes alone were any."""
        side.fleet.wait()
        self.read(self.before)
        self.read(self.now)
        self.crashes_alone(side)
        status = side.fleet.save_status("status")
        for number, judge in enumerate(self.judges):
            verdict = judge.check(status=status, faults=len(self.killed), name="verdict")
            claim(verdict["exitCode"] == WHOLE, f"judge {number} finds all whole: {verdict}")
            self.add("read", verdict["entries"]["read"])
            self.add("copies", verdict["copies"]["held"])

    def crashes_alone(self, side: Side) -> None:
        """Each kill is an incident, and no clean stop of the other release is taken for a crash."""
        found = [one["bookie"] for one in side.status().get("incidents", ())]
        claim(sorted(found) == sorted(self.killed), f"incidents of {self.killed}, found {found}")

    def all_run(self, side: Side) -> None:
        wrong = [name for name in NAMES if not side.serves(name)]
        claim(not wrong, f"all bookies run programs of {side.version}; others: {wrong}")

    def epochs(self, side: Side) -> dict[str, int]:
        return {name: one["bootEpoch"] for name, one in side.bookies().items()}

    def add(self, figure: str, value: int) -> None:
        self.figures[figure] = self.figures.get(figure, 0) + value


def acknowledgements(notes: Path) -> int:
    """So many times the judge's writer noted what was acknowledged; 0: it has not begun."""
    return notes.read_text(encoding="utf-8").count("\nack ") if notes.exists() else 0


def claim(is_so: bool, sentence: str) -> None:
    if not is_so:
        raise ClaimError(f"not so: {sentence}")
