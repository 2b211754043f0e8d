"""The story: up to this tree's release one bookie at a time, and back; whole, and a short form.

Each step says what must be so then; the first that is not ends the story with its sentence.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from judge_fleet import Document
from judge_java import WHOLE, Judge
from judge_story import WRITE_BEYOND_S, WRITING
from upgrade_sides import Side

NAMES: Final = tuple(f"bookie-{number}" for number in range(4))
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
        return self.figures | {"mode": now.fleet.mode, "killed": self.killed}

    # One bookie at a time
    def roll(self, old: Side, new: Side, *, victim: str) -> None:
        """From one release to the other under the judge's writer, with a crash in the middle."""
        with self.judge_writes(old):
            epochs = self.epochs(old)
            new.takes_over(old)
            claim(self.epochs(new) == epochs, "another operator restarts no bookie")
            self.all_run(old)
            self.say(f"the operator of {new.version} has bookies of {old.version}")
            self.kill(new, victim)
            claim(new.serves(victim), f"{victim} comes up with programs of {new.version}")
            others = [name for name in NAMES if name != victim]
            claim(all(map(old.serves, others)), f"the others still run those of {old.version}")
            self.write(old, new)
            self.write(new, old)
            self.say(f"{victim} of {new.version} was killed, repaired and written to among others")
            new.roll()
            self.all_run(new)
        self.write(old, new)
        self.verdict(new)
        self.say(f"all bookies run {new.version}: every entry and every copy is there")

    # All at once
    def stop_and_start(self, old: Side, new: Side, *, victim: str) -> None:
        """The whole fleet down, one bookie by SIGKILL, and up again as the other release."""
        old.fleet.end_operator()
        os.kill(old.pid(victim), signal.SIGKILL)
        self.killed.append(victim)
        old.fleet.down()
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
        """A ledger by the client of one release, read by that of the other: with all before it."""
        number = len(self.written)
        entries = [f"ledger {number} entry {entry}" for entry in range(50 + number)]
        made = writer.ledger("write", "--lines", given="".join(f"{one}\n" for one in entries))
        self.written.append(Written(int(made["ledger_id"]), entries))
        self.read(reader)

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


def claim(is_so: bool, sentence: str) -> None:
    if not is_so:
        raise ClaimError(f"not so: {sentence}")
